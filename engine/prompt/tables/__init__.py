"""Rules for questions about tables: which rows, columns and cells a question means, and what its rows add up to.

The words and numbers of a table decide these questions exactly, which a small model does not learn.
"""
