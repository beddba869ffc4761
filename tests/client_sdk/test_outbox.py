import asyncio
import json
import os
import stat
from pathlib import Path

import pytest
from tests.client_sdk.conftest import KEY
from tests.client_sdk.scripted_server import Reply, ScriptedServer, error, free_port

from afterturn import (
    Afterturn,
    AsyncAfterturn,
    ConnectionFailed,
    OutboxFull,
    ServerError,
    Unauthorized,
)
from afterturn.outbox import Outbox, default_outbox_folder


def away(tmp_path: Path, port: int) -> Afterturn:
    return Afterturn(f"http://127.0.0.1:{port}", KEY, outbox_dir=tmp_path / "outbox", max_retries=0)


def test_events_wait_while_the_server_is_away_and_go_out_in_order(tmp_path: Path) -> None:
    port = free_port()
    with away(tmp_path, port) as client:
        receipts = [client.feedback.comment("t1", text) for text in ("one", "two \u2028 日本", "three")]
        assert all(receipt.kept and receipt.id is None for receipt in receipts)
        assert [event.body["text"] for event in client.feedback.pending()] == [
            "one",
            "two \u2028 日本",
            "three",
        ]
        with pytest.raises(ConnectionFailed) as failed:
            client.feedback.flush()
        assert not failed.value.sent
    # Another process, later.
    with away(tmp_path, port) as client, ScriptedServer(port) as server:
        flushed = client.feedback.flush()
        assert [receipt.idempotency_key for receipt in flushed.delivered] == [
            receipt.idempotency_key for receipt in receipts
        ]
        assert [body["text"] for body in server.stored.values()] == ["one", "two \u2028 日本", "three"]
        assert client.feedback.pending() == ()
        assert client.feedback.flush().delivered == ()


def test_a_new_event_goes_out_behind_those_that_wait(tmp_path: Path) -> None:
    port = free_port()
    with away(tmp_path, port) as client:
        client.feedback.comment("t1", "first")
        with ScriptedServer(port) as server:
            assert not client.feedback.comment("t1", "second").kept
            assert [body["text"] for body in server.stored.values()] == ["first", "second"]


def test_an_event_whose_reply_was_lost_is_sent_and_kept_as_the_same_event(
    client: Afterturn, server: ScriptedServer
) -> None:
    server.reply("POST /v1/feedback", Reply(cut=True))
    assert client.feedback.comment("t1", "x").kept
    sent = [asked.body for asked in server.asked_for("POST /v1/feedback")]
    assert len(sent) == 3
    assert sent[0] == sent[1] == sent[2]
    assert client.feedback.pending()[0].body == sent[0]


def test_what_the_server_never_takes_is_put_aside_and_the_rest_goes_on(tmp_path: Path) -> None:
    port = free_port()
    with away(tmp_path, port) as client:
        client.feedback.comment("unknown", "bad")
        client.feedback.comment("t1", "good")
        (tmp_path / "outbox" / "00-broken.json").write_text("{half")
        with ScriptedServer(port) as server:
            flushed = client.feedback.flush()
            assert [rejected.event.body["text"] for rejected in flushed.rejected] == ["bad"]
            assert flushed.rejected[0].error.status == 404
            assert [body["text"] for body in server.stored.values()] == ["good"]
        assert client.feedback.pending() == ()
        assert len(list((tmp_path / "outbox" / "rejected").iterdir())) == 2


@pytest.mark.parametrize(("status", "kept"), [(503, True), (429, True), (504, True), (500, False)])
def test_kept_if_the_server_may_take_it_later(
    client: Afterturn, server: ScriptedServer, status: int, kept: bool
) -> None:
    asks_for_long = {"retry-after": "3600"}  # more patience than a caller has: no retry in this call
    server.reply("POST /v1/feedback", Reply(status, error("no"), asks_for_long))
    if kept:
        assert client.feedback.comment("t1", "x").kept
    else:
        with pytest.raises(ServerError):
            client.feedback.comment("t1", "x")
    assert len(client.feedback.pending()) == kept
    assert len(server.asked) == 1


def test_a_wrong_key_leaves_events_where_they_are(tmp_path: Path) -> None:
    port = free_port()
    with away(tmp_path, port) as client:
        client.feedback.comment("t1", "x")
        with ScriptedServer(port) as server:
            server.reply("POST /v1/feedback", Reply(401, error("unknown key")))
            with pytest.raises(Unauthorized):
                client.feedback.flush()
            assert len(client.feedback.pending()) == 1


def test_without_an_outbox_an_absent_server_is_an_error(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with Afterturn(url, KEY, keep_events=False, max_retries=0) as client:
        with pytest.raises(ConnectionFailed):
            client.feedback.thumb("t1", up=True)
        assert client.feedback.pending() == ()
        assert client.feedback.flush().delivered == ()


def test_awaited_events_are_kept_and_flushed_too(tmp_path: Path) -> None:
    port = free_port()

    async def course() -> None:
        async with AsyncAfterturn(
            f"http://127.0.0.1:{port}", KEY, outbox_dir=tmp_path, max_retries=0
        ) as client:
            assert (await client.feedback.thumb("t1", up=True)).kept
            assert len(await client.feedback.pending()) == 1
            with ScriptedServer(port) as server:
                assert len((await client.feedback.flush()).delivered) == 1
                assert len(server.stored) == 1
            assert await client.feedback.pending() == ()

    asyncio.run(course())


def test_outbox_is_bounded_and_drops_nothing(tmp_path: Path) -> None:
    few = Outbox(tmp_path / "few", max_events=2)
    for name in ("a", "b"):
        few.keep(name, {"idempotency_key": name})
    with pytest.raises(OutboxFull):
        few.keep("c", {"idempotency_key": "c"})
    assert [event.idempotency_key for event in few.pending()] == ["a", "b"]
    small = Outbox(tmp_path / "small", max_bytes=100)
    with pytest.raises(OutboxFull):
        small.keep("a", {"idempotency_key": "a", "text": "x" * 100})


def test_files_are_private_whole_and_half_written_ones_are_never_read(tmp_path: Path) -> None:
    box = Outbox(tmp_path / "outbox")
    box.keep("k", {"idempotency_key": "k"})
    (box.folder / "00000000000000000000-x.1.tmp").write_text('{"idempotency_key"')
    (file,) = box.folder.glob("*.json")
    assert json.loads(file.read_text()) == {"idempotency_key": "k"}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(box.folder.stat().st_mode) == 0o700
    assert len(box.pending()) == 1


def test_a_refused_move_of_a_file_another_process_took_is_no_error(tmp_path: Path) -> None:
    box = Outbox(tmp_path)
    box.keep("k", {"idempotency_key": "k"})
    ((path, _),) = box.waiting()
    box.remove(path)
    box.remove(path)
    box.reject(path)
    assert box.pending() == ()


def test_each_server_and_key_has_its_own_folder() -> None:
    folders = {default_outbox_folder(url, key) for url in ("http://a", "http://b") for key in ("k1", "k2")}
    assert len(folders) == 4
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    assert all(str(folder).startswith(state) and "k1" not in folder.name for folder in folders)
