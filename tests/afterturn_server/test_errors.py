"""B18: whatever goes wrong, the answer has OpenAI's shape, and its stock client raises the right error."""

import openai
import pytest

from afterturn_engine.scripted import Failure, Reply, Script

HI = [{"role": "user", "content": "hi"}]
CHAT = "/v1/chat/completions"


def check(response, status, code=None, param=None):
    assert response.status_code == status, response.text
    assert response.headers["content-type"].startswith("application/json")
    body = response.json()
    assert body.keys() == {"error"}
    error = body["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert isinstance(error["message"], str)
    assert error["message"]
    assert isinstance(error["type"], str)
    assert error["param"] is None or isinstance(error["param"], str)
    assert error["code"] is None or isinstance(error["code"], str)
    assert "Traceback" not in response.text
    assert ".py" not in response.text
    if code is not None:
        assert error["code"] == code
    if param is not None:
        assert error["param"] == param


def chat(**changes):
    return {"model": "default", "messages": HI, **changes}


WRONG = [
    ({}, 400, None, "model"),
    ({"model": "default"}, 400, None, "messages"),
    (chat(messages=[]), 400, None, "messages"),
    (chat(messages=[{}]), 400, None, "messages[0].role"),
    (chat(messages="hi"), 400, None, "messages"),
    (chat(messages=[{"role": "wizard", "content": "x"}]), 400, None, "messages[0].role"),
    (chat(messages=[{"role": "user", "content": 5}]), 400, None, "messages[0].content"),
    (chat(messages=[{"role": "user", "content": ["A"]}]), 400, None, "messages[0].content[0]"),
    (
        chat(messages=[{"role": "user", "content": [{"type": "foo"}]}]),
        400,
        None,
        "messages[0].content[0].type",
    ),
    (
        chat(messages=[{"role": "assistant", "content": [{"type": "refusal", "refusal": 5}]}]),
        400,
        None,
        "messages[0].content[0].refusal",
    ),
    (
        chat(messages=[{"role": "assistant", "tool_calls": [{"function": "x"}]}]),
        400,
        None,
        "messages[0].tool_calls[0].function",
    ),
    (chat(model="nope"), 404, "model_not_found", "model"),
    (chat(model="default@v9"), 404, "model_not_found", "model"),
    (chat(model=5), 400, None, "model"),
    (chat(temperature="hot"), 400, None, "temperature"),
    (chat(temperature=-1), 400, None, "temperature"),
    (chat(n=0), 400, None, "n"),
    (chat(n=999), 400, None, "n"),
    (chat(top_p=7), 400, None, "top_p"),
    (chat(logprobs="yes"), 400, None, "logprobs"),
    (chat(top_logprobs=3), 400, None, "top_logprobs"),
    (chat(max_tokens=0), 400, None, "max_tokens"),
    (chat(stop=[1]), 400, None, "stop[0]"),
    (chat(tool_choice="required"), 400, None, "tool_choice"),
    (chat(tool_choice={"type": "function", "function": {"name": "x"}}, tools=[]), 400, None, "tool_choice"),
    (chat(stream_options={"include_usage": True}, stream=False), 400, None, "stream_options"),
    (chat(session_id="x" * 300), 400, None, "session_id"),
    (chat(turn_type="maybe"), 400, None, "turn_type"),
]


@pytest.mark.parametrize("streamed", [False, True])
def test_b18_wrong_requests(stack, streamed):
    with stack.client() as client:
        for body, status, code, param in WRONG:
            sent = {"stream": True, **body} if streamed else body
            check(client.post(CHAT, json=sent), status, code, param)
        for content in (b"", b"not json", b"[1,2]", b'"text"', b'{"n": NaN}', b"\xff\xfe", b"[" * 100_000):
            check(client.post(CHAT, content=content), 400)
    assert stack.admin("GET", "turns").json()["data"] == []


def test_b18_routes_and_methods(stack):
    with stack.client() as client:
        check(client.get("/v1/nothing"), 404, "unknown_url")
        check(client.get("/api/v1/models"), 404)
        check(client.get(CHAT), 405, "method_not_allowed")
        check(client.delete("/v1/models"), 405)
        check(client.get("/admin/api/nothing"), 404)
        check(client.get("/v1/models/nope"), 404, "model_not_found")
    assert stack.admin("DELETE", "stats").status_code == 405


def test_b18_keys(stack):
    for headers in (
        {},
        {"Authorization": "Bearer hunter2-not-sk"},
        {"Authorization": "Basic x"},
        {"x-api-key": "no"},
    ):
        with stack.client() as client:
            client.headers.pop("Authorization")
            client.headers.update(headers)
            for path in (CHAT, "/v1/feedback"):
                check(client.post(path, json=chat()), 401, "invalid_api_key")
            check(client.post(CHAT, json={}), 401)
            check(client.get("/v1/models"), 401)
            check(client.get("/admin/api/agents"), 401)
            assert client.get("/healthz").json() == {"ok": True, "accepting": True}
            assert client.get("/readyz").status_code == 200
            assert client.head("/").status_code == 200
    with stack.client() as client:
        check(client.get("/admin/api/agents"), 403, "permission_denied")
    only_feedback = stack.add_key("default", ("feedback",))
    with stack.client(only_feedback) as client:
        check(client.post(CHAT, json=chat()), 403, "permission_denied")


def test_b18_the_stock_client_raises_what_it_should(stack):
    def ask(client, **changes):
        return client.chat.completions.create(**chat(**changes))

    client = stack.openai()
    with pytest.raises(openai.BadRequestError):
        ask(client, temperature=-3)
    with pytest.raises(openai.NotFoundError) as caught:
        ask(client, model="nope")
    assert caught.value.code == "model_not_found"
    with pytest.raises(openai.AuthenticationError):
        ask(stack.openai("at-wrong"))
    with pytest.raises(openai.NotFoundError):
        ask(client, model="nope", stream=True)


def test_a_body_over_the_limit_is_refused_with_and_without_a_length(start):
    with start(max_body_bytes=2000) as stack, stack.client() as client:
        long = chat(messages=[{"role": "user", "content": "x" * 3000}])
        check(client.post(CHAT, json=long), 413, "request_too_large")

        def pieces():
            for _ in range(30):
                yield b"x" * 100

        check(client.post(CHAT, content=pieces()), 413, "request_too_large")


def test_an_internal_failure_says_nothing_about_the_inside(stack):
    with stack.database.engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE turns RENAME TO gone")
    with stack.client() as client:
        response = client.post(CHAT, json=chat())
    check(response, 500, "internal_error")
    assert "turns" not in response.text


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("failure", "status", "code"),
    [
        (Failure(kind="status", status=500), 502, "engine_error"),
        (Failure(kind="status", status=503), 503, "engine_overloaded"),
        (Failure(kind="status", status=429, retry_after_s=7), 503, "engine_overloaded"),
        (Failure(kind="status", status=401), 502, "engine_error"),
    ],
)
def test_engine_failures_before_the_reply(start, failure, status, code, streamed):
    with start(Script(replies=(Reply(failure=failure),))) as stack, stack.client() as client:
        response = client.post(CHAT, json=chat(stream=streamed))
        check(response, status, code)
        if status == 503:
            assert response.headers["retry-after"] == ("7" if failure.retry_after_s else "2")
        assert stack.admin("GET", "turns").json()["data"] == []


