"""Where a user's documents, index, chunk KV and models are kept by default."""

from pathlib import Path

import platformdirs


def default_data_folder() -> Path:
    """Return the operating system's folder for this application's data; nothing is created."""
    return platformdirs.user_data_path("kvscope", appauthor=False)
