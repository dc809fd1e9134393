"""Lexical search with SQLite's FTS5 and BM25, in the catalog's own database and transactions.

Source: Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond, 2009 (as SQLite implements it).
Chinese, Japanese and Korean text has no spaces: there each character is a token, and a question is searched by its
bigrams. English stop words are skipped unless the question has no other words, because ranking the many chunks that
contain them is slow. A capital inside a sentence marks a name (May, Will, the WHO), not a stop word.
"""

import json
import re
import sqlite3
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import pairwise

from store.german import is_german

SCHEMA = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5"
    "(chunk UNINDEXED, body, tokenize = 'porter unicode61 remove_diacritics 2')"
)
OWNER_FILTER = "AND rtrim(chunk, '0123456789') IN (SELECT value FROM json_each(:prefixes))"
MAX_TERMS = 128  # the last ones of a question; more make the search slow
CLITICS = re.compile(r"(?i)(?<=\w)(?:n['\u2019]t|['\u2019](?:s|re|ve|ll|d|m))\b")  # of "the ferry's" and "don't"
CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
CJK_CHARACTER = re.compile(f"([{CJK}])")
TERM = re.compile(f"((?<=[\\w,;)])[ \\t])?([{CJK}]+|[^\\W{CJK}]+)")  # group 1: the term is inside a sentence

STOP_WORDS = re.compile(
    r"an?|and|any|are|as|at|be|been|but|by|can|could|did|do|does|for|from|had|has|have|he|her|his|how|if?|in|into|is|its?"
    r"|many|may|me|much|my|no|not|of|on|or|our|she|should|so|some|than|that|the|theirs?|them|then|there|these|they|this"
    r"|those|to|was|we|were|what|when|where|which|who|whom|whose|why|will|with|would|your?"
)

GERMAN_STOP_WORDS = re.compile(
    r"aber|als|am|an|auch|auf|aus|bei|beim|bin|bis|da|dann|das|dem|den|denn|der|des|die|dies\w*|du|durch|ein|eine[mnrs]?|er"
    r"|es|f\u00fcr|gibt|hab|habe|haben|hat|hatte|ich|ihr|ihre[mnrs]?|im|in|ist|ja|kann|kein|keine[mnrs]?|man|mein|meine[mnrs]?"
    r"|mich|mir|mit|muss|m\u00fcssen|nach|nicht|noch|nur|ob|oder|sein|seine[mnrs]?|sich|sie|sind|so|soll|sollen|uns|unser\w*"
    r"|und|um|unter|vom|von|vor|war|waren|was|wegen|weil|welche[mnrs]?|wenn|wer|werden|wie|wieviel|wir|wird|wo|wurde|wurden"
    r"|zu|zum|zur|\u00fcber|wann|warum|darf|d\u00fcrfen|viele?|viel|hoch|lange"
)
MIN_PART = 5  # letters of a part of a German compound; shorter ones are in too many words


class BM25Index:
    """The terms of all chunks. The caller owns the transactions."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        connection.execute(SCHEMA)

    def add(self, chunks: Iterable[tuple[int, str, str]]) -> None:
        """Index chunks, each as (row number, chunk id, text)."""
        rows = ((row, chunk, CJK_CHARACTER.sub(r" \1 ", _normalize(text))) for row, chunk, text in chunks)
        self._connection.executemany("INSERT INTO words (rowid, chunk, body) VALUES (?, ?, ?)", rows)

    def delete(self, rows: Iterable[int]) -> None:
        self._connection.executemany("DELETE FROM words WHERE rowid = ?", ((row,) for row in rows))

    def search(self, question: str, top_k: int, owners: Sequence[str] | None = None) -> dict[str, float]:
        """Return the scores of at most `top_k` chunks that share a term with the question, by id, best first.

        Searches the chunks of `owners` (see `store.catalog.catalog`), or all if None.
        """
        query = fts_query(question)
        if not query:
            return {}
        prefixes = json.dumps([f"{owner}-" for owner in owners or ()])  # of chunk ids
        rows = self._connection.execute(
            "SELECT chunk, -bm25(words) AS score FROM words "
            f"WHERE words MATCH :query {'' if owners is None else OWNER_FILTER} "
            "ORDER BY score DESC, rowid LIMIT :top_k",
            {"query": query, "prefixes": prefixes, "top_k": top_k},
        )
        return dict(rows)


def fts_query(question: str) -> str:
    """Return a question as an FTS5 query: its terms joined by OR, each quoted so that none is an operator."""
    is_content_term: dict[str, bool] = {}  # False for stop words; ordered by last occurrence
    matches = TERM.findall(CLITICS.sub("", _normalize(question)))
    german = is_german(question)
    has_lower_case = any(term[0].islower() for _, term in matches)  # otherwise capitals mark no names
    for inside_sentence, term in matches:
        if not CJK_CHARACTER.match(term) or len(term) == 1:
            word = term.lower()
            is_name = bool(inside_sentence) and has_lower_case and term[0].isupper() and term != "I"
            is_stop_word = STOP_WORDS.fullmatch(word) or (german and GERMAN_STOP_WORDS.fullmatch(word))
            is_content_term[word] = is_content_term.pop(word, False) or is_name or not is_stop_word
        else:
            for left, right in pairwise(term):
                is_content_term[f"{left} {right}"] = is_content_term.pop(f"{left} {right}", True)
    terms = [term for term, is_content in is_content_term.items() if is_content] or list(is_content_term)
    queries = [query for term in terms[-MAX_TERMS:] for query in _queries(term, german)]
    return " OR ".join(dict.fromkeys(queries[-MAX_TERMS:]))


def _normalize(text: str) -> str:
    """Return a text with ordinary letters and digits in place of ligatures and superscripts: 'm2' finds 'm\u00b2'."""
    return unicodedata.normalize("NFKC", text)


def _queries(term: str, german: bool) -> list[str]:
    """Return the queries for a term; in German also for the compounds that start with it, and for its own parts."""
    if not german or len(term) < MIN_PART or not term.isalpha():
        return [f'"{term}"']
    parts = [part for cut in range(1, len(term)) for part in (term[:cut], term[cut:]) if len(part) >= MIN_PART]
    return [*(f'"{part}"' for part in parts), f'"{term}" *']
