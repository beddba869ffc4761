"""The gateway: OpenAI-compatible routes, recording of turns, feedback and the admin API."""
