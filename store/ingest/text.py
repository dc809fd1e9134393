"""Parse plain text: decode the bytes, then normalise the characters."""

import codecs
import re
from collections.abc import Sequence
from contextlib import suppress

from store.errors import UnreadableDocument
from store.ingest.document import ParsedDocument
from store.ingest.encoding import CONTROL, guess_encodings, guess_utf16
from store.limits import Limits
from store.markdown import LIST_ITEM

BOMS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, whose mark is a prefix of it
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
MAX_CONTROL_RATIO = 0.001  # control bytes of all bytes; more is binary
MAX_INVALID_RATIO = 0.1  # invalid sequences per valid multi-byte character; up to it, damaged UTF-8
LINE_ENDS = re.compile(r"\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
QUOTED_LINE = re.compile(r"^>[> ]*", re.M)
MIN_QUOTED_LINES = 3  # of an e-mail
MIN_WIDTH, MAX_WIDTH = 45, 100  # characters of a line that was wrapped
MIN_IN_SENTENCE = 0.34  # of the lines after the first one that begin with a small letter
MISFIT = re.compile(r"[\x80-\x9f\ufffd]")  # what bytes that an encoding does not use are decoded to
GUESSED = "Its encoding was guessed as {}; if characters look wrong, save it as UTF-8."
EXPONENT = re.compile(r" *[+\u2212-]?\d+ *")
SUPERSCRIPTS = str.maketrans(
    "0123456789+-\u2212", "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207a\u207b\u207b"
)
UNWANTED = re.compile(r"[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufeff\ufffe\uffff]")


def parse_text(data: bytes, name: str, limits: Limits) -> ParsedDocument:
    """Return the text, with any Markdown syntax. Raises UnreadableDocument if it is not text."""
    text, warning = decode(data, name)
    return ParsedDocument(unwrap(normalize(text)), warning=warning)


def unwrap(text: str) -> str:
    """Join the lines of paragraphs that were wrapped at a width, also those of quotes in an e-mail, without marks."""
    if len(QUOTED_LINE.findall(text)) >= MIN_QUOTED_LINES:
        text = QUOTED_LINE.sub("", text)
    paragraphs = (part.split("\n") for part in text.split("\n\n"))
    return "\n\n".join((" " if _is_wrapped(lines) else "\n").join(lines) for lines in paragraphs)


def _is_wrapped(paragraph: Sequence[str]) -> bool:
    *lines, last = paragraph
    following = [*lines[1:], last]
    in_sentence = sum(line[:1].islower() for line in following)
    widths = list(map(len, lines))
    return (
        bool(lines)
        and min(widths) >= MIN_WIDTH
        and max(*widths, len(last)) <= MAX_WIDTH
        and MIN_IN_SENTENCE * len(following) <= in_sentence
        and not any(map(LIST_ITEM.match, following))
    )


def decode(data: bytes, name: str) -> tuple[str, str]:
    """Decode by byte order mark, else as UTF-8, else by a guess; return the text, and a warning if it is a guess.

    Raises UnreadableDocument for binary data and for encodings that are not recognised.
    """
    marked = next((encoding for mark, encoding in BOMS.items() if data.startswith(mark)), "")
    is_binary = b"\0" in data or len(CONTROL.findall(data)) > MAX_CONTROL_RATIO * len(data)
    if encoding := marked or (is_binary and guess_utf16(data)):
        text = data.decode(encoding, "replace")
        num_invalid = text.count("\ufffd") + len(UNWANTED.findall(text))
        if "\0" not in text and num_invalid <= MAX_CONTROL_RATIO * len(text) + 1:
            return text, "" if marked else GUESSED.format("UTF-16")
    if is_binary or marked:
        raise UnreadableDocument(f"{name} is binary data, not text.")
    with suppress(UnicodeDecodeError):
        return data.decode("utf-8"), ""
    lenient = data.decode("utf-8", "replace")
    num_invalid = lenient.count("\ufffd")
    num_valid = len(lenient) - len(lenient.encode("ascii", "ignore")) - num_invalid
    if num_invalid <= MAX_INVALID_RATIO * num_valid:
        return lenient, ""
    for codec, label in guess_encodings(data):
        text = data.decode(codec, "replace")
        if len(MISFIT.findall(text)) <= MAX_CONTROL_RATIO * len(text):
            return text, GUESSED.format(label)
    raise UnreadableDocument(f"The encoding of {name} is not recognised. Save it as UTF-8.")


def superscript(text: str) -> str:
    """Return a number with raised digits, which would otherwise belong to the one before; other texts as they are."""
    return text.translate(SUPERSCRIPTS) if EXPONENT.fullmatch(text) else text


def normalize(text: str) -> str:
    """Return the text with `\\n` as its only line end, without control characters (but tabs), surrogates or BOMs."""
    return UNWANTED.sub("", LINE_ENDS.sub("\n", text))
