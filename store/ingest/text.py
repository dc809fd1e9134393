"""Parse plain text and Markdown: detect the encoding, then normalise the characters.

UTF-8 and UTF-16 can be recognised. One-byte encodings cannot: any bytes are valid Windows-1252. So that encoding is
assumed only for bytes that look like Western text; anything else is rejected rather than misread.
"""

import codecs
import re
from contextlib import suppress

from store.errors import UnreadableDocument
from store.ingest.document import ParsedDocument

BOMS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, whose mark is a prefix of it
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
MAX_CONTROL_RATIO = 0.001  # control bytes of all bytes; more is binary
MAX_HIGH_RATIO = 0.3  # bytes above 127 of all bytes; more is not Western text
MAX_INVALID_RATIO = 0.1  # invalid sequences per valid multi-byte character; up to it, damaged UTF-8
LINE_ENDS = re.compile(r"\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
UNWANTED = re.compile(r"[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufeff\ufffe\uffff]")


def parse_text(data: bytes, name: str) -> ParsedDocument:
    """Return the text, with any Markdown syntax. Raises UnreadableDocument if it is not text."""
    return ParsedDocument(normalize(decode(data, name)))


def decode(data: bytes, name: str) -> str:
    """Decode by byte order mark, else as UTF-8, else as Windows-1252 if the bytes look like Western text.

    Raises UnreadableDocument for binary data and for other encodings.
    """
    encoding = next((encoding for mark, encoding in BOMS.items() if data.startswith(mark)), None)
    if encoding:
        text = data.decode(encoding, "replace")
        num_invalid = text.count("\ufffd") + len(UNWANTED.findall(text))
        if "\0" in text or num_invalid > MAX_CONTROL_RATIO * len(text) + 1:
            raise UnreadableDocument(f"{name} is binary data, not text.")
        return text
    if b"\0" in data or len(CONTROL.findall(data)) > MAX_CONTROL_RATIO * len(data):
        raise UnreadableDocument(f"{name} is binary data, not text.")
    with suppress(UnicodeDecodeError):
        return data.decode("utf-8")
    lenient = data.decode("utf-8", "replace")
    num_invalid = lenient.count("\ufffd")
    num_valid = sum(not character.isascii() for character in lenient) - num_invalid
    if num_invalid <= MAX_INVALID_RATIO * num_valid:
        return lenient
    if sum(byte > 127 for byte in data) > MAX_HIGH_RATIO * len(data):
        raise UnreadableDocument(f"{name} is neither UTF-8 nor Western text. Save it as UTF-8.")
    return data.decode("cp1252", "replace")


def normalize(text: str) -> str:
    """Return the text with `\\n` as its only line end, without control characters (but tabs), surrogates or BOMs."""
    return UNWANTED.sub("", LINE_ENDS.sub("\n", text))
