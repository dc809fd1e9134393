"""Tests of the backend on tiny models."""
