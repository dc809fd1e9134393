"""Errors that the command line shows to the user."""

from store.errors import KVScopeError


class InvalidDataset(KVScopeError):
    """A data set cannot be read: missing, damaged, in an unknown format, or without answered questions."""

    hint = "Give a JSON or JSON lines file in a format of bench/data/formats.py, or a hub data set as owner/name."


class DatasetsMissing(KVScopeError):
    """A hub data set was named, but the `datasets` library is not installed."""

    hint = "Run pip install datasets, or give a file."


class InvalidArgument(KVScopeError):
    """An unusable method, ratio, task or samples file."""
