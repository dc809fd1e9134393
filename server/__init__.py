"""OpenAI-compatible HTTP API, health check, metrics, and middleware in front of all routes, on the UI's port."""
