"""Parse EPUB books: their chapters in reading order, which are HTML files in a ZIP archive."""

import io
import posixpath
import zipfile
from collections.abc import Iterator
from urllib.parse import unquote
from xml.etree import ElementTree

from store.errors import UnreadableDocument
from store.ingest.archive import check_members, reject_entities
from store.ingest.document import ParsedDocument, reading
from store.ingest.text import decode, normalize
from store.ingest.web.html import lower_headings, parse_soup, soup_to_markdown
from store.limits import Limits

CONTAINER = "META-INF/container.xml"  # names the package file, which lists the chapters
ENCRYPTION = "META-INF/encryption.xml"  # lists encrypted files; fonts often are
HEADINGS = ["h1", "h2", "h3", "h4", "h5", "h6"]


def parse_epub(data: bytes, name: str, limits: Limits) -> ParsedDocument:
    """Return a book's chapters below its title. Raises UnreadableDocument or DocumentTooLarge."""
    with reading(name, "EPUB book"), zipfile.ZipFile(io.BytesIO(data)) as archive:
        check_members(archive.infolist(), name)
        root = _read_xml(archive, CONTAINER, name).find(".//{*}rootfile")
        path = "" if root is None else root.get("full-path", "")
        package = _read_xml(archive, path, name)
        title = normalize(" ".join((package.findtext("{*}metadata/{*}title") or "").split()))
        authors = [normalize(each.text or "").strip() for each in package.iterfind("{*}metadata/{*}creator")]
        parts = list(filter(None, [f"# {title}" if title else "", ", ".join(filter(None, authors))]))
        encrypted = archive.read(ENCRYPTION).decode("utf-8", "replace") if ENCRYPTION in archive.namelist() else ""
        num_chars = num_chapters = 0
        for chapter in _chapter_paths(package, path):
            if chapter in encrypted:
                raise UnreadableDocument(f"{name} is copy-protected.")
            text = _read_chapter(archive, chapter, title, name, limits)
            num_chapters += bool(text)
            num_chars += len(text)
            limits.check_characters(num_chars, name)
            parts += [text] if text else []
    return ParsedDocument("\n\n".join(parts) if num_chapters else "")


def _read_xml(archive: zipfile.ZipFile, path: str, name: str) -> ElementTree.Element:
    source = archive.read(path)
    reject_entities(source, name)
    return ElementTree.fromstring(source)


def _chapter_paths(package: ElementTree.Element, package_path: str) -> Iterator[str]:
    """Yield the paths of the chapters in reading order, without the table of contents."""
    items = {item.get("id"): item for item in package.iterfind("{*}manifest/{*}item")}
    for reference in package.iterfind("{*}spine/{*}itemref"):
        item = items.get(reference.get("idref"))
        if item is not None and "nav" not in item.get("properties", "").split():
            yield posixpath.normpath(posixpath.join(posixpath.dirname(package_path), unquote(item.get("href", ""))))


def _read_chapter(archive: zipfile.ZipFile, path: str, book: str, name: str, limits: Limits) -> str:
    """Return a chapter with its headings below the book's title; '' if it has no text or is not in the archive."""
    if path not in archive.namelist():
        return ""
    source, _ = decode(archive.read(path), name)
    limits.check_characters(len(source), name)
    soup = parse_soup(source, name)
    title = normalize(" ".join(soup.title.get_text().split())) if soup.title else ""
    if book:
        lower_headings(soup)
    is_titled = soup.find(HEADINGS) is not None or not title or title == book
    text = soup_to_markdown(soup)
    return text if is_titled or not text else f"{'##' if book else '#'} {title}\n\n{text}"
