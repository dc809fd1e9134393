"""Errors as messages for users. Any error other than a KVScopeError is a bug; its traceback goes to the log."""

import logging

from store.errors import KVScopeError

log = logging.getLogger("kvscope")


def user_message(error: Exception) -> str:
    """Return the message to show for an error; log it if it is a bug."""
    if isinstance(error, KVScopeError):
        return str(error)
    log.error("unexpected error", exc_info=error)
    return f"Something went wrong: {error or type(error).__name__}. See the log for details."
