"""One measurement per module."""
