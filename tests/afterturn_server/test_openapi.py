"""Whatever the OpenAPI documents allow to be sent, and what they do not, no answer is the server's fault."""

import json

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.core import NOT_SET

BINARY = "application/octet-stream"


def operations(client, path):
    document = client.get(path).text.replace('"application/zip"', f'"{BINARY}"')  # it makes up no archives
    schema = schemathesis.openapi.from_dict(json.loads(document))
    found = [result.ok() for result in schema.get_all_operations()]
    assert len(found) > 10
    return found


@pytest.mark.parametrize("path", ["/admin/api/openapi.json", "/v1/openapi.json"])
def test_b18_no_request_is_answered_with_a_failure(stack, path):
    """B18"""
    stack.chat([{"role": "user", "content": "hi"}], session_id="s")
    prefix = path.removesuffix("/openapi.json").removesuffix("/v1")
    client = stack.cleanup.enter_context(stack.client(stack.admin_key))
    statuses = set()

    def check(case):
        kind = case.media_type or "application/json"
        body = None if case.body is NOT_SET else case.body
        raw = json.dumps(body).encode() if kind == "application/json" else repr(body).encode()
        kind = kind.replace(BINARY, "application/zip")
        response = client.request(
            case.method,
            f"{prefix}{case.formatted_path}",
            params=case.query,
            content=b"" if case.body is NOT_SET else raw,
            headers={"Content-Type": kind},
        )
        statuses.add(response.status_code)
        assert response.status_code < 500, (case.method, case.formatted_path, body, response.text)
        if response.status_code >= 400:
            assert response.json().keys() <= {"error", "type"}

    for operation in operations(client, path):
        run = settings(
            max_examples=6,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )(given(operation.as_strategy())(check))
        run()
    assert 200 in statuses
    assert statuses & {400, 404}
