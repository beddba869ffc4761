"""`afterturn rounds`: training runs."""

import time
from typing import Annotated, Final

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from afterturn import Afterturn, Round

from ..connection import connect
from ..listing_group import ListingGroup
from ..output import FAILED, JsonFlag, LimitOption, error_console, print_listing, print_record

app = typer.Typer(cls=ListingGroup, help="Training runs.")
POLL_S: Final = 1.0
RoundId = Annotated[str, typer.Argument(help="The round's id.")]
WaitFlag = Annotated[
    bool, typer.Option("--wait", help="Return when it has ended; 1 unless it was published.")
]


@app.command("list")
def list_rounds(
    agent: Annotated[str | None, typer.Option(help="Of this agent only.")] = None,
    state: Annotated[str | None, typer.Option(help="published, rejected, failed, training …")] = None,
    limit: LimitOption = 20,
    as_json: JsonFlag = False,
) -> None:
    """List rounds."""
    with connect() as client:
        print_listing(
            client.rounds.list(agent=agent, state=state, limit=min(limit, 100)),
            ("id", "agent", "state", "objective", "adapter", "started_at", "finished_at", "error"),
            limit=limit,
            as_json=as_json,
            empty="No rounds yet. One starts by itself when enough signals wait, "
            "or now: afterturn rounds start AGENT",
        )


@app.command()
def show(round_id: RoundId, as_json: JsonFlag = False) -> None:
    """Show one round with its metrics and gate report."""
    with connect() as client:
        print_record(client.rounds.get(round_id), as_json=as_json)


@app.command()
def start(
    agent: Annotated[str, typer.Argument(help="The agent to train.")] = "default",
    wait: WaitFlag = False,
    as_json: JsonFlag = False,
) -> None:
    """Train now, on the signals that wait."""
    with connect() as client:
        begun = client.rounds.start(agent)
        if wait:
            begun = _wait(client, begun.id)
        print_record(begun, as_json=as_json)
    if wait and begun.state != "published":
        raise typer.Exit(FAILED)


@app.command()
def wait(round_id: RoundId, as_json: JsonFlag = False) -> None:
    """Wait until a round has ended; 1 unless it was published."""
    with connect() as client:
        ended = _wait(client, round_id)
    print_record(ended, as_json=as_json)
    if ended.state != "published":
        raise typer.Exit(FAILED)


@app.command()
def cancel(round_id: RoundId, as_json: JsonFlag = False) -> None:
    """Stop a round; its turns go back to those that wait."""
    with connect() as client:
        print_record(client.rounds.cancel(round_id), as_json=as_json)


def _wait(client: Afterturn, round_id: str) -> Round:
    """Until it has ended: a bar on a terminal, a line for every new state elsewhere."""
    screen = error_console()
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    shown = ""
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task(round_id, total=1.0)
        while True:
            row = client.rounds.get(round_id)
            bar.update(task, description=f"{round_id} {row.state}", completed=row.progress)
            if not screen.is_terminal and row.state != shown:
                shown = row.state
                screen.print(f"{round_id} {row.state}", markup=False, highlight=False)
            if row.ended:
                return row
            time.sleep(POLL_S)
