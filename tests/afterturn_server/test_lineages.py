"""Lineages kept apart: equal chats at once, sub-agents, compaction, errands, and whatever interleaves."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.databases import KINDS

from afterturn_engine.scripted import Reply, Script, ToolCall

from .protocols import PATHS, TALKING, assistant, user

CALL = "call_a1b2c3d4e5f60718"


@pytest.fixture(params=KINDS)
def database_kind(request):
    """These run on every database that this machine has."""
    return request.param


class Client:
    """Speaks one protocol: `ask` takes chat messages and gives the turn's id."""

    def __init__(self, stack, protocol="chat", **headers):
        self.stack, self.protocol = stack, protocol
        self.wire = stack.cleanup.enter_context(stack.client(**headers))

    def ask(self, messages, tools=(), **more):
        body = {"model": "default", **getattr(self, f"_{self.protocol}")(messages, tools), **more}
        response = self.wire.post(PATHS[self.protocol], json=body)
        assert response.status_code == 200, response.text
        return response.headers["x-turn-id"]

    def _chat(self, messages, tools):
        functions = [{"type": "function", "function": tool} for tool in tools]
        return {"messages": messages, **({"tools": functions} if tools else {})}

    def _responses(self, messages, tools):
        items = []
        for message in messages:
            for call in message.get("tool_calls", ()):
                items.append({"type": "function_call", "call_id": call["id"], **call["function"]})
            if message["role"] == "tool":
                output = {"call_id": message["tool_call_id"], "output": message["content"]}
                items.append({"type": "function_call_output", **output})
            elif message.get("content"):
                items.append({"role": message["role"], "content": message["content"]})
        return {"input": items, "tools": [{"type": "function", **tool} for tool in tools]}

    def _messages(self, messages, tools):
        given = []
        for message in messages:
            if message.get("tool_calls"):
                blocks = [
                    {"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": {}}
                    for call in message["tool_calls"]
                ]
                given.append({"role": "assistant", "content": blocks})
            elif message["role"] == "tool":
                block = {"tool_use_id": message["tool_call_id"], "content": message["content"]}
                given.append({"role": "user", "content": [{"type": "tool_result", **block}]})
            else:
                given.append(message)
        made = [{"name": tool["name"], "input_schema": tool["parameters"]} for tool in tools]
        return {"max_tokens": 100, "messages": given, **({"tools": made} if tools else {})}


def tool(name):
    return {"name": name, "parameters": {"type": "object", "properties": {}}}


def called(call_id=CALL, name="search"):
    function = {"name": name, "arguments": "{}"}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": call_id, "function": function}]}


def result(text, call_id=CALL):
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def after(stack, turn_id):
    return [(piece["role"], piece["text"]) for piece in stack.turn(turn_id)["next_state"]]


@pytest.mark.parametrize("protocol", TALKING)
@pytest.mark.parametrize("named", [True, False])
def test_b05_lineages_reminders_and_compaction(start, protocol, named):
    """B05, as it is written; without the header there is only the history to go by."""
    script = Script(
        replies=(
            Reply(when="plan a trip", tool_calls=(ToolCall(name="search", id=CALL),)),
            Reply(when="trains", content="There are trains to the sea every hour of the day."),
            Reply(when="find hotels", content="The Grand has rooms with a view of the harbour."),
        )
    )
    with start(script) as stack:
        client = Client(stack, protocol, **({"X-Session-Id": "s1"} if named else {}))
        mine, theirs = [tool("search")], [tool("search"), tool("book")]
        p, q = {"role": "system", "content": "P"}, {"role": "system", "content": "Q"}
        first, found = user("plan a trip"), result("trains")
        hotels = "The Grand has rooms with a view of the harbour."
        a1 = client.ask([p, first], mine)
        b1 = client.ask([q, user("find hotels")], theirs)
        a2 = client.ask([p, first, called(), found], mine)
        b2 = client.ask([q, user("find hotels"), assistant(hotels), user("cheaper")], theirs)
        history = [p, first, called(), found]
        side = client.ask([*history, user("Summarise all this for me.")])
        summary = user("Summary so far: a trip is planned")
        a3_asked = [p, summary, called(), found]
        a3 = client.ask(a3_asked, mine)
        reply = assistant("There are trains to the sea every hour of the day.")
        reminder = {"role": "system", "content": "<reminder> todo list is empty"}
        a4 = client.ask([*a3_asked, reply, reminder, user("great, thanks")], mine)
        turns = {turn_id: stack.turn(turn_id) for turn_id in (a1, b1, a2, b2, side, a3, a4)}
        parents = {turn_id: turn["parent_id"] for turn_id, turn in turns.items()}
        assert parents == {a1: None, b1: None, a2: a1, b2: b1, side: a1, a3: a1, a4: a3}
        assert (turns[side]["kind"], turns[side]["kind_reason"]) == ("side", "no_tools")
        assert turns[side]["excluded_reason"] == "side"
        assert after(stack, a1) == [("tool", "trains")]
        assert after(stack, a2) == []
        assert after(stack, a3) == [("user", "great, thanks")]
        assert after(stack, b1) == [("user", "cheaper")]
        sessions = {turn["session_id"] for turn in turns.values()}
        assert len(sessions) == (1 if named else 2)


