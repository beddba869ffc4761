import asyncio
import io
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.client_sdk.conftest import ADMIN, KEY
from tests.client_sdk.scripted_server import Reply, ScriptedServer, error

from afterturn import (
    Afterturn,
    AsyncAfterturn,
    Conflict,
    ConnectionFailed,
    JSONObject,
    MalformedReply,
    NotFound,
    Signal,
    StatusError,
    WaitTimedOut,
)

ROUND: JSONObject = {
    "id": "r1",
    "agent": "default",
    "state": "training",
    "objective": "hybrid",
    "turn_ids": ["t1", "t2"],
}
ADAPTER: JSONObject = {
    "name": "default@v3",
    "version": 3,
    "parent": 2,
    "state": "published",
    "live": True,
    "marks": ["stale"],
    "gate": {"real": True},
    "created_at": "2026-01-02T03:04:05Z",
}


STATS: JSONObject = {
    "agents": [
        {
            "agent": "default",
            "frozen": False,
            "live_adapter": None,
            "signals": {"+1": 2, "none": 1},
            "waiting_signals": 2,
            "min_signals": 8,
        }
    ],
    "engine": {"ok": True, "replicas": [True], "model": "m", "max_model_len": 8192},
    "waiting_texts": 3,
}


def test_listings_follow_their_cursor_as_they_are_read(client: Afterturn, server: ScriptedServer) -> None:
    server.reply(
        "GET /admin/api/rounds",
        Reply(body={"data": [ROUND, {**ROUND, "id": "r2"}], "next": "c1"}),
        Reply(body={"data": [], "next": "c2"}),
        Reply(body={"data": [{**ROUND, "id": "r3"}], "next": None}),
    )
    items = iter(client.rounds.list(agent="default", limit=2))
    assert [next(items).id, next(items).id] == ["r1", "r2"]
    assert len(server.asked) == 1
    assert [item.id for item in items] == ["r3"]
    assert [asked.params for asked in server.asked] == [
        {"agent": "default", "limit": "2"},
        {"agent": "default", "limit": "2", "after": "c1"},
        {"agent": "default", "limit": "2", "after": "c2"},
    ]


def test_a_listing_that_runs_in_a_circle_ends_in_an_error(client: Afterturn, server: ScriptedServer) -> None:
    server.reply("GET /admin/api/adapters", Reply(body={"data": [ADAPTER], "next": "c1"}))
    with pytest.raises(MalformedReply, match="came twice"):
        client.adapters.list().all()
    server.reply("GET /admin/api/keys", Reply(body={"keys": []}))
    with pytest.raises(MalformedReply, match="without data"):
        client.keys.list().all()


def test_awaited_listings(server: ScriptedServer) -> None:
    server.reply(
        "GET /admin/api/adapters",
        Reply(body={"data": [ADAPTER], "next": "c1"}),
        Reply(body={"data": [{**ADAPTER, "live": False}], "next": None}),
    )

    async def course() -> None:
        async with AsyncAfterturn(server.url, admin_key=ADMIN) as client:
            assert [adapter.live async for adapter in client.adapters.list()] == [True, False]
            assert len(await client.adapters.list().all()) == 1

    asyncio.run(course())


def test_an_adapter_is_uploaded_as_its_three_files(
    client: Afterturn, server: ScriptedServer, tmp_path: Path
) -> None:
    for name in (
        "adapter_config.json",
        "adapter_model.safetensors",
        "manifest.json",
        "optimizer.safetensors",
    ):
        (tmp_path / name).write_bytes(name.encode())
    server.reply(
        "POST /admin/api/adapters", Reply(201, {**ADAPTER, "origin": "import", "imported_as": "x@v1"})
    )
    made = client.adapters.upload(tmp_path, agent="default")
    assert (made.name, made.origin, made.imported_as) == ("default@v3", "import", "x@v1")
    (asked,) = server.asked
    assert (asked.params, asked.headers["authorization"]) == ({"agent": "default"}, f"Bearer {ADMIN}")
    with zipfile.ZipFile(io.BytesIO(asked.archive)) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {
            name: name.encode()
            for name in ("adapter_config.json", "adapter_model.safetensors", "manifest.json")
        }
    (tmp_path / "manifest.json").unlink()
    with pytest.raises(FileNotFoundError):
        client.adapters.upload(tmp_path, agent="default")
    assert len(server.asked) == 1


def test_adapters_are_records(client: Afterturn, server: ScriptedServer) -> None:
    server.reply("GET /admin/api/adapters", Reply(body={"data": [ADAPTER], "next": None}))
    (adapter,) = client.adapters.list()
    assert (adapter.name, adapter.version, adapter.parent, adapter.live) == ("default@v3", 3, 2, True)
    assert adapter.marks == ("stale",)
    assert adapter.created_at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert adapter.gate == {"real": True}


