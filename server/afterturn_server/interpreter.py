"""How the threads of a gateway share the interpreter."""

import os
import sys
from typing import Literal

# The thread that commits waits for the interpreter at every row; the one that serves would hand it over and
# take it back each time.
SWITCH_S = 0.02


def share_interpreter(core: Literal["any", "last"]) -> None:
    """To be called before a thread is started, but for those that libraries start when they are imported.

    `last`: all of them keep to the last core that this process may use. Only one runs at a time in any case,
    and waking one on another core costs more than it computes.
    """
    sys.setswitchinterval(SWITCH_S)
    if core == "last" and hasattr(os, "sched_setaffinity"):  # Linux
        core_number = max(os.sched_getaffinity(0))
        for thread in os.listdir("/proc/self/task"):
            os.sched_setaffinity(int(thread), {core_number})
