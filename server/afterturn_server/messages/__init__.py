"""`POST /v1/messages`: Anthropic's protocol, translated to an engine's chat and back."""
