"""Committing a finished exchange, before its client hears the end of it."""

import time
from dataclasses import replace

from afterturn_core.errors import DatabaseAway

from .gateway import Gateway
from .masked import as_recorded
from .recording import Answered, Asked, Finished, record
from .usage import spend_tokens


async def keep(gateway: Gateway, asked: Asked, answered: Answered) -> None:
    """Record the exchange and wake the judge about turns it observed.

    The reply has been paid for, so a database that is away is waited for, `database_timeout_s` long.

    Raises:
        DatabaseAway: it did not come back; what is known is that nothing was acknowledged.
        Unavailable: the database cannot keep up; nothing was stored.
    """
    if not asked.options.store:
        await _charge(gateway, asked, answered)
        return
    asked, answered = await as_recorded(gateway.settings, asked, answered)
    observed = await _commit(gateway, asked, answered)
    gateway.wake_judge(observed)
    for choice in answered.choices:
        gateway.metrics.turns.labels(asked.place.kind, choice.finish_reason or "none").inc()
        gateway.metrics.tokens.labels("sampled").inc(len(choice.token_ids))
    gateway.metrics.tokens.labels("read").inc(len(answered.prompt_token_ids))


async def _commit(gateway: Gateway, asked: Asked, answered: Answered) -> list[str]:
    patience = gateway.settings.database_timeout_s
    end = time.monotonic() + 2 * patience
    finished = Finished(asked, answered)
    while True:
        try:
            return await gateway.write_together(record, finished)
        except DatabaseAway:
            if time.monotonic() > end or not await gateway.outage.over(patience):
                raise
            finished = replace(finished, again=True)


async def _charge(gateway: Gateway, asked: Asked, answered: Answered) -> None:
    """What is not stored is counted all the same, for a key whose tokens are limited."""
    if asked.metered and answered.tokens:
        await gateway.write(lambda session: spend_tokens(session, asked.key_id, answered.tokens, time.time()))


def turn_headers(asked: Asked) -> dict[str, str]:
    """What every answer says about its turn; without a record there is only the adapter to name."""
    headers = {"x-adapter": asked.resolved.target.shown}
    if asked.options.store:
        headers |= {"x-turn-id": asked.turn_id, "x-session-id": asked.place.session_id}
    return headers


def unlogged(asked: Asked) -> Asked:
    """The same request, of which nothing could be stored after all."""
    return replace(asked, options=replace(asked.options, store=False))
