"""The Ask page: question box, chat, answer with its passages, and metrics."""
