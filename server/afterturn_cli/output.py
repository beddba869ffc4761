"""How the CLI speaks: tables for people, JSON for programs, errors that say what to do next."""

import dataclasses
import json
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice
from typing import Annotated, ClassVar, Protocol

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

DONE, FAILED, USAGE = 0, 1, 2

JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
LimitOption = Annotated[int, typer.Option("--limit", min=1, help="How many to show.")]


class Record(Protocol):
    """A dataclass of the SDK."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[object]]]


def console() -> Console:
    """Standard output as it is now."""
    return Console(soft_wrap=True)


def error_console() -> Console:
    """Standard error as it is now: for what is not a result."""
    return Console(stderr=True, soft_wrap=True, highlight=False)


def say_error(message: str) -> None:
    """One message on standard error."""
    error_console().print(f"afterturn: {message}", markup=False)


def print_json(value: object) -> None:
    """One JSON document on standard output."""
    sys.stdout.write(json.dumps(value, default=_plain, ensure_ascii=False) + "\n")


def print_listing(
    records: Iterable[Record], columns: Sequence[str], *, limit: int, as_json: bool, empty: str
) -> None:
    """The first `limit` records: as `{"data": […]}`, or the named fields as a table."""
    shown = list(islice(records, limit))
    if as_json:
        print_json({"data": [dataclasses.asdict(record) for record in shown]})
        return
    if not shown:
        console().print(empty, markup=False)
        return
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column.replace("_", " "), overflow="fold")
    for record in shown:
        table.add_row(*(escape(cell(getattr(record, column))) for column in columns))
    console().print(table)


def print_record(record: Record, *, as_json: bool) -> None:
    """Every field of one record."""
    if as_json:
        print_json(dataclasses.asdict(record))
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if value not in (None, (), "", [], {}):
            table.add_row(field.name.replace("_", " "), escape(cell(value)))
    console().print(table)


def cell(value: object) -> str:
    """A value as a cell of a table."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case datetime():
            return value.strftime("%Y-%m-%d %H:%M:%S")
        case str() | int() | float():
            return str(value)
        case tuple() | list() if all(isinstance(item, str) for item in value):
            return ", ".join(str(item) for item in value) or "-"
        case dict():
            return ", ".join(f"{name} {cell(item)}" for name, item in value.items()) or "-"
        case _:
            return json.dumps(value, default=_plain, ensure_ascii=False)


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
