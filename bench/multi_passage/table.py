"""Cells of a table that was cut without repeating its header row, as fixed-size chunking cuts a long table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from random import Random

from bench.multi_passage import names
from bench.multi_passage.facts import FactSample
from bench.ruler.tasks import distinct

NUM_COLUMNS = 2  # besides that of the names
NUM_ROWS = 6
MAX_PASSAGES = 4  # that the table is cut into, the one with the header included


@dataclass(frozen=True)
class Theme:
    """A kind of table; all columns hold values of the same kind, so that only the header row tells them apart."""

    caption: str
    corner: str  # header of the column of names
    row: Callable[[Random], str]
    columns: Sequence[str]
    cell: Callable[[Random], str]
    question: str  # {row} and {column}


def _site(rng: Random) -> str:
    return f"{names.town(rng)} {rng.choice(names.BUILDINGS).title()}"


THEMES = (
    Theme(
        "Visitors per month",
        "Site",
        _site,
        names.MONTHS,
        names.count,
        "How many visitors did {row} have in {column}?",
    ),
    Theme(
        "Ticket prices in euros",
        "Site",
        _site,
        ("Adults", "Children", "Families", "Groups", "Members", "Pensioners", "Students"),
        names.price,
        "What is the ticket price in euros for {column} at {row}?",
    ),
    Theme(
        "Rainfall in millimetres",
        "Station",
        _site,
        names.MONTHS,
        names.count,
        "How many millimetres of rain fell at {row} in {column}?",
    ),
    Theme(
        "Employees by department",
        "Company",
        names.company,
        ("Accounting", "Logistics", "Marketing", "Production", "Purchasing", "Research", "Sales"),
        names.count,
        "How many employees does {row} have in {column}?",
    ),
    Theme(
        "Points by subject",
        "Name",
        names.person,
        ("Biology", "Chemistry", "Geography", "History", "Mathematics", "Music", "Physics"),
        names.count,
        "How many points does {row} have in {column}?",
    ),
)


def table_question(rng: Random) -> FactSample:
    """Return a question for a cell; row names and values are distinct, the header comes first."""
    theme = rng.choice(THEMES)
    columns = rng.sample(theme.columns, NUM_COLUMNS)
    values = iter(distinct(partial(theme.cell, rng), NUM_ROWS * NUM_COLUMNS))
    rows = [[name, *islice(values, NUM_COLUMNS)] for name in distinct(partial(theme.row, rng), NUM_ROWS)]
    row, column = rng.choice(rows), rng.randrange(NUM_COLUMNS)
    header = "\n".join([theme.caption, _line([theme.corner, *columns]), _line(["---"] * (NUM_COLUMNS + 1))])

    def hide(paragraphs: list[str]) -> list[str]:
        """Put the header below a paragraph, the next rows on their own, and the last ones above a paragraph."""
        passages = list(paragraphs)
        first, *others = sorted(rng.sample(range(len(passages)), min(MAX_PASSAGES, len(passages))))
        passages[first] += f"\n\n{header}"
        size = -(-NUM_ROWS // len(others))
        for part, place in enumerate(others):
            block = "\n".join(map(_line, rows[part * size : (part + 1) * size]))
            passages[place] = f"{block}\n\n{passages[place]}" if place == others[-1] else block
        return passages

    question = f'Table "{theme.caption}": {theme.question.format(row=row[0], column=columns[column])}'
    return FactSample(question, row[column + 1], (row[0], row[column + 1]), hide)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
