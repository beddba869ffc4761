import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect, sync_playwright
from tests.afterturn_dashboard.scripted_gateway import ADMIN_KEY, ScriptedGateway, free_port

CHROMIUM = Path("/usr/bin/chromium")
# A busy machine is slow, not wrong.
PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="session")
def running_gateway() -> Iterator[ScriptedGateway]:
    with ScriptedGateway() as gateway:
        yield gateway


@pytest.fixture
def gateway(running_gateway: ScriptedGateway) -> ScriptedGateway:
    """The gateway of `dashboard_url`, learned for a while."""
    running_gateway.lived_in()
    return running_gateway


def start_dashboard(gateway_url: str, folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    """A dashboard process that answers."""
    port = free_port()
    command = [sys.executable, "-m", "afterturn_dashboard", "--port", str(port), "--gateway", gateway_url]
    process = subprocess.Popen(command, cwd=folder)
    url = f"http://127.0.0.1:{port}"
    while True:
        assert process.poll() is None, "the dashboard ended while it should start"
        try:
            httpx.get(f"{url}/login")
        except httpx.TransportError:
            time.sleep(0.05)
        else:
            return process, url


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process that a test started."""
    process.terminate()
    process.wait()


@pytest.fixture(scope="session")
def dashboard_url(
    running_gateway: ScriptedGateway, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    process, url = start_dashboard(running_gateway.url, tmp_path_factory.mktemp("dashboard"))
    yield url
    stop(process)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if not CHROMIUM.exists():
        pytest.skip("needs Chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--headless", "--disable-gpu"]
        )
        yield browser
        browser.close()


@dataclass
class Watched:
    """A browser window that must stay quiet: no console error, no dialog, no request off the machine."""

    page: Page
    url: str
    complaints: list[str] = field(default_factory=list)

    def visit(self, path: str) -> None:
        self.page.goto(self.url + path)

    def sign_in(self) -> None:
        self.visit("/login")
        self.page.get_by_label("Admin key").fill(ADMIN_KEY)
        self.page.get_by_role("button", name="Sign in").click()
        self.page.wait_for_url(f"{self.url}/")


def watched(context: BrowserContext, url: str) -> Watched:
    """A window in `context` on the dashboard at `url`."""
    context.set_default_timeout(PATIENCE_MS)
    window = Watched(context.new_page(), url)

    def route(asked: Route) -> None:
        if asked.request.url.startswith((f"{url}/", "data:")):
            asked.continue_()
        else:
            window.complaints.append(f"asked for {asked.request.url}")
            asked.abort()

    context.route("**/*", route)
    window.page.on(
        "console",
        lambda message: (
            window.complaints.append(message.text) if message.type in {"error", "warning"} else None
        ),
    )
    window.page.on("pageerror", lambda error: window.complaints.append(str(error)))
    window.page.on("dialog", lambda dialog: window.complaints.append(f"dialog {dialog.message}"))
    return window


@pytest.fixture
def window(browser: Browser, dashboard_url: str, gateway: ScriptedGateway) -> Iterator[Watched]:
    """A signed-in window; complaints fail the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    window = watched(context, dashboard_url)
    window.sign_in()
    yield window
    context.close()
    assert window.complaints == []
