"""The Compare page: one question through several methods, side by side."""
