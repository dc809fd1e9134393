"""Settings, and the loaded models, documents and caches that they describe."""
