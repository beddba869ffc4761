"""`afterturn turns`: model calls and what became of them."""

from typing import Annotated

import typer

from ..connection import connect
from ..listing_group import ListingGroup
from ..output import JsonFlag, LimitOption, print_listing, print_record

app = typer.Typer(cls=ListingGroup, help="Model calls and what became of them.")


@app.command("list")
def list_turns(
    agent: Annotated[str | None, typer.Option(help="Of this agent only.")] = None,
    session: Annotated[str | None, typer.Option(help="Of this session only.")] = None,
    state: Annotated[str | None, typer.Option(help="open, observed, judged, trained …")] = None,
    limit: LimitOption = 20,
    as_json: JsonFlag = False,
) -> None:
    """List turns."""
    with connect() as client:
        print_listing(
            client.turns.list(agent=agent, session_id=session, state=state, limit=min(limit, 100)),
            ("id", "agent", "kind", "state", "adapter", "created_at", "finish_reason"),
            limit=limit,
            as_json=as_json,
            empty="No turns. Talk to the agent: any OpenAI client with this server's URL and a key.",
        )


@app.command()
def show(
    turn_id: Annotated[str, typer.Argument(help="The turn's id, as in the x-turn-id header.")],
    as_json: JsonFlag = False,
) -> None:
    """Show one turn with its next state and signal."""
    with connect() as client:
        print_record(client.turns.get(turn_id), as_json=as_json)
