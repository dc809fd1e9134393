"""Errors as messages for users. Any error other than a KVScopeError is a bug; its traceback goes to the log."""

import logging

from store.errors import KVScopeError

MAX_HALF_CHARS = 500  # at the start and at the end of a message; it may contain a value of any length
log = logging.getLogger("kvscope")


class BadSettings(KVScopeError):
    """Names every invalid value."""

    hint = "Run with --help to see the allowed values."


def user_message(error: Exception) -> str:
    """Return the message to show for an error; log it if it is a bug, whose own text may name objects and files."""
    if isinstance(error, KVScopeError):
        message = str(error)
        is_long = len(message) > 2 * MAX_HALF_CHARS
        return f"{message[:MAX_HALF_CHARS]} \u2026 {message[-MAX_HALF_CHARS:]}" if is_long else message
    log.error("unexpected error", exc_info=error)
    return f"Something went wrong ({type(error).__name__}). See the log for details."
