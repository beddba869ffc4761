"""`afterturn up`: the whole stack on this machine, in the foreground, until a signal."""

import signal
import threading
import time
from collections.abc import Mapping
from types import FrameType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from .supervisor import Stack
from .watch import Notice

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(BaseException):
    """A signal asked us to stop."""


def run(console: Console, env: Mapping[str, str], *, dashboard: bool) -> int:
    """Start everything, say where it is, watch until a signal; returns the exit code.

    Raises what entering a `Stack` raises, and ServiceFailed when a service cannot be kept running.
    """
    for number in _SIGNALS:
        signal.signal(number, _stop)
    news = News(console)
    try:
        with Stack(env=env, dashboard=dashboard, report=news.tell) as stack:
            news.started()
            _announce(console, stack)
            stack.watch.wait_failed()
    except Stopped:
        console.print("stopped", style="dim")
    finally:
        news.close()
    return 0


def _stop(_number: int, _frame: FrameType | None) -> None:
    # Once is enough: stopping ends by itself within seconds and must not be torn apart.
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise Stopped


def _announce(console: Console, stack: Stack) -> None:
    say = console.print
    say(f"\n[bold green]Afterturn is ready[/]  {stack.url}/v1")
    if stack.dashboard_url is not None:
        say(f"dashboard           {stack.dashboard_url}")
    say(
        f"keys                {stack.settings.keys_file}" + ("  (made just now)" if stack.first_start else "")
    )
    say(f"logs                {stack.data_dir / 'logs'}")
    say("Ctrl-C stops everything.\n", style="dim")


class News:
    """What happens to the services, for a person: a bar while starting on a terminal, else lines."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.Lock()  # the watch reports from its own thread
        self._since = time.monotonic()
        self._starting = True
        self._seen: set[str] = set()
        self._ready: set[str] = set()
        self._bar: Progress | None = None
        if console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
            self._bar = Progress(*columns, console=console, transient=True)
            self._task = self._bar.add_task("starting", total=None)
            self._bar.start()

    def tell(self, notice: Notice) -> None:
        """Say one thing."""
        with self._lock:
            text = f"{notice.service:<10} {notice.text}"
            match notice.kind:
                case "ready":
                    back = "" if self._starting and notice.service not in self._ready else "again "
                    self._ready.add(notice.service)
                    self._line(f"{notice.service:<10} ready {back}after {notice.text}", "green")
                case "ended":
                    what, _, tail = text.partition("\n")
                    self._line(what, "bold red")
                    if tail:
                        self._line(tail, "dim")
                case "killed":
                    self._line(text, "yellow")
                case "starting" if notice.service in ("model", "database"):
                    self._line(text, "dim")
                case _:
                    self._seen.add(notice.service)
            self._advance()

    def started(self) -> None:
        """Everything runs: the bar goes."""
        with self._lock:
            self._starting = False
            self._close()

    def close(self) -> None:
        """Leave the terminal as it was."""
        with self._lock:
            self._close()

    def _line(self, text: str, style: str) -> None:
        self._console.print(text, style=style, markup=False, highlight=False)

    def _advance(self) -> None:
        if self._bar is None:
            return
        waiting = ", ".join(sorted(self._seen - self._ready)) or "preparing"
        self._bar.update(
            self._task,
            description=f"starting: {waiting}",
            total=len(self._seen) or None,
            completed=len(self._ready),
        )

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
