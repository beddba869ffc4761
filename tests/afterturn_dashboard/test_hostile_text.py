"""Text from outside (field case B39) is shown, never run, wherever it may turn up."""

import pytest
from playwright.sync_api import expect
from tests.afterturn_dashboard.conftest import Watched
from tests.afterturn_dashboard.scripted_gateway import GATE, ScriptedGateway, a_round, an_adapter

from afterturn import JSONObject

pytestmark = pytest.mark.browser

HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "[x](javascript:alert(1))",
    '"><svg onload=alert(1)>',
    "a\u2028b",
    '=HYPERLINK("http://evil.example")',
    "{{constructor.constructor('alert(1)')()}}",
    "${alert(1)} `",
    ":onclick=alert(1)",
    "javascript:alert(1)",
)
MARKUP = "img[src='x'], svg[onload], a:not([href^='/']), a[href^='//'], [onerror], [onclick]"


ALL = " ".join(HOSTILE)


def hostile_round(text: str, state: str = "failed") -> JSONObject:
    """A round with `text` wherever somebody else's words could be."""
    return {
        **a_round(1, "failed"),
        "id": text,
        "agent": text,
        "objective": text,
        "adapter": text,
        "error": text,
        "state": state,
        "turn_ids": [text],
        "settings": {text: text},
        "metrics": {"loss": [1, 0.5], text: 3, "left_out": {text: 1}},
        "gate": {**GATE, "reasons": [text], text: {text: text}},
    }


@pytest.fixture
def hostile_gateway(gateway: ScriptedGateway) -> ScriptedGateway:
    """A gateway all of whose text is hostile: an agent, two rounds and two adapters for each text."""
    texts = (*HOSTILE, ALL)
    gateway.agents = [{"name": text, "live_adapter": text} for text in texts]
    gateway.rounds = [hostile_round(text) for text in texts]
    gateway.rounds += [{**hostile_round(text), "id": f"{text}2"} for text in texts]
    gateway.adapters = [
        {**an_adapter(2, 1, live=True), "agent": text, "name": text, "marks": [text], "sha256": text}
        for text in texts
    ]
    gateway.adapters += [
        {**an_adapter(1, None), "agent": text, "state": text, "round_id": text, "gate": {"reasons": [text]}}
        for text in texts
    ]
    gateway.stats = {
        "agents": [
            {"agent": text, "live_adapter": text, "turns": {text: 1}, "rounds": {text: 2}} for text in texts
        ],
        "engine": {"ok": True, "replicas": [True], "model": ALL},
    }
    return gateway


def shown(text: str) -> str:
    """How a browser shows `text` on one line."""
    return text.replace("\u2028", " ")


@pytest.mark.parametrize("path", ["/", "/rounds", "/adapters"])
def test_hostile_text_is_inert_on_every_page(
    window: Watched, hostile_gateway: ScriptedGateway, path: str
) -> None:
    window.visit(path)
    for text in HOSTILE:
        expect(window.page.locator(".h2", has_text=shown(text)).first).to_be_visible()
    assert window.page.locator(MARKUP).count() == 0


def test_hostile_text_is_inert_in_a_round(window: Watched, hostile_gateway: ScriptedGateway) -> None:
    hostile_gateway.rounds = [hostile_round(ALL, ALL), hostile_round(ALL, "published")]
    window.visit("/rounds")
    window.page.locator("td a").first.click()
    expect(window.page.get_by_text("Gate report")).to_be_visible()
    expect(window.page.locator(".banner.bad")).to_contain_text(shown(HOSTILE[0]))
    assert window.page.locator(MARKUP).count() == 0


def test_hostile_text_is_inert_in_messages_and_dialogs(
    window: Watched, hostile_gateway: ScriptedGateway
) -> None:
    window.visit("/adapters")
    window.page.get_by_role("button", name="Roll back to v1").first.click()
    expect(window.page.locator(".dialog")).to_contain_text(shown(HOSTILE[0]))
    assert window.page.locator(MARKUP).count() == 0
    hostile_gateway.refusal = ALL
    window.page.get_by_role("button", name="Roll back", exact=True).click()
    expect(window.page.locator(".q-notification")).to_contain_text(shown(HOSTILE[1]))
    assert window.page.locator(MARKUP).count() == 0
