"""Keeps services running: starts them, sees when they are ready, starts again what ends or hangs."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from signal import Signals
from typing import Literal

from afterturn_core.errors import AfterturnError, SettingsError

from .child import Child, Service

FIRST_PAUSE_S = 0.5  # before the first restart; doubles with every further one
LONGEST_PAUSE_S = 30.0
STEADY_S = 10.0  # a service that was ready this long starts over with the first pause
EARLY_ENDS = 3  # ends before it was ever ready after which a service is given up
RESTART_TAIL = 8  # lines of a log beside "starting it again"
USAGE = 2  # exit code for settings that cannot work: starting again would not help
# A process that lives and does not answer serves nobody. The limits are generous: a machine that is short
# of everything answers late, and killing what is merely slow makes it slower. They count checks and not
# seconds, so that a machine that slept finds its services as it left them.
CHECK_EVERY_S = 10.0
HUNG_CHECKS = 6  # of a service that was ready: about a minute, every answer given 5 s
HUNG_STARTING_CHECKS = 60  # of one that still starts, and may have a large model to read
_TICK_S = 0.1
_PROBE_EVERY_S = 0.25

State = Literal["starting", "ready", "pausing", "stopped"]


class ServiceFailed(AfterturnError):
    """A service did not come up; the message carries the end of its log."""

    code = "service_failed"


@dataclass(frozen=True)
class Notice:
    """Something worth telling a person about a service."""

    service: str
    kind: Literal["starting", "ready", "ended", "stopping", "killed"]
    text: str


Report = Callable[[Notice], None]


class _Watched:
    """A child with what the watch remembers about it."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self.state: State = "stopped"
        self.was_ready = False
        self.ends = 0
        self.restarts = 0
        self.since = 0.0
        self.ready_since = 0.0
        self.pause_until = 0.0
        self.next_probe = 0.0
        self.next_check = 0.0
        self.silent_checks = 0


