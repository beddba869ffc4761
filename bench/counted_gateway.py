"""The gateway as it is, which on SIGUSR1 writes how much it holds to `counts.json` in its data folder."""

import asyncio
import gc
import json
import os
import signal
import sys
from pathlib import Path
from types import FrameType

from afterturn_server.__main__ import main


def _count(_number: int, _frame: FrameType | None) -> None:
    gc.collect()
    found = {
        "objects": len(gc.get_objects()),
        "tasks": len(asyncio.all_tasks()),
        "open_files": len(os.listdir("/proc/self/fd")),
    }
    target = Path(os.environ["AFTERTURN_DATA_DIR"]) / "counts.json"
    partial = target.with_suffix(".part")
    partial.write_text(json.dumps(found))
    partial.rename(target)


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, _count)
    sys.exit(main())
