"""Run methods on items, paired and resumable."""