class Watch:
    """Runs services until `stop`, in a thread of its own: children die with the thread that made them.

    A service that answers none of its checks, one every `check_every_s` seconds, is killed and started again.
    """

    def __init__(
        self,
        services: Sequence[Service],
        log_folder: Path,
        report: Report,
        *,
        check_every_s: float = CHECK_EVERY_S,
    ) -> None:
        self._check_every_s = check_every_s
        self._watched = {service.name: _Watched(Child(service, log_folder)) for service in services}
        self._report = report
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._failure: AfterturnError | None = None
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        """Start every service; returns at once."""
        self._thread.start()

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until every service is ready.

        Raises:
            ServiceFailed: one ended too often, or is not ready in time.
            SettingsError: one refused its settings.
        """
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while self._failure is None:
                waiting = [name for name, each in self._watched.items() if each.state != "ready"]
                if not waiting:
                    return
                left = deadline - time.monotonic()
                if left <= 0:
                    name = waiting[0]
                    tail = self._watched[name].child.tail()
                    raise ServiceFailed(f"{', '.join(waiting)} not ready after {timeout_s:g} s.\n{tail}")
                self._changed.wait(min(left, 1.0))
            raise self._failure

    def wait_failed(self) -> None:
        """Wait for as long as things go well; raises what `wait_ready` raises."""
        with self._changed:
            while self._failure is None:
                self._changed.wait(1.0)  # short, so that signals are handled meanwhile
            raise self._failure

    def raise_failure(self) -> None:
        """Raise what `wait_ready` raises, if things have gone wrong already."""
        with self._changed:
            if self._failure is not None:
                raise self._failure

    def stop(self) -> None:
        """Stop everything, what others lean on last. Returns when no child is left."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def pids(self) -> dict[str, int]:
        """Process ids of what runs now."""
        return {name: pid for name, each in self._watched.items() if (pid := each.child.pid) is not None}

    @property
    def restart_counts(self) -> dict[str, int]:
        """How often each service was started again."""
        return {name: each.restarts for name, each in self._watched.items()}

    def is_ready(self, name: str) -> bool:
        """Whether a service is ready now, as far as the watch has seen."""
        return self._watched[name].state == "ready"

    def _run(self) -> None:
        try:
            while not self._stopping.is_set() and self._failure is None:
                for each in self._watched.values():
                    self._look(each, time.monotonic())
                self._stopping.wait(_TICK_S)
        except OSError as error:  # no process, no descriptor, no disk left: say so instead of going silent
            self._fail(ServiceFailed(f"a service could not be started: {error}"))
        finally:
            self._stop_all()

    def _look(self, each: _Watched, now: float) -> None:
        if each.state == "stopped" or (each.state == "pausing" and now >= each.pause_until):
            each.restarts += each.state == "pausing"
            self._start(each, now)
            return
        if each.state == "pausing":
            return
        code = each.child.exit_code()
        if code is not None:
            self._ended(each, code, now)
            return
        if each.state == "starting" and now >= each.next_probe:
            each.next_probe = now + _PROBE_EVERY_S
            if each.child.service.is_ready():
                each.was_ready = True
                each.ready_since, each.silent_checks = now, 0
                took = f"{now - each.since:.1f} s"
                self._move(each, "ready", Notice(each.child.service.name, "ready", took))
        if now >= each.next_check:
            each.next_check = now + self._check_every_s
            self._check(each)

    def _check(self, each: _Watched) -> None:
        service = each.child.service
        if service.is_alive is None:
            return
        if service.is_alive():
            each.silent_checks = 0
            return
        each.silent_checks += 1
        if each.silent_checks < (HUNG_CHECKS if each.state == "ready" else HUNG_STARTING_CHECKS):
            return
        silent_s = each.silent_checks * self._check_every_s
        self._report(Notice(service.name, "killed", f"has not answered for {silent_s:g} s; killing it"))
        each.child.kill()

    def _start(self, each: _Watched, now: float) -> None:
        name = each.child.service.name
        each.child.start()
        each.since = now
        each.next_probe = now
        each.next_check = now + self._check_every_s
        each.silent_checks = 0
        self._move(each, "starting", Notice(name, "starting", f"process {each.child.pid}"))

    def _ended(self, each: _Watched, code: int, now: float) -> None:
        name, how = each.child.service.name, _how(code)
        steady = each.state == "ready" and now - each.ready_since > STEADY_S
        each.ends = 1 if steady else each.ends + 1
        if not each.was_ready and code == USAGE:
            self._fail(SettingsError(f"{name} refused its settings:\n{each.child.tail()}"))
            return
        if not each.was_ready and each.ends >= EARLY_ENDS:
            tail = each.child.tail()
            self._fail(ServiceFailed(f"{name} ended {each.ends} times before it was ready, {how}:\n{tail}"))
            return
        pause = min(FIRST_PAUSE_S * 2 ** (each.ends - 1), LONGEST_PAUSE_S)
        each.pause_until = now + pause
        text = f"{how}; starting it again in {pause:g} s\n{each.child.tail(RESTART_TAIL)}".rstrip()
        self._move(each, "pausing", Notice(name, "ended", text))

    def _move(self, each: _Watched, state: State, notice: Notice) -> None:
        with self._changed:
            each.state = state
            self._changed.notify_all()
        self._report(notice)

    def _fail(self, failure: AfterturnError) -> None:
        with self._changed:
            self._failure = failure
            self._changed.notify_all()

    def _stop_all(self) -> None:
        for last in (False, True):
            group = [each for each in self._watched.values() if each.child.service.stops_last is last]
            for each in group:
                each.child.ask_to_stop()
            begun = time.monotonic()
            for each in group:
                service = each.child.service
                if not each.child.end(begun + service.stop_s):
                    self._report(Notice(service.name, "killed", f"did not stop within {service.stop_s:g} s"))
                each.state = "stopped"


def _how(code: int) -> str:
    return f"killed by {Signals(-code).name}" if code < 0 else f"exit code {code}"
