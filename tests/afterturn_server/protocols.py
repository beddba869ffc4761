"""How each protocol asks, answers and fails."""

PATHS = {
    "chat": "/v1/chat/completions",
    "completions": "/v1/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
}
TALKING = ["chat", "responses", "messages"]  # those that carry a conversation


def body(protocol, messages, **more):
    """A request of this protocol, of a conversation in plain texts."""
    asked = {"model": "default", **more}
    if protocol == "completions":
        return {**asked, "prompt": messages[-1]["content"]}
    if protocol == "responses":
        return {**asked, "input": messages}
    if protocol == "messages":
        return {"max_tokens": 100, **asked, "messages": messages}
    return {**asked, "messages": messages}


def said(protocol, answer):
    """The text of a whole answer."""
    if protocol == "chat":
        return answer["choices"][0]["message"]["content"]
    if protocol == "completions":
        return answer["choices"][0]["text"]
    if protocol == "responses":
        return answer["output"][-1]["content"][0]["text"]
    return answer["content"][-1]["text"]


def ask(client, protocol, messages, **more):
    response = client.post(PATHS[protocol], json=body(protocol, messages, **more))
    assert response.status_code == 200, response.text
    return response


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def shape(response, protocol):
    """The kind and message of an error, whose shape is checked."""
    answer = response.json()
    if protocol == "messages":
        assert answer.keys() == {"type", "error"}
        assert answer["type"] == "error"
        assert answer["error"].keys() == {"type", "message"}
    else:
        assert answer.keys() == {"error"}
        assert answer["error"].keys() == {"message", "type", "param", "code"}
    assert response.headers["content-type"].startswith("application/json")
    assert "Traceback" not in response.text
    return answer["error"]
