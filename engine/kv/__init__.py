"""KV of single chunks: get or compute, assemble in a prompt."""
