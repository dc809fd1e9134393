"""Many sessions use the application at a time (`python -m bench soak`)."""
