"""Export a library to one file and import it elsewhere: documents with their chunks, without vectors and KV.

The file is a zip archive: `manifest.json`, `documents.jsonl` (one document a line: its row and its chunks' rows),
`preferences.json` and `collections.json`, which earlier versions did not write. Vectors and KV can be computed again;
chats are in the browsers.
"""

import io
import json
import sqlite3
import time
import zipfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from store.catalog.schema import FILE_NAME, is_outdated, open_database
from store.catalog.stored import StoredDocument, documents_in, insert
from store.disk_full import disk_full_as_store_full
from store.errors import ExportFailed, KVScopeError
from store.limits import Limits
from store.names import clean_name, unique_name
from store.preferences import COLLECTIONS, Preferences

FORMAT = 1
MANIFEST, DOCUMENTS, PREFERENCES = "manifest.json", "documents.jsonl", "preferences.json"
ORIGINAL = "original"
MAX_LINE_BYTES = 2**30  # of one document; the longest text that the settings allow has 50 million characters
MAX_SMALL_BYTES = 2**20  # of the other members


class ImportFailed(KVScopeError):
    hint = "Export the library again and import the new file; nothing was changed by this one."


@dataclass(frozen=True)
class ImportResult:
    """What an import did."""

    added: int
    existing: int  # were in the library before
    damaged: list[str]  # names of documents with a wrong checksum


def export_library(data: Path, target: IO[bytes], document_id: str = "") -> int:
    """Write an export of a data folder, which may be in use; return the number of documents.

    With `document_id`, only this document is in it, and no settings.

    Raises ExportFailed for a library that is damaged or of an earlier version, and StoreFull.
    """
    try:
        return _export(data, target, document_id)
    except sqlite3.DatabaseError as error:
        raise ExportFailed(f"The library's database cannot be read ({error}).") from error


def _export(data: Path, target: IO[bytes], document_id: str) -> int:
    path = data / "library" / FILE_NAME
    count = 0
    with disk_full_as_store_full("export the library"), zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        if path.exists():
            with closing(open_database(path)) as connection, archive.open(DOCUMENTS, "w", force_zip64=True) as lines:
                connection.row_factory = sqlite3.Row
                if is_outdated(connection):
                    raise ExportFailed("The library is of an earlier version.")
                connection.execute("BEGIN")  # one state of the library, whatever happens meanwhile
                query = "SELECT count(*) FROM documents WHERE NOT pending AND (? = '' OR id = ?)"
                (expected,) = connection.execute(query, (document_id, document_id)).fetchone()
                for stored in documents_in(connection, document_id):
                    if not stored.is_whole:
                        raise ExportFailed(f"{stored.document['name']} is damaged.")
                    lines.write(json.dumps({"document": stored.document, "chunks": stored.chunks}).encode() + b"\n")
                    count += 1
                if count != expected:
                    raise ExportFailed("Some documents cannot be read.")
        for name in (PREFERENCES, COLLECTIONS):
            archive.writestr(name, json.dumps({} if document_id else Preferences(data, name).read()))
        archive.writestr(MANIFEST, json.dumps({"format": FORMAT, "created_at": time.time(), "documents": count}))
    return count


def export_document(data: Path, document_id: str, original: bytes | None) -> bytes:
    """Return an export of one document, with the bytes of its original. Raises ExportFailed and StoreFull."""
    file = io.BytesIO()
    export_library(data, file, document_id)
    if original is not None:
        with zipfile.ZipFile(file, "a") as archive:
            archive.writestr(ORIGINAL, original)
    return file.getvalue()


def original_in(source: Path) -> bytes | None:
    """Return the original in an export of one document; None if there is none."""
    with zipfile.ZipFile(source) as archive:
        return archive.read(ORIGINAL) if ORIGINAL in archive.namelist() else None


def import_library(data: Path, source: Path, connection: sqlite3.Connection, limits: Limits) -> ImportResult:
    """Add the documents of an export to a library's database; settings are taken over if there are none.

    Raises ImportFailed if the file is no export, or LibraryFull, before any change; and StoreFull.
    """
    added, existing, damaged = 0, 0, list[str]()
    known = {document_id for (document_id,) in connection.execute("SELECT id FROM documents")}
    names = {name for (name,) in connection.execute("SELECT name FROM documents")}
    try:
        with zipfile.ZipFile(source) as archive:
            _check_manifest(archive)
            preferences = json.loads(_read_small(archive, PREFERENCES))
            has_collections = COLLECTIONS in archive.namelist()
            collections = json.loads(_read_small(archive, COLLECTIONS)) if has_collections else {}
            with disk_full_as_store_full("import documents"), connection:
                for stored in _documents_in_archive(archive):
                    name = clean_name(str(stored.document["name"]))
                    if stored.document["id"] in known:
                        existing += 1
                    elif not stored.is_whole or not _is_consistent(stored):
                        damaged.append(name)
                    else:
                        limits.check_documents(len(known) + 1)
                        names.add(insert(connection, stored, unique_name(name, names)))
                        known.add(stored.document["id"])
                        added += 1
    except (
        OSError,
        zipfile.BadZipFile,
        sqlite3.Error,
        ValueError,
        LookupError,
        TypeError,
        EOFError,
        RecursionError,
    ) as error:
        raise ImportFailed(f"{source.name} is not a KVScope export, or is damaged ({error}).") from error
    if isinstance(preferences, dict) and preferences and not Preferences(data).read():
        Preferences(data).write(preferences)
    if isinstance(collections, dict) and collections:
        saved = Preferences(data, COLLECTIONS)
        saved.write({**collections, **saved.read()})
    return ImportResult(added, existing, damaged)


def _check_manifest(archive: zipfile.ZipFile) -> None:
    version = json.loads(_read_small(archive, MANIFEST))["format"]
    if version != FORMAT:
        raise ImportFailed(f"The export has format {version}; this version of KVScope reads format {FORMAT}.")


def _read_small(archive: zipfile.ZipFile, name: str) -> bytes:
    with archive.open(name) as member:
        content = member.read(MAX_SMALL_BYTES + 1)
    if len(content) > MAX_SMALL_BYTES:
        raise ValueError(f"{name} is too large")
    return content


def _documents_in_archive(archive: zipfile.ZipFile) -> Iterator[StoredDocument]:
    if DOCUMENTS not in archive.namelist():
        return
    with archive.open(DOCUMENTS) as lines:
        while line := lines.readline(MAX_LINE_BYTES):
            if len(line) == MAX_LINE_BYTES:
                raise ValueError("a document is too large")
            entry: dict[str, Any] = json.loads(line)
            yield StoredDocument(dict(entry["document"]), [dict(chunk) for chunk in entry["chunks"]])


def _is_consistent(stored: StoredDocument) -> bool:
    """Return whether the chunks belong to the document: a checksum can be made for anything."""
    document_id = stored.document["id"]
    return (
        isinstance(document_id, str)
        and len(document_id) == 64
        and stored.document.get("checksum") is not None
        and str(stored.document.get("owner") or document_id).partition(".")[0] == document_id
        and len(stored.chunks) == stored.document["chunks"]
        and all(chunk["document_id"] == document_id for chunk in stored.chunks)
    )
