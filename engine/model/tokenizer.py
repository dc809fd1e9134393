"""Tokenization with character spans, and streaming detokenization.

Text from users and documents is data: a special token such as <|im_end|> in it is tokenized as ordinary characters and
cannot end a turn. Only our own prompt template may contain special tokens.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream


@dataclass(frozen=True, slots=True)
class TokenizedText:
    """Token ids of a text, and each token's (start, end) characters, both ascending; tokens can share a character."""

    ids: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]


class TextTokenizer:
    """A tokenizer that recognizes special tokens in our own `template` text, but not in `data`."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        serialized = tokenizer.to_str()
        self.template = Tokenizer.from_str(serialized)
        self.data = Tokenizer.from_str(serialized)
        self.data.encode_special_tokens = True
        for each in (self.template, self.data):
            each.no_truncation()
            each.no_padding()
        self.fingerprint = hashlib.sha256(serialized.encode()).hexdigest()[:16]

    def encode(self, text: str) -> TokenizedText:
        """Return the ids and spans of a text that is data."""
        encoding = self.data.encode(text, add_special_tokens=False)
        return TokenizedText(tuple(encoding.ids), tuple(encoding.offsets))

    def encode_template(self, text: str) -> tuple[int, ...]:
        """Return the ids of template text, including special tokens."""
        return tuple(self.template.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids without special tokens; an incomplete character becomes U+FFFD."""
        return self.template.decode(list(ids), skip_special_tokens=True)

    def stream(self) -> Callable[[int], str]:
        """Return a function that takes the next id and returns the text completed by it, or ''."""
        stream = DecodeStream(skip_special_tokens=True)
        return lambda token: stream.step(self.template, token) or ""