def test_b05_a_conversation_without_tools_goes_on_beside_one_that_has_them(stack):
    """B05: the sub-agent's tools say nothing about the agent that has none."""
    client = Client(stack, **{"X-Session-Id": "s1"})
    first = client.ask([user("plan a trip")])
    client.ask([user("find hotels")], [tool("search")])
    plan = assistant(stack.turn(first)["reply"]["content"])
    second = client.ask([user("plan a trip"), plan, user("cheaper")])
    assert (stack.turn(second)["kind"], stack.turn(second)["parent_id"]) == ("main", first)
    assert after(stack, first) == [("user", "cheaper")]


def test_b15_equal_chats_that_go_on_at_once_do_not_meet(start):
    """B15 c: the second requests are both in flight before either is stored."""
    script = Script(replies=(Reply(when="from", prefill_ms=400),))
    with start(script) as stack:
        client = Client(stack)
        roots = [client.ask([user("hi")]) for _ in range(3)]
        ready = threading.Barrier(len(roots))

        def go_on(name):
            ready.wait()
            return client.ask([user("hi"), assistant("hi"), user(f"from {name}")])

        with ThreadPoolExecutor(len(roots)) as pool:
            second = list(pool.map(go_on, "abc"))
        turns = [stack.turn(turn_id) for turn_id in second]
        assert sorted(turn["parent_id"] for turn in turns) == sorted(roots)
        assert len({turn["session_id"] for turn in turns}) == 3
        for turn in turns:
            parent = stack.turn(turn["parent_id"])
            assert turn["session_id"] == parent["session_id"]
            assert after(stack, parent["id"]) == [("user", turn["request"]["messages"][-1]["content"])]


def test_a_response_goes_on_from_the_one_it_names(stack):
    with stack.client() as wire:
        given = [wire.post("/v1/responses", json={"model": "default", "input": "hi"}) for _ in range(2)]
        first = given[0]
        body = {"model": "default", "input": "more", "previous_response_id": first.json()["id"]}
        turns = [wire.post("/v1/responses", json=body).headers["x-turn-id"] for _ in range(2)]
    for turn_id in turns:
        assert stack.turn(turn_id)["parent_id"] == first.headers["x-turn-id"]


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"X-Claude-Code-Session-Id": "6d0e"}, {}),
        ({"session-id": "6d0e"}, {}),
        ({}, {"metadata": {"user_id": '{"device_id":"d","session_id":"6d0e"}'}}),
        ({}, {"metadata": {"user_id": "user_1_account__session_6d0e"}}),
        ({}, {"prompt_cache_key": "0b5f6d0e-8a70-4c3e-9f00-5d7c2b1a0001:0"}),
    ],
)
def test_sessions_that_stock_clients_name_are_theirs(stack, headers, body):
    client, plain = Client(stack, **headers), Client(stack)
    one = client.ask([user("one")], **body)
    compacted = client.ask([user("The conversation history before this point was compacted: x")], **body)
    other = plain.ask([user("two")])
    assert stack.turn(one)["session_id"] == stack.turn(compacted)["session_id"]
    assert stack.turn(other)["session_id"] != stack.turn(one)["session_id"]
    # Without its name, and under a new one: the history says whose it is.
    for follower in (plain, Client(stack, **{"session-id": "resumed"})):
        again = follower.ask([user("one"), assistant("one"), user(f"more {id(follower)}")])
        assert stack.turn(again)["session_id"] == stack.turn(one)["session_id"]


@pytest.mark.parametrize("body", [{"prompt_cache_key": "my-app"}, {"metadata": {"user_id": "bob"}}])
def test_what_may_name_every_conversation_names_none(stack, body):
    client = Client(stack)
    turns = [stack.turn(client.ask([user(text)], **body)) for text in ("one", "two")]
    assert turns[0]["session_id"] != turns[1]["session_id"]


def test_an_affinity_is_no_session(stack):
    client = Client(stack, **{"x-session-affinity": "1f0e6d0e-8a70-4c3e-9f00-5d7c2b1a0001"})
    turns = [stack.turn(client.ask([user(text)])) for text in ("one", "two")]
    assert turns[0]["session_id"] != turns[1]["session_id"]


ERRANDS = [
    ("You are a title generator. You output titles.", "hello", "pattern:title_request"),
    ("Be Claude.\nGenerate a concise, sentence-case title (3-7 words).", "hello", "pattern:title_request"),
    ("You are a context summarization assistant.", "hello", "pattern:compaction_request"),
    ("P", "Pre-compaction memory flush. Store memories.", "pattern:openclaw_memory_flush"),
    ("P", "[OpenClaw heartbeat poll]", "pattern:openclaw_heartbeat"),
    ("P", "Review the conversation above and save skills.", "pattern:hermes_review"),
    ("P", "CRITICAL: Respond with TEXT ONLY. Summarise.", "pattern:compaction_request"),
]


