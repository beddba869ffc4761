"""`POST /v1/responses`: OpenAI's newer protocol, translated to an engine's chat and back."""
