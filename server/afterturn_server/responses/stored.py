"""Responses of earlier requests: read from their turns."""

from collections.abc import Sequence

from sqlmodel import Session, select

from afterturn_core.errors import NotFound, RequestError
from afterturn_core.history import load_content, load_history
from afterturn_core.models import OriginalRequest, Turn

from ..answers import Json
from ..caller import Caller
from ..recording import CLIENT_DISCONNECTED, ENGINE_FAILED
from ..reply import fragments_in
from .body import STATUSES, Head, usage_of
from .output import Output
from .translation import flat_tools


def find_response(session: Session, caller: Caller, response_id: str) -> Turn:
    """The turn of a response that may be read again.

    Raises:
        NotFound: there is none of this key, or it was made with `store` false.
    """
    turn = session.exec(
        select(Turn).where(
            Turn.response_id == response_id, Turn.key_id == caller.key_id, Turn.protocol == "responses"
        )
    ).first()
    if turn is None or _fields(session, turn).get("store") is False:
        raise NotFound(f"Response with id '{response_id[:80]}' not found.")
    return turn


def items_before(session: Session, turn: Turn) -> list[Json]:
    """What a response's request said and what it answered, as input of the next one."""
    original = session.get_one(OriginalRequest, turn.id)
    return [*load_history(session, original.items_digest), *_output(session, turn)]


def response_body(session: Session, turn: Turn) -> Json:
    """A response as it was given; the log-probabilities are not kept in this form."""
    tools = [] if turn.tools_digest is None else load_content(session, turn.tools_digest)
    fields = {**_fields(session, turn), "tools": flat_tools(tools)}
    head = Head(turn.response_id, int(turn.created_at.timestamp()), fields)
    status = "failed" if turn.excluded_reason == ENGINE_FAILED else _status(turn)
    return head.body(
        status,
        _output(session, turn),
        usage=usage_of(turn.prompt_tokens, 0, turn.completion_tokens),
        finish_reason=turn.finish_reason,
    )


def _output(session: Session, turn: Turn) -> list[Json]:
    output = Output(turn.response_id)
    for fragment in fragments_in({"delta": load_content(session, turn.reply_digest)}):
        output.add(fragment)
    return output.items(_status(turn))


def _status(turn: Turn) -> str:
    if turn.excluded_reason in (ENGINE_FAILED, CLIENT_DISCONNECTED):
        return "incomplete"
    return STATUSES.get(turn.finish_reason or "", "completed")


def _fields(session: Session, turn: Turn) -> Json:
    original = session.get_one(OriginalRequest, turn.id)
    fields: Json = load_content(session, original.fields_digest)
    return fields


def is_reference(item: Json) -> bool:
    """Whether an item only names another one, of a response that was given before."""
    return item.get("type") == "item_reference"


def resolved(session: Session, caller: Caller, items: Sequence[Json]) -> list[Json]:
    """Items with each reference replaced by what it names.

    Raises:
        RequestError: it names nothing of this key that may be read again.
    """
    return [
        _named(session, caller, str(item.get("id")), place) if is_reference(item) else item
        for place, item in enumerate(items)
    ]


def _named(session: Session, caller: Caller, item_id: str, place: int) -> Json:
    # An item is called after its response: `msg_TAIL_0` of `resp_TAIL`.
    tail = item_id.partition("_")[2].rpartition("_")[0]
    try:
        turn = find_response(session, caller, f"resp_{tail}")
        return next(item for item in _output(session, turn) if item["id"] == item_id)
    except (NotFound, StopIteration):
        raise RequestError(f"Item with id '{item_id[:80]}' not found.", param=f"input[{place}].id") from None


def merged(before: Sequence[Json], given: str | Sequence[Json] | None) -> list[Json]:
    """Items of earlier responses, then the request's own."""
    if isinstance(given, str):
        return [*before, {"type": "message", "role": "user", "content": given}]
    return [*before, *(given or ())]
