"""Score context tokens: which of them are worth recomputing for a question."""
