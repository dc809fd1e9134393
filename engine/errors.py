"""Errors of the engine that the page shows as they are; anything else is a bug and keeps its traceback."""

from store.errors import KVScopeError


class UnsupportedModel(KVScopeError):
    hint = "Pick a Llama, Qwen or Mistral model with plain rotary positions."


class ModelNotFound(KVScopeError):
    hint = "Give a model with --model PATH-OR-NAME: a folder in Hugging Face format, or a name in the hub's cache."


class SelectorUnusable(KVScopeError):
    hint = "Give another --selector FOLDER, or off."


class SpanScorerUnusable(KVScopeError):
    hint = "Give another --pointer FOLDER, or off."


class AdapterUnusable(KVScopeError):
    hint = "Give another --reader FOLDER, or off."


class HubUnreachable(KVScopeError):
    """Nothing can be said about a model that only the hub has."""

    hint = "Check the connection, or give a folder that holds the model."


class ModelNotReady(KVScopeError):
    hint = "Wait until the status says ready, then ask again."


class LoadingFailed(KVScopeError):
    """Nothing can be answered until another model is chosen or KVScope starts again; the message says why."""

    hint = "Then start KVScope again, or choose another model on the Settings page."


class QuestionTooLong(KVScopeError):
    hint = "Shorten the question, or pick a model with a longer context."


class DocumentTooLong(KVScopeError):
    hint = "Ask about its best passages instead, ask for a shorter answer, or pick a model with a longer context."


class BadRequest(KVScopeError):
    """A setting or a question outside its range."""


class NothingFound(KVScopeError):
    hint = "Add documents, or ask something that stands in them."


class NotKept(KVScopeError):
    hint = "Refresh the page: it was evicted, or its document deleted."


class StaysInCache(KVScopeError):
    """Somebody wants KV away that is being read, or that a pin keeps."""

    hint = "Wait until no question is being answered, or unpin it, then try again."


class Cancelled(Exception):
    """The person pressed stop. Not an error: the caller ends quietly with what it has."""
