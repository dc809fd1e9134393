"""RAGCache: a knowledge tree that keeps the KV worth keeping, in tiers."""
