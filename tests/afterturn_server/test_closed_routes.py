"""Field case B27: routes for administrators alone, and those of the engine for nobody."""

HI = [{"role": "user", "content": "hi"}]


def test_b27_every_admin_route_wants_an_administrator(stack):
    paths = stack.admin("GET", "openapi.json").json()["paths"]
    assert len(paths) > 10
    for path, methods in paths.items():
        concrete = path.replace("{", "").replace("}", "")
        for method in methods:
            for key, status in (("wrong", 401), (stack.key, 403)):
                with stack.client(key) as client:
                    answer = client.request(method, f"/admin/api{concrete}")
                assert answer.status_code == status, f"{method} {path}: {answer.text}"


def test_b27_the_engines_own_routes_are_not_the_gateways(stack):
    body = {"lora_name": "x", "lora_path": "/etc"}
    for key in (stack.key, stack.admin_key):
        with stack.client(key) as client:
            for prefix in ("/v1", "", "/admin/api", "/v1/v1"):
                for route in ("load_lora_adapter", "unload_lora_adapter"):
                    assert client.post(f"{prefix}/{route}", json=body).status_code in (404, 405)
            for model in (
                "../../x",
                "default@v../1",
                "..",
                "org/repo",
                "a\0b",
                "http://127.0.0.1:1/x",
                "x" * 300,
            ):
                answer = client.post("/v1/chat/completions", json={"model": model, "messages": HI})
                assert answer.status_code in (400, 404), answer.text
            for name in ("..%2F..%2Fetc", "%2e%2e", "a%00b", "http:%2F%2F127.0.0.1:1", "x" * 300):
                answer = client.post(f"/admin/api/adapters/{name}/promote")
                assert answer.status_code in (400, 403, 404, 405), answer.text
    assert stack.engine.loads == []
