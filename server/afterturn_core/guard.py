"""Runs a command that ends when the process that started it ends, however that happens.

    python -m afterturn_core.guard --parent PID [--nice N] -- COMMAND …

A supervisor that is killed cannot stop its children, so on Linux the kernel does: the command is
sent SIGKILL when the thread that started it is gone. Elsewhere the command runs without that.
"""

import argparse
import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1


def guarded(command: Sequence[str], *, nice: int = 0) -> tuple[str, ...]:
    """`command` so that it dies with this process and, if asked, runs at a lower priority.

    Start it from a thread that lives as long as the command shall: the kernel watches that thread.
    """
    own = (sys.executable, "-m", "afterturn_core.guard", "--parent", str(os.getpid()), "--nice", str(nice))
    return (*own, "--", *command)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent is gone; leave at once if it already is."""
    if not sys.platform.startswith("linux"):
        return
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:
        sys.exit(0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Become the command; returns only if it cannot be run."""
    parser = argparse.ArgumentParser(prog="python -m afterturn_core.guard")
    parser.add_argument("--parent", type=int, required=True, help="id of the process that started this one")
    parser.add_argument("--nice", type=int, default=0)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(arguments)
    die_with_parent(options.parent)
    if options.nice:
        os.nice(options.nice)
    try:
        os.execvp(options.command[0], options.command)
    except OSError as error:
        sys.stderr.write(f"{options.command[0]}: {error.strerror}\n")
        return 127


if __name__ == "__main__":
    sys.exit(main())
