"""Free memory of the C heap is returned to the system."""

import subprocess
import sys

import pytest

# Every tenth block stays, so that the allocator cannot return the others by itself.
PROGRAM = """
import psutil
from backend.runtime.free_memory import release_heap
blocks = [b"x" * 20_000 + bytes([number % 256]) for number in range(5_000)]
kept = blocks[::10]
del blocks
before = psutil.Process().memory_info().rss
release_heap()
print(before - psutil.Process().memory_info().rss)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="of glibc")
def test_pages_between_blocks_in_use_are_returned():
    found = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    assert int(found.stdout) > 50_000_000  # of 90 MB
