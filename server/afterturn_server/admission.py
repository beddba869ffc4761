"""Admitting a request: who asks, which weights answer, and where the turn belongs, in one look."""

from dataclasses import replace

from sqlmodel import Session
from starlette.requests import Request

from afterturn_core.columns import utc_now
from afterturn_core.errors import AuthenticationError, DatabaseAway, PermissionDenied
from afterturn_core.ids import new_id

from .acquaintances import Acquaintance
from .caller import Caller, find_caller, presented_key
from .conversation import Conversation
from .entries import Entries
from .gateway import Gateway
from .linking import read_history
from .masked import as_stored
from .place import Place
from .recording import Asked
from .resolution import resolve
from .thread import find_place
from .turn_options import TurnOptions


async def admit(
    gateway: Gateway, request: Request, conversation: Conversation, options: TurnOptions
) -> Asked:
    """Check the key, resolve the model, link the history.

    While the database is away and `serve_without_log` is set, a key that this process has served before
    is answered as it was then, and nothing of it is stored.

    Raises:
        AuthenticationError, PermissionDenied, RateLimited, ModelNotFound: it is not to be answered.
        DatabaseAway: nobody can say whether it is.
        EngineError: nothing is known of the base model yet, and the engine does not answer.
    """
    if not gateway.settings.serve_without_log:
        return (await _admit(gateway, request, conversation, options))[1]
    key = presented_key(request.headers)
    try:
        caller, asked = await _admit(gateway, request, conversation, options)
    except DatabaseAway:
        known = gateway.acquaintances.find(key, conversation.model)
        gateway.rate.count_here(known.caller)
        gateway.metrics.unlogged.inc()
        return _unlogged(request, conversation, options, known)
    except (AuthenticationError, PermissionDenied):
        gateway.acquaintances.forget(key)
        raise
    gateway.acquaintances.note(
        key, conversation.model, Acquaintance(caller, asked.resolved, asked.model_hash)
    )
    return asked


async def _admit(
    gateway: Gateway, request: Request, conversation: Conversation, options: TurnOptions
) -> tuple[Caller, Asked]:
    key = presented_key(request.headers)
    conversation = await as_stored(gateway.settings, conversation)
    history = read_history(conversation.messages)
    created_at = utc_now()
    if not gateway.upstream.knows_identity:
        # The engine may be away: tell a caller without a valid key nothing about that.
        await gateway.look(lambda session: find_caller(session, key, "inference"))
    weights = await gateway.weights()

    def look(session: Session) -> tuple[Caller, Asked | None]:
        caller = find_caller(session, key, "inference")
        if caller.requests_per_minute is not None and not counted:
            return caller, None
        resolved = resolve(session, caller, conversation.model, weights)
        place = find_place(
            session,
            resolved.agent_id,
            caller.key_id,
            history,
            options,
            tools=conversation.tools,
            previous=conversation.previous,
        )
        return caller, Asked(
            turn_id=new_id("turn"),
            key_id=caller.key_id,
            protocol=conversation.protocol,
            client=request.headers.get("user-agent", ""),
            created_at=created_at,
            messages=conversation.messages,
            tools=conversation.tools,
            sampling=conversation.sampling,
            original=conversation.original,
            client_user=conversation.client_user,
            history=history,
            options=options,
            resolved=resolved,
            place=place,
            model_hash=weights.model_hash,
            masked=conversation.masked,
            metered=caller.tokens_per_day is not None,
        )

    counted = False
    caller, asked = await gateway.look(look)
    if asked is None:
        await gateway.count(caller)
        counted = True
        caller, asked = await gateway.look(look)
        assert asked is not None
    return caller, await _with_session(gateway, asked)


async def _with_session(gateway: Gateway, asked: Asked) -> Asked:
    """Two first requests under one name must be told the same session."""
    if not asked.place.new_session or asked.place.external_id is None or not asked.options.store:
        return asked

    def enter(session: Session) -> str:
        entries = Entries(session)
        session_id = entries.open_session(asked.resolved.agent_id, asked.key_id, asked.place)
        entries.write()
        return session_id

    session_id = await gateway.write(enter)
    return replace(asked, place=replace(asked.place, session_id=session_id, new_session=False))


def _unlogged(
    request: Request, conversation: Conversation, options: TurnOptions, known: Acquaintance
) -> Asked:
    """A request of which nothing is looked up and nothing will be stored."""
    history = read_history(conversation.messages)
    place = Place(
        session_id=new_id("session"),
        new_session=True,
        external_id=None,
        parent_id=None,
        attempt_of=None,
        kind="main",
        kind_reason="default",
        pieces=(),
        ancestors=(),
    )
    return Asked(
        turn_id=new_id("turn"),
        key_id=known.caller.key_id,
        protocol=conversation.protocol,
        client=request.headers.get("user-agent", ""),
        created_at=utc_now(),
        messages=conversation.messages,
        tools=conversation.tools,
        sampling=conversation.sampling,
        history=history,
        options=replace(options, store=False),
        resolved=known.resolved,
        place=place,
        model_hash=known.model_hash,
    )
