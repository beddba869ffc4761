"""`POST /v1/completions`: text completions, as vLLM gives them."""
