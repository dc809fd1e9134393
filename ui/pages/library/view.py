"""What one session sees of the document table: its filters, its order, and which documents are open or selected."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from backend.interface.library import DocumentUsage
from store.names import split_suffix

PAGE_SIZE = 50  # rows shown before "Show more"
PASSAGES = "Parts of the text that are retrieved and cached individually (chunks)"
CACHED = "Keys and values (KV) of its passages, which questions reuse: the size in each tier of the cache."
COLUMNS: dict[str, tuple[str, str, Callable[[DocumentUsage], Any]]] = {  # key -> heading, tooltip, value to sort by
    "name": ("Name", "Sort by name", lambda usage: usage.document.name.casefold()),
    "size": ("Size", "File size", lambda usage: usage.document.size_bytes),
    "pages": ("Pages", "Number of pages, if the format has pages", lambda usage: usage.document.num_pages or 0),
    "passages": ("Passages", PASSAGES, lambda usage: usage.document.num_chunks),
    "computed": ("Cached", CACHED, lambda usage: usage.kv_bytes),
    "added": ("Added", "Date added", lambda usage: usage.document.added_at),
}
NOT_CLEAR = "Language not clear"
OTHER = "Other"  # the file type of names without a known extension
_EXTENSIONS = {
    "PDF": "pdf",
    "Word": "docx docm dotx",
    "Excel": "xlsx xlsm xltx",
    "PowerPoint": "pptx pptm ppsx potx",
    "EPUB": "epub",
    "HTML": "html htm xhtml",
    "Markdown": "md markdown",
    "CSV": "csv tsv tab",
    "Text": "txt text log",
    "Image": "png jpg jpeg tif tiff webp",
}
FILE_TYPES = (*_EXTENSIONS, OTHER)
_TYPE_BY_SUFFIX = {f".{suffix}": name for name, suffixes in _EXTENSIONS.items() for suffix in suffixes.split()}
AGES: dict[str, tuple[str, float]] = {  # key -> label, seconds since a document was added
    "": ("Added any time", math.inf),
    "day": ("Last 24 hours", 86_400),
    "week": ("Last 7 days", 7 * 86_400),
    "month": ("Last 30 days", 30 * 86_400),
}


@dataclass(frozen=True, slots=True)
class View:
    """What one session sees of the table; documents and passages are given by their ids."""

    filter: str = ""
    collection: str = ""  # whose documents alone are shown
    file_type: str = ""  # likewise, one of FILE_TYPES
    language: str = ""  # likewise, one of `existing_languages`
    age: str = ""  # a key of AGES
    order: str = "added"
    descending: bool = True
    limit: int = PAGE_SIZE  # rows shown
    open: str = ""  # the document whose passages are shown
    first: int = 0  # number of the first passage shown
    in_context: str = ""  # the passage that is shown in its surrounding text
    renaming: str = ""  # the document whose name is being edited
    pending_delete: tuple[str, ...] = ()  # the documents whose deletion has to be confirmed
    freed_bytes: int = 0  # by their deletion
    selected: tuple[str, ...] = ()
    naming: bool = False  # whether a collection for the selected documents is being named

    def unfiltered(self) -> "View":
        """Return the view without its filters."""
        return replace(self, filter="", collection="", file_type="", language="", age="")

    def without_unused(self, documents: Sequence[DocumentUsage]) -> "View":
        """Return the view without a file type or a language that is no choice any more."""
        file_type = self.file_type if self.file_type in existing_types(documents) else ""
        language = self.language if self.language in existing_languages(documents) else ""
        return replace(self, file_type=file_type, language=language)


def file_type(name: str) -> str:
    """Return one of FILE_TYPES for the name of a document."""
    return _TYPE_BY_SUFFIX.get(split_suffix(name)[1].lower(), OTHER)


def existing_types(documents: Sequence[DocumentUsage]) -> list[str]:
    """Return the file types of documents in the order of FILE_TYPES."""
    existing = {file_type(each.document.name) for each in documents}
    return [name for name in FILE_TYPES if name in existing]


def language(usage: DocumentUsage) -> str:
    """Return the language of a document as it is shown."""
    return usage.document.language or NOT_CLEAR


def existing_languages(documents: Sequence[DocumentUsage]) -> list[str]:
    """Return the languages of documents in alphabetical order, NOT_CLEAR at the end; none if there is only one."""
    names = {each.document.language for each in documents} - {""}
    if len(names) < 2:
        return []
    return [*sorted(names), *({language(each) for each in documents} & {NOT_CLEAR})]


def filter_and_sort(documents: Sequence[DocumentUsage], view: View) -> list[DocumentUsage]:
    """Return the documents that all filters of the view match, in its order.

    A name matches if it has every word of the filter. A collection, file type or language without documents, or a
    language that is the only one, does not filter.
    """
    words = view.filter.casefold().split()
    added_after = time.time() - AGES[view.age][1]
    is_collection = any(view.collection in each.document.collections for each in documents)
    is_type = view.file_type in existing_types(documents)
    is_language = view.language in existing_languages(documents)
    matches = [
        each
        for each in documents
        if all(word in each.document.name.casefold() for word in words)
        and each.document.added_at >= added_after
        and (not is_collection or view.collection in each.document.collections)
        and (not is_type or view.file_type == file_type(each.document.name))
        and (not is_language or view.language == language(each))
    ]
    return sorted(matches, key=COLUMNS[view.order][2], reverse=view.descending)
