"""The Settings page: models, chunking, cache, system prompt, appearance, about."""
