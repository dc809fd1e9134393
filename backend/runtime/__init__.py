"""Settings, loading and reloading of the models, running tasks."""
