"""SQLite catalog of documents and chunks, with BM25 and full-text search."""
