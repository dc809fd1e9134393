"""Tiers of chunk KV: device, host and disk."""
