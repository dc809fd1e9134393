"""The SQLite catalog: documents, their chunks and text, and BM25 search."""
