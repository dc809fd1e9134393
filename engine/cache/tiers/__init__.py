"""Tiers of chunk KV: GPU memory, host memory and disk."""
