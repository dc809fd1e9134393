"""The prompt template: shared prefix, passages, question. Each part is tokenized on its own and the ids are joined.

ids(a) + ids(b) differ from ids(a + b); tokenized alone, a passage has the same ids at every position in every prompt,
so that its cached KV is found again.
"""

from typing import Any

from jinja2 import TemplateError

from engine.lru import LRUCache
from engine.model.tokenizer import TextTokenizer, TokenizedText

SYSTEM = (
    "Answer the question from the passages. Be short and exact: one or two sentences. "
    "If the passages do not hold the answer, say that they do not."
)
NO_ANSWER = "The passages do not say."  # what the finetuned model answers in that case
MAX_QUERY_ROWS = 256  # of a question that score passages; cost and memory grow with them for each passage
MAX_CACHED_PASSAGES = 1024  # about 66 KB each
_PLACEHOLDER = "\u241etext\u241e"  # of passages and question; never reaches the model


class PromptTemplate:
    """Turns texts into the token ids of the prompt's parts, for a fast tokenizer with or without a chat template."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = TextTokenizer(tokenizer.backend_tokenizer)
        before_passages, self._before_question, self._after_question = _render(tokenizer).split(_PLACEHOLDER)
        self.prefix_ids = self.tokenizer.encode_template(before_passages)
        stop_ids = find_stop_ids(tokenizer)
        self.stop_ids = frozenset(stop_ids)
        self.end_ids = tuple(stop_ids[:1])  # of a turn; empty if the tokenizer has none
        self.passage = LRUCache(self.encode_passage, MAX_CACHED_PASSAGES)

    def encode_passage(self, text: str) -> TokenizedText:
        """Return a passage's ids with character spans into `text`; the blank line after it belongs to it."""
        return self.tokenizer.encode(text.strip() + "\n\n")

    def is_word(self, word: str) -> bool:
        """Return whether a word is a token of its own, as common words are."""
        return len(self.tokenizer.encode(f" {word}").ids) == 1

    def suffix_ids(self, question: str) -> tuple[int, ...]:
        """Return the ids of everything after the passages: the question and the start of the answer."""
        before = self.tokenizer.encode_template(self._before_question)
        after = self.tokenizer.encode_template(self._after_question)
        return before + self.tokenizer.encode(question).ids + after

    def query_ids(self, question: str) -> tuple[int, ...]:
        """Return the ids with which the auxiliary model scores: the question alone; of a pasted text, its end."""
        return self.tokenizer.encode(f"Question: {question}").ids[-MAX_QUERY_ROWS:]


def _render(tokenizer: Any) -> str:
    """Return a prompt with placeholders for the passages and the question, by the chat template if there is one."""
    user = f"Passages:\n\n{_PLACEHOLDER}Question: {_PLACEHOLDER}"
    if tokenizer.chat_template is None:
        return f"{SYSTEM}\n\n{user}\nAnswer:"
    turns = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": user}]
    settings = {"tokenize": False, "add_generation_prompt": True, "enable_thinking": False}
    try:
        return tokenizer.apply_chat_template(turns, **settings)
    except TemplateError:  # some templates have no system turn
        turns = [{"role": "user", "content": f"{SYSTEM}\n\n{user}"}]
        return tokenizer.apply_chat_template(turns, **settings)


def find_stop_ids(tokenizer: Any) -> list[int]:
    """Return the ids that end an answer, the chat template's end of turn first."""
    vocabulary = tokenizer.get_vocab()
    ids = [vocabulary.get(token) for token in ("<|im_end|>", "<|eot_id|>", "<|endoftext|>")]
    return [token for token in (*ids, tokenizer.eos_token_id) if token is not None]
