"""A library whose opening or closing fails leaves neither the catalog nor the vectors open."""

import pytest

from store.catalog.catalog import Catalog
from store.document_library import DocumentLibrary
from store.retrieval.vectors import VectorIndex


@pytest.fixture
def closed(monkeypatch):
    """The classes whose `close` was called, in this order."""
    closed = []
    for each in (Catalog, VectorIndex):
        monkeypatch.setattr(each, "close", lambda self, close=each.close: closed.append(type(self)) or close(self))
    return closed


@pytest.mark.parametrize("method", ["_purge_pending", "_check_vectors"])
def test_an_error_while_opening_closes_both(open_library, monkeypatch, closed, method):
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(DocumentLibrary, method, lambda library: 1 / 0)
        open_library()
    assert closed == [VectorIndex, Catalog]
    assert open_library().documents() == []


def test_an_error_while_closing_the_vectors_closes_the_catalog(open_library, monkeypatch):
    library, closed = open_library(), []
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(library._vectors, "close", lambda: 1 / 0)
        patch.setattr(library._catalog, "close", lambda: closed.append(True))
        library.close()
    assert closed == [True]
    VectorIndex.close(library._vectors)
    Catalog.close(library._catalog)
