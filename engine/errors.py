"""Errors whose message is shown to the user as it is; anything else is a bug and keeps its traceback."""

from store.errors import KVScopeError


class UnsupportedModel(KVScopeError):
    hint = "Use a Llama, Qwen or Mistral model with plain rotary position embeddings."


class ModelNotFound(KVScopeError):
    hint = "Pass --model PATH-OR-NAME: a folder in Hugging Face format, or a name on the Hugging Face Hub."


class TokenSelectorUnusable(KVScopeError):
    hint = "Use another --token-selector folder, or off."


class SpanScorerUnusable(KVScopeError):
    hint = "Use another --span-scorer folder, or off."


class LoraAdapterUnusable(KVScopeError):
    hint = "Use another --lora-adapter folder, or off."


class HubUnreachable(KVScopeError):
    hint = "Or check the connection and try again."


class ModelNotReady(KVScopeError):
    hint = "Wait until the status says ready, then ask again."


class LoadingFailed(KVScopeError):
    hint = "Restart KVScope, or choose another model on the Settings page."


class QuestionTooLong(KVScopeError):
    hint = "Shorten the question, or choose a model with a longer context."


class DocumentTooLong(KVScopeError):
    hint = "Use its best passages instead, ask for a shorter answer, or choose a model with a longer context."


class BadRequest(KVScopeError):
    """A field of the request has the wrong type or is out of range."""


class AnswerServerFailed(KVScopeError):
    hint = "Check the server and the flags --answer-server and --answer-server-model, or choose another method."


class NoPassageFound(KVScopeError):
    hint = "Add documents, or ask about something they contain."


class NotCached(KVScopeError):
    hint = "It was evicted or its document was deleted; refresh the page."


class PassageInUse(KVScopeError):
    hint = "Wait until no answer is being generated, or unpin it, then try again."


class Cancelled(Exception):
    """The user pressed stop. Not a failure: the caller returns what it has so far."""
