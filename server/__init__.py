"""OpenAI-compatible HTTP API, health check, metrics, and guards of hosts and uploads, served on the UI's port."""
