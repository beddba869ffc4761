"""From finished exchanges to the rows of their turns."""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import bindparam, select
from sqlmodel import Session

from afterturn_core.columns import utc_now
from afterturn_core.history import pack_ids, pack_logprobs, prompt_difference
from afterturn_core.ids import new_id
from afterturn_core.lifecycle import is_held_out, settle_session
from afterturn_core.masking import EXCLUDED as MASKED
from afterturn_core.models import Turn

from .answers import Json
from .entries import Entries
from .linking import History, reply_entry
from .place import Place
from .resolution import Resolved
from .thread import look_again, observed_among, tell_ancestors
from .turn_options import TurnOptions
from .usage import spend_tokens

CLIENT_LENGTH = 120
_TURNS = Turn.__table__  # type: ignore[attr-defined]
_IS_THERE = select(_TURNS.c.id).where(_TURNS.c.id == bindparam("turn"))

SIDE = "side"
TRAIN_OFF = "train_off"
CLIENT_DISCONNECTED = "client_disconnected"
ENGINE_FAILED = "engine_failed"
IDS_MISSING = "ids_missing"
GRAMMAR_FORCED = "grammar_forced"
_GRAMMARS = ("structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar")


@dataclass(frozen=True)
class Original:
    """A request of a protocol other than chat as it was sent: its items, and all else but the tools."""

    items: Sequence[Json]
    fields: Json


@dataclass(frozen=True)
class Asked:
    """What is known of a turn when its request has been admitted."""

    turn_id: str
    key_id: str
    protocol: str
    client: str
    created_at: datetime
    messages: Sequence[Json]
    tools: Sequence[Json] | None
    sampling: Json
    history: History
    options: TurnOptions
    resolved: Resolved
    place: Place
    model_hash: str
    original: Original | None = None
    client_user: str | None = None
    masked: bool = False  # whether something of it was masked before storage: then no token ids are kept
    metered: bool = False  # whether its tokens are to be counted, for a key that may use so many a day


@dataclass(frozen=True)
class Choice:
    """One sampled reply: `logprobs[t]` belongs to `token_ids[t]`."""

    index: int
    message: Json
    finish_reason: str | None
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]


@dataclass(frozen=True)
class Answered:
    """What the engine gave; `interrupted` says why it is not whole."""

    response_id: str
    prompt_token_ids: tuple[int, ...]
    choices: tuple[Choice, ...]
    interrupted: str | None = None

    @property
    def tokens(self) -> int:
        """Tokens read and sampled."""
        return len(self.prompt_token_ids) + sum(len(choice.token_ids) for choice in self.choices)


@dataclass(frozen=True)
class Finished:
    """An exchange that is over. `again`: it was to be recorded before, and perhaps has been."""

    asked: Asked
    answered: Answered
    again: bool = False


def record(session: Session, finished: Sequence[Finished]) -> list[list[str]]:
    """Store one turn per choice of each exchange, the first under the id the client was given.

    Also tells earlier turns what these requests carried. Returns for each exchange the ids of turns that wait
    for a verdict because of it: whoever called wakes the judge after the commit.

    Of a request that goes on from what was erased meanwhile nothing is stored: it carries the erased words.
    """
    observed: list[list[str]] = []
    for part in _parts(finished):
        entries = Entries(session)
        stored = [_enter(session, entries, one) for one in part]
        entries.write()
        observed += [[] if one is None else _tell(session, *one) for one in stored]
    return observed


def _parts(finished: Sequence[Finished]) -> Iterator[Sequence[Finished]]:
    """Those that can be stored together: one that closes its session is the last before others wake it."""
    start = 0
    for end, one in enumerate(finished, start=1):
        if one.asked.options.done or end == len(finished):
            yield finished[start:end]
            start = end


