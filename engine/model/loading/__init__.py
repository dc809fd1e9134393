"""Turn a model name or folder into loaded weights."""
