"""The threads of OpenMP with which torch and the kernels compute: a team for each thread that has computed.

While the threads of all teams, also of idle ones, are more than the cores, libgomp's threads sleep when they wait for
one another: a parallel region then takes 70 microseconds instead of 5, and a short pass twice as long.
"""

import ctypes
import os
import sys
from contextlib import suppress

_SOFT_PAUSE = 1  # omp_pause_soft


def release_team() -> None:
    """End the OpenMP team of the calling thread; its next computation starts another, in about 0.1 ms.

    For threads that compute from time to time and live on. Does nothing unless libgomp is loaded, as by torch on Linux.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL("libgomp.so.1", os.RTLD_NOLOAD | os.RTLD_LOCAL).omp_pause_resource_all(_SOFT_PAUSE)
