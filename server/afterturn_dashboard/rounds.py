"""Rounds: what was trained, how it went, and what the gate said."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime

from nicegui import ui

from afterturn import Agent, Round
from afterturn_dashboard.charts import Line, last_number, line_chart, numbers
from afterturn_dashboard.gateway import Gateway
from afterturn_dashboard.live import Live
from afterturn_dashboard.parts import ROUND_TONES, card, cell, empty, pill, round_link, table
from afterturn_dashboard.parts import text_cell as text
from afterturn_dashboard.words import ago, figure, lasting, short


@dataclass(frozen=True)
class RoundList:
    """What the page shows."""

    agents: tuple[Agent, ...]
    rounds: tuple[Round, ...]


async def fetch_rounds(gateway: Gateway) -> RoundList:
    """Ask for all of it at once."""
    agents, rounds = await asyncio.gather(gateway.agents(), gateway.rounds())
    return RoundList(agents, rounds)


def draw_rounds(live: Live[RoundList], seen: RoundList) -> None:
    """The page's content."""
    _start_buttons(live, seen)
    if not seen.rounds:
        with card():
            empty(
                "No round yet",
                "A round starts by itself once enough signals wait; “Train now” starts one on what there is. "
                "Signals come from talking to an agent and telling it how it did.",
            )
        return
    for agent in seen.agents:
        _curve(agent.name, [each for each in seen.rounds if each.agent == agent.name])
    _table(live, seen.rounds)


def metric_of(each: Round, name: str) -> float | None:
    """The last figure of one of a round's metrics."""
    return last_number(each.metrics.get(name)) if isinstance(each.metrics, dict) else None


async def cancel(live: Live[RoundList] | Live[Round], each: Round) -> None:
    """Cancel a round once a person has said yes."""
    if await live.confirmed(
        "Cancel this round?",
        f"Round {short(each.id)} of {each.agent} stops, its turns go back to those that wait, "
        "and the live adapter stays what it is.",
        "Cancel the round",
        danger=True,
    ):
        await live.act(lambda gateway: gateway.cancel(each.id), "The round is being cancelled.")


def _start_buttons(live: Live[RoundList], seen: RoundList) -> None:
    busy = {each.agent for each in seen.rounds if not each.ended}
    with ui.element("div").classes("row tools"):
        for agent in seen.agents:
            button = ui.button(
                f"Train {agent.name} now",
                on_click=lambda name=agent.name: live.act(
                    lambda gateway: gateway.train(name), f"A round of {name} has started."
                ),
            ).props("unelevated no-caps")
            button.enabled = agent.name not in busy and not agent.frozen
            with button:
                if agent.name in busy:
                    ui.tooltip("a round is running")
                elif agent.frozen:
                    ui.tooltip("this agent is frozen")


def _curve(name: str, rounds: list[Round]) -> None:
    told = [each for each in reversed(rounds) if metric_of(each, "loss") is not None]
    if len(told) < 2:
        return
    with card(f"{name}, round by round", "last loss of each round, and distance (KL) to the base model"):
        labels = [each.adapter or short(each.id) for each in told]
        loss = [metric_of(each, "loss") for each in told]
        kl = [metric_of(each, "kl") for each in told]
        ui.echart(line_chart(labels, [Line("loss", loss), Line("KL to base", kl, right=True)])).classes(
            "chart"
        )


def _table(live: Live[RoundList], rounds: tuple[Round, ...]) -> None:
    now = datetime.now(UTC)
    with (
        card("All rounds"),
        table(
            "Round", "Agent", "State", "Objective", "Turns", "Loss", "KL", "Adapter", "Started", "Took", ""
        ),
    ):
        for each in rounds:
            with ui.element("tr"):
                with cell("mono"):
                    ui.link(short(each.id), round_link(each.id))
                text(each.agent or "–")
                with cell():
                    pill(each.state, ROUND_TONES.get(each.state, "soft"), title=each.error or "")
                text(each.objective or "–")
                text(str(len(each.turn_ids)), "number")
                text(_loss_text(each), "number")
                text(_figure_or_dash(metric_of(each, "kl")), "number")
                text(each.adapter or "–", "mono")
                text(ago(each.started_at, now=now))
                text(lasting(each.started_at, each.finished_at, now=now))
                with cell("actions"):
                    if not each.ended:
                        ui.button("Cancel", on_click=lambda each=each: cancel(live, each)).props(
                            "flat dense no-caps"
                        )


def _loss_text(each: Round) -> str:
    series = numbers(each.metrics.get("loss")) if isinstance(each.metrics, dict) else ()
    told = [number for number in series if number is not None]
    if not told:
        return "–"
    return figure(told[0]) if len(told) == 1 else f"{figure(told[0])} → {figure(told[-1])}"


def _figure_or_dash(value: float | None) -> str:
    return "–" if value is None else figure(value)