def _enter(session: Session, entries: Entries, finished: Finished) -> tuple[Finished, str] | None:
    """Put an exchange's rows among the entries; returns it in its place, with the id of its session."""
    asked, answered = finished.asked, finished.answered
    if finished.again and session.get(Turn, asked.turn_id) is not None:
        return None  # the first time was not in vain: only the news of it was lost
    if asked.metered:
        spend_tokens(session, asked.key_id, answered.tokens, time.time())
    if asked.place.equals:
        entries.write()  # of requests that go on from equal turns, each has to see which the others took
    asked = replace(asked, place=_still_there(session, look_again(session, asked.place, asked.history)))
    base = None if asked.place.parent_id is None else session.get(Turn, asked.place.parent_id)
    if base is None and asked.place.parent_id is not None:
        return None
    deposit = entries.deposit
    session_id = entries.open_session(asked.resolved.agent_id, asked.key_id, asked.place)
    history_digest = deposit.history(asked.messages, known=None if base is None else base.history_digest)
    tools_digest = None if not asked.tools else deposit.content(list(asked.tools))
    # Ids say what was masked as plainly as the text does.
    prompt_ids = () if asked.masked else answered.prompt_token_ids
    prompt = dict(vars(prompt_difference(session, deposit, prompt_ids, base)))
    prompt["prompt_tokens"] = len(answered.prompt_token_ids)
    for number, choice in enumerate(answered.choices):
        turn_id = asked.turn_id if number == 0 else new_id("turn")
        entries.turns.append(
            {
                **prompt,
                **_row(asked, answered, choice),
                "id": turn_id,
                "held_out": is_held_out(turn_id),
                "session_id": session_id,
                "parent_id": asked.place.parent_id,
                "attempt_of": asked.place.attempt_of if number == 0 else asked.turn_id,
                "history_digest": history_digest,
                "tools_digest": tools_digest,
                "reply_digest": deposit.content(choice.message),
            }
        )
    if asked.original is not None:
        entries.originals.append(
            {
                "turn_id": asked.turn_id,
                "items_digest": deposit.history(asked.original.items),
                "fields_digest": deposit.content(asked.original.fields),
            }
        )
    return replace(finished, asked=asked), session_id


def _tell(session: Session, finished: Finished, session_id: str) -> list[str]:
    """Tell earlier turns what came after them; returns those that wait for a verdict now."""
    asked = finished.asked
    # Who hung up asks again, and that request tells what came next; this one may have been a slip.
    left = finished.answered.interrupted == CLIENT_DISCONNECTED
    told = [] if left else tell_ancestors(session, asked.turn_id, asked.place)
    if asked.options.done:
        told += settle_session(session, session_id, ended=True)
        session.flush()
        session.expire_all()  # whoever wakes the session again does so past its mapped object
    return observed_among(session, told)


def _still_there(session: Session, place: Place) -> Place:
    """The place without an earlier attempt that was erased meanwhile."""
    if place.attempt_of is None:
        return place
    if session.connection().scalar(_IS_THERE, {"turn": place.attempt_of}) is not None:
        return place
    return replace(place, attempt_of=None)


def _row(asked: Asked, answered: Answered, choice: Choice) -> Json:
    """The columns that follow from the exchange alone.

    A plain insert: building the mapped object would take longer than everything else here.
    """
    reason = _reason(asked, answered, choice)
    reply = reply_entry(choice.message)
    return {
        "agent_id": asked.resolved.agent_id,
        "key_id": asked.key_id,
        "response_id": answered.response_id,
        "choice_index": choice.index,
        "kind": asked.place.kind,
        "kind_reason": asked.place.kind_reason,
        "state": "open" if reason is None else "excluded",
        "excluded_reason": reason,
        "protocol": asked.protocol,
        "adapter": asked.resolved.target.shown,
        "adapter_version": asked.resolved.version,
        "model_hash": asked.model_hash,
        "client": asked.client[:CLIENT_LENGTH],
        "client_user": asked.client_user,
        "created_at": asked.created_at,
        "completed_at": utc_now(),
        "finish_reason": choice.finish_reason,
        "link_key": asked.history.key_with(reply),
        "prompt_key": asked.history.key,
        "reply_key": reply.reply_key,
        "sampling": asked.sampling,
        "token_ids": pack_ids(() if asked.masked else choice.token_ids),
        "logprobs": pack_logprobs(() if asked.masked else choice.logprobs),
        "completion_tokens": len(choice.token_ids),
        "signal_revision": 0,
        "times_rejected": 0,
    }


def _reason(asked: Asked, answered: Answered, choice: Choice) -> str | None:
    """Why a turn can never be trained; None if it can."""
    if answered.interrupted is not None:
        return answered.interrupted
    if asked.place.kind == SIDE:
        return SIDE
    if not asked.options.train:
        return TRAIN_OFF
    if asked.masked:
        return MASKED
    if grammar_forced(asked.sampling):
        return GRAMMAR_FORCED
    aligned = len(choice.token_ids) == len(choice.logprobs) and bool(choice.token_ids)
    if not aligned or not answered.prompt_token_ids or not all(map(math.isfinite, choice.logprobs)):
        return IDS_MISSING
    return None


def grammar_forced(sampling: Json) -> bool:
    """Whether a grammar chose some of the tokens. The engine does not say which, and a token that the policy
    did not choose must carry no loss, so such a turn is not trained at all."""
    wanted = sampling.get("response_format")
    if isinstance(wanted, dict) and wanted.get("type") not in (None, "text"):
        return True
    choice = sampling.get("tool_choice")
    return choice == "required" or isinstance(choice, dict) or any(sampling.get(name) for name in _GRAMMARS)
