"""How long work shows itself: a bar on a terminal, plain lines elsewhere, nothing beside JSON."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from .output import error_console


@contextmanager
def showing(*, quiet: bool) -> Iterator[Callable[[str, float], None]]:
    """Gives a function that is told what is being done and what share of it is done (0 to 1).

    On standard error, so that results can be piped.
    """
    screen = error_console()
    if quiet:
        yield lambda _what, _share: None
    elif screen.is_terminal:
        with Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            console=screen,
        ) as progress:
            tasks = {}

            def update(what: str, share: float) -> None:
                if what not in tasks:
                    tasks[what] = progress.add_task(what, total=1.0)
                progress.update(tasks[what], completed=share)

            yield update
    else:
        seen: set[str] = set()

        def say(what: str, _share: float) -> None:
            if what not in seen:
                seen.add(what)
                screen.print(what, markup=False)

        yield say
