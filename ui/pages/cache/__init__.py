"""The Library's cache details: tiers and budgets, the knowledge tree, and cache hits."""
