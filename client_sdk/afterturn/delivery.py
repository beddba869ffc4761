"""How an event reaches the server, now or later."""

from dataclasses import dataclass, replace

from afterturn.context import Context
from afterturn.decoding import decode
from afterturn.errors import AfterturnError, BadRequest, Conflict, NotFound, StatusError
from afterturn.outbox import KeptEvent
from afterturn.retry import attempts, is_away, parse_json
from afterturn.wire import Exchange, Flow, JSONObject

# Refusals that are the event's own fault; any other (a wrong key, say) leaves it where it is.
FOR_GOOD = (BadRequest, NotFound, Conflict)


@dataclass(frozen=True)
class Receipt:
    """What became of an event: `id` on the server, or kept on disk (`kept`, no id yet)."""

    idempotency_key: str
    id: str | None
    kept: bool


@dataclass(frozen=True)
class RejectedEvent:
    """An event from the outbox that the server will never take, and why."""

    event: KeptEvent
    error: StatusError


@dataclass(frozen=True)
class Flushed:
    """What a flush did, in order. `rejected` events were put aside in the outbox's `rejected` folder."""

    delivered: tuple[Receipt, ...] = ()
    rejected: tuple[RejectedEvent, ...] = ()


@dataclass(frozen=True)
class _Created:
    id: str


@dataclass(frozen=True)
class Delivery:
    """A new event: sent at once behind those that wait, or kept with them if the server is away."""

    body: JSONObject

    def flow(self, context: Context) -> Flow[Receipt]:
        """Raises what the server refuses, `OutboxFull`, and `ConnectionFailed` if no outbox is set."""
        key = str(self.body["idempotency_key"])
        context.key(admin=False)
        outbox = context.outbox
        try:
            if outbox is not None and outbox.pending():
                # The server was away a moment ago: one try is enough to see whether it still is.
                yield from Flush().flow(replace(context, max_retries=0))
            return (yield from _post(self.body, context))
        except AfterturnError as error:
            if outbox is None or not is_away(error):
                raise
            outbox.keep(key, self.body)
            return Receipt(key, None, kept=True)


@dataclass(frozen=True)
class Flush:
    """Deliver what waits, oldest first."""

    def flow(self, context: Context) -> Flow[Flushed]:
        """Stops at and raises the first failure that is not an event's own; that and later ones stay."""
        done = Flushed()
        if context.outbox is None:
            return done
        for path, event in context.outbox.waiting():
            try:
                receipt = yield from _post(event.body, context)
            except FOR_GOOD as error:
                context.outbox.reject(path)
                done = replace(done, rejected=(*done.rejected, RejectedEvent(event, error)))
            else:
                context.outbox.remove(path)
                done = replace(done, delivered=(*done.delivered, receipt))
        return done


@dataclass(frozen=True)
class Pending:
    """Look at what waits; nothing is sent."""

    def flow(self, context: Context) -> Flow[tuple[KeptEvent, ...]]:
        yield from ()
        return context.outbox.pending() if context.outbox is not None else ()


def _post(body: JSONObject, context: Context) -> Flow[Receipt]:
    step = Exchange("POST", "/v1/feedback", body=body, key=context.key(admin=False))
    response = yield from attempts(step, context, safe=True)  # the idempotency key makes twice once
    created = decode(_Created, parse_json(response))
    return Receipt(str(body["idempotency_key"]), created.id, kept=False)
