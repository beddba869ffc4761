"""`afterturn erase`: data that must go."""

from typing import Annotated

import typer

from ..connection import connect
from ..output import USAGE, JsonFlag, console, print_json, say_error


def erase(
    turn: Annotated[str | None, typer.Option(help="A turn, and all that goes on from it.")] = None,
    session: Annotated[str | None, typer.Option(help="A session, by our id or the client's own.")] = None,
    client_user: Annotated[str | None, typer.Option(help="Whom a client said that it spoke with.")] = None,
    agent: Annotated[str | None, typer.Option(help="Everything that an agent was ever told.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Erase turns, sessions, feedback and signals; what learned from them goes out of use."""
    named = {"turn_id": turn, "session_id": session, "client_user": client_user, "agent": agent}
    given = {name: value for name, value in named.items() if value is not None}
    if len(given) != 1:
        say_error("name exactly one of --turn, --session, --client-user, --agent")
        raise typer.Exit(USAGE)
    (target,) = given.values()
    if not yes and not typer.confirm(f"Erase {target} for good?"):
        console().print("Nothing was erased.")
        return
    with connect() as client:
        receipt = client.erase(**given)
    if as_json:
        print_json(receipt)
        return
    for name, value in receipt.items():
        console().print(f"{name.replace('_', ' ')}: {_plain(value)}", markup=False)


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} serves {serving}" for name, serving in value.items()) or "none"
    return (", ".join(map(str, value)) or "none") if isinstance(value, list) else str(value)
