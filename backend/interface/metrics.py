"""What a monitoring system asks: everything counted since the start, in Prometheus' text format."""

from typing import Protocol


class MetricsService(Protocol):
    """Counts the questions of every door: the page, its API, and the chat API."""

    def text(self) -> str:
        """Return all metrics in Prometheus' text format 0.0.4."""
        ...
