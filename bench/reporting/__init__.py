"""Reports from measured rows."""
