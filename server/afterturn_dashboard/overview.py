"""Overview: how each agent does, and what waits."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime

from nicegui import ui

from afterturn import AgentStats, Round, Stats
from afterturn_dashboard.gateway import Dependency, Gateway
from afterturn_dashboard.live import Live
from afterturn_dashboard.parts import (
    ROUND_TONES,
    card,
    cell,
    empty,
    metric,
    pill,
    round_link,
    stacked_bar,
    table,
)
from afterturn_dashboard.parts import text_cell as text
from afterturn_dashboard.stats import verdicts
from afterturn_dashboard.words import ago, share, short

RECENT = 6


@dataclass(frozen=True)
class Overview:
    """What the page shows."""

    stats: Stats
    rounds: tuple[Round, ...]
    dependencies: tuple[Dependency, ...]


async def fetch_overview(gateway: Gateway) -> Overview:
    """Ask for all of it at once."""
    stats, rounds, dependencies = await asyncio.gather(
        gateway.stats(), gateway.rounds(), gateway.dependencies()
    )
    return Overview(stats, rounds, dependencies)


def draw_overview(live: Live[Overview], seen: Overview, gateway_url: str) -> None:
    """The page's content."""
    _metrics(seen)
    if not any(agent.turns for agent in seen.stats.agents):
        _first_steps(seen, gateway_url)
    for agent in seen.stats.agents:
        _agent(live, agent)
    _recent_rounds(seen.rounds)


def _metrics(seen: Overview) -> None:
    agents = seen.stats.agents
    counted = verdicts(agents)
    waiting = sum(agent.waiting_signals for agent in agents)
    turns = sum(sum(agent.turns.values()) for agent in agents)
    rounds = sum(sum(agent.rounds.values()) for agent in agents)
    running = sum(agent.running_round is not None for agent in agents)
    with ui.element("div").classes("metrics"):
        metric("Agents", str(len(agents)), f"{turns} turns recorded")
        metric("Signals waiting", str(waiting), _unbelieved(seen.stats.waiting_texts))
        metric(
            "Satisfied",
            share(counted.good, counted.decided),
            f"{counted.good} of {counted.decided} verdicts" if counted.decided else "no verdict yet",
        )
        metric(
            "Rounds",
            str(rounds),
            f"{running} running now"
            if running
            else f"{sum(agent.rounds.get('published', 0) for agent in agents)} published",
        )
        _system(seen)


def _unbelieved(count: int) -> str:
    if not count:
        return "judged, not yet trained"
    return f"and {count} {'text' if count == 1 else 'texts'} to be believed"


def _system(seen: Overview) -> None:
    broken = [part for part in seen.dependencies if not part.ready]
    engine = seen.stats.engine
    if broken:
        metric("System", "Degraded", ", ".join(f"{part.name} is not ready" for part in broken), "bad")
    elif engine is not None and not all(engine.replicas):
        up = sum(engine.replicas)
        metric("System", "Degraded", f"{up} of {len(engine.replicas)} engines answer", "bad")
    else:
        metric(
            "System",
            "Ready",
            f"model {engine.model}" if engine and engine.model else "engine and database answer",
            "good",
        )


def _first_steps(seen: Overview, gateway_url: str) -> None:
    name = seen.stats.agents[0].agent if seen.stats.agents else "default"
    with card():
        empty(
            "No turn yet: say something to your agent",
            "Point any OpenAI-compatible program at the gateway and keep using it. What happens after each "
            "reply becomes a signal, and enough signals start a round.",
            f"curl {gateway_url}/v1/chat/completions \\\n"
            '  -H "Authorization: Bearer $AFTERTURN_API_KEY" \\\n'
            '  -H "Content-Type: application/json" \\\n'
            f'  -d \'{{"model": "{name}", "messages": [{{"role": "user", "content": "Hello"}}]}}\'',
        )


def _agent(live: Live[Overview], agent: AgentStats) -> None:
    with card():
        with ui.element("div").classes("card-title"):
            ui.label(agent.agent).classes("h2")
            pill(
                agent.live_adapter or "base model",
                "accent" if agent.live_adapter else "soft",
                title="live now",
            )
            if agent.frozen:
                pill("frozen", "warn", title="serves, never trains")
            with ui.element("div").classes("row end"):
                if agent.running_round:
                    ui.link("A round is running …", round_link(agent.running_round)).classes("running")
                else:
                    button = ui.button(
                        "Train now",
                        on_click=lambda: live.act(
                            lambda gateway: gateway.train(agent.agent),
                            f"A round of {agent.agent} has started.",
                        ),
                    ).props("outline no-caps dense")
                    button.enabled = agent.waiting_signals > 0 and not agent.frozen
                    if agent.waiting_signals == 0:
                        with button:
                            ui.tooltip("no signal waits")
        with ui.element("div").classes("columns"):
            with ui.element("div"):
                ui.label("Verdicts").classes("label")
                counted = verdicts([agent])
                stacked_bar((counted.good, "good"), (counted.neutral, "soft"), (counted.bad, "bad"))
                ui.label(
                    f"{counted.good} good · {counted.neutral} neutral · {counted.bad} bad"
                    f" · {counted.none} without"
                ).classes("note")
                ui.label(_disagreement(agent)).classes("note")
            with ui.element("div"):
                ui.label("Towards the next round").classes("label")
                waiting, needed = agent.waiting_signals, agent.min_signals or 1
                stacked_bar((min(waiting, needed), "accent"), (max(0, needed - waiting), None))
                ui.label(f"{waiting} of {needed} signals").classes("note")
            with ui.element("div"):
                ui.label("Rounds").classes("label")
                with ui.element("div").classes("row pills"):
                    for state, count in agent.rounds.items():
                        if count:
                            pill(f"{count} {state}", ROUND_TONES.get(state, "soft"))
                    if not any(agent.rounds.values()):
                        ui.label("none yet").classes("note")


def _disagreement(agent: AgentStats) -> str:
    """How often feedback, outcomes, judge and rules contradict one another about a turn."""
    signals = sum(agent.signals.values())
    if not signals:
        return "no signal yet"
    return f"sources disagree on {agent.disagreements} ({share(agent.disagreements, signals)})"


def _recent_rounds(rounds: tuple[Round, ...]) -> None:
    if not rounds:
        return
    now = datetime.now(UTC)
    with card("Latest rounds"), table("Round", "Agent", "State", "Turns", "Adapter", "Finished"):
        for each in rounds[:RECENT]:
            with ui.element("tr"):
                with cell("mono"):
                    ui.link(short(each.id), round_link(each.id))
                text(each.agent or "–")
                with cell():
                    pill(each.state, ROUND_TONES.get(each.state, "soft"))
                text(str(len(each.turn_ids)), "number")
                text(each.adapter or "–", "mono")
                text(ago(each.finished_at, now=now) if each.ended else "running")
