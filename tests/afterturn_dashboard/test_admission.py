"""What the dashboard lets in, asked over HTTP as a browser or an attacker would."""

import os
import re
import subprocess
import sys
from http.client import HTTPConnection
from http.cookies import SimpleCookie
from pathlib import Path

import httpx
import pytest
from tests.afterturn_dashboard.conftest import start_dashboard, stop
from tests.afterturn_dashboard.scripted_gateway import ADMIN_KEY, ScriptedGateway, free_port

from afterturn_dashboard.admission import COOKIE

PAGES = ("/", "/rounds", "/rounds/r1", "/adapters")
SOCKET = "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"


def sign_in(url: str) -> str:
    """A session cookie."""
    reply = httpx.post(f"{url}/login", data={"key": ADMIN_KEY}, headers={"origin": url})
    assert reply.status_code == 303
    return reply.cookies[COOKIE]


def test_signing_in_gives_a_cookie_that_scripts_and_other_sites_never_see(
    dashboard_url: str, gateway: ScriptedGateway
) -> None:
    reply = httpx.post(
        f"{dashboard_url}/login", data={"key": f" {ADMIN_KEY}\n"}, headers={"origin": dashboard_url}
    )
    assert (reply.status_code, reply.headers["location"]) == (303, "/")
    morsel = SimpleCookie(reply.headers["set-cookie"])[COOKIE]
    assert morsel["httponly"] is True
    assert morsel["samesite"] == "strict"
    assert ADMIN_KEY not in reply.headers["set-cookie"]
    page = httpx.get(dashboard_url, headers={"cookie": f"{COOKIE}={morsel.value}"})
    assert page.status_code == 200
    assert ADMIN_KEY not in page.text


@pytest.mark.parametrize(
    ("key", "status", "says"),
    [
        ("at-wrong", 403, "does not take this key"),
        ("", 400, "Enter the admin key"),
        ("two words é", 403, "does not take this key"),
    ],
)
def test_a_wrong_key_signs_nobody_in(
    dashboard_url: str, gateway: ScriptedGateway, key: str, status: int, says: str
) -> None:
    reply = httpx.post(f"{dashboard_url}/login", data={"key": key}, headers={"origin": dashboard_url})
    assert reply.status_code == status
    assert says in reply.text
    assert "set-cookie" not in reply.headers


def test_signing_out_ends_the_visit(dashboard_url: str, gateway: ScriptedGateway) -> None:
    cookie = f"{COOKIE}={sign_in(dashboard_url)}"
    headers = {"cookie": cookie, "origin": dashboard_url}
    assert httpx.post(f"{dashboard_url}/logout", headers=headers).status_code == 303
    assert httpx.get(dashboard_url, headers={"cookie": cookie}).status_code == 303


@pytest.mark.parametrize("path", [*PAGES, "/nothing-here"])
def test_a_stranger_is_sent_to_sign_in(dashboard_url: str, path: str) -> None:
    reply = httpx.get(dashboard_url + path, headers={"cookie": f"{COOKIE}=guess"})
    assert (reply.status_code, reply.headers["location"]) == (303, "/login")


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:30001", "127.0.0.1.evil.example", "localhost."]
)
@pytest.mark.parametrize("path", ["/login", "/", "/static/tokens.css"])
def test_a_rebound_name_gets_nothing(dashboard_url: str, host: str, path: str) -> None:
    reply = httpx.get(dashboard_url + path, headers={"host": host})
    assert reply.status_code == 421
    assert "Afterturn" not in reply.text


@pytest.mark.parametrize("origin", ["http://evil.example", "null", None])
@pytest.mark.parametrize("path", ["/login", "/logout", "/"])
def test_another_sites_form_changes_nothing(
    dashboard_url: str, gateway: ScriptedGateway, path: str, origin: str | None
) -> None:
    token = sign_in(dashboard_url)
    headers = {"cookie": f"{COOKIE}={token}", "content-type": "text/plain"}
    if origin:
        headers["origin"] = origin
    reply = httpx.post(dashboard_url + path, content="key=x", headers=headers)
    assert reply.status_code == 403
    assert httpx.get(dashboard_url, headers={"cookie": f"{COOKIE}={token}"}).status_code == 200


