"""`afterturn agents`: the policies served here."""

from typing import Annotated

import typer

from afterturn import JSON

from ..connection import connect
from ..listing_group import ListingGroup
from ..output import JsonFlag, LimitOption, print_listing, print_record

app = typer.Typer(cls=ListingGroup, help="The policies served here.")
Name = Annotated[str, typer.Argument(help="The agent's name.")]


@app.command("list")
def list_agents(limit: LimitOption = 100, as_json: JsonFlag = False) -> None:
    """List agents with their live adapter."""
    with connect() as client:
        print_listing(
            client.agents.list(),
            ("name", "live_adapter", "frozen", "pinned_version", "created_at"),
            limit=limit,
            as_json=as_json,
            empty="No agents yet. Make one: afterturn agents add NAME",
        )


@app.command()
def show(name: Name, as_json: JsonFlag = False) -> None:
    """Show one agent."""
    with connect() as client:
        print_record(client.agents.get(name), as_json=as_json)


@app.command()
def add(name: Name, as_json: JsonFlag = False) -> None:
    """Make an agent; it serves the base model until it has learned something."""
    with connect() as client:
        print_record(client.agents.create(name), as_json=as_json)


@app.command()
def update(
    name: Name,
    frozen: Annotated[
        bool | None, typer.Option("--frozen/--learning", help="Serve, but never train.")
    ] = None,
    pin: Annotated[int | None, typer.Option(min=1, help="Serve this version, whatever is live.")] = None,
    unpin: Annotated[bool, typer.Option("--unpin", help="Serve the live version again.")] = False,
    min_signals: Annotated[int | None, typer.Option(min=1, help="Signals that start a round.")] = None,
    objective: Annotated[str | None, typer.Option(help="hybrid, rl or opd.")] = None,
    accept_any_model: Annotated[
        bool | None,
        typer.Option("--accept-any-model/--exact-model", help="Answer to every model name."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Change an agent's settings."""
    if pin is not None and unpin:
        raise typer.BadParameter("--pin and --unpin exclude each other")
    wanted: dict[str, JSON] = {
        "frozen": frozen,
        "pinned_version": pin,
        "min_signals": min_signals,
        "objective": objective,
        "accept_any_model": accept_any_model,
    }
    changes: dict[str, JSON] = {key: value for key, value in wanted.items() if value is not None}
    if unpin:
        changes["pinned_version"] = None
    if not changes:
        raise typer.BadParameter("name at least one setting to change")
    with connect() as client:
        print_record(client.agents.update(name, **changes), as_json=as_json)
