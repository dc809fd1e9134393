"""The Lab's inspection: attention of both models for a question, and the tokens that each method recomputes."""
