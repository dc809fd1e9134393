"""Data sets as benchmark items."""
