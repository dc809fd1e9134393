"""The parts of the Ask page: the composer, the chat so far, the answer with its passages, and its numbers."""
