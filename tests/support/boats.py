"""A small corpus for training tests: paragraphs about boats, with two questions each, and distractors."""

from training.data.corpus import Corpus, Paragraph

PARAGRAPHS = tuple(
    Paragraph(
        f"Boat number {n} was built by the yard of Mr {name} in the year {1900 + n}. It carries {n * 7} cars.",
        ((f"When was boat {n} built?", f"{1900 + n}"), (f"Who built boat {n}?", f"Mr {name}")),
    )
    for n, name in enumerate(("Arden", "Bell", "Corso", "Dahl", "Eck", "Falk", "Gall", "Hald", "Ibsen", "Jans"), 11)
)
DISTRACTORS = tuple(
    Paragraph(f"Nothing of use stands here, and {n} times nothing is still nothing at all.") for n in range(5)
)
BOATS = [Corpus("boats", PARAGRAPHS * 4), Corpus("distractors", DISTRACTORS)]
