"""Embed, search, fuse and rerank chunks."""
