import ast
import asyncio
import inspect
import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from tests.client_sdk.conftest import ADMIN, KEY
from tests.client_sdk.scripted_server import Reply, ScriptedServer

import afterturn
from afterturn import Afterturn, AsyncAfterturn, ConfigurationError, MissingKey

NAMESPACES = ("feedback", "turns", "sessions", "rounds", "adapters", "agents", "keys")


def public(thing: object) -> set[str]:
    return {name for name in dir(thing) if not name.startswith("_")}


def test_every_public_name_is_exported() -> None:
    tree = ast.parse(Path(afterturn.__file__).read_text())
    imported = {
        alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert set(afterturn.__all__) == imported
    assert [*afterturn.__all__] == sorted(afterturn.__all__, key=lambda name: (name != "JSON", name))
    errors = {name for name, thing in vars(afterturn.errors).items() if inspect.isclass(thing)}
    assert errors <= imported
    assert all(getattr(afterturn, name).__module__.startswith("afterturn.") for name in errors)


def test_the_error_tree_is_drawn_as_it_is() -> None:
    assert afterturn.errors.__doc__ is not None
    for name, thing in vars(afterturn.errors).items():
        if inspect.isclass(thing):
            assert issubclass(thing, afterturn.AfterturnError)
            assert name in afterturn.errors.__doc__


def test_both_clients_have_the_same_verbs_with_the_same_arguments(tmp_path: Path) -> None:
    blocking = Afterturn("http://127.0.0.1:1", KEY)
    awaited = AsyncAfterturn("http://127.0.0.1:1", KEY)
    assert public(blocking) == public(awaited)
    for name in NAMESPACES:
        one, other = getattr(blocking, name), getattr(awaited, name)
        assert public(one) == public(other)
        for verb in public(one):
            mine, theirs = inspect.signature(getattr(one, verb)), inspect.signature(getattr(other, verb))
            assert mine.parameters == theirs.parameters
            assert getattr(one, verb).__doc__
            assert inspect.iscoroutinefunction(getattr(other, verb)) or verb == "list"


def test_settings_come_from_arguments_then_environment() -> None:
    script = (
        "from afterturn import Afterturn, AsyncAfterturn\n"
        "for kind in (Afterturn, AsyncAfterturn):\n"
        "    for client in (kind(), kind('http://127.0.0.1:5/v1/', 'mine', 'boss')):\n"
        "        context = client._context\n"
        "        print(context.base_url, context.key(admin=False), context.key(admin=True))\n"
    )
    given = {
        "AFTERTURN_BASE_URL": "http://127.0.0.1:7/",
        "AFTERTURN_API_KEY": "envkey",
        "AFTERTURN_ADMIN_KEY": "envadmin",
    }
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        check=True,
    )
    expected = ["http://127.0.0.1:7 envkey envadmin", "http://127.0.0.1:5 mine boss"] * 2
    assert done.stdout.splitlines() == expected


@pytest.mark.parametrize(
    "url", ["127.0.0.1:30000", "ftp://x", "http://", "http://u:p@h", "http://h?x=1", "http://h:port"]
)
def test_a_base_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError):
        Afterturn(url, KEY)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ConfigurationError):
        Afterturn("http://h", KEY, timeout=0)
    with pytest.raises(ConfigurationError):
        Afterturn("http://h", KEY, max_retries=-1)


def test_a_missing_key_is_said_before_anything_is_sent(server: ScriptedServer, tmp_path: Path) -> None:
    with Afterturn(server.url, KEY) as client:
        with pytest.raises(MissingKey, match="AFTERTURN_ADMIN_KEY"):
            client.rounds.list().all()
        with pytest.raises(MissingKey):
            list(client.export("a"))
    with Afterturn(server.url, outbox_dir=tmp_path) as client:
        with pytest.raises(MissingKey, match="AFTERTURN_API_KEY"):
            client.feedback.thumb("t1", up=True)
        assert client.feedback.pending() == ()
    assert server.asked == []


def test_an_admin_key_alone_does_for_both(server: ScriptedServer) -> None:
    server.reply("GET /v1/turns/t1", Reply(body={"id": "t1"}))
    with Afterturn(server.url, admin_key=ADMIN) as client:
        client.turns.get("t1")
    assert server.asked[0].headers["authorization"] == f"Bearer {ADMIN}"


def test_an_http_client_of_ones_own_stays_open(server: ScriptedServer) -> None:
    server.reply("GET /v1/turns/t1", Reply(body={"id": "t1"}))
    with httpx.Client(headers={"x-extra": "1"}) as mine:
        with Afterturn(server.url, KEY, http_client=mine) as client:
            client.turns.get("t1")
        assert not mine.is_closed
    assert server.asked[0].headers["x-extra"] == "1"

    async def course() -> None:
        async with httpx.AsyncClient() as mine:
            async with AsyncAfterturn(server.url, KEY, http_client=mine) as client:
                await client.turns.get("t1")
            assert not mine.is_closed

    asyncio.run(course())


def test_importing_needs_httpx_alone() -> None:
    script = (
        "import sys, afterturn\n"
        "heavy = {'openai', 'pydantic', 'fastapi', 'torch', 'sqlmodel'}\n"
        "print(sorted(heavy & set(sys.modules)), [m for m in sys.modules if m.startswith('afterturn_')])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] []"


def test_it_is_typed() -> None:
    assert (Path(afterturn.__file__).parent / "py.typed").is_file()
