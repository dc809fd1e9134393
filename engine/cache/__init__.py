"""The knowledge tree of RAGCache (arXiv:2404.12457): chunk KV in tiers of memory and disk, with eviction."""
