"""What a method lets a person set: the fields of a strategy become sliders of the page and arguments of the bench.

Plain data, no tensors, so that the page can read it without torch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, cast


@dataclass(frozen=True, slots=True)
class MethodParam:
    """One setting of a method, with its default and what it may be.

    low, high, step  of a number; whole numbers only where the default is one
    choices          of a word
    about            one sentence for a person
    """

    name: str
    label: str
    default: float | str | bool
    about: str
    low: float = 0.0
    high: float = 1.0
    step: float = 0.01
    choices: tuple[str, ...] = ()

    def check(self, value: Any) -> None:
        """Raise ValueError, with the value and what it may be, unless the setting may have this value."""
        if isinstance(self.default, bool):
            right, wanted = isinstance(value, bool), "true or false"
        elif isinstance(self.default, str):
            right, wanted = value in self.choices, f"one of {', '.join(self.choices)}"
        elif isinstance(self.default, int):
            right = isinstance(value, int) and not isinstance(value, bool) and self.low <= value <= self.high
            wanted = f"a whole number between {self.low:g} and {self.high:g}"
        else:
            right = isinstance(value, int | float) and not isinstance(value, bool) and self.low <= value <= self.high
            wanted = f"a number between {self.low:g} and {self.high:g}"
        if not right:
            raise ValueError(f"{self.name} must be {wanted}, got {value!r}")


@dataclass(frozen=True, slots=True)
class MethodInfo:
    """A strategy as the page and the bench show it.

    about     what it recomputes, in one sentence
    settings  in the order to show them; 'ratio' is among them where the method has one
    usual     what answers where no other is chosen
    """

    name: str
    label: str
    description: str
    params: tuple[MethodParam, ...]
    is_default: bool = False

    @property
    def has_ratio(self) -> bool:
        return any(param.name == "ratio" for param in self.params)

    def as_dict(self) -> dict[str, Any]:
        """Return plain data under the keys that API clients read."""
        return {
            "name": self.name,
            "label": self.label,
            "about": self.description,
            "settings": [asdict(param) for param in self.params],
            "usual": self.is_default,
        }


def default_method(methods: Sequence[MethodInfo]) -> MethodInfo:
    """Return the method that answers where no other is chosen."""
    return next((method for method in methods if method.is_default), methods[0])


class ValidatedParams:
    """A frozen dataclass whose fields are settings; refuses values that they may not have."""

    def __post_init__(self) -> None:
        for setting in params_of(type(self)):
            setting.check(getattr(self, setting.name))


def number(default: float, label: str, about: str, low: float = 0.0, high: float = 1.0, step: float = 0.01) -> Any:
    """Return a dataclass field for a number in [low, high]; a whole one if `default` is an int."""
    return field(default=default, metadata={"label": label, "about": about, "low": low, "high": high, "step": step})


def choice(default: str, label: str, about: str, choices: tuple[str, ...]) -> Any:
    """Return a dataclass field for one of the words in `choices`."""
    return field(default=default, metadata={"label": label, "about": about, "choices": choices})


def switch(label: str, about: str) -> Any:
    """Return a dataclass field for something that is off unless asked for."""
    return field(default=False, metadata={"label": label, "about": about})


def ratio(default: float = 0.2) -> Any:
    """Return the dataclass field that most methods share: the nominal recompute ratio."""
    return number(default, "Recompute ratio", "Share of the passages' tokens that get fresh keys and values.")


def params_of(strategy: Any) -> tuple[MethodParam, ...]:
    """Return the settings of a strategy's class."""
    return tuple(
        MethodParam(name=each.name, default=cast(float, each.default), **each.metadata) for each in fields(strategy)
    )


def parse(strategy: Any, words: Mapping[str, str]) -> dict[str, Any]:
    """Return a strategy's arguments from words such as {'tokens': '16'}. Raises ValueError for an unknown name."""
    known, read = {setting.name: setting for setting in params_of(strategy)}, {}
    for name, word in words.items():
        if name not in known:
            raise ValueError(f"{name!r} is not one of {', '.join(known) or 'no settings at all'}")
        read[name] = _parse(known[name], word)
    return read


def _parse(setting: MethodParam, word: str) -> float | str | bool:
    if isinstance(setting.default, bool):
        return {"true": True, "false": False}.get(word.lower(), word)
    if isinstance(setting.default, str):
        return word
    try:
        return type(setting.default)(word)
    except ValueError:
        raise ValueError(f"{setting.name} must be a number, got {word!r}") from None
