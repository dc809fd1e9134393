"""Plain text and Markdown: find the encoding, then make the characters regular.

UTF-8 and UTF-16 prove themselves. Older one-byte encodings cannot: any bytes are 'valid' Windows-1252, so it is
believed only of bytes that look like Western text, and everything else is refused instead of read as nonsense.
"""

import codecs
import re

from store.errors import UnreadableDocument
from store.ingest.document import ParsedDocument, ParseLimits

BOMS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, whose mark it begins with
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
MOST_CONTROL = 0.001  # share of control bytes above which bytes are no text
MOST_ACCENTS = 0.3  # share of high bytes above which bytes are no Western text
MOST_BROKEN = 0.1  # bad sequences per good one, up to which bytes are damaged UTF-8
LINE_ENDS = re.compile(r"\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
UNWANTED = re.compile(r"[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufeff\ufffe\uffff]")


def parse_text(data: bytes, name: str, limits: ParseLimits) -> ParsedDocument:
    """Return the text as it stands, Markdown marks and all. Raises UnreadableDocument if it is no text."""
    return ParsedDocument(normalize(decode(data, name)))


def decode(data: bytes, name: str) -> str:
    """Return bytes as characters: by byte order mark, else UTF-8, else Windows-1252 if it may well be that.

    Raises UnreadableDocument for binary data and for encodings that cannot be told apart.
    """
    encoding = next((encoding for mark, encoding in BOMS.items() if data.startswith(mark)), None)
    if encoding:
        return _binary_is_refused(data.decode(encoding, "replace"), name)
    if b"\0" in data or len(CONTROL.findall(data)) > MOST_CONTROL * len(data):
        raise UnreadableDocument(f"{name} is binary data, not text.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    lenient = data.decode("utf-8", "replace")
    broken = lenient.count("\ufffd")
    intact = sum(not character.isascii() for character in lenient) - broken
    if broken <= MOST_BROKEN * intact:
        return lenient
    if sum(byte > 127 for byte in data) > MOST_ACCENTS * len(data):
        raise UnreadableDocument(f"{name} is neither UTF-8 nor Western text. Save it as UTF-8.")
    return data.decode("cp1252", "replace")


def normalize(text: str) -> str:
    """Return the text with `\\n` as its only line end, without control characters, surrogates or byte order marks.

    Tabs stay; doing it twice changes nothing.
    """
    return UNWANTED.sub("", LINE_ENDS.sub("\n", text))


def _binary_is_refused(text: str, name: str) -> str:
    odd = text.count("\ufffd") + len(UNWANTED.findall(text))
    if "\0" in text or odd > MOST_CONTROL * len(text) + 1:
        raise UnreadableDocument(f"{name} is binary data, not text.")
    return text
