"""B18: odd input of every kind is the caller's error, never a 500."""

import pytest

ODD_EVENTS = [
    ({"occurred_at": "0001-01-01T00:00:00+14:00"}, "occurred_at"),
    ({"text": "a\0b"}, "text"),
    ({"source": "a\0b"}, "source"),
]


@pytest.mark.parametrize(("change", "param"), ODD_EVENTS)
def test_odd_events_name_their_field(stack, change, param):
    turn_id = stack.chat([{"role": "user", "content": "hi"}])["turn_id"]
    with stack.client() as client:
        event = {"turn_id": turn_id, "kind": "comment", "text": "x", **change}
        response = client.post("/v1/feedback", json=event)
    assert (response.status_code, response.json()["error"]["param"]) == (400, param)


@pytest.mark.parametrize("model", ["a\0b", f"default@v{'9' * 40}", "default@v9999999999"])
def test_odd_model_names_are_unknown_models(stack, model):
    with stack.client() as client:
        body = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
        response = client.post("/v1/chat/completions", json=body)
    assert (response.status_code, response.json()["error"]["code"]) == (404, "model_not_found")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("keys", {"agent": "default", "scopes": ["inference"], "expires_in_s": 1e300}),
        ("keys", {"agent": "default", "scopes": ["inference"], "requests_per_minute": 2**31}),
        ("agents/default/rollback", {"to": 2**63}),
    ],
)
def test_numbers_that_no_column_holds_are_refused(stack, path, body):
    assert stack.admin("POST", path, json=body).status_code == 400


@pytest.mark.parametrize("header", [{"Host": "["}, {"Origin": "http://["}])
def test_headers_that_are_no_address_are_refused(stack, header):
    with stack.client(stack.admin_key) as client:
        response = client.post("/admin/api/agents", json={"name": "x"}, headers=header)
    assert response.status_code in (400, 403)


def test_a_session_is_ended_by_any_name_that_a_header_can_carry(stack):
    with stack.client(**{"X-Session-Id": "trip/2026"}) as client:
        body = {"model": "default", "messages": [{"role": "user", "content": "hi"}]}
        client.post("/v1/chat/completions", json=body)
        assert client.post("/v1/sessions/trip%2F2026/end").status_code == 200
