"""The parts of the Cache page: tiers, and the knowledge tree as boxes and lists."""
