"""`afterturn adapters`: what agents have learned, version by version."""

from pathlib import Path
from typing import Annotated

import typer

from afterturn_core.settings import load_settings

from ..adapter_check import Finding, adapter_folder, adapter_folders, check_adapter, copy_adapter
from ..connection import connect
from ..listing_group import ListingGroup
from ..output import FAILED, USAGE, JsonFlag, LimitOption, console, print_listing, print_record, say_error

app = typer.Typer(cls=ListingGroup, help="What agents have learned, version by version.")
Name = Annotated[str, typer.Argument(help="NAME@vN", metavar="NAME@vN")]


@app.command("list")
def list_adapters(
    agent: Annotated[str | None, typer.Option(help="Of this agent only.")] = None,
    limit: LimitOption = 50,
    as_json: JsonFlag = False,
) -> None:
    """List adapters."""
    with connect() as client:
        print_listing(
            client.adapters.list(agent=agent, limit=min(limit, 100)),
            ("name", "state", "live", "parent", "marks", "round_id", "created_at"),
            limit=limit,
            as_json=as_json,
            empty="No adapters yet: every agent is on the base model until a round is published.",
        )


@app.command()
def promote(name: Name) -> None:
    """Make a version the live one."""
    with connect() as client:
        client.adapters.promote(name)
    console().print(f"{name} is live", markup=False)


@app.command()
def rollback(
    agent: Annotated[str, typer.Argument(help="The agent.")] = "default",
    to: Annotated[int | None, typer.Option(min=0, help="A version; 0 is the base model.")] = None,
) -> None:
    """Go back to the version before the live one, or to any other."""
    with connect() as client:
        client.adapters.rollback(agent, to=to)
        live = client.agents.get(agent).live_adapter
    console().print(f"{agent} now answers with {live or 'the base model'}", markup=False)


@app.command()
def export(
    name: Name, folder: Annotated[Path, typer.Argument(help="A folder that is not there yet.")]
) -> None:
    """Copy an adapter of this machine out, as a PEFT folder, after checking it."""
    source = adapter_folder(load_settings().adapter_root, name)
    if folder.exists():
        say_error(f"{folder} is there already: name a folder that is not")
        raise typer.Exit(USAGE)
    finding = check_adapter(source)
    if not finding.ok:
        say_error(f"{name} is damaged: {', '.join(finding.problems)}")
        raise typer.Exit(FAILED)
    copy_adapter(source, folder)
    console().print(f"{name} is in {folder}", markup=False)


@app.command("import")
def import_adapter(
    folder: Annotated[Path, typer.Argument(help="A folder that `adapters export` wrote.")],
    agent: Annotated[str, typer.Option(help="Whose new version it becomes.")],
    as_json: JsonFlag = False,
) -> None:
    """Make an exported adapter a new version of an agent: checked, and not live until it is promoted."""
    finding = check_adapter(folder, str(folder))
    if not finding.ok:
        say_error(f"{folder} holds no sound adapter: {', '.join(finding.problems)}")
        raise typer.Exit(FAILED)
    with connect() as client:
        adapter = client.adapters.upload(folder, agent=agent)
    if as_json:
        print_record(adapter, as_json=True)
    else:
        console().print(
            f"{adapter.name} is there; `afterturn adapters promote {adapter.name}` makes it live",
            markup=False,
        )


@app.command()
def verify(
    name: Annotated[
        str | None, typer.Argument(help="NAME@vN or a folder; all of this machine when left out.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Check adapters of this machine against their checksums; 1 if one is damaged."""
    root = load_settings().adapter_root
    findings: list[Finding]
    if name is not None and Path(name).is_dir():
        findings = [check_adapter(Path(name), name)]
    else:
        folders = [adapter_folder(root, name)] if name else adapter_folders(root)
        findings = [check_adapter(folder) for folder in folders]
    print_listing(
        findings,
        ("name", "ok", "problems"),
        limit=len(findings) or 1,
        as_json=as_json,
        empty=f"No adapters under {root}.",
    )
    if not all(finding.ok for finding in findings):
        raise typer.Exit(FAILED)
