"""The pages, one a file: each draws itself inside its tab and connects its own events."""
