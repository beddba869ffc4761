"""What is masked before storage is nowhere in the database, and conversations hang together all the same."""

from tests.afterturn_server.conftest import Json, StartStack

SECRET = "ghp_" + "a1B2" * 9


def test_a_secret_is_in_no_file_of_the_database_and_the_conversation_is_linked(start: StartStack) -> None:
    with start(mask="storage") as stack:
        said: list[Json] = [{"role": "user", "content": f"My token is {SECRET}, use it."}]
        first = stack.chat(said)
        reply = first["choices"][0]["message"]
        said += [reply, {"role": "user", "content": f"No, use {SECRET} in a header."}]
        second = stack.chat(said)
        turn = stack.turn(second["turn_id"])
        assert turn["parent_id"] == first["turn_id"]
        assert (turn["state"], turn["excluded_reason"]) == ("excluded", "masked")
        assert turn["token_ids"] == turn["prompt_token_ids"] == turn["logprobs"] == []
        assert SECRET in str(stack.engine.received)
        event = {"turn_id": second["turn_id"], "kind": "comment", "text": f"It leaked {SECRET}"}
        with stack.client() as client:
            assert client.post("/v1/feedback", json=event).json()["text"] == "It leaked [secret]"
            body = {"model": "default", "messages": said[:1], "stream": True}
            assert client.post("/v1/chat/completions", json=body).status_code == 200
            assert (
                client.post("/v1/responses", json={"model": "default", "input": f"Keep {SECRET}"}).status_code
                == 200
            )
        files = list(stack.settings.data_dir.glob("afterturn.db*"))
        assert files
        assert not [file.name for file in files if SECRET.encode() in file.read_bytes()]
        assert "[secret]" in str(stack.turn(first["turn_id"])["request"])


def test_a_turn_without_a_secret_keeps_its_ids(start: StartStack) -> None:
    with start(mask="storage") as stack:
        answer = stack.chat([{"role": "user", "content": "Hello there."}])
        turn = stack.turn(answer["turn_id"])
    assert (turn["state"], turn["excluded_reason"]) == ("open", None)
    assert turn["token_ids"]
    assert turn["prompt_token_ids"]