@pytest.mark.parametrize(("system", "text", "reason"), ERRANDS)
def test_errands_are_served_and_never_trained_nor_a_next_state(stack, system, text, reason):
    client = Client(stack)
    p = {"role": "system", "content": "P"}
    first = client.ask([p, user("hello")])
    errand = client.ask(
        [{"role": "system", "content": system}, user("hello"), assistant("hello"), user(text)]
    )
    turn = stack.turn(errand)
    assert (turn["kind"], turn["kind_reason"]) == ("side", reason)
    assert (turn["state"], turn["excluded_reason"]) == ("excluded", "side")
    assert after(stack, first) == []
    told = client.wire.post(
        PATHS["chat"],
        json={"model": "default", "messages": [p, user(text)]},
        headers={"X-Turn-Type": "main"},
    )
    assert stack.turn(told.headers["x-turn-id"])["kind_reason"] == "header"


def test_a_title_asked_with_the_first_words_is_no_attempt_at_the_first_turn(stack):
    client = Client(stack)
    title = client.ask([{"role": "system", "content": "You are a title generator."}, user("hello")])
    main = client.ask([{"role": "system", "content": "P"}, user("hello")])
    follow = client.ask(
        [{"role": "system", "content": "P"}, user("hello"), assistant("hello"), user("go on")]
    )
    assert stack.turn(main)["attempt_of"] is None
    assert stack.turn(follow)["parent_id"] == main
    assert after(stack, title) == []


def test_a_reply_that_the_client_dropped_is_followed_by_its_complaint(stack):
    """mini-swe-agent keeps no reply without a call."""
    client = Client(stack)
    note = user("Tool call error:\n\nNo tool calls found in the response.")
    first = client.ask([user("task")], [tool("bash")])
    second = client.ask([user("task"), note], [tool("bash")])
    assert stack.turn(second)["parent_id"] == first
    (piece,) = stack.turn(first)["next_state"]
    assert (piece["role"], piece["believed"]) == ("user", False)


def test_two_rewritten_chats_that_could_be_meant_are_not_guessed_between(stack):
    client = Client(stack)
    for name in ("one", "two"):
        client.ask([user(name), user("Say what everybody says to everybody, word for word.")])
    same = assistant("Say what everybody says to everybody, word for word.")
    third = client.ask([user("Summary of something"), same, user("and?")])
    assert stack.turn(third)["parent_id"] is None


@st.composite
def schedules(draw):
    """Who speaks next: conversations by number; a turn, a branch from an earlier one, or a retry."""
    step = st.tuples(st.integers(0, 3), st.sampled_from(["say", "say", "say", "branch", "retry"]))
    return draw(st.lists(step, min_size=4, max_size=14))


UNHURRIED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@settings(max_examples=6, deadline=None, suppress_health_check=UNHURRIED)
@given(schedule=schedules())
def test_any_interleaving_gives_the_tree_that_was_spoken(stack, schedule):
    """B15: conversations under two keys; `expected` is built beside them, from ids alone."""
    run = uuid4()  # the stack stays from example to example, and nothing said may be said again
    clients = [Client(stack) for _ in range(2)]
    clients[1].wire.headers["Authorization"] = f"Bearer {stack.add_key('default')}"
    paths = [[] for _ in range(4)]  # of (turn, what was said), by conversation
    expected, attempts, told = {}, {}, {}
    for number, (which, what) in enumerate(schedule):
        path, client = paths[which], clients[which % 2]
        if what == "branch" and path:
            path.pop()
        text = f"{which} {number} {run}"
        if what == "retry" and path:
            earlier, text = path.pop()
        else:
            earlier = None
        messages = [message for _, said in path for message in (user(said), assistant(said))]
        turn_id = client.ask([*messages, user(text)])
        expected[turn_id] = path[-1][0] if path else None
        attempts[turn_id] = earlier
        path.append((turn_id, text))
        told[turn_id] = tuple(said for _, said in path)
    times = Counter(told.values())
    for turn_id, parent_id in expected.items():
        turn, before = stack.turn(turn_id), told[turn_id][:-1]
        if any(times[before[:length]] > 1 for length in range(1, len(before) + 1)):
            # Of two equal replies to what was asked twice, nobody can say which one this goes on from.
            assert told[turn["parent_id"]] == before
            assert turn["attempt_of"] is None or told[turn["attempt_of"]] == told[turn_id]
            continue
        assert turn["attempt_of"] == attempts[turn_id]
        if attempts[turn_id] is None or parent_id is not None:
            assert turn["parent_id"] == parent_id
