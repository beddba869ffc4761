"""What holds for every protocol: where a turn belongs, how errors look, what is counted and limited."""

import json

import pytest

from afterturn_engine.scripted import Failure, Reply, Script

from .protocols import PATHS, TALKING, ask, assistant, body, said, shape, user


@pytest.mark.parametrize("protocol", PATHS)
def test_b18_every_failure_has_the_protocols_shape(start, protocol):
    """B18"""
    replies = (
        Reply(when="broken", failure=Failure(kind="status", status=500)),
        Reply(when="busy", failure=Failure(kind="status", status=429, retry_after_s=7)),
        Reply(when="hang", failure=Failure(kind="hang")),
    )
    with start(Script(replies=replies), engine_timeout_s=0.5, max_body_bytes=5000) as stack:
        with stack.client() as client:
            for streamed in (False, True):
                for text, status in (("broken", 502), ("busy", 503)):
                    answer = client.post(PATHS[protocol], json=body(protocol, [user(text)], stream=streamed))
                    assert answer.status_code == status
                    shape(answer, protocol)
                    assert answer.headers.get("retry-after") == ("7" if status == 503 else None)
            timed_out = client.post(PATHS[protocol], json=body(protocol, [user("hang")]))
            assert timed_out.status_code == 504
            shape(timed_out, protocol)
            for content, status in ((b"no json", 400), (b"[]", 400), (b"x" * 6000, 413)):
                answer = client.post(PATHS[protocol], content=content)
                assert answer.status_code == status
                shape(answer, protocol)
            for method, path, status in (
                ("GET", PATHS[protocol], 405),
                ("POST", f"{PATHS[protocol]}/nothing/else", 404),
            ):
                answer = client.request(method, path)
                assert answer.status_code == status
                shape(answer, protocol)
            for headers, status in (({"Host": "evil.example"}, 403), ({"X-Odd": "x" * 70_000}, 431)):
                answer = client.post(PATHS[protocol], json=body(protocol, [user("hi")]), headers=headers)
                assert answer.status_code == status
                shape(answer, protocol)
            client.headers["Authorization"] = "Bearer nobody"
            refused = client.post(PATHS[protocol], json=body(protocol, [user("hi")]))
            assert refused.status_code == 401
            shape(refused, protocol)
        with stack.database.engine.begin() as connection:
            connection.exec_driver_sql("ALTER TABLE turns RENAME TO gone")
        with stack.client() as client:
            failed = client.post(PATHS[protocol], json=body(protocol, [user("hi")]))
        assert failed.status_code == 500
        assert "gone" not in shape(failed, protocol)["message"]


@pytest.mark.parametrize("protocol", TALKING)
def test_b15_sessions_without_a_header_follow_the_history(stack, protocol):
    """B15 a, b, c, d"""
    other = stack.add_key("other")
    with stack.client() as mine, stack.client(other) as theirs:
        first = ask(mine, protocol, [user("hi")])
        foreign = ask(theirs, protocol, [user("hi")], model="other")
        twin = ask(mine, protocol, [user("hi")])
        reply = said(protocol, first.json())
        history = [user("hi"), assistant(reply)]
        theirs_next = ask(theirs, protocol, [*history, user("from them")], model="other")
        left = ask(mine, protocol, [*history, user("go left")])
        right = ask(mine, protocol, [*history, user("go right")])
        named = mine.post(
            PATHS[protocol], json=body(protocol, [user("named")]), headers={"X-Session-Id": "s1"}
        )
        theirs_named = theirs.post(
            PATHS[protocol],
            json=body(protocol, [user("named")], model="other"),
            headers={"X-Session-Id": "s1"},
        )
        follow = ask(mine, protocol, [user("named"), assistant(said(protocol, named.json())), user("more")])
    turn = {
        name: stack.turn(response.headers["x-turn-id"])
        for name, response in {
            "first": first, "foreign": foreign, "twin": twin, "theirs": theirs_next, "left": left,
            "right": right, "named": named, "theirs_named": theirs_named, "follow": follow,
        }.items()
    }  # fmt: skip
    assert turn["first"]["session_id"] != turn["foreign"]["session_id"]
    assert turn["theirs"]["parent_id"] == turn["foreign"]["id"]
    assert {turn["left"]["parent_id"], turn["right"]["parent_id"]} == {
        turn["first"]["id"],
        turn["twin"]["id"],
    }
    assert turn["named"]["session_id"] != turn["theirs_named"]["session_id"]
    assert turn["follow"]["parent_id"] == turn["named"]["id"]
    assert turn["follow"]["session_id"] == turn["named"]["session_id"]
    for name in ("first", "twin"):
        assert "from them" not in json.dumps(turn[name]["next_state"])
    assert all(each["kind"] == "main" for each in turn.values())


