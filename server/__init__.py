"""OpenAI-compatible HTTP API, health check, metrics and host guard, served on the UI's port."""
