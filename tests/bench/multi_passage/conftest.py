"""A SQuAD file of forty paragraphs with pronouns, and a counter of tokens that needs no model."""

import json
import re
from itertools import islice

import pytest

from bench.__main__ import _parser
from bench.measures import adaptive, quality
from bench.multi_passage.tasks import TASKS, open_source
from tests.support.doubles import make_engine

BOATS = ("Abel", "Berta", "Cato", "Dido", "Echo", "Fama", "Gaia", "Hero", "Iris", "Juno")
ENDS = ("", "na", "lia", "rex")


def count_tokens(text):
    """Count words and punctuation marks."""
    return len(re.findall(r"\w+|[^\w\s]", text))


def paragraph(boat, number):
    return (
        f"The {boat} sailed from harbour {number} in spring. It carried grain, timber and {number + 3} passengers. "
        f"They paid little, since the company wanted to fill every cabin of the new line before the summer came. "
        f"Its captain was called Ole {boat}sen. He had learned the trade on the lakes of the north, where the winds "
        f"turn quickly. Dr. J. Brandt, the owner, praised him. In the autumn it was laid up for repairs. "
        f"The bill came to {1000 + number} crowns, and the crew went home."
    )


@pytest.fixture
def squad(tmp_path):
    rows = [
        {
            "title": f"Ship_{boat}",
            "context": paragraph(boat, number),
            "qas": [
                {"id": f"c{number}", "question": f"Who sailed the {boat}?", "answers": [f"Ole {boat}sen"]},
                {
                    "id": f"b{number}",
                    "question": f"What did the repair of {boat} cost?",
                    "answers": [str(1000 + number)],
                },
            ],
        }
        for number, boat in enumerate((boat + end for boat in BOATS for end in ENDS), 100)
    ]
    path = tmp_path / "ships.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


@pytest.fixture
def arguments(squad, tmp_path):
    """Arguments of the command line for a tiny model."""

    def parse(*own, measure="quality"):
        models = ["--model", "tiny", "--auxiliary-model", "tiny", "--lora-adapter", "off", "--token-selector", "off"]
        shared = ["--dtype", "fp32", "--device", "cpu", "--methods", "direct", "--num-samples", "1"]
        target = ["--json", str(tmp_path / "rows.json"), "--data-dir", str(tmp_path)]
        return _parser().parse_args([measure, squad, *models, *shared, *target, *own])

    return parse


@pytest.fixture
def engine(monkeypatch):
    """The engine that the measures open."""
    only = make_engine()
    for measure in (quality, adaptive):
        monkeypatch.setattr(measure, "engine_of", lambda arguments: only)
    return only


@pytest.fixture
def make(squad):
    """A function that returns the first items of a task."""

    def first_items(task, samples, passages=8, seed=0, file=squad):
        return list(islice(TASKS[task](open_source(task, file, passages, seed), count_tokens), samples))

    return first_items
