"""The document library: add, re-chunk, rename and delete documents, each as one transaction."""
