"""`afterturn keys`: what clients of an agent show."""

from typing import Annotated

import typer

from ..connection import connect
from ..listing_group import ListingGroup
from ..output import JsonFlag, LimitOption, console, print_json, print_listing

app = typer.Typer(cls=ListingGroup, help="API keys.")


@app.command("list")
def list_keys(limit: LimitOption = 100, as_json: JsonFlag = False) -> None:
    """List keys by their prefix."""
    with connect() as client:
        print_listing(
            client.keys.list(),
            ("prefix", "agent", "scopes", "created_at", "expires_at", "revoked_at"),
            limit=limit,
            as_json=as_json,
            empty="No keys yet. Make one: afterturn keys add --agent NAME",
        )


@app.command()
def add(
    agent: Annotated[str, typer.Option(help="Whose key it is.")],
    scope: Annotated[
        list[str] | None, typer.Option(help="inference or feedback; both when left out. Repeatable.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Make a key. It is shown this once."""
    with connect() as client:
        made = client.keys.create(agent, scopes=tuple(scope or ("inference", "feedback")))
    if as_json:
        print_json({"key": made.key, "prefix": made.prefix})
        return
    console().print(made.key, markup=False, highlight=False)
    typer.echo("Keep it now: it is not shown again.", err=True)


@app.command()
def revoke(prefix: Annotated[str, typer.Argument(help="The key's prefix, as listed.")]) -> None:
    """Revoke a key, at once."""
    with connect() as client:
        client.keys.delete(prefix)
    console().print(f"{prefix} is revoked", markup=False)
