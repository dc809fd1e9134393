"""Chat state: turns, chat bar, export."""
