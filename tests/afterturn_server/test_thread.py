"""Sessions, parents and next states, from what stock clients send."""

import random

import pytest
from tests.databases import KINDS

from afterturn_engine.scripted import Reply, Script


@pytest.fixture(params=KINDS)
def database_kind(request):
    """These run on every database that this machine has."""
    return request.param


P = {"role": "system", "content": "P"}
TOOLS = [{"type": "function", "function": {"name": "search", "parameters": {"type": "object"}}}]


def user(text):
    return {"role": "user", "content": text}


def said(reply):
    return {k: v for k, v in reply["choices"][0]["message"].items() if v is not None}


class Talk:
    """One client's conversation: what it holds, and the turns it caused."""

    def __init__(self, stack, *opening, key=None, headers=None, **body):
        self.stack, self.key, self.headers, self.body = stack, key, headers or {}, body
        self.messages = list(opening)
        self.turns = []

    def say(self, *messages, headers=None, **body):
        self.messages += messages
        reply = self.stack.chat(
            self.messages, key=self.key, headers={**self.headers, **(headers or {})}, **{**self.body, **body}
        )
        self.messages.append(said(reply))
        self.turns.append(reply["turn_id"])
        return reply["turn_id"]

    def fork(self):
        other = Talk(self.stack, *self.messages, key=self.key, headers=self.headers, **self.body)
        other.turns = list(self.turns)
        return other


def next_state(stack, turn_id):
    return [(p["role"], p["text"], p["believed"]) for p in stack.turn(turn_id)["next_state"]]


def test_b15a_two_keys_with_the_same_words_never_meet(stack):
    one, two = Talk(stack), Talk(stack, key=stack.add_key("default"))
    for talk in (one, two):
        talk.say(user("hi"))
    one.say(user("from one"))
    two.say(user("from two"))
    one.say(user("more from one"))
    two.say(user("more from two"))
    for talk, name in ((one, "one"), (two, "two")):
        turns = [stack.turn(turn_id) for turn_id in talk.turns]
        assert [t["parent_id"] for t in turns] == [None, *talk.turns[:2]]
        assert len({t["session_id"] for t in turns}) == 1
        assert all(name in text for _, text, _ in next_state(stack, talk.turns[0]))
    assert stack.turn(one.turns[0])["session_id"] != stack.turn(two.turns[0])["session_id"]


def test_b15b_one_session_name_under_two_keys_is_two_sessions(stack):
    headers = {"X-Session-Id": "s1"}
    one = Talk(stack, headers=headers)
    two = Talk(stack, headers=headers, key=stack.add_key("default"))
    three = Talk(stack, headers=headers, key=stack.add_key("other"), model="other")
    sessions = [stack.turn(talk.say(user("hi")))["session_id"] for talk in (one, two, three)]
    assert len(set(sessions)) == 3
    again = Talk(stack, headers={"X-Session-Id": sessions[0]})
    assert stack.turn(again.say(user("by its other name")))["session_id"] == sessions[0]


def test_b15c_equal_chats_of_one_key_are_two_sessions_once_they_differ(stack):
    one, two = Talk(stack, P), Talk(stack, P)
    for talk in (one, two):
        talk.say(user("hi"))
    assert stack.turn(two.turns[0])["attempt_of"] == one.turns[0]
    for turn in range(3):
        one.say(user(f"one {turn}"))
        two.say(user(f"two {turn}"))
    ones = {stack.turn(turn_id)["session_id"] for turn_id in one.turns[1:]}
    twos = {stack.turn(turn_id)["session_id"] for turn_id in two.turns[1:]}
    assert len(ones) == len(twos) == 1
    assert ones != twos
    for talk, name in ((one, "one"), (two, "two")):
        for turn_id in talk.turns[1:]:
            assert all(name in text for _, text, _ in next_state(stack, turn_id))


def test_b15d_a_follow_up_without_the_header_finds_its_session(start):
    from afterturn_engine.scripted import ToolCall

    script = Script(replies=(Reply(when="find", tool_calls=(ToolCall(name="search", id="call_1"),)),))
    with start(script) as stack:
        talk = Talk(stack, tools=TOOLS)
        first = talk.say(user("find it"), headers={"X-Session-Id": "s1"})
        second = talk.say({"role": "tool", "tool_call_id": "call_1", "content": "found"})
        assert stack.turn(second)["parent_id"] == first
        assert stack.turn(second)["session_id"] == stack.turn(first)["session_id"]
        assert next_state(stack, first) == [("tool", "found", True)]
        assert stack.turn(first)["state"] == "observed"
        assert stack.wake.heard(1) == [first]


