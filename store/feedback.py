"""Ratings of answers by the users, and their export as evaluation data.

They are kept in a file of JSON lines. A rating has the passages that the answer was made from, so it is deleted with
any of their documents.
"""

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Lock

from pydantic import TypeAdapter, ValidationError

from store.atomic import copy_aside, write_atomic
from store.disk_full import disk_full_as_store_full
from store.errors import KVScopeError

FILE_NAME = "feedback.jsonl"
MAX_RATINGS = 2000  # the file is always written as a whole
log = logging.getLogger(__name__)


class TooManyRatings(KVScopeError):
    hint = f"Export them on the Library page, then delete {FILE_NAME} in the data folder."


class RatingsUnreadable(KVScopeError):
    hint = "Make the file readable for the user who runs KVScope."


@dataclass(frozen=True, slots=True)
class RatedPassage:
    document_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Rating:
    """What a user thinks of an answer. Stored under these names: do not rename the fields."""

    id: str
    at: float  # seconds since the epoch
    question: str
    answer: str  # without citation marks
    is_good: bool
    method: str
    passages: tuple[RatedPassage, ...]
    expected: str = ""  # what would have been right, if the user said so

    def as_evaluation(self, number: int) -> dict[str, object]:
        """Return it as a row that `python -m bench quality` reads; it has no answers if the right one is not known.

        Its own id lets a client change it, so it is not exported.
        """
        known = self.expected or (self.answer if self.is_good else "")
        return {
            "id": str(number),
            "question": self.question,
            "answers": [known] if known else [],
            "passages": [{"text": passage.text} for passage in self.passages],
            "rating": "good" if self.is_good else "bad",
            "answer": self.answer,
            "method": self.method,
            "at": self.at,
        }


_RATING = TypeAdapter(Rating)


class Feedback:
    """The ratings of one data folder. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._lock = Lock()

    def is_empty(self) -> bool:
        """Return whether there are no ratings, without reading them."""
        try:
            return self._path.stat().st_size == 0
        except OSError:
            return True

    def ratings(self) -> list[Rating]:
        """Return all ratings, oldest first. Raises RatingsUnreadable, as all that follow."""
        with self._lock:
            return self._read()[0]

    def put(self, rating: Rating) -> None:
        """Add a rating, or replace the one with its id. Raises StoreFull or TooManyRatings, with nothing changed."""
        with self._lock:
            ratings, is_damaged = self._read()
            others = [each for each in ratings if each.id != rating.id]
            if len(others) >= MAX_RATINGS:
                raise TooManyRatings(f"There are {MAX_RATINGS} ratings, the maximum.")
            self._write([*others, rating], is_damaged)

    def expect(self, rating_id: str, expected: str) -> Rating | None:
        """Add what would have been right to a rating; return it, or None if it was deleted. Raises StoreFull."""
        with self._lock:
            ratings, is_damaged = self._read()
            changed = next((replace(each, expected=expected) for each in ratings if each.id == rating_id), None)
            if changed is not None:
                self._write([changed if each.id == rating_id else each for each in ratings], is_damaged)
            return changed

    def remove(self, rating_id: str) -> None:
        """Delete a rating if it exists. Raises StoreFull, with nothing changed."""
        with self._lock:
            ratings, is_damaged = self._read()
            self._write([each for each in ratings if each.id != rating_id], is_damaged)

    def forget(self, document_id: str) -> None:
        """Delete the ratings of answers that were made from a document, and what cannot be read: it may be one of them.

        Raises StoreFull, with nothing changed.
        """
        with self._lock:
            ratings, is_damaged = self._read()
            kept = [each for each in ratings if document_id not in {one.document_id for one in each.passages}]
            if len(kept) < len(ratings) or is_damaged:
                self._write(kept, is_damaged=False)
            for leftover in self._path.parent.glob(f"{FILE_NAME}.*"):  # of a killed process, or damaged ones
                leftover.unlink(missing_ok=True)

    def find_damage(self) -> str:
        """Return what is wrong with the file, as the end of a sentence; empty if nothing is."""
        with self._lock:
            return "has ratings that cannot be read" if self._read()[1] else ""

    def repair(self) -> None:
        """Leave out what cannot be read; the damaged file is kept under a dated name. Raises StoreFull."""
        with self._lock:
            self._write(*self._read())

    def export(self) -> str:
        """Return all ratings as JSON lines, see `Rating.as_evaluation`."""
        rows = (rating.as_evaluation(number) for number, rating in enumerate(self.ratings(), start=1))
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)

    def _read(self) -> tuple[list[Rating], bool]:
        """Return the ratings that can be read, and whether there are others."""
        try:
            lines = self._path.read_bytes().splitlines()
        except FileNotFoundError:
            return [], False
        except OSError as error:
            raise RatingsUnreadable(f"{FILE_NAME} cannot be read ({error.strerror}).") from error
        ratings = []
        for line in lines:
            try:
                ratings.append(_RATING.validate_json(line))
            except ValidationError as error:
                log.warning("%s: a rating cannot be read (%s)", self._path, error.errors()[0]["msg"])
        return ratings, len(ratings) < len(lines)

    def _write(self, ratings: Sequence[Rating], is_damaged: bool) -> None:
        """Replace the file; one that is damaged is kept under a dated name."""
        texts = (json.dumps(asdict(rating), ensure_ascii=False) for rating in ratings)
        lines = (text.encode("utf-8", "replace") + b"\n" for text in texts)  # half characters cannot be read again
        with disk_full_as_store_full("save the rating"):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if is_damaged:
                copy_aside(self._path)
            write_atomic(self._path, b"".join(lines))
