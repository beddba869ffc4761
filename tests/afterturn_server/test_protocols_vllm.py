"""Every protocol over real vLLM on the CPU, with the tiny model, as the stock clients understand it."""

import json

import anthropic
import httpx
import openai
import pytest
from bench.vllm.serve import serving
from tests.tiny_model import CONTEXT_LENGTH, build_tiny_model

from .conftest import eventually
from .protocols import PATHS, TALKING, body, shape, user
from .stock_clients import NAMES, PLACE, form, result, say, told, tools

pytestmark = pytest.mark.vllm

STORY = [user("Tell the user the story of the sea and the stars.")]
CUT = {"chat": "length", "completions": "length", "responses": "incomplete", "messages": "max_tokens"}
PLACES = ({"to": "sea"}, {"to": "moon"})
both_ways = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
every = pytest.mark.parametrize("protocol", PATHS)
talking = pytest.mark.parametrize("protocol", TALKING)


@pytest.fixture(scope="module")
def vllm(tmp_path_factory):
    """The URL of a vLLM of its own, and its model's folder."""
    folder = tmp_path_factory.mktemp("vllm")
    model = build_tiny_model(folder / "model")
    with serving(model, folder / "vllm.log", counted=True) as served:
        yield served.url, str(model)


@pytest.fixture
def install(start, vllm):
    url, model = vllm
    with start(engine_url=url, model=model) as stack:
        yield stack


@pytest.fixture
def engine(vllm):
    """vLLM itself, past the gateway."""
    with httpx.Client(base_url=vllm[0], timeout=300, trust_env=False) as client:
        yield client


@both_ways
@every
def test_a_reply_is_the_engines_and_is_recorded_with_its_tokens(install, engine, protocol, streamed):
    said = say(install, protocol, STORY, streamed=streamed)
    turn = install.turn(said.turn_id)
    asked = {"model": "base", "temperature": 0, "max_tokens": 24, "return_token_ids": True, "logprobs": 1}
    if protocol == "completions":
        direct = engine.post("/v1/completions", json={**asked, "prompt": STORY[0]["content"]}).json()
        (choice,) = direct["choices"]
        text, scores = choice["text"], choice["logprobs"]["token_logprobs"]
        prompt = choice["prompt_token_ids"]
    else:
        body = {**asked, "messages": STORY, "logprobs": True}
        direct = engine.post("/v1/chat/completions", json=body).json()
        (choice,) = direct["choices"]
        text, scores = choice["message"]["content"], [one["logprob"] for one in choice["logprobs"]["content"]]
        prompt = direct["prompt_token_ids"]
    assert said.text == text == turn["reply"]["content"]
    assert (turn["prompt_token_ids"], turn["token_ids"]) == (prompt, choice["token_ids"])
    assert turn["logprobs"] == pytest.approx(scores, abs=1e-3)
    assert (said.read, said.sampled) == (len(prompt), len(choice["token_ids"]))
    assert said.ending == CUT[protocol]
    assert (turn["protocol"], turn["response_id"]) == (protocol, said.id)


@both_ways
@pytest.mark.parametrize("choice", ["sail", "required"])
@talking
def test_a_call_that_was_demanded_is_made(install, protocol, choice, streamed):
    """B13"""
    said = say(install, protocol, STORY, streamed=streamed, limit=200, **tools(protocol, choice))
    turn = install.turn(said.turn_id)
    (call,) = said.calls
    assert call.id
    assert call.name in (NAMES if choice == "required" else (choice,))
    assert call.arguments in PLACES
    assert said.text == ""
    named = {"chat": "stop", "responses": "completed", "messages": "tool_use"}[protocol]
    assert said.ending == ("tool_calls" if (protocol, choice) == ("chat", "required") else named)
    (recorded,) = turn["reply"]["tool_calls"]
    assert (recorded["id"], recorded["function"]["name"]) == (call.id, call.name)
    assert json.loads(recorded["function"]["arguments"]) == call.arguments
    assert (said.read, said.sampled) == (len(turn["prompt_token_ids"]), len(turn["token_ids"]))