def test_b15e_long_and_broken_session_names_are_refused(stack):
    with stack.client() as client:
        for name in ("x" * 10_000, "a\tb"):
            response = client.post(
                "/v1/chat/completions",
                json={"model": "default", "messages": [user("hi")]},
                headers={"X-Session-Id": name},
            )
            assert response.status_code == 400


def test_what_a_user_says_is_believed_when_the_conversation_goes_on_from_it(stack):
    talk = Talk(stack)
    first = talk.say(user("hi"))
    assert stack.turn(first)["state"] == "open"
    second = talk.say(user("too long"))
    assert next_state(stack, first) == [("user", "too long", False)]
    assert stack.turn(first)["state"] == "open"
    talk.say(user("thanks"))
    assert next_state(stack, first) == [("user", "too long", True)]
    assert stack.turn(first)["state"] == "observed"
    assert next_state(stack, second) == [("user", "thanks", False)]
    assert stack.wake.heard(1) == [first]


def test_a_review_that_forks_the_history_is_no_reaction(stack):
    talk = Talk(stack, tools=TOOLS)
    first = talk.say(user("hi"))
    review = talk.fork().say(user("Review the conversation above and update your memory."))
    talk.say(user("that was wrong"))
    talk.say(user("better"))
    assert next_state(stack, first) == [("user", "that was wrong", True)]
    shown = stack.turn(review)
    assert (shown["kind"], shown["kind_reason"]) == ("side", "pattern:hermes_review")
    assert (shown["state"], shown["excluded_reason"]) == ("excluded", "side")


def test_an_unconfirmed_fork_is_never_believed(stack):
    talk = Talk(stack)
    first = talk.say(user("hi"))
    talk.fork().say(user("a question that leads nowhere"))
    talk.say(user("the real reaction"))
    talk.say(user("and on"))
    assert next_state(stack, first) == [
        ("user", "a question that leads nowhere", False),
        ("user", "the real reaction", True),
    ]


def test_a_retry_whose_text_was_rewritten_gives_way_to_what_history_says(stack):
    talk = Talk(stack)
    first = talk.say(user("hi"))
    retry = talk.fork()
    second = retry.say(user("[Queued user message from a previous active turn] no"))
    talk.messages += [user("no"), retry.messages[-1]]
    third = talk.say(user("go on"))
    assert stack.turn(third)["parent_id"] == second
    believed = [text for _, text, believed in next_state(stack, first) if believed]
    assert believed == ["no"]
    assert stack.turn(first)["state"] == "observed"


def test_of_equal_choices_the_first_is_the_one_that_is_answered(stack):
    reply = stack.chat([user("hi")], n=2)
    follow_up = stack.chat([user("hi"), said(reply), user("more")])
    assert stack.turn(follow_up["turn_id"])["parent_id"] == reply["turn_id"]


def test_header_and_missing_tools_tell_side_turns(stack):
    talk = Talk(stack, headers={"X-Session-Id": "s"}, tools=TOOLS)
    talk.say(user("hi"))
    title = Talk(stack, headers={"X-Session-Id": "s"}).say(user("Name this chat."))
    assert (stack.turn(title)["kind"], stack.turn(title)["kind_reason"]) == ("side", "no_tools")
    forced = Talk(stack, headers={"X-Session-Id": "s", "X-Turn-Type": "main"}).say(user("Name it."))
    assert (stack.turn(forced)["kind"], stack.turn(forced)["kind_reason"]) == ("main", "header")
    side = talk.fork().say(user("a side remark"), turn_type="side")
    assert stack.turn(side)["kind_reason"] == "header"
    assert next_state(stack, talk.turns[0]) == []


def test_tool_observations_in_the_users_place_are_main_turns(stack):
    talk = Talk(stack)
    talk.say(user("task"))
    step = talk.say(user("Observation: 42"))
    assert stack.turn(step)["kind"] == "main"
    talk.say(user("Observation: 43"))
    assert next_state(stack, talk.turns[0]) == [("user", "Observation: 42", False)]


