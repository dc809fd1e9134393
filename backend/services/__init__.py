"""Implementations of the backend interface."""
