"""Errors as sentences. A KVScopeError speaks for itself; anything else is a bug, and the log keeps its traceback."""

import logging

from store.errors import KVScopeError

LOG = logging.getLogger("kvscope.ui")


def user_message(error: Exception) -> str:
    """Return what to tell a person, and log what is not meant for one."""
    if isinstance(error, KVScopeError):
        return str(error)
    LOG.error("the page caught a bug", exc_info=error)
    return f"Something broke: {error or type(error).__name__}. The log has the details."
