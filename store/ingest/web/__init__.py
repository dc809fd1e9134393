"""HTML pages, and EPUB books, which consist of them."""
