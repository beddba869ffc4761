"""`afterturn feedback`: what somebody says about a turn."""

from enum import StrEnum
from typing import Annotated

import typer

from afterturn import Receipt

from ..connection import connect
from ..output import JsonFlag, console, print_listing, print_record

app = typer.Typer(no_args_is_help=True, help="Say how a turn went.")
TurnId = Annotated[str, typer.Argument(help="The turn's id, as in the x-turn-id header.")]
Text = Annotated[str, typer.Argument(help="In plain words.")]
Value = Annotated[float, typer.Argument(min=0.0, max=1.0, help="From 0 (bad) to 1 (good).")]


class Thumb(StrEnum):
    """Which way a thumb points."""

    UP = "up"
    DOWN = "down"


@app.command()
def thumb(
    turn_id: TurnId,
    way: Annotated[Thumb, typer.Argument()],
    text: Annotated[str | None, typer.Option(help="Why.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Thumb up or down."""
    with connect() as client:
        _tell(client.feedback.thumb(turn_id, up=way is Thumb.UP, text=text), as_json)


@app.command()
def score(turn_id: TurnId, value: Value, as_json: JsonFlag = False) -> None:
    """A grade."""
    with connect() as client:
        _tell(client.feedback.score(turn_id, value), as_json)


@app.command()
def correct(turn_id: TurnId, text: Text, as_json: JsonFlag = False) -> None:
    """What should have been done instead: a hint, and a verdict of -1."""
    with connect() as client:
        _tell(client.feedback.correct(turn_id, text), as_json)


@app.command()
def prefer(turn_id: TurnId, text: Text, as_json: JsonFlag = False) -> None:
    """The reply that was wanted, in full."""
    with connect() as client:
        _tell(client.feedback.prefer(turn_id, text), as_json)


@app.command()
def comment(turn_id: TurnId, text: Text, as_json: JsonFlag = False) -> None:
    """A remark, for the judge to read."""
    with connect() as client:
        _tell(client.feedback.comment(turn_id, text), as_json)


@app.command()
def outcome(
    value: Value,
    turn: Annotated[str | None, typer.Option(help="A turn's id.")] = None,
    session: Annotated[str | None, typer.Option(help="A session's id, to spread it over its turns.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """How it turned out, for a turn or a whole session."""
    if (turn is None) == (session is None):
        raise typer.BadParameter("name exactly one of --turn and --session")
    with connect() as client:
        if turn is not None:
            _tell(client.feedback.outcome(turn, value), as_json)
        elif session is not None:
            _tell(client.feedback.outcome(value=value, session_id=session), as_json)


@app.command()
def undo(feedback_id: Annotated[str, typer.Argument(help="The event's id.")]) -> None:
    """Take an event back."""
    with connect() as client:
        client.feedback.delete(feedback_id)
    console().print(f"{feedback_id} is taken back", markup=False)


@app.command()
def flush(as_json: JsonFlag = False) -> None:
    """Deliver events that were kept while the server was away."""
    with connect() as client:
        flushed = client.feedback.flush()
    print_listing(
        flushed.delivered, ("id", "idempotency_key"), limit=10_000, as_json=as_json, empty="Nothing waits."
    )


def _tell(receipt: Receipt, as_json: bool) -> None:
    print_record(receipt, as_json=as_json)
    if receipt.kept:
        typer.echo("The server is away: kept on disk. Deliver later: afterturn feedback flush", err=True)
