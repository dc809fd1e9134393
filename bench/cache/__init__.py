"""RAGCache (arXiv:2404.12457): eviction policies, reuse against none, reordering, speculation.

By default eviction policies are compared on the real engine at small scale; --simulate compares them at the paper's
scale with the cost model measured on this machine. --show selects another part of the paper.
"""

from bench.cache.run import COLUMNS, TITLE, add_arguments, run

__all__ = ["COLUMNS", "TITLE", "add_arguments", "run"]
