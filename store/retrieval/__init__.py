"""Embed chunks, search their vectors, and re-rank them."""
