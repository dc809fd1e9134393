"""Find chunks by their words: SQLite's FTS5 with bm25, in the catalogue's own database and transactions.

English endings are stripped (porter), so 'caches' finds 'cached'; names, numbers and codes match as they are, which
vectors do badly. Chinese, Japanese and Korean are written without spaces: there every character is a word, and a
question asks for its pairs of neighbours. English words without a meaning of their own are not looked for, unless a
question has no others: most chunks hold them, so all of those would be ranked. Capitals inside a question tell a name
from such a word (May, Will, the WHO).
"""

import json
import re
import sqlite3
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import pairwise

SCHEMA = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5"
    "(chunk UNINDEXED, body, tokenize = 'porter unicode61 remove_diacritics 2')"
)
WITHIN = "AND rtrim(chunk, '0123456789') IN (SELECT value FROM json_each(?))"
MOST_TERMS = 128  # of a question, its last ones; more only makes it slow
CLIPPED = re.compile(r"(?i)(?<=\w)(?:n['\u2019]t|['\u2019](?:s|re|ve|ll|d|m))\b")  # of "the ferry's" and "don't"
UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
CHARACTER = re.compile(f"([{UNSPACED}])")
TERM = re.compile(f"((?<=[\\w,;)])[ \\t])?([{UNSPACED}]+|[^\\W{UNSPACED}]+)")  # and what shows it inside a sentence

SILENT = re.compile(
    r"an?|and|any|are|as|at|be|been|but|by|can|could|did|do|does|for|from|had|has|have|he|her|his|how|if?|in|into|is|its?"
    r"|many|may|me|much|my|no|not|of|on|or|our|she|should|so|some|than|that|the|theirs?|them|then|there|these|they|this"
    r"|those|to|was|we|were|what|when|where|which|who|whom|whose|why|will|with|would|your?"
)


class BM25Index:
    """The words of all chunks. Writes belong to the caller's transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.execute(SCHEMA)

    def add(self, chunks: Iterable[tuple[int, str, str]]) -> None:
        """Index (row number, chunk id, text)."""
        rows = ((row, chunk, CHARACTER.sub(r" \1 ", text)) for row, chunk, text in chunks)
        self._connection.executemany("INSERT INTO words (rowid, chunk, body) VALUES (?, ?, ?)", rows)

    def delete(self, rows: Iterable[int]) -> None:
        """Forget chunks by their row number."""
        self._connection.executemany("DELETE FROM words WHERE rowid = ?", ((row,) for row in rows))

    def search(self, question: str, top: int, documents: Sequence[str] = ()) -> list[str]:
        """Return at most `top` chunk ids with a word of the question, best first. Any characters are allowed.

        documents  owners of the chunks to look in; none for all. A chunk's id says whose it is
        """
        query = fts_query(question)
        if not query:
            return []
        chosen = json.dumps([f"{document}-" for document in documents])
        found = self._connection.execute(
            f"SELECT chunk FROM words WHERE words MATCH ? {WITHIN if documents else ''} "
            "ORDER BY bm25(words), rowid LIMIT ?",
            (query, *([chosen] if documents else []), top),
        )
        return [chunk for (chunk,) in found]


def fts_query(question: str) -> str:
    """Return a question as an FTS5 query: its terms, quoted so that none is an operator, joined by OR."""
    terms: dict[str, bool] = {}  # whether a term tells anything; in the order of where each stands last
    found = TERM.findall(CLIPPED.sub("", unicodedata.normalize("NFC", question)))
    cased = any(term[0].islower() for _, term in found)  # else capitals tell nothing
    for inside, term in found:
        if not CHARACTER.match(term) or len(term) == 1:
            word = term.lower()
            named = bool(inside) and cased and term[0].isupper() and term != "I"
            terms[word] = terms.pop(word, False) or named or not SILENT.fullmatch(word)
        else:
            for left, right in pairwise(term):
                terms[f"{left} {right}"] = terms.pop(f"{left} {right}", True)
    telling = [term for term, tells in terms.items() if tells] or list(terms)
    return " OR ".join(f'"{term}"' for term in telling[-MOST_TERMS:])
