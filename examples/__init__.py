"""Small programs that use the public API."""
