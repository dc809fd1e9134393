"""Draw realistic values in the notation of a document: money, dates, measures, codes, names."""

import calendar
import math
from dataclasses import dataclass
from datetime import date, timedelta
from random import Random

from training.data.documents.names import Names, code

MONEY_FORMATS = ("EUR {}", "€{}", "{} EUR", "${}", "USD {}", "£{}", "CHF {}", "{} €", "{} euros")
GERMAN_MONEY_FORMATS = ("{} EUR", "{} €", "EUR {}", "{} Euro", "CHF {}")
DATE_FORMATS = (
    "{d} {B} {y}",
    "{B} {d}, {y}",
    "{y}-{m:02}-{d:02}",
    "{d:02}/{m:02}/{y}",
    "{d} {b} {y}",
    "{d:02}.{m:02}.{y}",
)
GERMAN_DATE_FORMATS = ("{d}. {B} {y}", "{d:02}.{m:02}.{y}", "{d}.{m}.{y}", "{y}-{m:02}-{d:02}")
SCORE_SEPARATORS = ":/\u2013"
TIMES = " \u00d7 "
PERCENT_FORMATS = ("{}%", "{} %", "{} percent")


@dataclass(frozen=True)
class Value:
    """A value as the document shows it; `number` orders comparable values, `unit` ends the text if it can be split."""

    text: str
    number: float | None = None
    unit: str = ""

    @property
    def identity(self) -> float | str:
        """What values that mean the same share: '2 weeks' and 'two weeks' have the same number."""
        return self.text if self.number is None else self.number


