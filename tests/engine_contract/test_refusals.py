"""What cannot be answered is refused before anything is generated, in vLLM's error form."""

import httpx
import pytest
from tests.engine_contract.engine import Engine, Json, chat_body, completion_body
from tests.tiny_model import CONTEXT_LENGTH


def refused(response: httpx.Response, status: int) -> Json:
    """The error of a refusal, its form checked."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert isinstance(error["message"], str)
    assert error["message"]
    assert isinstance(error["type"], str)
    assert error["param"] is None or isinstance(error["param"], str)
    assert error["code"] == status
    return dict(error)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_an_unknown_model_is_not_found(engine: Engine, path: str, stream: bool) -> None:
    body = chat_body() if "chat" in path else completion_body()
    error = refused(engine.post(path, {**body, "model": "nobody", "stream": stream}), 404)
    assert error["type"] == "NotFoundError"
    assert error["param"] == "model"
    assert "`nobody`" in error["message"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": "hot"}, "body.temperature"),
        ({"n": "two"}, "body.n"),
        ({"messages": "hello"}, "body.messages"),
    ],
)
def test_a_value_of_the_wrong_type_is_a_bad_request(engine: Engine, fields: Json, param: str) -> None:
    error = refused(engine.post("/v1/chat/completions", chat_body(**fields)), 400)
    assert error["type"] == "Bad Request"
    assert error["param"].startswith(param)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": -1}, "temperature"),
        ({"top_p": 7}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": CONTEXT_LENGTH + 1}, "max_tokens"),
        ({"n": 0}, None),
        ({"n": 2}, None),
        ({"messages": []}, None),
    ],
    ids=["temperature", "top_p", "max_tokens", "max_tokens-context", "n", "n-greedy", "messages"],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_value_out_of_range_names_its_field(
    engine: Engine, fields: Json, param: str | None, stream: bool
) -> None:
    error = refused(engine.post("/v1/chat/completions", chat_body(**fields, stream=stream)), 400)
    assert error["type"] == "BadRequestError"
    assert error["param"] == param


@pytest.mark.parametrize("body", [{}, []], ids=["empty", "list"])
def test_a_body_that_is_no_request_is_refused(engine: Engine, body: object) -> None:
    refused(engine.post("/v1/chat/completions", body), 400)


def test_a_body_that_is_not_json_is_refused(engine: Engine) -> None:
    headers = {"content-type": "application/json"}
    refused(engine.http.post("/v1/chat/completions", content=b"{nope", headers=headers), 400)


# The second prompt is too long by its characters already, which vLLM counts before it makes tokens.
@pytest.mark.parametrize("times", [CONTEXT_LENGTH // 4, CONTEXT_LENGTH * 2])
@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_that_fills_the_context_is_refused(engine: Engine, stream: bool, times: int) -> None:
    messages = [{"role": "user", "content": "the sea and the stars " * times}]
    error = refused(engine.post("/v1/chat/completions", chat_body(messages=messages, stream=stream)), 400)
    assert error["type"] == "BadRequestError"
    assert error["param"] in ("input_tokens", "input_text")
    assert "maximum context length" in error["message"]
    assert str(CONTEXT_LENGTH) in error["message"]


def test_a_reply_stops_where_the_context_ends(engine: Engine) -> None:
    ids = engine.complete(return_token_ids=True, max_tokens=1)["choices"][0]["prompt_token_ids"]
    prompt = (ids * CONTEXT_LENGTH)[: CONTEXT_LENGTH - 4]
    body = engine.complete(prompt=prompt, max_tokens=100, return_token_ids=True, ignore_eos=True)
    assert body["choices"][0]["finish_reason"] == "length"
    assert body["usage"]["total_tokens"] == CONTEXT_LENGTH


def test_an_id_outside_the_vocabulary_is_refused(engine: Engine) -> None:
    refused(engine.post("/v1/completions", completion_body(prompt=[2**30])), 400)


def test_an_empty_prompt_is_refused(engine: Engine) -> None:
    assert refused(engine.post("/v1/completions", completion_body(prompt="")), 400)["param"] == "prompt"


def test_a_tool_choice_nobody_offers_is_refused(engine: Engine) -> None:
    tools = [{"type": "function", "function": {"name": "sail", "parameters": {"type": "object"}}}]
    choice = {"type": "function", "function": {"name": "fly"}}
    error = refused(engine.post("/v1/chat/completions", chat_body(tools=tools, tool_choice=choice)), 400)
    assert error["param"] == "tool_choice"


def test_a_refusal_does_not_stop_the_engine(engine: Engine) -> None:
    engine.post("/v1/chat/completions", {})
    assert engine.http.get("/health").status_code == 200
    assert engine.chat(max_tokens=2)["choices"][0]["finish_reason"] == "length"
