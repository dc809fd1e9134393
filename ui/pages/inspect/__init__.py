"""The Inspect page: attention of both models for a question, and the tokens that each method recomputes."""
