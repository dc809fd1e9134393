"""The Cache page: tiers and budgets, the knowledge tree, and cache hits."""