@pytest.mark.parametrize("protocol", PATHS)
def test_b15_a_session_name_that_is_too_long_is_refused(stack, protocol):
    """B15 e"""
    with stack.client() as client:
        answer = client.post(
            PATHS[protocol], json=body(protocol, [user("hi")]), headers={"X-Session-Id": "x" * 10_000}
        )
    assert answer.status_code in (400, 431)


@pytest.mark.parametrize("protocol", PATHS)
def test_b35_usage_is_the_count_of_what_is_stored(stack, protocol):
    """B35"""
    with stack.client() as client:
        whole = ask(client, protocol, [user("count me")])
        stack_turn = stack.turn(whole.headers["x-turn-id"])
        streamed = ask(client, protocol, [user("count me")], stream=True)
    usage = whole.json()["usage"]
    read, sampled = (
        ("input_tokens", "output_tokens")
        if protocol in ("responses", "messages")
        else ("prompt_tokens", "completion_tokens")
    )
    assert usage[read] == len(stack_turn["prompt_token_ids"])
    assert usage[sampled] == len(stack_turn["token_ids"])
    events = [json.loads(line[6:]) for line in streamed.text.split("\n") if line.startswith("data: {")]
    if protocol in ("chat", "completions"):
        assert all("usage" not in event for event in events)
    elif protocol == "messages":
        assert events[0]["message"]["usage"]["input_tokens"] == usage[read]
        assert events[-2]["usage"] == usage
    else:
        assert events[-1]["response"]["usage"] == usage


@pytest.mark.parametrize("protocol", PATHS)
def test_the_kinds_of_switches_that_every_protocol_has(stack, protocol):
    with stack.client() as client:
        off = client.post(
            PATHS[protocol], json=body(protocol, [user("hi")]), headers={"X-Afterturn-Store": "off"}
        )
        side = client.post(
            PATHS[protocol], json=body(protocol, [user("hi")]), headers={"X-Turn-Type": "side"}
        )
        untrained = client.post(
            PATHS[protocol], json=body(protocol, [user("hi")]), headers={"X-Afterturn-Train": "off"}
        )
        base = ask(client, protocol, [user("hi")], model="base")
    assert "x-turn-id" not in off.headers
    assert stack.turn(side.headers["x-turn-id"])["excluded_reason"] == "side"
    assert stack.turn(untrained.headers["x-turn-id"])["excluded_reason"] == "train_off"
    assert base.headers["x-adapter"] == "base"
    assert base.json()["model"] == "base"
    assert len(stack.admin("GET", "turns").json()["data"]) == 3


@pytest.mark.parametrize("protocol", PATHS)
def test_a_limit_above_the_context_is_what_there_is_room_for(start, protocol):
    name = "max_output_tokens" if protocol == "responses" else "max_tokens"
    with start(Script(context_length=2000)) as stack, stack.client() as client:
        answer = ask(client, protocol, [user("word " * 30)], **{name: 65_536}).json()
    assert said(protocol, answer).split().count("word") == 30


@pytest.mark.parametrize("protocol", PATHS)
def test_b18_a_prompt_that_is_too_long_names_the_protocols_own_field(start, protocol):
    """B18"""
    with start(Script(context_length=64)) as stack, stack.client() as client:
        refused = client.post(PATHS[protocol], json=body(protocol, [user("word " * 100)]))
    assert refused.status_code == 400
    error = shape(refused, protocol)
    if protocol != "messages":  # whose errors have no place for it
        assert error["param"] == {"chat": "messages", "completions": "prompt", "responses": "input"}[protocol]


@pytest.mark.parametrize("protocol", PATHS)
@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_b18_a_limit_that_is_no_number_is_the_callers_error(stack, protocol, field):
    """B18: also under the name that another protocol has for it, which completions pass over."""
    expected = 200 if (protocol, field) == ("completions", "max_completion_tokens") else 400
    with stack.client() as client:
        response = client.post(PATHS[protocol], json=body(protocol, [user("hi")], **{field: "ten"}))
    assert response.status_code == expected, response.text


@pytest.mark.parametrize("protocol", ["responses", "messages"])
def test_b35_protocols_of_one_reply_give_one(stack, protocol):
    """B35: `n` means nothing here, and two replies would be told as one."""
    with stack.client() as client:
        answer = ask(client, protocol, [user("hello")], n=2)
    assert len(stack.admin("GET", "turns").json()["data"]) == 1
    assert "n" not in stack.engine.received[-1].body
    assert said(protocol, answer.json()) == stack.chat([user("hello")])["choices"][0]["message"]["content"]


def test_head_of_the_root_is_answered(stack):
    with stack.client() as client:
        assert client.head("/").status_code == 200
