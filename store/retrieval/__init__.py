"""Embed chunks; search them by vectors and terms, fuse and re-rank."""
