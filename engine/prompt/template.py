"""The prompt: shared prefix, passages, question. Each part is tokenised on its own, and the ids are joined.

ids(a) + ids(b) differ from ids(a + b), so a passage has the same ids wherever it stands, and its KV can be found again.
"""

from dataclasses import dataclass
from typing import Any

from jinja2 import TemplateError

from engine.lru import LRUCache
from engine.model.tokenizer import Encoded, TextTokenizer

SYSTEM = (
    "Answer the question from the passages. Be short and exact: one or two sentences. "
    "If the passages do not hold the answer, say that they do not."
)
NO_ANSWER = "The passages do not say."  # what the finetuned reader answers then
MAX_QUERY_ROWS = (
    256  # of a question that the auxiliary model reads; its work and memory grow with them for each passage
)
REMEMBERED = 1024  # passages, about 66 KB each
_PASSAGES, _QUESTION = "\u241epassages\u241e", "\u241equestion\u241e"  # never reach the model


@dataclass(frozen=True, slots=True)
class Frame:
    """The chat template's text around the passages and around the question."""

    before_passages: str
    before_question: str
    after_question: str


class Prompt:
    """Cuts texts into the prompt's parts for one tokenizer.

    tokenizer  a fast transformers tokenizer, with or without a chat template
    system     what the model is told to do

    `end` is the id, if there is one, that a finetuned model learns to end its answers with.
    """

    def __init__(self, tokenizer: Any, system: str = SYSTEM) -> None:
        self.tokens = TextTokenizer(tokenizer.backend_tokenizer)
        self._frame = _frame(tokenizer, system)
        self.prefix = self.tokens.encode_template(self._frame.before_passages)
        stops = _stop_ids(tokenizer)
        self.stop_ids, self.end = frozenset(stops), tuple(stops[:1])
        self.passage = LRUCache(self.passage_once, REMEMBERED)

    def passage_once(self, text: str) -> Encoded:
        """Return a passage's ids with spans into `text`; the blank line behind it belongs to it.

        `passage` does the same and remembers it.
        """
        return self.tokens.encode(text.strip() + "\n\n")

    def question(self, text: str) -> tuple[int, ...]:
        """Return the ids of everything behind the passages: the question and the start of the answer."""
        opening = self.tokens.encode_template(self._frame.before_question)
        return opening + self.tokens.encode(text).ids + self.tokens.encode_template(self._frame.after_question)

    def asked(self, text: str) -> tuple[int, ...]:
        """Return the ids of the question as the auxiliary model reads it, without the template around it.

        Of a long question these are the last ones: below a pasted text stands what is asked of it.
        """
        return self.tokens.encode(f"Question: {text}").ids[-MAX_QUERY_ROWS:]


def _frame(tokenizer: Any, system: str) -> Frame:
    user = f"Passages:\n\n{_PASSAGES}Question: {_QUESTION}"
    if tokenizer.chat_template is None:
        rendered = f"{system}\n\n{user}\nAnswer:"
    else:
        turns = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        settings = {"tokenize": False, "add_generation_prompt": True, "enable_thinking": False}
        try:
            rendered = tokenizer.apply_chat_template(turns, **settings)
        except TemplateError:  # some templates know no system turn
            turns = [{"role": "user", "content": f"{system}\n\n{user}"}]
            rendered = tokenizer.apply_chat_template(turns, **settings)
    before, rest = rendered.split(_PASSAGES)
    return Frame(before, *rest.split(_QUESTION))


def _stop_ids(tokenizer: Any) -> list[int]:
    """Return the ids that end an answer, the chat's own end of turn first."""
    known = tokenizer.get_vocab()
    named = [known[mark] for mark in ("<|im_end|>", "<|eot_id|>", "<|endoftext|>") if mark in known]
    return [*named, *([tokenizer.eos_token_id] if tokenizer.eos_token_id is not None else [])]
