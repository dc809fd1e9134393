"""The desks behind the page, on tiny models."""
