"""Text to token ids with character spans, and back, as a stream.

What a person or a document wrote is data: a chat marker such as <|im_end|> in it is cut into ordinary characters and
can never end a turn. Only our own prompt template may use the model's special tokens.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream


@dataclass(frozen=True, slots=True)
class Encoded:
    """Token ids of one text, and the characters each token stands for.

    spans   (start, end) per token, both ascending; several byte-level tokens can share one character
    """

    ids: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]


class TextTokenizer:
    """A tokenizer for text as data.

    tokenizer  the backend of a fast transformers tokenizer; not modified
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        serialised = tokenizer.to_str()
        self.template = Tokenizer.from_str(serialised)
        self.data = Tokenizer.from_str(serialised)
        self.data.encode_special_tokens = True
        for each in (self.template, self.data):
            each.no_truncation()
            each.no_padding()
        self.fingerprint = hashlib.sha256(serialised.encode()).hexdigest()[:16]

    def encode(self, text: str) -> Encoded:
        """Return the ids and spans of a text in which special tokens are plain characters."""
        found = self.data.encode(text, add_special_tokens=False)
        return Encoded(tuple(found.ids), tuple(found.offsets))

    def encode_template(self, text: str) -> tuple[int, ...]:
        """Return the ids of our own template text, special tokens included."""
        return tuple(self.template.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids without special tokens; a character that is not whole is written as U+FFFD."""
        return self.template.decode(list(ids), skip_special_tokens=True)

    def stream(self) -> Callable[[int], str]:
        """Return a function that takes one id after the other and returns the text that became whole ('' if none)."""
        decoding = DecodeStream(skip_special_tokens=True)
        return lambda token: decoding.step(self.template, token) or ""
