"""The Library page: all documents with their size, passages and cache usage."""
