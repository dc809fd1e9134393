"""Errors that mean a full disk are told without the path: clients see them."""

import errno

import pytest

from store.disk_full import disk_full_as_store_full
from store.errors import StoreFull


def test_the_error_of_a_full_disk_names_no_path():
    full = OSError(errno.ENOSPC, "No space left on device", "/home/ann/kvscope/preferences.json.draft")
    with pytest.raises(StoreFull, match=r"cannot save it \(No space") as error, disk_full_as_store_full("save it"):
        raise full
    assert "/home" not in str(error.value)
