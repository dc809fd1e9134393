"""Free memory of the C heap, which the allocator keeps for threads that may need it again."""

import ctypes
from contextlib import suppress


def release_heap() -> None:
    """Return free pages of the C heap to the system; without effect where the C library is not glibc."""
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
