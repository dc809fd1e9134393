"""Evidence about a question from passages given as text, with a span scorer and an encoder that know what to find."""

import re

import torch

from engine.generation.evidence import Evidence
from engine.generation.ranking import UnitRanker
from engine.generation.span_scorer import SpanScores, Window
from engine.model.tokenizer import TokenizedText
from engine.prompt.pack import PreparedPrompt
from engine.prompt.tables.totals import NO_ROWS
from store.types import Chunk, Hit

MANUAL = """manual > Pump > Care

## Cleaning

Clean the pump as follows:

1. Switch it off.
2. Rinse the sieve.

The warranty ends after two years. Oil it once a month.

| Model: A10 | Weight: 151 kg |
| Model: B20 | Weight: 160 kg |"""
OTHER = "It is blue. The warranty ends after three years."


class Scorer:
    """Gives each of `parts` an equal share of `probability`, at its first and last word."""

    def __init__(self, *parts, probability=0.9):
        self.parts = parts
        self.probability = probability

    def score(self, question, texts, cancel=None, read=None):
        windows, rows = [], []
        for passage in range(len(texts)) if read is None else read:
            text = texts[passage]
            words = [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]
            windows.append(Window(passage, tuple(range(len(words))), tuple(words)))
            rows.append(torch.full((2, 100), 1e-9))
            rows[-1][:, len(words) :] = 0.0
            for part in self.parts:
                if (at := text.find(part)) >= 0:
                    inside = [i for i, (start, end) in enumerate(words) if start < at + len(part) and end > at]
                    for edge, piece in ((0, inside[0]), (1, inside[-1])):
                        rows[-1][edge, piece] += self.probability / len(self.parts)
        starts, ends = torch.stack(rows).log().unbind(1)
        return SpanScores(tuple(windows), starts, ends, 1 - self.probability)


class Encoder:
    """Embeds a text as the counts of some words, so that texts are similar if they share these."""

    def __init__(self, *words):
        self.words = words

    def embed_sentences(self, texts):
        counts = torch.tensor([[1e-3, *(float(word in text) for word in self.words)] for text in texts])
        return torch.nn.functional.normalize(counts, dim=-1)


def evidence(
    question, scorer, *texts, documents=("manual", "other", "third"), encoder=None, history="", table_rows=NO_ROWS
):
    hits = [
        Hit(
            Chunk(f"{name}-0", name, name, 0, None, 0, 1, text, text.partition("\n")[0] if text == MANUAL else ""),
            1,
            1,
            True,
        )
        for name, text in zip(documents, texts, strict=False)
    ]
    passages = tuple(TokenizedText((0,), ((0, 1),)) for _ in texts)
    standalone = f"{history} {question}".strip()
    prepared = PreparedPrompt(texts, passages, standalone, question, (0,), 8, tuple(hits), table_rows=table_rows)
    return Evidence(scorer, prepared, UnitRanker(prepared, encoder))


def texts_of(quotes):
    return [quote.text for quote in quotes]
