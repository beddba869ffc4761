import asyncio
import subprocess
import sys

import pytest
from tests.client_sdk.conftest import KEY
from tests.client_sdk.scripted_server import Reply, ScriptedServer

from afterturn import Afterturn, AsyncAfterturn, JSONObject

COMPLETION: JSONObject = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "default",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello."}}],
}


def test_calls_through_a_session_carry_its_id_and_the_block_ends_it(
    client: Afterturn, server: ScriptedServer
) -> None:
    server.reply("POST /v1/chat/completions", Reply(body=COMPLETION))
    server.reply("POST /v1/sessions/trip-planning/end", Reply(body={}))
    with client.session("trip-planning") as session:
        reply = session.openai.chat.completions.create(
            model="default", messages=[{"role": "user", "content": "hi"}]
        )
        assert reply.choices[0].message.content == "Hello."
        assert session.id == "trip-planning"
    called, ended = server.asked
    assert called.headers["x-session-id"] == "trip-planning"
    assert called.headers["authorization"] == f"Bearer {KEY}"
    assert ended.path == "/v1/sessions/trip-planning/end"


def test_awaited_session(server: ScriptedServer) -> None:
    server.reply("POST /v1/chat/completions", Reply(body=COMPLETION))

    async def course() -> None:
        async with (
            AsyncAfterturn(server.url, KEY) as client,
            client.session("a", end_on_exit=False) as session,
        ):
            reply = await session.openai.chat.completions.create(
                model="default", messages=[{"role": "user", "content": "hi"}]
            )
            assert reply.choices[0].message.content == "Hello."
            await session.end()  # unknown to this server: nothing to end, no error

    asyncio.run(course())
    assert [asked.path for asked in server.asked] == ["/v1/chat/completions", "/v1/sessions/a/end"]
    assert server.asked[0].headers["x-session-id"] == "a"


def test_a_block_left_by_an_error_ends_the_session_and_keeps_the_error(
    client: Afterturn, server: ScriptedServer
) -> None:
    with pytest.raises(KeyError), client.session("s"):
        raise KeyError("mine")
    assert [asked.path for asked in server.asked] == ["/v1/sessions/s/end"]


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("plain name: 100%", "plain name: 100%"),
        ("  München ", "M%C3%BCnchen"),
        ("a\r\nX-Admin: 1", "a%0D%0AX-Admin: 1"),
        ("日本", "%E6%97%A5%E6%9C%AC"),
    ],
)
def test_any_name_becomes_a_header(client: Afterturn, server: ScriptedServer, name: str, sent: str) -> None:
    server.reply("POST /v1/chat/completions", Reply(body=COMPLETION))
    with client.session(name, end_on_exit=False) as session:
        assert session.id == sent
        assert session.headers == {"X-Session-Id": sent}
        session.openai.chat.completions.create(model="default", messages=[{"role": "user", "content": "hi"}])
    assert server.asked[0].headers["x-session-id"] == sent


@pytest.mark.parametrize("name", ["", "   ", "x" * 257])
def test_a_name_that_is_none_is_refused(client: Afterturn, name: str) -> None:
    with pytest.raises(ValueError, match="1 to 256"):
        client.session(name)


def test_without_the_openai_package_the_error_says_what_to_install() -> None:
    script = (
        "import sys; sys.modules['openai'] = None\n"
        "import afterturn\n"
        "session = afterturn.Afterturn('http://127.0.0.1:1', 'k').session('s')\n"
        "try: session.openai\n"
        "except afterturn.MissingExtra as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == 'session.openai needs the openai package: pip install "afterturn[openai]"'
