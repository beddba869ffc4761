"""What every page has around its content."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import get_args

from nicegui import ui

from afterturn_dashboard.visits import Theme, Visit

PAGES = (("Overview", "/"), ("Rounds", "/rounds"), ("Adapters", "/adapters"))
THEME_ICONS: dict[Theme, str] = {"auto": "brightness_auto", "light": "light_mode", "dark": "dark_mode"}
THEME_VALUES: dict[Theme, bool | None] = {"auto": None, "light": False, "dark": True}


@contextmanager
def frame(title: str, visit: Visit) -> Iterator[None]:
    """Header with navigation, theme and signing out; then the page."""
    ui.page_title(f"{title} · Afterturn")
    ui.colors(primary="#4f46e5", positive="#0f8a5f", negative="#c8324a", warning="#a15c00", dark="#181c28")
    dark = ui.dark_mode(THEME_VALUES[visit.theme])
    with ui.element("header").classes("top"), ui.element("div").classes("wide"):
        with ui.link(target="/").classes("brand"):
            ui.image("/static/afterturn.svg").props("no-spinner no-transition alt='' width=28px")
            ui.label("Afterturn")
        with ui.element("nav"):
            for name, path in PAGES:
                ui.link(name, path).classes("here" if name in {title, f"{title}s"} else "")
        with ui.element("div").classes("row end"):
            button = ui.button(icon=THEME_ICONS[visit.theme]).props("flat round dense aria-label='Colours'")
            with button:
                hint = ui.tooltip(f"Colours: {visit.theme}")

            def next_theme() -> None:
                themes: tuple[Theme, ...] = get_args(Theme)
                visit.theme = themes[(themes.index(visit.theme) + 1) % len(themes)]
                dark.value = THEME_VALUES[visit.theme]
                button.icon = THEME_ICONS[visit.theme]
                hint.text = f"Colours: {visit.theme}"

            button.on_click(next_theme)
            with (
                ui.element("form").props("method=post action=/logout"),
                ui.element("button").props("type=submit").classes("quiet"),
            ):
                ui.label("Sign out")
    with ui.element("div").classes("wide page"):
        ui.label(title).classes("h1")
        yield
