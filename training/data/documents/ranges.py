"""Write rows for ranges of amounts ('up to 500: the team leader'), with questions for an amount inside a range."""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from random import Random

from store.markdown import format_table
from training.data.documents.world import Question
from training.data.documents.writer import Piece, Writer

INLINE_FRACTION = 0.25  # of the ranges are written as a sentence
UNIT_FRACTION = 0.6  # of the ranges name the unit in each row, the others in the header
QUESTIONS_PER_RANGE = 2


class RangeWriter(Writer):
    """Writes rows for ranges."""

    def _write_ranges(self, rng: Random, topic: str) -> None:
        if (entry := self._take("ranges", topic)) is None:
            return
        headers, labels, (spec,), values, asks, range_asks = entry
        world = self.world
        kind, bounds, *units = spec.split(":")
        unit = units[0] if units else ""
        low_bound, high_bound = map(int, bounds.split("-"))
        edges = _edges(low_bound, high_bound, rng.choice((2, 3, 3, 4)), rng)
        has_unit = kind == "money" or rng.random() < UNIT_FRACTION
        header, label = rng.choice(headers), rng.choice(labels)
        shown = [self._amount(kind, unit if has_unit else "", edge) for edge in edges]
        lowest, middle, highest = rng.choice(self._lists["range_style"]).split("/")
        names = [lowest.format(b=shown[0])]
        names += [middle.format(a=low, b=high) for low, high in pairwise(shown)] + [highest.format(a=shown[-1])]
        results = self._results(values, len(names), rng)
        limits = [0.0, *edges, edges[-1] * 2.5]
        questions = list[list[Question]]()
        for (low, high), name, result in zip(pairwise(limits), names, results, strict=True):
            key = ("range", topic, asks[0], name)
            of_row = list[Question]()
            for amount in self._amounts(kind, unit, low, high, rng):
                ask = partial(self._ask_filled, asks, dict(v=amount))
                of_row.append(Question("range", (*key, amount), result, ask))
            of_row.append(Question("range", key, name, partial(self._ask_filled, range_asks, dict(r=result))))
            questions.append(of_row)
        given = dict(l=label, h=header.lower() if not world.is_german else header)
        if rng.random() < INLINE_FRACTION:
            rows = "; ".join(f"{name}: {result}" for name, result in zip(names, results, strict=True))
            text = world.sentence(rng.choice(self._lists["say_ranges_inline"]), rng, r=rows, **given)
            self.pieces.append(Piece(text, [question for of_row in questions for question in of_row]))
            return
        top = header if has_unit or not unit else f"{header} ({unit})"
        lines = format_table([[top, label], *map(list, zip(names, results, strict=True))], True).split("\n")
        if rng.random() < 0.7:
            caption = world.sentence(rng.choice(self._lists["say_ranges"]), rng, **given)
            self.pieces.append(Piece(caption, is_heading=True))
        self.pieces += [
            Piece(line, of_row, is_row=at > 0) for at, (line, of_row) in enumerate(zip(lines, questions, strict=True))
        ]

    def _results(self, values: Sequence[str], count: int, rng: Random) -> list[str]:
        """Return different values in ascending order."""
        if not values[0].startswith("="):
            start = rng.randint(0, len(values) - count)
            return list(values[start : start + count])
        drawn: dict[float, str] = {}
        while len(drawn) < count:
            value = self.world.notation.draw(values[0][1:], rng, self.world.year)
            drawn[value.number or 0] = value.text
        return [drawn[number] for number in sorted(drawn)]

    def _amounts(self, kind: str, unit: str, low: float, high: float, rng: Random) -> list[str]:
        """Return amounts strictly inside a range, as a question names them."""
        found = []
        for _ in range(QUESTIONS_PER_RANGE):
            number = round(rng.uniform(low + 0.1 * (high - low), high - 0.1 * (high - low)))
            rounded = _nice(number, 2) if rng.random() < 0.7 else number
            number = rounded if low < rounded < high else number
            if max(low, 1) < number < high:
                plain = kind == "money" and rng.random() < 0.4
                text = rng.choice((str(number), self.world.notation.number(number)))
                found.append(text if plain else self._amount(kind, unit, number))
        return found

    def _amount(self, kind: str, unit: str, number: int) -> str:
        if kind == "money":
            return self.world.notation.money(number)
        return f"{self.world.notation.number(number)} {unit}".strip()


def _edges(low: int, high: int, count: int, rng: Random) -> list[int]:
    """Return round numbers that rise in large steps."""
    start = rng.uniform(1.2, 2.5)
    growth = (high / low / start) ** (1 / (count + 0.5))
    edges = list[int]()
    for step in range(count):
        edge = _nice(max(low * start * growth**step * rng.uniform(0.8, 1.2), (edges[-1] + 3) if edges else low + 2), 1)
        edges.append(edge if not edges or edge > edges[-1] else edges[-1] * 2)
    return edges


def _nice(number: float, digits: int) -> int:
    """Round to a number of leading digits."""
    return int(round(number, digits - len(str(int(number)))))
