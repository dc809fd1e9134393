"""From chunks to a patched cache: prefill, assemble, score, select, recompute."""
