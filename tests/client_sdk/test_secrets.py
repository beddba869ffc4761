import logging
import traceback

import pytest
from tests.client_sdk.conftest import ADMIN, KEY
from tests.client_sdk.scripted_server import Reply, ScriptedServer, error

from afterturn import Afterturn, AsyncAfterturn, ConfigurationError, NewKey, ServerError, StatusError


def test_keys_are_in_no_repr(client: Afterturn) -> None:
    shown = [
        repr(client),
        str(vars(client)),
        repr(client._context),
        repr(client.feedback),
        repr(client.session("s")),
        repr(AsyncAfterturn(client.base_url, KEY, ADMIN)),
        repr(NewKey(prefix="at-x", key=KEY)),
    ]
    for text in shown:
        assert KEY not in text
        assert ADMIN not in text


def test_a_server_that_echoes_the_key_is_masked(
    client: Afterturn, server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.reply("GET /v1/turns/t1", Reply(401, error(f"bad key {KEY}", code=KEY)))
    server.reply("GET /v1/turns/t2", Reply(500, text=f"Authorization: Bearer {KEY}"))
    with caplog.at_level(logging.DEBUG):
        for turn in ("t1", "t2"):
            with pytest.raises(StatusError) as caught:
                client.turns.get(turn)
            whole = "".join(traceback.format_exception(caught.value)) + repr(vars(caught.value))
            assert "***" in whole
            assert KEY not in whole
    assert KEY not in caplog.text


def test_the_admin_key_goes_only_where_it_must(client: Afterturn, server: ScriptedServer) -> None:
    server.reply("GET /v1/turns/t1", Reply(body={"id": "t1"}))
    server.reply("GET /admin/api/stats", Reply(body={"waiting_texts": 3}))
    client.turns.get("t1")
    assert client.stats().waiting_texts == 3
    assert [asked.headers["authorization"] for asked in server.asked] == [f"Bearer {KEY}", f"Bearer {ADMIN}"]


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "naïve-schlüssel"])
def test_a_key_that_cannot_be_a_header_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Afterturn("http://127.0.0.1:1", key)
    assert key not in str(refused.value)


def test_keys_are_not_followed_to_another_host(client: Afterturn, server: ScriptedServer) -> None:
    with ScriptedServer() as elsewhere:
        server.reply("GET /v1/turns/t1", Reply(302, headers={"location": f"{elsewhere.url}/v1/turns/t1"}))
        with pytest.raises(StatusError) as moved:
            client.turns.get("t1")
        assert moved.value.status == 302
        assert not isinstance(moved.value, ServerError)
        assert elsewhere.asked == []
