"""KV of single chunks: fingerprint, get or compute, assemble in a prompt."""
