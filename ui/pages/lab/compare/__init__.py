"""The Lab's comparison: one question through several methods, side by side."""
