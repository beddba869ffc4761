"""The client against the real gateway: what it sends is taken, what comes back is read."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from tests.client_sdk.scripted_server import free_port

from afterturn import Afterturn, BadRequest, Conflict, Forbidden, NotFound, Unauthorized

pytestmark = pytest.mark.acceptance

ADMIN = "at-admin-0123456789abcdefghijkl"


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    """Until `url` answers."""
    while True:
        assert process.poll() is None, f"{url}: the process ended while it should start"
        try:
            if httpx.get(url).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.05)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A gateway on an engine that echoes, and its data directory."""
    folder = tmp_path_factory.mktemp("install")
    engine, port = free_port(), free_port()
    env = {
        **os.environ,
        "AFTERTURN_DATA_DIR": str(folder),
        "AFTERTURN_PORT": str(port),
        "AFTERTURN_ENGINE_URL": f"http://127.0.0.1:{engine}",
        "AFTERTURN_ADMIN_KEY": ADMIN,
        "AFTERTURN_LOG_LEVEL": "error",
    }
    subprocess.run([sys.executable, "-m", "afterturn_cli", "migrate"], env=env, cwd=folder, check=True)
    engine_command = [sys.executable, "-m", "afterturn_engine.scripted", "--port", str(engine)]
    processes = [subprocess.Popen(engine_command, cwd=folder)]
    try:
        wait_for(f"http://127.0.0.1:{engine}/health", processes[0])
        processes.append(subprocess.Popen([sys.executable, "-m", "afterturn_server"], env=env, cwd=folder))
        wait_for(f"http://127.0.0.1:{port}/readyz", processes[1])
        yield f"http://127.0.0.1:{port}", folder
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait()


@pytest.fixture
def client(gateway: tuple[str, Path], tmp_path: Path) -> Iterator[Afterturn]:
    url, folder = gateway
    keys = dict(line.split("=", 1) for line in (folder / "keys.env").read_text().split() if "=" in line)
    with Afterturn(url, keys["AFTERTURN_API_KEY"], ADMIN, outbox_dir=tmp_path) as client:
        yield client


def say(client: Afterturn, session: str, *texts: str) -> list[str]:
    """A conversation; the ids of its turns."""
    messages: list[dict[str, str]] = []
    turn_ids = []
    with client.session(session, end_on_exit=False) as open_session:
        for text in texts:
            messages.append({"role": "user", "content": text})
            reply = open_session.openai.chat.completions.with_raw_response.create(
                model="default",
                messages=messages,  # type: ignore[arg-type]
            )
            turn_ids.append(reply.headers["x-turn-id"])
            messages.append({"role": "assistant", "content": reply.parse().choices[0].message.content or ""})
    return turn_ids


def test_a_session_and_its_turns(client: Afterturn) -> None:
    first, second = say(client, "trip to München", "Hello", "And then?")
    turn = client.turns.get(second)
    assert (turn.agent, turn.parent_id, turn.kind, turn.protocol) == ("default", first, "main", "chat")
    assert turn.token_ids
    assert turn.logprobs is not None
    assert len(turn.token_ids) == len(turn.logprobs)
    assert turn.created_at is not None
    assert turn.created_at.tzinfo is not None
    (session,) = [each for each in client.sessions.list() if each.id == turn.session_id]
    assert (session.external_id, session.turns, session.ended_at) == ("trip to M%C3%BCnchen", 2, None)
    client.sessions.end("trip to M%C3%BCnchen")
    ended = [each for each in client.sessions.list() if each.id == turn.session_id]
    assert ended[0].ended_at is not None
    with client.session("nothing was said here"):
        pass


def test_feedback_of_every_kind(client: Afterturn) -> None:
    (turn_id,) = say(client, "feedback", "Hello")
    receipts = [
        client.feedback.thumb(turn_id, up=False, text="too long"),
        client.feedback.score(turn_id, 0.8),
        client.feedback.correct(turn_id, "Check the calendar first"),
        client.feedback.prefer(turn_id, "Yes."),
        client.feedback.comment(turn_id, "a \u2028 remark", source="tests"),
        client.feedback.outcome(session_id="feedback", value=1.0),
    ]
    assert all(receipt.id and not receipt.kept for receipt in receipts)
    assert receipts[0].id is not None
    event = client.feedback.get(receipts[0].id)
    assert (event.kind, event.value, event.text, event.turn_id) == ("thumb", -1, "too long", turn_id)
    client.feedback.delete(receipts[0].id)
    heard = {state.text for state in client.turns.get(turn_id).next_state}
    assert {"Check the calendar first", "Yes.", "a \u2028 remark"} <= heard
    assert "too long" not in heard


def test_feedback_counts_once_and_wrong_ones_are_named(client: Afterturn) -> None:
    (turn_id,) = say(client, "once", "Hello")
    when = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    ids = {client.feedback.score(turn_id, 1, idempotency_key="k", occurred_at=when).id for _ in range(2)}
    assert len(ids) == 1
    with pytest.raises(Conflict):
        client.feedback.score(turn_id, 0, idempotency_key="k", occurred_at=when)
    with pytest.raises(NotFound) as unknown:
        client.feedback.thumb("turn_unknown", up=True)
    assert unknown.value.field == "turn_id"
    with pytest.raises(BadRequest) as long:
        client.feedback.comment("x" * 300, "text")
    assert long.value.field == "turn_id"
    assert client.feedback.pending() == ()


def test_agents_and_keys(client: Afterturn) -> None:
    made = client.agents.create("other")
    assert (made.name, made.live_adapter, made.frozen) == ("other", None, False)
    assert client.agents.update("other", frozen=True).frozen
    assert client.agents.get("other").frozen
    with pytest.raises(Conflict):
        client.agents.create("other")
    with pytest.raises(BadRequest):
        client.agents.create("base")
    key = client.keys.create("other", scopes=["feedback"])
    (listed,) = [each for each in client.keys.list() if each.prefix == key.prefix]
    assert (listed.agent, listed.scopes, listed.revoked_at) == ("other", ("feedback",), None)
    with Afterturn(client.base_url, key.key, key.key) as other:
        with pytest.raises(Forbidden):
            other.agents.list().all()
        with pytest.raises(NotFound):
            other.turns.get(say(client, "not yours", "Hello")[0])
        client.keys.delete(key.prefix)
        with pytest.raises(Unauthorized):
            other.sessions.list().all()


def test_rounds_adapters_and_figures(client: Afterturn) -> None:
    say(client, "figures", "Hello", "Thanks, great!", "Next")
    (default,) = [each for each in client.stats().agents if each.agent == "default"]
    assert sum(default.turns.values()) >= 3
    engine = client.stats().engine
    assert engine is not None
    assert engine.ok
    assert client.rounds.list().all() == []
    assert client.adapters.list().all() == []
    with pytest.raises(Conflict):
        client.rounds.start("default")
    with pytest.raises(NotFound):
        client.rounds.get("round_unknown")
    with pytest.raises(NotFound):
        client.adapters.promote("default@v9")
    with pytest.raises(BadRequest, match="nothing lies before it"):
        client.adapters.rollback("default")


def test_listings_come_in_pages_and_the_export_is_whole(client: Afterturn) -> None:
    say(client, "pages", "One", "Two", "Three")
    pages = list(client.turns.list(agent="default", limit=2).pages())
    assert len(pages) > 1
    listed = [turn.id for page in pages for turn in page.data]
    assert len(listed) == len(set(listed))
    assert {line["id"] for line in client.export("default")} == set(listed)
