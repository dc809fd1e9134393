"""RAGCache at work: replacement policies, reuse against none, reordering, speculation.

By default policies are compared on the real engine at small scale; --simulate does it at the paper's, under the cost
that was measured on this machine. --show picks another part of the paper.
"""

from bench.cache.run import COLUMNS, TITLE, add_arguments, run

__all__ = ["COLUMNS", "TITLE", "add_arguments", "run"]