def test_promote_and_rollback(client: Afterturn, server: ScriptedServer) -> None:
    server.reply("POST /admin/api/adapters/default@v3/promote", Reply(body={"live": "default@v3"}))
    server.reply("POST /admin/api/agents/default/rollback", Reply(), Reply(), Reply(409, error("tainted")))
    client.adapters.promote("default@v3")
    client.adapters.rollback("default", to=2)
    client.adapters.rollback("default")
    with pytest.raises(Conflict):
        client.adapters.rollback("default", to=1)
    assert [asked.body for asked in server.asked] == [None, {"to": 2}, {}, {"to": 1}]


def test_a_round_is_started_and_waited_for(client: Afterturn, server: ScriptedServer) -> None:
    server.reply("POST /admin/api/rounds", Reply(202, ROUND))
    server.reply(
        "GET /admin/api/rounds/r1",
        Reply(body=ROUND),
        Reply(body={**ROUND, "state": "gating"}),
        Reply(body={**ROUND, "state": "rejected", "metrics": {"loss": [1.0, 0.5]}, "adapter": "default@v4"}),
    )
    started = client.rounds.start("default")
    assert not started.ended
    ended = client.rounds.wait(started.id, poll=0.01)
    assert (ended.state, ended.ended, ended.adapter) == ("rejected", True, "default@v4")
    assert ended.metrics == {"loss": [1.0, 0.5]}
    assert ended.turn_ids == ("t1", "t2")


def test_waiting_has_an_end(client: Afterturn, server: ScriptedServer) -> None:
    server.reply("GET /admin/api/rounds/r1", Reply(body=ROUND))
    with pytest.raises(WaitTimedOut, match="still training") as late:
        client.rounds.wait("r1", timeout=0.03, poll=0.02)
    assert isinstance(late.value, TimeoutError)
    assert len(server.asked) == 3  # at 0, 0.02 and 0.03 s


def test_a_round_is_cancelled(client: Afterturn, server: ScriptedServer) -> None:
    server.reply("POST /admin/api/rounds/r1/cancel", Reply(body={**ROUND, "state": "cancelled"}))
    assert client.rounds.cancel("r1").state == "cancelled"


def test_agents(client: Afterturn, server: ScriptedServer) -> None:
    server.reply(
        "GET /admin/api/agents",
        Reply(body={"data": [{"name": "a"}], "next": "c1"}),
        Reply(body={"data": [{"name": "b", "frozen": True, "live_adapter": "b@v1"}], "next": None}),
    )
    server.reply("POST /admin/api/agents", Reply(201, {"id": "x", "name": "c"}))
    server.reply("PATCH /admin/api/agents/c", Reply(body={"name": "c", "frozen": True, "pinned_version": 3}))
    found = client.agents.get("b")
    assert (found.frozen, found.live_adapter) == (True, "b@v1")
    with pytest.raises(NotFound, match="no agent is named 'z'"):
        client.agents.get("z")
    assert client.agents.create("c").id == "x"
    assert client.agents.update("c", frozen=True, pinned_version=3).pinned_version == 3
    assert server.asked[-1].body == {"frozen": True, "pinned_version": 3}
    with pytest.raises(ValueError, match="at least one"):
        client.agents.update("c")


def test_keys(client: Afterturn, server: ScriptedServer) -> None:
    server.reply("POST /admin/api/keys", Reply(201, {"id": "k1", "key": "at-secret", "prefix": "at-sec"}))
    server.reply("GET /admin/api/keys", Reply(body={"data": [{"prefix": "at-sec", "scopes": ["feedback"]}]}))
    server.reply("DELETE /admin/api/keys/at-sec", Reply(204, text=""))
    made = client.keys.create("default", scopes=("feedback",))
    assert (made.key, made.prefix) == ("at-secret", "at-sec")
    assert server.asked[0].body == {"agent": "default", "scopes": ["feedback"]}
    assert [key.scopes for key in client.keys.list()] == [("feedback",)]
    client.keys.delete("at-sec")