@pytest.mark.parametrize(
    "path", ["/logout", "/train", "/rounds?train=default", "/adapters/default@v1/promote"]
)
def test_reading_never_changes_anything(dashboard_url: str, gateway: ScriptedGateway, path: str) -> None:
    cookie = f"{COOKIE}={sign_in(dashboard_url)}"
    httpx.get(dashboard_url + path, headers={"cookie": cookie})
    assert gateway.changes == []
    assert httpx.get(dashboard_url, headers={"cookie": cookie}).status_code == 200


def upgrade(url: str, headers: dict[str, str]) -> int:
    """The status with which the dashboard answers somebody who wants its socket."""
    asked = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    connection = HTTPConnection(url.removeprefix("http://"))
    try:
        connection.request("GET", SOCKET, headers={**asked, **headers})
        return connection.getresponse().status
    finally:
        connection.close()


def test_the_socket_is_ours_alone(dashboard_url: str, gateway: ScriptedGateway) -> None:
    cookie = {"Cookie": f"{COOKIE}={sign_in(dashboard_url)}"}
    assert upgrade(dashboard_url, {**cookie, "Origin": "http://evil.example"}) == 403
    assert upgrade(dashboard_url, cookie) == 403
    assert upgrade(dashboard_url, {"Origin": dashboard_url}) == 403
    assert upgrade(dashboard_url, {**cookie, "Origin": dashboard_url, "Host": "evil.example"}) == 403
    assert upgrade(dashboard_url, {**cookie, "Origin": dashboard_url}) == 101


def test_every_reply_carries_the_policy_and_pages_a_fresh_nonce(
    dashboard_url: str, gateway: ScriptedGateway
) -> None:
    cookie = f"{COOKIE}={sign_in(dashboard_url)}"
    nonces = set()
    for path in ("/login", *PAGES, "/static/tokens.css"):
        reply = httpx.get(dashboard_url + path, headers={"cookie": cookie})
        policy = reply.headers["content-security-policy"]
        (scripts,) = re.findall(r"script-src ([^;]+)", policy)
        assert "unsafe-inline" not in scripts
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "http" not in policy
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["x-frame-options"] == "DENY"
        (nonce,) = re.findall(r"'nonce-([^']+)'", scripts)
        nonces.add(nonce)
        if path in PAGES:
            assert reply.headers["cache-control"] == "no-store"
            tags = re.findall(r"<script[^>]*>", reply.text)
            assert tags
            assert all(f'nonce="{nonce}"' in tag for tag in tags)
    assert len(nonces) == 6


def test_a_forwarded_prefix_is_not_reflected(dashboard_url: str, gateway: ScriptedGateway) -> None:
    headers = {"cookie": f"{COOKIE}={sign_in(dashboard_url)}", "x-forwarded-prefix": "//evil.example"}
    assert "evil.example" not in httpx.get(dashboard_url, headers=headers).text


def test_signing_in_while_the_gateway_is_away_says_so(tmp_path: Path) -> None:
    away = f"http://127.0.0.1:{free_port()}"
    process, url = start_dashboard(away, tmp_path)
    try:
        reply = httpx.post(f"{url}/login", data={"key": ADMIN_KEY}, headers={"origin": url})
        assert reply.status_code == 503
        assert f"The gateway at {away} does not answer" in reply.text
        assert list(tmp_path.iterdir()) == []
    finally:
        stop(process)


def test_a_wrong_setting_is_said_in_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "afterturn_dashboard"],
        env={**os.environ, "AFTERTURN_DASHBOARD_PORT": "seventy"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("AFTERTURN_DASHBOARD_PORT: ")
    assert "Traceback" not in done.stderr
