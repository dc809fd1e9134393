"""Who uses the primary model next, and what may use it meanwhile."""
