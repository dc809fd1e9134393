"""Prefill with reuse: assemble chunk KV, select tokens, recompute them."""
