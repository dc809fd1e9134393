"""What each page asks of the rest of the house: one protocol a desk, plain data in and out."""
