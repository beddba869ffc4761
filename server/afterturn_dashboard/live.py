"""A page's content, fetched again and again while somebody looks."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Generic, TypeVar

from nicegui import ui

from afterturn_dashboard.gateway import Fetch, Gateway, GatewayAway, KeyRefused, Refused
from afterturn_dashboard.visits import Visit, Visits

T = TypeVar("T")

EVERY_S = 2.0
# "5 min ago" grows old by itself.
REDRAW_S = 30.0


class Live(Generic[T]):
    """Fetches every two seconds; draws when something changed; says when the gateway is away.

    What was drawn last stays while the gateway is away. A key that it no longer takes ends the visit.
    """

    def __init__(
        self,
        visits: Visits,
        visit: Visit,
        gateway_url: str,
        fetch: Fetch[T],
        draw: Callable[["Live[T]", T], None],
    ) -> None:
        self._visits = visits
        self._visit = visit
        self._fetch = fetch
        self._draw = draw
        self._gateway = Gateway(gateway_url, visit.admin_key)
        self._last: T | None = None
        self._drawn_at: datetime | None = None
        ui.context.client.on_delete(self._gateway.close)
        with ui.element("div").classes("banner") as self._banner:
            ui.icon("cloud_off")
            self._trouble = ui.label("")
        self._banner.visible = False
        # Dialogs and messages live here: the content they were called from may be drawn anew meanwhile.
        self._overlay = ui.element("div")
        with ui.element("div").classes("content") as self._content, ui.element("div").classes("loading"):
            ui.spinner(size="2em")
            ui.label("Asking the gateway …")
        ui.timer(EVERY_S, self.refresh)

    async def refresh(self) -> None:
        """Fetch once, and show what came of it."""
        if not self._visits.holds(self._visit):
            ui.navigate.to("/login")
            return
        try:
            data = await self._fetch(self._gateway)
        except KeyRefused:
            self._visits.drop(self._visit)
            ui.navigate.to("/login")
        except GatewayAway as error:
            self._complain(f"The gateway at {self._gateway.url} does not answer ({error}). Trying again …")
        except Refused as error:
            self._complain(str(error))
        else:
            self._banner.visible = False
            self._show(data)

    async def act(self, deed: Callable[[Gateway], Awaitable[object]], done: str) -> None:
        """Ask the gateway to do something, say how it went, and look again."""
        with self._overlay:
            if not self._visits.holds(self._visit):
                ui.navigate.to("/login")
                return
            try:
                await deed(self._gateway)
            except (GatewayAway, KeyRefused, Refused) as error:
                ui.notify(f"Not done: {error}", type="negative", position="top")
            else:
                ui.notify(done, type="positive", position="top")
        await self.refresh()

    async def confirmed(self, title: str, text: str, verb: str, *, danger: bool = False) -> bool:
        """Whether a person says yes to a dialog."""
        with self._overlay, ui.dialog() as dialog, ui.element("div").classes("dialog"):
            ui.label(title).classes("h2")
            ui.label(text).classes("note")
            with ui.element("div").classes("row end"):
                ui.button("Leave it", on_click=lambda: dialog.submit(False)).props("flat no-caps")
                ui.button(verb, on_click=lambda: dialog.submit(True)).props("unelevated no-caps").classes(
                    "danger" if danger else ""
                )
        answer = await dialog
        dialog.delete()
        return answer is True

    def _show(self, data: T) -> None:
        now = datetime.now(UTC)
        aged = self._drawn_at is None or (now - self._drawn_at).total_seconds() >= REDRAW_S
        if data == self._last and not aged:
            return
        self._last, self._drawn_at = data, now
        self._content.clear()
        with self._content:
            self._draw(self, data)

    def _complain(self, trouble: str) -> None:
        self._trouble.text = trouble
        self._banner.visible = True
        if self._last is None:
            self._content.clear()