@pytest.mark.parametrize("kind", ["cut", "stream_error"])
def test_an_engine_that_fails_in_the_middle_of_a_stream(start, kind):
    failing = Reply(pieces=("a", "b", "c"), failure=Failure(kind=kind, after_pieces=2))
    with start(Script(replies=(failing,))) as stack, stack.client() as client:
        response = client.post(CHAT, json=chat(stream=True))
        assert response.status_code == 200
        data = [line[6:] for line in response.text.split("\n") if line.startswith("data: ")]
        assert '"error"' in data[-1]
        assert "scripted failure" not in data[-1]
        turn = stack.turn(response.headers["x-turn-id"])
        assert (turn["state"], turn["excluded_reason"]) == ("excluded", "engine_failed")
        assert turn["reply"]["content"] == "ab"
        with pytest.raises(openai.APIError):
            list(stack.openai().chat.completions.create(**chat(stream=True)))


def test_an_engine_that_drops_a_whole_reply(start):
    with start(Script(replies=(Reply(failure=Failure(kind="cut")),))) as stack, stack.client() as client:
        check(client.post(CHAT, json=chat()), 502)


@pytest.mark.parametrize("streamed", [False, True])
def test_an_engine_that_hangs_is_given_up(start, streamed):
    hanging = Reply(pieces=("a", "b"), failure=Failure(kind="hang", after_pieces=1))
    with start(Script(replies=(hanging,)), engine_timeout_s=0.4) as stack, stack.client() as client:
        response = client.post(CHAT, json=chat(stream=streamed))
        if streamed:
            assert "engine_timeout" in response.text
            assert "[DONE]" not in response.text
        else:
            check(response, 504, "engine_timeout")


def test_an_engine_that_is_away_is_a_502_and_the_key_is_checked_first(start):
    with start(engine_url="http://127.0.0.1:1") as stack, stack.client() as client:
        check(client.post(CHAT, json=chat()), 502, "engine_unreachable")
        assert client.get("/readyz").status_code == 503
        assert client.get("/healthz").status_code == 200
        client.headers["Authorization"] = "Bearer nobody"
        check(client.post(CHAT, json=chat()), 401)


def test_b47_neither_answers_nor_rows_show_a_key(start, capfd):
    echo = Failure(kind="status", status=400, message="bad header Authorization: Bearer engine-secret-1234")
    script = Script(replies=(Reply(failure=echo),))
    with start(script, engine_api_key="engine-secret-1234", log_level="debug") as stack:
        with stack.client() as client:
            response = client.post(CHAT, json=chat())
        check(response, 400)
        assert "engine-secret-1234" not in response.text
        with stack.client("at-hunter2-hunter2") as client:
            assert "hunter2" not in client.post(CHAT, json=chat()).text
            assert "hunter2" not in client.get("/metrics").text
        files = [
            f.read_bytes() for f in stack.settings.data_dir.iterdir() if f.name.startswith("afterturn.db")
        ]
        logged = capfd.readouterr()
        for secret in (stack.key, stack.admin_key, "engine-secret-1234", "at-hunter2-hunter2"):
            assert not any(secret.encode() in data for data in files)
            assert secret not in logged.out + logged.err
