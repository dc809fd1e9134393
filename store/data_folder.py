"""The default folder for a user's documents, indexes, chunk KV and models."""

from pathlib import Path

import platformdirs


def default_data_folder() -> Path:
    """Return the operating system's folder for this application's data, without creating it."""
    return platformdirs.user_data_path("kvscope", appauthor=False)
