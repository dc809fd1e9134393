"""The document library: add, re-chunk, search and delete documents."""
