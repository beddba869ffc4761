"""Pieces of pages. Text always goes through `ui.label`, which shows it and never runs it.

Nothing that came from outside may become a prop, a class or HTML: props that start with a colon are code.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal
from urllib.parse import quote

from nicegui import ui

Tone = Literal["good", "bad", "warn", "calm", "soft", "accent"]

ROUND_TONES: dict[str, Tone] = {
    "published": "good",
    "rejected": "warn",
    "failed": "bad",
    "cancelled": "soft",
    "claimed": "calm",
    "training": "calm",
    "gating": "calm",
}
ADAPTER_TONES: dict[str, Tone] = {
    "published": "good",
    "candidate": "calm",
    "rejected": "warn",
    "retired": "soft",
}
MARK_TONES: dict[str, Tone] = {"stale": "warn", "tainted": "bad"}


def pill(text: str, tone: Tone = "soft", *, title: str = "") -> None:
    """A short state, with an explanation on hovering."""
    with ui.element("span").classes(f"pill {tone}"):
        ui.label(text)
        if title:
            ui.tooltip(title)


def metric(label: str, value: str, note: str = "", tone: Tone | None = None) -> None:
    """One big figure."""
    with ui.element("div").classes("card metric"):
        ui.label(label).classes("label")
        ui.label(value).classes(f"value {tone or ''}")
        ui.label(note).classes("note")


@contextmanager
def card(title: str = "", note: str = "") -> Iterator[None]:
    """A surface with a title."""
    with ui.element("section").classes("card"):
        if title:
            with ui.element("div").classes("card-title"):
                ui.label(title).classes("h2")
                if note:
                    ui.label(note).classes("note")
        yield


def empty(title: str, text: str, code: str = "") -> None:
    """What to do where there is nothing to see yet."""
    with ui.element("div").classes("empty"):
        ui.label(title).classes("h2")
        ui.label(text).classes("note")
        if code:
            with ui.element("pre"):
                ui.label(code)


@contextmanager
def table(*headers: str) -> Iterator[None]:
    """A table whose rows are `row` blocks."""
    with ui.element("div").classes("scroll"), ui.element("table"):
        with ui.element("thead"), ui.element("tr"):
            for header in headers:
                with ui.element("th"):
                    ui.label(header)
        with ui.element("tbody"):
            yield


@contextmanager
def cell(classes: Literal["", "number", "actions", "mono"] = "") -> Iterator[None]:
    """A cell of a row."""
    with ui.element("td").classes(classes):
        yield


def text_cell(text: str, classes: Literal["", "number", "actions", "mono"] = "") -> None:
    """A cell of text."""
    with cell(classes):
        ui.label(text)


def facts(*pairs: tuple[str, str]) -> None:
    """Names and values, side by side as they fit."""
    with ui.element("dl").classes("facts"):
        for name, value in pairs:
            with ui.element("div"):
                with ui.element("dt"):
                    ui.label(name)
                with ui.element("dd"):
                    ui.label(value)


def round_link(round_id: str) -> str:
    """The page of a round."""
    return f"/rounds/{quote(round_id, safe='')}"


def stacked_bar(*parts: tuple[int, Tone | None]) -> None:
    """Shares of a whole, side by side; the widths are ours, computed from counts."""
    whole = sum(count for count, _ in parts) or 1
    with ui.element("div").classes("bar"):
        for count, tone in parts:
            if count and tone:
                ui.element("i").classes(tone).style(f"width:{100 * count / whole:.2f}%")
