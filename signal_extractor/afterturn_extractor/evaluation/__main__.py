"""How well a judge reads labelled next states.

python -m afterturn_extractor.evaluation FILE.jsonl [--judge rules|openai] [--report FILE.html] [--json]
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from sqlalchemy.exc import SQLAlchemyError

from afterturn_core.errors import SchemaError, SettingsError
from afterturn_core.logs import configure_logs
from afterturn_core.settings import load_settings
from afterturn_extractor.evaluation.judged import judge_rows
from afterturn_extractor.evaluation.judges import NAMES, Opened, opened
from afterturn_extractor.evaluation.lines import lines
from afterturn_extractor.evaluation.report import page
from afterturn_extractor.evaluation.rows import BadRow, read_rows
from afterturn_extractor.evaluation.score import score
from afterturn_extractor.model_judge.server import JudgeAway

DONE, FAILED, USAGE = 0, 1, 2
_TOLD_EVERY: Final = 100  # rows, where there is no terminal


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures and write the report; 1 if that failed, 2 for wrong usage or settings."""
    parser = argparse.ArgumentParser(prog="afterturn eval signals", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--judge", choices=NAMES, default=NAMES[0])
    parser.add_argument("--report", type=_html_file, help="a page with confusion matrices and disagreements")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    options = parser.parse_args(arguments)
    try:
        _evaluate(options.file, options.judge, options.report, as_json=options.json)
    except SettingsError as error:
        return _failed(error.message, USAGE)
    except JudgeAway as error:
        return _failed(f"{error.message}; no figures. What was answered is kept: run it again to go on.")
    except SchemaError as error:
        return _failed(error.message)
    except SQLAlchemyError as error:
        return _failed(f"evaluation.db in the data directory cannot be used: {type(error).__name__}")
    except (OSError, BadRow) as error:
        return _failed(str(error))
    return DONE


def _evaluate(file: Path, judge: str, report: Path | None, *, as_json: bool) -> None:
    """Raises what `main` tells apart; the report is begun only once every row is judged."""
    if report is not None and not report.parent.is_dir():
        raise FileNotFoundError(f"{report.parent} is no folder")
    settings = load_settings()
    configure_logs(settings.log_level)
    rows = read_rows(file)
    with opened(judge, settings) as ready, _progress(len(rows), ready) as advance:
        judged = judge_rows(rows, ready.judge, at_once=ready.at_once, done=advance)
    scores = score(judged)
    if report is not None:
        report.write_text(page(file.name, ready.title, scores, judged), encoding="utf-8")
    sys.stdout.write(scores.model_dump_json(exclude_none=True) + "\n" if as_json else lines(scores, judged))


@contextmanager
def _progress(total: int, ready: Opened) -> Iterator[Callable[[], None]]:
    """A bar on a terminal, a line for every hundred rows elsewhere; on standard error."""
    screen = Console(stderr=True, soft_wrap=True, highlight=False)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TimeElapsedColumn(), console=screen, transient=True, disable=not screen.is_terminal
    ) as bar:
        task = bar.add_task(ready.title, total=total)
        count = 0

        def advance() -> None:
            nonlocal count
            count += 1
            bar.advance(task)
            if ready.is_slow and not screen.is_terminal and count % _TOLD_EVERY == 0:
                screen.print(f"{count} of {total} rows judged", markup=False)

        yield advance


def _html_file(name: str) -> Path:
    path = Path(name)
    if path.suffix.casefold() not in (".html", ".htm"):
        raise argparse.ArgumentTypeError(f"{name}: a report is an HTML page, FILE.html")
    return path


def _failed(message: str, code: int = FAILED) -> int:
    sys.stderr.write(f"afterturn: {message}\n")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