def test_session_done_believes_everything_at_once(stack):
    talk = Talk(stack)
    first = talk.say(user("hi"))
    second = talk.say(user("too long"))
    third = talk.say(user("perfect, bye"), headers={"X-Session-Done": "1"})
    assert next_state(stack, first) == [("user", "too long", True)]
    assert next_state(stack, second) == [("user", "perfect, bye", True)]
    assert next_state(stack, third) == []
    assert sorted(stack.wake.heard(2)) == sorted([first, second])
    with stack.client() as client:
        (session,) = client.get("/v1/sessions").json()["data"]
        assert session["ended_at"] is not None
        assert session["turns"] == 3


def test_ending_a_session_by_its_route_believes_what_waits(stack):
    talk = Talk(stack, headers={"X-Session-Id": "mine"})
    first = talk.say(user("hi"))
    talk.say(user("wrong"))
    with stack.client() as client:
        assert client.post("/v1/sessions/mine/end").json()["external_id"] == "mine"
        assert client.post("/v1/sessions/nobodys/end").status_code == 404
    assert stack.turn(first)["state"] == "observed"
    with stack.client(stack.add_key("other")) as client:
        assert client.post("/v1/sessions/mine/end").status_code == 404
        assert client.get(f"/v1/turns/{first}").status_code == 404
        assert client.get("/v1/sessions").json()["data"] == []


def test_the_same_prompt_again_is_another_attempt(stack):
    talk = Talk(stack)
    first = talk.say(user("hi"))
    again = talk.fork()
    second = talk.say(user("next"))
    third = again.say(user("next"))
    assert stack.turn(third)["parent_id"] == first
    assert stack.turn(third)["attempt_of"] == second
    assert stack.turn(third)["session_id"] == stack.turn(second)["session_id"]
    assert next_state(stack, first) == [("user", "next", False)]


def test_b05_compaction_and_sub_agents_keep_their_lineages(start):
    from afterturn_engine.scripted import ToolCall

    script = Script(replies=(Reply(when="plan a trip", tool_calls=(ToolCall(name="search", id="c1"),)),))
    with start(script) as stack:
        headers = {"X-Session-Id": "s1"}
        a = Talk(stack, P, headers=headers, tools=TOOLS)
        b = Talk(stack, {"role": "system", "content": "Q"}, headers=headers, tools=[*TOOLS, *TOOLS])
        a1 = a.say(user("plan a trip"))
        b1 = b.say(user("find hotels"))
        a2 = a.say({"role": "tool", "tool_call_id": "c1", "content": "trains"})
        b2 = b.say(user("cheaper"))
        side = Talk(stack, *a.messages, headers=headers).say(user("Summarise this for me, please."))
        compacted = Talk(
            stack,
            P,
            user("Summary so far: a trip is planned"),
            *a.messages[-1:],
            headers=headers,
            tools=TOOLS,
        )
        a3 = compacted.say(user("shorter"))
        compacted.messages.append({"role": "system", "content": "<reminder> todo list is empty"})
        a4 = compacted.say(user("great, thanks"))
        parents = {t: stack.turn(t)["parent_id"] for t in (a1, b1, a2, b2, a3, a4)}
        assert parents == {a1: None, b1: None, a2: a1, b2: b1, a3: a2, a4: a3}
        assert stack.turn(side)["kind"] == "side"
        assert next_state(stack, a2) == [("user", "shorter", True)]
        assert next_state(stack, a3) == [("user", "great, thanks", False)]
        assert next_state(stack, b1) == [("user", "cheaper", False)]
        assert {stack.turn(t)["session_id"] for t in parents} == {stack.turn(a1)["session_id"]}


@pytest.mark.parametrize("seed", range(3))
def test_random_trees_of_conversations_link_as_they_were_built(stack, seed):
    """Conversations that interleave and fork; `expected` is built beside them, from ids alone."""
    choose = random.Random(seed)
    talks = [Talk(stack, P, key=key) for key in (stack.key, stack.add_key("default"))]
    expected = {}
    for step in range(24):
        talk = choose.choice(talks)
        if talk.turns and choose.random() < 0.25:
            talk = talk.fork()
            talks.append(talk)
        parent = talk.turns[-1] if talk.turns else None
        turn_id = talk.say(user(f"{seed} {step}"))
        expected[turn_id] = parent
    shown = stack.admin("GET", "turns", params={"limit": 100}).json()["data"]
    assert {turn["id"]: turn["parent_id"] for turn in shown} == expected
    roots = {}
    for turn in sorted(shown, key=lambda t: t["id"]):
        parent = turn["parent_id"]
        roots[turn["id"]] = turn["session_id"]
        if parent is not None:
            assert turn["session_id"] == roots[parent]
