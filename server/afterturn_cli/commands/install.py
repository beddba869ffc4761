"""Commands about this machine's install: up, doctor, migrate, demo, export and its parts as processes."""

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from afterturn_core.database import Database
from afterturn_core.settings import load_settings

from .. import up as whole_stack
from ..connection import connect
from ..doctor import effective_settings, examine
from ..output import FAILED, JsonFlag, console, print_json, print_listing
from ..services import dashboard_command, engine_command

PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
_MARKS = {"ok": "[green]ok[/]", "note": "[yellow]note[/]", "broken": "[bold red]broken[/]"}


def up(
    host: Annotated[
        str | None, typer.Option(help="Where to listen instead of loopback; 0.0.0.0 for everywhere.")
    ] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="The gateway's port.")] = None,
    no_dashboard: Annotated[bool, typer.Option("--no-dashboard", help="Without the dashboard.")] = False,
) -> None:
    """Run the whole stack on this machine, until Ctrl-C."""
    given = {"AFTERTURN_HOST": host, "AFTERTURN_PORT": None if port is None else str(port)}
    env = {name: value for name, value in given.items() if value is not None}
    raise typer.Exit(whole_stack.run(console(), env, dashboard=not no_dashboard))


def doctor(as_json: JsonFlag = False) -> None:
    """Show effective settings with their source, and check what they name; 1 if something is broken."""
    settings = load_settings()
    shown, checks = effective_settings(settings), examine(settings)
    broken = any(check.level == "broken" for check in checks)
    if as_json:
        print_json(
            {
                "settings": [dataclasses.asdict(setting) for setting in shown],
                "checks": [dataclasses.asdict(check) for check in checks],
                "ok": not broken,
            }
        )
    else:
        values = Table("setting", "value", "source", box=None, header_style="bold", pad_edge=False)
        for setting in shown:
            values.add_row(setting.name, escape(setting.value) or "-", setting.source)
        results = Table("check", "", "", box=None, header_style="bold", pad_edge=False)
        for check in checks:
            results.add_row(check.name, _MARKS[check.level], escape(check.text))
        screen = console()
        screen.print(values)
        screen.print()
        screen.print(results)
    if broken:
        raise typer.Exit(FAILED)


def migrate(
    back: Annotated[
        bool, typer.Option("--back", help="Undo the last migration, for the version before this one.")
    ] = False,
) -> None:
    """Make or upgrade the database."""
    settings = load_settings()
    database = Database(settings.effective_database_url)
    try:
        if back:
            revision = database.step_back()
            console().print(f"the database is at revision {revision}: run the version before this one")
            return
        database.migrate()
        database.check_schema()
        newer = database.is_newer()
    finally:
        database.close()
    if newer:
        console().print("the database is a newer version's, which this one may use: nothing was changed")
    else:
        console().print("the database is up to date")


def stats(as_json: JsonFlag = False) -> None:
    """Show the install's figures, agent by agent."""
    with connect() as client:
        figures = client.stats()
    if as_json:
        print_json(dataclasses.asdict(figures))
        return
    columns = ("agent", "live_adapter", "frozen", "turns", "signals", "rounds", "waiting_signals")
    print_listing(figures.agents, columns, limit=1000, as_json=False, empty="No agents yet.")
    if figures.engine is not None:
        state = "answers" if figures.engine.ok else "is away"
        console().print(f"engine {state}: {figures.engine.model or '-'}", markup=False)


def export(
    agent: Annotated[str, typer.Option(help="Whose data.")],
    out: Annotated[Path | None, typer.Option(help="A file; standard output when left out.")] = None,
) -> None:
    """Write everything stored of an agent, a JSON object a line."""
    with connect() as client:
        lines = (json.dumps(line, ensure_ascii=False) + "\n" for line in client.export(agent))
        if out is None:
            sys.stdout.writelines(lines)
            return
        draft = out.with_name(f".{out.name}.part")
        with draft.open("w", encoding="utf-8") as stream:
            stream.writelines(lines)
        draft.rename(out)


def engine(context: typer.Context) -> None:
    """Run the embedded engine alone; options after it are its own."""
    settings = load_settings()
    _become((*engine_command(settings), *context.args))


def gateway(context: typer.Context) -> None:
    """Run the gateway alone, against the engine and database of the settings."""
    _become((sys.executable, "-m", "afterturn_server", *context.args))


def extractor(context: typer.Context) -> None:
    """Run one extractor worker, with the beat."""
    _become((sys.executable, "-m", "afterturn_extractor", *context.args))


def trainer(context: typer.Context) -> None:
    """Run one trainer worker."""
    _become((sys.executable, "-m", "afterturn_trainer", "worker", *context.args))


def dashboard(context: typer.Context) -> None:
    """Run the dashboard alone."""
    settings = load_settings()
    _become((*dashboard_command(settings), *context.args))


def add_to(app: typer.Typer) -> None:
    """Put these commands at the top level."""
    for command in (up, doctor, migrate, stats, export):
        app.command()(command)
    for process in (engine, gateway, extractor, trainer, dashboard):
        app.command(context_settings=PASS_ON, rich_help_panel="Single processes")(process)


def _become(command: tuple[str, ...]) -> None:
    sys.stdout.flush()
    os.execv(command[0], command)
