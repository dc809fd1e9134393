"""Errors of the bench that a person reads on the command line, as they are."""

from store.errors import KVScopeError


class InvalidDataset(KVScopeError):
    """The questions cannot be read: no such file, torn, of another format, or without a question that has an answer."""

    hint = "Questions: a JSON or JSON lines file in a format that bench/data/formats.py reads, or a hub data set as owner/name."


class DatasetsMissing(KVScopeError):
    """A data set's name was given, and the library that fetches it is not installed."""

    hint = "Run pip install datasets, or give a file."


class InvalidArgument(KVScopeError):
    """A method, ratio, task or file of finished samples that the bench cannot work with."""
