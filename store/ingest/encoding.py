"""Guess the encoding of a text that neither a byte order mark nor valid UTF-8 decides.

chardet ranks the encodings, except UTF-16, in which it recognises no Chinese, Japanese or Korean. Rare encodings are
candidates too: without them, their texts would be read as something else.
"""

import re
from collections.abc import Iterator
from contextlib import suppress

ENCODINGS = {  # Python's codecs, of the larger set where one contains another; their names for users
    "cp1252": "Windows-1252",
    "iso8859-15": "ISO-8859-15",
    "cp1250": "Windows-1250",
    "iso8859-2": "ISO-8859-2",
    "cp1251": "Windows-1251",
    "koi8-r": "KOI8-R",
    "koi8-u": "KOI8-U",
    "cp1253": "Windows-1253",
    "iso8859-7": "ISO-8859-7",
    "cp1254": "Windows-1254",
    "cp1255": "Windows-1255",
    "cp1256": "Windows-1256",
    "cp1257": "Windows-1257",
    "cp874": "Windows-874",
    "cp932": "Shift-JIS",
    "euc_jis_2004": "EUC-JP",
    "gb18030": "GB18030",
    "big5hkscs": "Big5",
    "cp949": "EUC-KR",
}
WESTERN = {"cp1252", "iso8859-15"}
WESTERN_PREFERENCE = 1.25  # factor of their confidence: a few accents fit many encodings
MIN_CONFIDENCE = 0.05  # below it, nothing but Western text is recognised
MAX_HIGH_RATIO = 0.3  # bytes above 127 of all bytes in Western text
SAMPLE_BYTES = 100_000
CONTEXT_BYTES = 200  # of ASCII before a line's first byte above 127
CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
HIGH = re.compile(rb"[\x80-\xff]")
FROM_HIGH = re.compile(rb"[\x80-\xff][^\n]*")  # to the end of the line; begins with a whole character
ORDINARY = re.compile(
    r"[\t\n\r -~\xa0-\u052f\u0590-\u06ff\u0e00-\u0e7f\u2010-\u2122\u3000-\u30ff\u4e00-\u9fff\uac00-\ud7a3\uff00-\uffef]"
)
MIN_ORDINARY_RATIO = 0.95  # of all characters of a text


def guess_utf16(data: bytes) -> str:
    """Return UTF-16 in the byte order that gives ordinary characters; '' if neither does.

    In the wrong order, letters are rare characters; ASCII letters are Chinese ones, but spaces and line ends are not.
    So are pairs of ASCII letters in UTF-8 that has some zero bytes.
    """
    sample, fits = data[:SAMPLE_BYTES], {}
    for encoding in ("utf-16-le", "utf-16-be"):
        with suppress(UnicodeDecodeError):
            text = sample.decode(encoding)
            num_ascii = sum(map(str.isascii, text))
            is_likely = num_ascii * 2 >= len(text) or not _is_utf8(data.replace(b"\0", b""))
            if is_likely and len(ORDINARY.findall(text)) >= MIN_ORDINARY_RATIO * len(text):
                fits[encoding] = num_ascii
    return max(fits, key=lambda encoding: fits[encoding], default="")


def guess_encodings(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield codecs that may be the text's, the likeliest first, each with its name for users; none for other bytes."""
    from chardet import detect_all  # noqa: PLC0415  only few files need it

    sample = _take_sample(data)
    results = detect_all(
        sample, ignore_threshold=True, prefer_superset=False, compat_names=False, include_encodings=ENCODINGS
    )
    scores = {each["encoding"]: each["confidence"] for each in results if each["encoding"] in ENCODINGS}
    if max(scores.values(), default=0) < MIN_CONFIDENCE:
        likely = WESTERN if len(HIGH.findall(sample)) <= MAX_HIGH_RATIO * len(sample) else set()
        scores = {encoding: scores[encoding] for encoding in likely & scores.keys()}
    for encoding in WESTERN & scores.keys():
        scores[encoding] *= WESTERN_PREFERENCE
    for encoding in sorted(scores, key=lambda encoding: scores[encoding], reverse=True):
        yield encoding, ENCODINGS[encoding]


def _is_utf8(data: bytes) -> bool:
    """Return whether bytes are text in UTF-8; Cyrillic or Greek in UTF-16 is not, for its control characters."""
    with suppress(UnicodeDecodeError):
        return bool(data.decode("utf-8")) and not CONTROL.search(data)
    return False


def _take_sample(data: bytes) -> bytes:
    """Return what is not ASCII, with some ASCII around it.

    It begins with a space and has no control characters, so that chardet does not look for formats other than text.
    """
    parts, num_bytes, end = [b" "], 0, 0
    for match in FROM_HIGH.finditer(data):
        start = max(end, match.start() - CONTEXT_BYTES)
        parts.append(data[start : min(match.end() + 1, start + SAMPLE_BYTES - num_bytes)])
        num_bytes, end = num_bytes + len(parts[-1]), match.end() + 1
        if num_bytes >= SAMPLE_BYTES:
            break
    return b"".join(parts).translate(None, bytes([*range(9), *range(14, 32), 127]))