@both_ways
@every
def test_it_stops_where_it_is_told_to(install, protocol, streamed):
    text = say(install, protocol, STORY).text
    sign = text[5:8]
    name = "stop_sequences" if protocol == "messages" else "stop"
    said = say(install, protocol, STORY, streamed=streamed, **{name: [sign]})
    assert said.text == text[: text.index(sign)]
    assert said.ending == {"responses": "completed", "messages": "stop_sequence"}.get(protocol, "stop")
    assert said.sampled == len(install.turn(said.turn_id)["token_ids"]) < 24


@every
def test_a_seed_decides(install, protocol):
    def text(seed, streamed):
        return say(install, protocol, STORY, streamed=streamed, temperature=1, seed=seed).text

    assert text(7, False) == text(7, True)
    assert text(7, False) != text(8, False)


@both_ways
@every
def test_a_reply_has_the_form_that_is_demanded(install, protocol, streamed, engine):
    space = {"model": "base", "prompt": " \n\t\r", "add_special_tokens": False}
    ids = engine.post("/tokenize", json=space).json()["tokens"]
    no_space = dict.fromkeys(map(str, ids), -100)  # the tiny model writes nothing else
    asked = {**form(protocol, PLACE), "logit_bias": no_space}
    said = say(install, protocol, STORY, streamed=streamed, limit=200, **asked)
    assert json.loads(said.text) in PLACES
    assert said.ending == {"responses": "completed", "messages": "end_turn"}.get(protocol, "stop")
    assert said.sampled == len(install.turn(said.turn_id)["token_ids"])


@both_ways
@pytest.mark.parametrize("then", TALKING)
@talking
def test_a_conversation_goes_on_in_any_protocol(install, protocol, then, streamed):
    """B15"""
    called = say(install, protocol, STORY, streamed=streamed, limit=200, **tools(protocol, "sail"))
    history = after_the_call(then, called)
    answered = say(install, then, history, streamed=streamed, **tools(then, "none"))
    history = [*after_the_call(protocol, called), *told(protocol, answered), user("Go on.")]
    thanked = say(install, protocol, history, **tools(protocol, "none"))
    first, second, third = (install.turn(said.turn_id) for said in (called, answered, thanked))
    assert (first["parent_id"], second["parent_id"], third["parent_id"]) == (None, first["id"], second["id"])
    assert first["session_id"] == second["session_id"] == third["session_id"]
    assert [(piece["role"], piece["text"]) for piece in first["next_state"]] == [
        ("tool", "We are there."),
        ("user", "And now?"),
    ]
    assert [(piece["role"], piece["text"]) for piece in second["next_state"]] == [("user", "Go on.")]


def after_the_call(protocol, called):
    """The conversation when a call has been made and answered."""
    (call,) = called.calls
    return [*STORY, *told(protocol, called), *result(protocol, call, "We are there."), user("And now?")]


@talking
def test_a_history_with_calls_is_the_same_prompt_and_the_same_count(install, protocol):
    called = say(install, "chat", STORY, limit=200, **tools("chat", "sail"))
    said = say(install, protocol, after_the_call(protocol, called), limit=1)
    chat = say(install, "chat", after_the_call("chat", called), limit=1)
    assert install.turn(said.turn_id)["prompt_token_ids"] == install.turn(chat.turn_id)["prompt_token_ids"]
    counted = install.anthropic().messages.count_tokens(
        model="default", messages=after_the_call("messages", called)
    )
    assert counted.input_tokens == said.read


def test_counting_takes_tools_and_instructions_as_asking_does(install):
    asked = {"model": "default", "messages": STORY, "system": "Be brief.", **tools("messages", "sail")}
    counted = install.anthropic().messages.count_tokens(**asked)
    assert (
        counted.input_tokens == install.anthropic().messages.create(**asked, max_tokens=1).usage.input_tokens
    )
    assert len(install.admin("GET", "turns").json()["data"]) == 1


