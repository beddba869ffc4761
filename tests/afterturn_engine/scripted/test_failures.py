"""What a script can let go wrong, as a client sees it."""

import json
from collections.abc import Callable, Iterator

import httpx
import openai
import pytest
from tests.afterturn_engine.scripted.conftest import Running

from afterturn_engine.scripted import Failure, Reply, Script, ToolCall

Serve = Callable[[Script], Running]
CHAT = "/v1/chat/completions"


def body(said: str = "hello", **fields: object) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": said}], **fields}


def failing(failure: Failure, **fields: object) -> Script:
    return Script(replies=(Reply.model_validate({"content": "abcdefghi", "failure": failure, **fields}),))


def test_a_status_is_answered_in_the_engines_error_form(serve: Serve) -> None:
    running = serve(failing(Failure(kind="status", status=503, message="full", retry_after_s=2)))
    response = running.http.post(CHAT, json=body(stream=True))
    assert (response.status_code, response.headers["retry-after"]) == (503, "2")
    assert response.json()["error"] == {
        "message": "full",
        "type": "ServiceUnavailableError",
        "param": None,
        "code": 503,
    }


def collect(lines: Iterator[str], into: list[str]) -> None:
    """Keeps what came before an exception."""
    for line in lines:
        into.append(line)


@pytest.mark.parametrize("stream", [True, False])
def test_a_cut_breaks_the_connection(serve: Serve, stream: bool) -> None:
    running = serve(failing(Failure(kind="cut", after_pieces=2)))
    with pytest.raises(httpx.RemoteProtocolError):
        running.http.post(CHAT, json=body(stream=stream))
    assert running.engine.running == 0


def test_a_cut_stream_was_good_until_then(serve: Serve) -> None:
    running = serve(failing(Failure(kind="cut", after_pieces=2)))
    seen: list[str] = []
    with (
        running.http.stream("POST", CHAT, json=body(stream=True)) as response,
        pytest.raises(httpx.RemoteProtocolError),
    ):
        collect(response.iter_lines(), seen)
    chunks = [json.loads(line.removeprefix("data: ")) for line in seen if line]
    assert "".join(chunk["choices"][0]["delta"]["content"] for chunk in chunks) == "abcdef"


def test_an_error_in_a_stream_is_an_event(serve: Serve) -> None:
    running = serve(failing(Failure(kind="stream_error", after_pieces=1, message="lost")))
    events = [line for line in running.http.post(CHAT, json=body(stream=True)).text.splitlines() if line]
    assert json.loads(events[-2].removeprefix("data: "))["error"]["message"] == "lost"
    assert events[-1] == "data: [DONE]"
    assert running.http.post(CHAT, json=body()).status_code == 500


def test_a_hang_ends_when_the_client_leaves(serve: Serve) -> None:
    running = serve(failing(Failure(kind="hang", after_pieces=1)))
    with pytest.raises(httpx.ReadTimeout):
        running.http.post(CHAT, json=body(), timeout=0.2)
    assert running.http.get("/health").status_code == 200


def test_a_rule_is_used_as_often_as_it_says(serve: Serve) -> None:
    refusal = Reply(failure=Failure(kind="status", status=500), times=2)
    running = serve(Script(replies=(refusal, Reply(when="hello", content="at last"))))
    statuses = [running.http.post(CHAT, json=body()).status_code for _ in range(3)]
    assert statuses == [500, 500, 200]


def test_what_came_in_is_kept_with_its_headers(serve: Serve) -> None:
    running = serve(Script())
    running.http.post(CHAT, json=body(seed=4), headers={"X-Mark": "m"})
    (received,) = running.engine.received
    assert (received.path, received.headers["x-mark"], received.body["seed"]) == (CHAT, "m", 4)


def test_an_engine_that_restarted_has_no_adapters(serve: Serve) -> None:
    running = serve(Script(adapters_on_disk=False))
    adapter = {"lora_name": "agent@v1", "lora_path": "anywhere"}
    assert running.http.post("/v1/load_lora_adapter", json=adapter).status_code == 200
    running.engine.forget_adapters()
    assert running.http.post(CHAT, json=body(model="agent@v1")).status_code == 404
    assert running.http.post("/v1/load_lora_adapter", json=adapter).status_code == 200
    assert running.engine.loads == ["agent@v1", "agent@v1"]


def test_the_openai_client_reads_streamed_calls_as_the_whole_reply(serve: Serve) -> None:
    calls = (ToolCall(name="sail", arguments='{"to":  "sea"}'), ToolCall(name="moor"))
    running = serve(Script(replies=(Reply(content="Aye. ", tool_calls=calls),)))
    with openai.OpenAI(base_url=f"{running.url}/v1", api_key="none", max_retries=0) as client:
        asked = {
            "model": "base",
            "messages": [{"role": "user", "content": "go"}],
            "tools": [
                {"type": "function", "function": {"name": name, "parameters": {}}}
                for name in ("sail", "moor")
            ],
        }
        whole = client.chat.completions.create(**asked)
        with client.chat.completions.stream(**asked) as stream:
            streamed = stream.get_final_completion()
    for completion in (whole, streamed):
        choice = completion.choices[0]
        assert choice.finish_reason == "tool_calls"
        assert choice.message.content == "Aye. "
        made = choice.message.tool_calls or []
        assert [(call.id, call.function.name, call.function.arguments) for call in made] == [
            ("call_0", "sail", '{"to":  "sea"}'),
            ("call_1", "moor", "{}"),
        ]