def test_turns_and_sessions(client: Afterturn, server: ScriptedServer) -> None:
    turn: JSONObject = {
        "id": "t1",
        "state": "judged",
        "request": {"messages": [{"role": "user", "content": "hi"}], "sampling": {"temperature": 0.7}},
        "reply": {"role": "assistant", "content": "hello", "tool_calls": []},
        "token_ids": [5, 6],
        "logprobs": [-0.5, -1],
        "next_state": [{"role": "user", "text": "no", "believed": True}],
        "signal": {
            "revision": 1,
            "verdict": -1,
            "votes": [-1, None],
            "hints": [{"text": "shorter", "source": "rules"}],
            "weight": 0.25,
        },
    }
    server.reply("GET /admin/api/turns", Reply(body={"data": [turn], "next": None}))
    server.reply("GET /v1/turns/t1", Reply(body={**turn, "signal": None}))
    server.reply("GET /v1/sessions", Reply(body={"data": [{"id": "s1", "turns": 4}], "next": None}))
    server.reply("POST /v1/sessions/a%2Fb/end", Reply(body={"id": "a/b"}))
    server.reply("DELETE /v1/sessions/s1", Reply(body={"id": "receipt"}))
    (listed,) = client.turns.list(agent="default", state="judged")
    assert listed.logprobs == (-0.5, -1.0)
    assert listed.signal is not None
    assert (listed.signal.verdict, listed.signal.votes) == (-1, (-1, None))
    assert listed.signal.hints[0].text == "shorter"
    assert (listed.signal.weight, Signal().weight) == (0.25, 1.0)
    assert listed.next_state[0].believed
    assert isinstance(listed.signal, Signal)
    assert client.turns.get("t1").signal is None
    assert [session.turns for session in client.sessions.list()] == [4]
    client.sessions.end("a/b")
    client.sessions.delete("s1")


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_an_id_that_would_name_another_path_is_refused(
    client: Afterturn, server: ScriptedServer, name: str
) -> None:
    with pytest.raises(ValueError, match="not an id"):
        client.turns.delete(name)
    assert server.asked == []


def test_export_streams_objects_and_cuts_lines_only_at_newlines(
    client: Afterturn, server: ScriptedServer
) -> None:
    lines = '{"text":"a\u2028b\x85c"}\n\n{"text":"é"}\n{"text":"no newline at the end"}'
    server.reply("GET /admin/api/export", Reply(text=lines))
    texts = [line["text"] for line in client.export("default")]
    assert texts == ["a\u2028b\x85c", "é", "no newline at the end"]
    assert server.asked[0].params == {"agent": "default"}

    async def course() -> list[object]:
        async with AsyncAfterturn(server.url, KEY, ADMIN) as awaited:
            return [line["text"] async for line in awaited.export("default")]

    assert asyncio.run(course()) == texts


def test_an_export_that_breaks_off_is_an_error(client: Afterturn, server: ScriptedServer) -> None:
    server.reply("GET /admin/api/export", Reply(text='{"a":1}\n{"a":2}\n{"a"', cut=True))
    lines = client.export("default")
    assert [next(lines)["a"], next(lines)["a"]] == [1, 2]
    with pytest.raises(ConnectionFailed):
        next(lines)


def test_an_export_that_is_refused_or_half_is_an_error(client: Afterturn, server: ScriptedServer) -> None:
    server.reply("GET /admin/api/export", Reply(404, error("no agent")), Reply(text='{"a":1}\n{"a"'))
    with pytest.raises(NotFound, match="no agent"):
        list(client.export("nobody"))
    with pytest.raises(MalformedReply, match="cut"):
        list(client.export("default"))


def test_stats_are_records(client: Afterturn, server: ScriptedServer) -> None:
    server.reply("GET /admin/api/stats", Reply(body=STATS))
    stats = client.stats()
    assert (stats.agents[0].agent, stats.agents[0].waiting_signals, stats.agents[0].min_signals) == (
        "default",
        2,
        8,
    )
    assert stats.engine is not None
    assert (stats.engine.ok, stats.engine.replicas, stats.engine.max_model_len) == (True, (True,), 8192)


def test_erase_names_exactly_one_thing(client: Afterturn, server: ScriptedServer) -> None:
    server.reply("POST /admin/api/erase", Reply(body={"id": "e1", "turns": 3}))
    assert client.erase(client_user="u7") == {"id": "e1", "turns": 3}
    assert server.asked[0].body == {"client_user": "u7"}
    for wrong in ({}, {"agent": ""}, {"agent": "a", "turn_id": "t"}):
        with pytest.raises(ValueError, match="exactly one"):
            client.erase(**wrong)
    assert len(server.asked) == 1


def test_awaited_install_verbs(server: ScriptedServer) -> None:
    server.reply("GET /admin/api/stats", Reply(body=STATS))
    server.reply("POST /admin/api/erase", Reply(body={"id": "e1"}))
    server.reply("GET /admin/api/export", Reply(403, error("no")))

    async def course() -> None:
        async with AsyncAfterturn(server.url, admin_key=ADMIN) as client:
            assert (await client.stats()).agents[0].signals == {"+1": 2, "none": 1}
            assert await client.erase(agent="a") == {"id": "e1"}
            with pytest.raises(StatusError):
                async for _ in client.export("a"):
                    pass

    asyncio.run(course())
