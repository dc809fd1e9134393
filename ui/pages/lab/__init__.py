"""The Lab page: one question, its methods compared and its attention inspected."""
