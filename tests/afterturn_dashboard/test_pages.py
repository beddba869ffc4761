"""The pages in a real browser; `window` fails a test on any console error or request off the machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, expect
from tests.afterturn_dashboard.conftest import Watched, start_dashboard, stop, watched
from tests.afterturn_dashboard.scripted_gateway import (
    ADMIN_KEY,
    ScriptedGateway,
    a_round,
    an_adapter,
    free_port,
)

pytestmark = pytest.mark.browser

ROUND_3 = "round_01jdzk3v8q2m4n6p8r0s0003"


def metric(window: Watched, label: str) -> Locator:
    """The card of one big figure."""
    return window.page.locator(".metric", has=window.page.get_by_text(label, exact=True))


def test_overview_shows_how_agents_do(window: Watched) -> None:
    expect(metric(window, "Satisfied")).to_contain_text("46 %")
    expect(metric(window, "Satisfied")).to_contain_text("12 of 26 verdicts")
    expect(metric(window, "Signals waiting")).to_contain_text("5")
    expect(metric(window, "System")).to_contain_text("Ready")
    expect(window.page.get_by_text("default@v4").first).to_be_visible()
    expect(window.page.get_by_text("12 good · 3 neutral · 14 bad · 4 without")).to_be_visible()
    expect(window.page.get_by_text("5 of 8 signals")).to_be_visible()
    frozen = window.page.locator(".card", has_text="support")
    expect(frozen.get_by_text("frozen")).to_be_visible()
    expect(frozen.get_by_role("button", name="Train now")).to_be_disabled()


def test_a_fresh_install_says_what_to_do(window: Watched, gateway: ScriptedGateway) -> None:
    gateway.fresh()
    window.visit("/")
    expect(window.page.get_by_text("No turn yet: say something to your agent")).to_be_visible()
    expect(window.page.get_by_text(f"curl {gateway.url}/v1/chat/completions")).to_be_visible()
    window.visit("/rounds")
    expect(window.page.get_by_text("No round yet")).to_be_visible()
    window.visit("/adapters")
    expect(window.page.get_by_text("No adapter yet")).to_be_visible()


def test_training_starts_and_shows_by_itself(window: Watched, gateway: ScriptedGateway) -> None:
    window.page.get_by_role("link", name="Rounds").click()
    button = window.page.get_by_role("button", name="Train default now")
    button.click()
    expect(window.page.get_by_text("A round of default has started.")).to_be_visible()
    expect(window.page.locator("tr", has_text="training")).to_be_visible()
    expect(button).to_be_disabled()
    assert gateway.changes == ["rounds {'agent': 'default'}"]
    # Nobody clicks: the page follows what happens.
    gateway.rounds = [a_round(6, "published"), *gateway.rounds[1:]]
    expect(window.page.locator("tr", has_text="default@v6")).to_be_visible()
    expect(button).to_be_enabled()


def test_a_refused_start_says_why(window: Watched, gateway: ScriptedGateway) -> None:
    gateway.refusal = "no signal of default waits"
    window.visit("/rounds")
    window.page.get_by_role("button", name="Train default now").click()
    expect(window.page.get_by_text("Not done: no signal of default waits")).to_be_visible()


def test_cancelling_asks_first(window: Watched, gateway: ScriptedGateway) -> None:
    running = a_round(6, "training")
    gateway.rounds = [running, *gateway.rounds]
    window.visit("/rounds")
    cancel = window.page.locator("tr", has_text="training").get_by_role("button", name="Cancel")
    cancel.click()
    window.page.get_by_role("button", name="Leave it").click()
    expect(window.page.get_by_text("Cancel this round?")).to_be_hidden()
    assert gateway.changes == []
    cancel.click()
    window.page.get_by_role("button", name="Cancel the round").click()
    expect(window.page.locator("tr", has_text="cancelled")).to_be_visible()
    assert gateway.changes == [f"rounds/{running['id']}/cancel {{}}"]


def test_a_round_is_plotted_and_its_gate_report_readable(window: Watched) -> None:
    window.visit("/rounds")
    expect(window.page.get_by_text("default, round by round")).to_be_visible()
    expect(window.page.locator("canvas").first).to_be_visible()
    window.page.get_by_role("link", name="…p8r0s0003").click()
    window.page.wait_for_url(f"**/rounds/{ROUND_3}")
    expect(window.page.get_by_text("Refused: probes solved fell from 0.650 to 0.583.")).to_be_visible()
    expect(window.page.get_by_text("too few to decide")).to_be_visible()
    expect(window.page.get_by_text("Course of training")).to_be_visible()
    expect(window.page.locator("canvas").first).to_be_visible()


def test_a_failed_round_shows_its_reason_and_an_unknown_one_is_said(window: Watched) -> None:
    window.visit("/rounds/round_01jdzk3v8q2m4n6p8r0s0005")
    expect(window.page.get_by_text("loss became NaN in update 3")).to_be_visible()
    window.visit("/rounds/nothing")
    expect(window.page.get_by_text("no such round")).to_be_visible()


def test_rolling_back_asks_first_and_moves_the_live_mark(window: Watched, gateway: ScriptedGateway) -> None:
    window.page.get_by_role("link", name="Adapters").click()
    live = window.page.locator("li", has=window.page.locator(".pill", has_text="live"))
    expect(live).to_contain_text("v4")
    window.page.get_by_role("button", name="Roll back to v2").click()
    expect(window.page.get_by_text("New requests go to v2 instead of v4")).to_be_visible()
    window.page.get_by_role("button", name="Roll back", exact=True).click()
    expect(window.page.get_by_text("default is back on v2.")).to_be_visible()
    expect(live).to_contain_text("v2")
    assert gateway.changes == ["agents/default/rollback {'to': 2}"]


def test_the_first_version_rolls_back_to_the_base_model(window: Watched, gateway: ScriptedGateway) -> None:
    gateway.adapters = [an_adapter(1, None, live=True)]
    window.visit("/adapters")
    window.page.get_by_role("button", name="Roll back to the base model").click()
    window.page.get_by_role("button", name="Roll back", exact=True).click()
    expect(window.page.get_by_text("base model is live").first).to_be_visible()
    assert gateway.changes == ["agents/default/rollback {'to': 0}"]


def test_promoting_asks_first(window: Watched, gateway: ScriptedGateway) -> None:
    gateway.adapters = [*gateway.adapters[:3], {**an_adapter(1, None), "marks": ["stale"]}]
    window.visit("/adapters")
    rejected, first = (window.page.locator("li", has_text=name) for name in ("v3", "v1"))
    expect(first.get_by_text("stale")).to_be_visible()
    expect(rejected.get_by_role("button")).to_have_count(0)
    window.page.locator("li", has=window.page.get_by_text("v1", exact=True)).get_by_role(
        "button", name="Make live"
    ).click()
    window.page.get_by_role("button", name="Make it live").click()
    expect(window.page.get_by_text("default@v1 is live.")).to_be_visible()
    assert gateway.changes == ["adapters/default@v1/promote {}"]


def test_colours_follow_the_choice(window: Watched) -> None:
    body = window.page.locator("body")
    colours = window.page.get_by_role("button", name="Colours")
    colours.click()
    expect(body).to_contain_class("body--light")
    colours.click()
    expect(body).to_contain_class("body--dark")
    window.visit("/adapters")
    expect(body).to_contain_class("body--dark")


def test_signing_out_leaves_every_tab(window: Watched) -> None:
    other = window.page.context.new_page()
    other.goto(f"{window.url}/adapters")
    expect(other.get_by_text("default@v4 is live")).to_be_visible()
    window.page.get_by_role("button", name="Sign out").click()
    window.page.wait_for_url(f"{window.url}/login")
    other.wait_for_url(f"{window.url}/login")


@pytest.fixture
def alone(browser: Browser, tmp_path: Path) -> Iterator[tuple[Watched, int]]:
    """A window on a dashboard whose gateway, at this port, comes and goes."""
    port = free_port()
    process, url = start_dashboard(f"http://127.0.0.1:{port}", tmp_path)
    context = browser.new_context()
    window = watched(context, url)
    yield window, port
    context.close()
    stop(process)
    assert window.complaints == []


def test_an_absent_gateway_is_said_and_its_return_noticed(alone: tuple[Watched, int]) -> None:
    window, port = alone
    with ScriptedGateway(port) as gateway:
        gateway.lived_in()
        window.sign_in()
        expect(window.page.get_by_text("46 %")).to_be_visible()
    banner = window.page.get_by_text(f"The gateway at http://127.0.0.1:{port} does not answer")
    expect(banner).to_be_visible()
    expect(window.page.get_by_text("46 %")).to_be_visible()
    with ScriptedGateway(port) as gateway:
        gateway.lived_in()
        expect(banner).to_be_hidden()


def test_a_degraded_system_and_a_revoked_key(window: Watched, gateway: ScriptedGateway) -> None:
    gateway.ready = {"ready": False, "database": {"ok": True}, "engine": {"ok": False}}
    expect(metric(window, "System")).to_contain_text("engine is not ready")
    gateway.admin_key = "another"
    try:
        window.page.wait_for_url(f"{window.url}/login")
    finally:
        gateway.admin_key = ADMIN_KEY
