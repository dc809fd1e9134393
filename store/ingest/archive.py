"""Check ZIP-based documents (Office files, EPUB books) before a parser reads them.

Rejected: an archive that unpacks to too much, one with a password, and XML that declares entities, which can expand
without end, or read other files.
"""

import io
import zipfile
from math import ceil

from store.errors import DocumentTooLarge, UnreadableDocument

MAX_UNPACKED_BYTES = 150 * 2**20  # of all parts together: a small archive can unpack to gigabytes
MAX_RATIO = 200  # unpacked bytes per packed byte; the XML of a table of equal rows has about 60
MIN_RATIO_BYTES = 5 * 2**20  # unpacked, from which the ratio counts
IS_ENCRYPTED = 1  # flag bit of a member


def check_archive(data: bytes, name: str) -> None:
    """Raise UnreadableDocument or DocumentTooLarge if the parts of an archive are not safe to parse."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        check_members(members, name)
        for member in members:  # any of them can be the main part
            reject_entities(archive.read(member), name)


def check_members(members: list[zipfile.ZipInfo], name: str) -> None:
    """Raise UnreadableDocument for a password, DocumentTooLarge if the members unpack to more than a limit."""
    unpacked = sum(member.file_size for member in members)  # zipfile reads no more than declared
    packed = sum(member.compress_size for member in members)
    if unpacked > MAX_UNPACKED_BYTES:
        raise DocumentTooLarge(
            f"{name} unpacks to {ceil(unpacked / 2**20)} MiB; the limit is {MAX_UNPACKED_BYTES >> 20} MiB."
        )
    if unpacked > MIN_RATIO_BYTES and unpacked > MAX_RATIO * packed:
        raise DocumentTooLarge(
            f"{name} unpacks to {unpacked / max(packed, 1):.0f} times its size, as no document does."
        )
    if any(member.flag_bits & IS_ENCRYPTED for member in members):
        raise UnreadableDocument(f"{name} is password-protected; remove its password first.")


def reject_entities(part: bytes, name: str) -> None:
    """Raise UnreadableDocument if a part of an archive declares XML entities, in any encoding."""
    if b"<!ENTITY" in part.replace(b"\0", b""):  # UTF-16 adds zero bytes
        raise UnreadableDocument(
            f"{name} declares XML entities, which can expand without end. Documents do not need them; "
            "if an SVG picture in the file uses them, remove it."
        )
