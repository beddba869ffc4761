"""Adapters: what each agent has learned, version by version, and the way back."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from nicegui import ui

from afterturn import Adapter, Agent
from afterturn_dashboard.gate_report import summary
from afterturn_dashboard.gateway import Gateway
from afterturn_dashboard.live import Live
from afterturn_dashboard.parts import ADAPTER_TONES, MARK_TONES, card, empty, pill, round_link
from afterturn_dashboard.words import ago, moment_text

BASE = 0  # stands for the base model among versions
MARK_MEANINGS = {
    "stale": "a signal it was trained on was withdrawn or contradicted",
    "tainted": "data it was trained on was erased; it can never be live",
}


@dataclass(frozen=True)
class AdapterList:
    """What the page shows."""

    agents: tuple[Agent, ...]
    adapters: tuple[Adapter, ...]


async def fetch_adapters(gateway: Gateway) -> AdapterList:
    """Ask for all of it at once."""
    agents, adapters = await asyncio.gather(gateway.agents(), gateway.adapters())
    return AdapterList(agents, adapters)


def of_agent(agent: str, adapters: Iterable[Adapter]) -> list[Adapter]:
    """An agent's adapters, newest first."""
    own = [each for each in adapters if each.name == f"{agent}@v{each.version}" or each.agent == agent]
    return sorted(own, key=lambda each: each.version, reverse=True)


def can_be_live(each: Adapter) -> bool:
    """Whether promoting is worth offering; the gateway has the last word."""
    return not each.live and each.state in {"published", "retired"} and "tainted" not in each.marks


def lineage(own: list[Adapter]) -> frozenset[int]:
    """The versions the live one descends from, itself included."""
    by_version = {each.version: each for each in own}
    found: set[int] = set()
    version = next((each.version for each in own if each.live), None)
    while version is not None and version not in found:
        found.add(version)
        version = by_version[version].parent if version in by_version else None
    return frozenset(found)


def draw_adapters(live: Live[AdapterList], seen: AdapterList) -> None:
    """The page's content."""
    if not seen.adapters:
        with card():
            empty(
                "No adapter yet: every agent serves the base model",
                "The first published round makes version 1. Each version is kept as it is, so any of them "
                "can be made live again.",
            )
        return
    for agent in seen.agents:
        _agent(live, agent.name, of_agent(agent.name, seen.adapters))


def _agent(live: Live[AdapterList], agent: str, own: list[Adapter]) -> None:
    current = next((each for each in own if each.live), None)
    descent = lineage(own)
    with card():
        with ui.element("div").classes("card-title"):
            ui.label(agent).classes("h2")
            pill(
                f"{current.name} is live" if current else "base model is live",
                "accent" if current else "soft",
            )
            with ui.element("div").classes("row end"):
                if current is not None:
                    ui.button(
                        f"Roll back to {_parent_name(current)}",
                        on_click=lambda: _rollback(live, agent, current),
                    ).props("outline no-caps dense")
        if not own:
            ui.label("Nothing learned yet.").classes("note")
        with ui.element("ol").classes("lineage"):
            for each in own:
                _version(live, each, current, each.version in descent)


def _version(live: Live[AdapterList], each: Adapter, current: Adapter | None, descends: bool) -> None:
    dot = "live" if each.live else "descent" if descends else "aside"
    with ui.element("li").classes(dot):
        with ui.element("div").classes("row"):
            ui.label(f"v{each.version}").classes("h3")
            if each.live:
                pill("live", "accent")
            if each.state:
                pill(each.state, ADAPTER_TONES.get(each.state, "soft"))
            for mark in each.marks:
                pill(mark, MARK_TONES.get(mark, "soft"), title=MARK_MEANINGS.get(mark, ""))
            with ui.element("div").classes("row end"):
                if can_be_live(each):
                    ui.button("Make live", on_click=lambda: _promote(live, each, current)).props(
                        "flat no-caps dense"
                    )
        with ui.element("div").classes("row note"):
            ui.label(f"from v{each.parent}" if each.parent is not None else "from the base model")
            with ui.label(ago(each.created_at, now=datetime.now(UTC))):
                ui.tooltip(moment_text(each.created_at))
            if each.sha256:
                ui.label(f"sha256 {each.sha256[:12]}").classes("mono")
            if each.round_id:
                ui.link("its round", round_link(each.round_id))
        if each.gate is not None:
            ui.label(summary(each.gate)).classes("note")


async def _promote(live: Live[AdapterList], each: Adapter, current: Adapter | None) -> None:
    now = current.name if current else "the base model"
    if await live.confirmed(
        f"Make {each.name} live?",
        f"New requests go to {each.name} instead of {now}. Requests in flight finish where they started.",
        "Make it live",
    ):
        await live.act(lambda gateway: gateway.promote(each.name), f"{each.name} is live.")


async def _rollback(live: Live[AdapterList], agent: str, current: Adapter) -> None:
    if await live.confirmed(
        f"Roll {agent} back to {_parent_name(current)}?",
        f"New requests go to {_parent_name(current)} instead of v{current.version}, which stays and can be "
        "made live again. A round that is running now will not be published over it.",
        "Roll back",
        danger=True,
    ):
        await live.act(
            lambda gateway: gateway.rollback(agent, current.parent or BASE),
            f"{agent} is back on {_parent_name(current)}.",
        )


def _parent_name(current: Adapter) -> str:
    return "the base model" if current.parent is None else f"v{current.parent}"