@both_ways
@every
def test_a_prompt_that_is_too_long_is_told_in_the_protocols_words(install, protocol, streamed):
    """B18: by its tokens, and by its characters alone, which vLLM counts before it makes tokens."""
    param = {"chat": "messages", "completions": "prompt", "responses": "input"}
    for times in (CONTEXT_LENGTH // 4, CONTEXT_LENGTH * 2):
        asked = body(protocol, [user("the sea and the stars " * times)], stream=streamed)
        with install.client() as client:
            refused = client.post(PATHS[protocol], json=asked)
        assert refused.status_code == 400, refused.text
        error = shape(refused, protocol)
        assert str(CONTEXT_LENGTH) in error["message"]
        if protocol == "messages":
            assert error["message"].startswith("prompt is too long: ")
        else:
            assert (error["code"], error["param"]) == ("context_length_exceeded", param[protocol])
    with pytest.raises((openai.BadRequestError, anthropic.BadRequestError)):
        say(install, protocol, [user("the sea and the stars " * CONTEXT_LENGTH)], streamed=streamed)
    assert install.admin("GET", "turns").json()["data"] == []


@every
def test_a_limit_above_the_context_is_what_there_is_room_for(install, protocol):
    """In a stream: Anthropic's client asks for so much in no other way."""
    prompt = [user("the sea and the stars " * 180)]
    said = say(install, protocol, prompt, streamed=True, limit=65_536, ignore_eos=True)
    assert said.read + said.sampled == CONTEXT_LENGTH
    assert said.ending == CUT[protocol]


@both_ways
@every
def test_a_model_that_is_not_there_is_not_found(install, protocol, streamed):
    """B18"""
    with install.client() as client:
        refused = client.post(PATHS[protocol], json=body(protocol, STORY, model="nobody", stream=streamed))
    assert refused.status_code == 404, refused.text
    assert "nobody" in shape(refused, protocol)["message"]
    with install.client() as client:
        counted = client.post("/v1/messages/count_tokens", json={"model": "nobody", "messages": STORY})
    assert counted.status_code == 404
    assert "nobody" in shape(counted, "messages")["message"]


@both_ways
@every
def test_what_vllm_refuses_is_told_with_its_field(install, protocol, streamed):
    """B18"""
    with install.client() as client:
        asked = body(protocol, STORY, min_p=7, stream=streamed)
        refused = client.post(PATHS[protocol], json=asked)
    assert refused.status_code == 400, refused.text
    assert "min_p" in shape(refused, protocol)["message"]


@both_ways
@every
def test_b07_a_client_that_leaves_stops_vllm(install, engine, protocol, streamed):
    """B07: the engine is free again, and the turn says that nobody heard it out."""

    def running():
        lines = engine.get("/metrics").text.splitlines()
        (line,) = (line for line in lines if line.startswith("vllm:num_requests_running{"))
        return float(line.split()[-1])

    # As long as there is room for; who leaves does so when it has begun.
    limit = {"max_output_tokens" if protocol == "responses" else "max_tokens": CONTEXT_LENGTH}
    asked = body(protocol, STORY, stream=streamed, ignore_eos=True, temperature=0, **limit)
    with install.client() as client:
        if streamed:
            with client.stream("POST", PATHS[protocol], json=asked) as response:
                lines = (line for line in response.iter_lines() if line.startswith("data: {"))
                for _ in range(8):
                    next(lines)
        else:
            with pytest.raises(httpx.ReadTimeout):
                client.post(PATHS[protocol], json=asked, timeout=1)
    eventually(lambda: running() == 0)
    (turn,) = eventually(lambda: install.admin("GET", "turns").json()["data"])
    assert (turn["state"], turn["excluded_reason"]) == ("excluded", "client_disconnected")
    assert turn["finish_reason"] == "client_disconnected"
    assert len(turn["token_ids"]) == len(turn["logprobs"]) < CONTEXT_LENGTH / 2
    assert say(install, protocol, STORY, limit=4).sampled == 4
