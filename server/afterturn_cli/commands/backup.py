"""`afterturn backup` and `afterturn restore`: everything of an install in one folder, and back."""

import time
from pathlib import Path
from typing import Annotated

import typer

from afterturn_core.settings import load_settings

from ..backup.contents import Contents
from ..output import JsonFlag, console, print_json
from ..progress import showing


def backup(
    path: Annotated[Path, typer.Argument(help="A folder that is not there yet.")], as_json: JsonFlag = False
) -> None:
    """Copy database, adapters and keys into a folder, while everything runs."""
    # Here and not above: other commands need no database driver.
    from ..backup.saving import back_up

    began = time.monotonic()
    with showing(quiet=as_json) as report:
        contents = back_up(load_settings(), path, report)
    _say("backed up to", path, contents, began, as_json=as_json)


def restore(
    path: Annotated[Path, typer.Argument(help="A backup's folder.")],
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Put a backup into this install's data folder and database; the install must not run."""
    from ..backup.restoring import restore as put_back

    began = time.monotonic()
    with showing(quiet=as_json) as report:
        contents = put_back(load_settings(), path, report, force=force)
    _say("restored from", path, contents, began, as_json=as_json)


def _say(done: str, path: Path, contents: Contents, began: float, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "path": str(path),
                "created_at": contents.created_at,
                "database": contents.database,
                "revision": contents.revision,
                "turns": contents.turns,
                "adapters": [adapter.name for adapter in contents.adapters],
                "left_out": contents.left_out,
                "bytes": contents.bytes,
                "seconds": round(time.monotonic() - began, 2),
            }
        )
        return
    megabytes = contents.bytes / 1e6
    console().print(
        f"{contents.turns} turns and {len(contents.adapters)} adapters, {megabytes:.1f} MB, {done} {path}",
        markup=False,
    )
    for name in contents.left_out:
        console().print(f"left out, since its folder is gone: {name}", markup=False)
