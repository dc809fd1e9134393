"""KV of single chunks: fingerprint, get or compute, assemble into a prompt."""
