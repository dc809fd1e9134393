"""Finetuning of small adapters for reuse: a reader that answers from passages."""