class Notation:
    """How one document writes numbers, money, dates and times."""

    def __init__(self, seed: str, names: Names, lists: dict[str, tuple[str, ...]]) -> None:
        rng = Random(f"{seed} notation")
        self._seed = seed
        self._names = names
        self._lists = lists
        self._is_german = lists["language"] == ("de",)
        self._money = rng.choice(GERMAN_MONEY_FORMATS if self._is_german else MONEY_FORMATS)
        self._date = rng.choice(GERMAN_DATE_FORMATS if self._is_german else DATE_FORMATS)
        self._percent = rng.choice(("{} %", "{} Prozent") if self._is_german else PERCENT_FORMATS)
        self._groups = rng.random() < 0.9
        self._has_ampm = not self._is_german and rng.random() < 0.4
        self._range = rng.choice(
            (" to ", "\u2013", " \u2013 ") if not self._is_german else (" bis ", "\u2013", " \u2013 ")
        )

    def draw(self, spec: str, rng: Random, current_year: int) -> Value:
        """Return a value of a specification like 'num:0.5-400:kg' or 'date:-3-1'."""
        kind, _, rest = spec.partition(":")
        bounds, _, unit = rest.partition(":")
        if kind in self._names.draw:
            return Value(self._names.draw[kind](rng))
        if kind == "pick":
            return Value(rng.choice(self._lists[rest]))
        if kind == "code":
            return Value(code(self._choice(rest), rng))
        if kind == "score":
            return Value(f"{rng.randint(0, 5)}{self._choice(SCORE_SEPARATORS)}{rng.randint(0, 5)}")
        if kind == "size":
            unit = self._choice("mm/cm")
            sizes = (self.number(rng.randint(4, 140) * (5 if unit == "mm" else 1)) for _ in range(3))
            return Value(f"{TIMES.join(sizes)} {unit}")
        low, high = self._bounds(bounds)
        if kind == "date":
            day = date(current_year, 1, 1) + timedelta(rng.randint(int(low * 365), int(high * 365)))
            return Value(self.date(day), day.toordinal())
        if kind == "clock":
            minutes = rng.randint(int(low) * 12, int(high) * 12) * 5
            return Value(self.clock(minutes), minutes)
        if kind == "hours":
            start = rng.choice((420, 450, 480, 510, 540, 570, 600, 660))
            return Value(f"{self.clock(start)}{self._range}{self.clock(start + 30 * rng.randint(5, 20))}")
        if kind == "year":
            year = rng.randint(int(low), int(high))
            return Value(str(year), year)
        if kind == "range":
            first = rng.randint(int(low), int(high) - 2)
            return Value(f"{first}{self._range}{rng.randint(first + 1, int(high))} {unit}")
        if kind == "money":
            return self._draw_money(low, high, rng)
        if kind == "pct":
            number = round(rng.uniform(low, high), self._decimals(bounds, rng))
            text = self._percent.format(self.number(number))
            return Value(text, number, text.lstrip("0123456789.,-"))
        number = math.exp(rng.uniform(math.log(low), math.log(high))) if low > 0 else rng.uniform(low, high)
        number = round(number, self._decimals(bounds, rng)) if "." in bounds else _round_some(round(number), rng)
        units = unit.split(",")  # 'day,days'
        shown = units[0 if number == 1 else -1]
        words = self._lists["number_word"]
        if kind == "dur" and 2 <= number <= 12 and rng.random() < 0.25:
            return Value(f"{words[int(number)]} {shown}", self._in_days(number, units[0]))
        text = self.number(number)
        value = self._in_days(number, units[0]) if kind == "dur" else number
        return Value(f"{text} {shown}" if shown else text, value, f" {shown}" if shown else "")

    def number(self, number: float) -> str:
        """Return a number with the separators of the language."""
        text = f"{number:,}" if self._groups or abs(number) >= 1e6 else str(number)
        text = text.removesuffix(".0")
        return text.translate(str.maketrans(",.", ".,")) if self._is_german else text

    def money(self, amount: int) -> str:
        """Return a whole amount of money in the document's format."""
        return self._money.format(self.number(amount))

    def date(self, day: date) -> str:
        """Return a date in the document's format."""
        name = self._lists["dim_month"][1:][day.month - 1]
        short = name[:3] if not self._is_german else calendar.month_abbr[day.month]
        return self._date.format(d=day.day, m=day.month, y=day.year, B=name, b=short)

    def clock(self, minutes: int) -> str:
        """Return a time of day."""
        hour, minute = divmod(minutes % 1440, 60)
        if self._is_german:
            return self._choice("{h}:{m:02} Uhr/{h}.{m:02} Uhr").format(h=hour, m=minute)
        if self._has_ampm:
            return f"{(hour - 1) % 12 + 1}:{minute:02} {'am' if hour < 12 else 'pm'}"
        return f"{hour:02}:{minute:02}"

    def _draw_money(self, low: float, high: float, rng: Random) -> Value:
        amount = math.exp(rng.uniform(math.log(low), math.log(high)))
        if amount >= 1e6:
            amount = round(amount / 1e6, 1)
            unit = self._choice("million/million/m") if not self._is_german else self._choice("Mio./Millionen")
            shown = f"{self.number(amount)} {unit}".replace(" m", "m" if unit == "m" else " m")
            text = self._money.format(shown)
            if self._is_german and self._money.endswith("{}"):
                text = f"{shown} {self._money.split()[0]}"
            return Value(text, amount * 1e6)
        if amount < 2:
            amount = max(0.05, round(amount, 2))
            shown = f"{amount:.2f}".replace(".", "," if self._is_german else ".")
        elif amount < 60 and rng.random() < 0.6:
            amount = round(amount) + rng.choice((0.5, 0.9, 0.95, 0.99, 0.2, 0.75))
            shown = f"{amount:.2f}".replace(".", "," if self._is_german else ".")
        else:
            amount = _round_some(max(1, round(amount)), rng)
            shown = self.number(amount)
        return Value(self._money.format(shown), amount)

    def _bounds(self, bounds: str) -> tuple[float, float]:
        low, _, high = bounds.rpartition("-") if bounds else ("0", "", "0")
        if low.endswith("-"):  # '-30--5'
            low, high = low[:-1], f"-{high}"
        return float(low or 0), float(high)

    def _decimals(self, bounds: str, rng: Random) -> int:
        return rng.choice((1, 1, 2)) if "." in bounds else 0

    def _choice(self, choices: str) -> str:
        """Return one of the '/'-separated choices, always the same in a document."""
        return Random(f"{self._seed} {choices}").choice(choices.split("/"))

    def _in_days(self, number: float, unit: str) -> float:
        return number * {"w": 7, "m": 30, "y": 365, "W": 7, "M": 30, "J": 365}.get(unit[0], 1)


def _round_some(number: int, rng: Random) -> int:
    """Round about half of the numbers, as people do."""
    digits = len(str(abs(number)))
    return int(round(number, 2 - digits)) if digits > 2 and rng.random() < 0.5 else number
