"""Parameters of a method: the fields of a strategy, shown as sliders in the UI and as arguments of the bench."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, cast

SERVER_METHOD = "server"  # no strategy: a model on another server answers, see `engine.answer_server`


@dataclass(frozen=True, slots=True)
class MethodParam:
    """One parameter of a method, with its default and its valid values."""

    name: str
    label: str
    default: float | str | bool
    description: str  # one sentence for users
    low: float = 0.0  # this and the next two: of a number; an int default accepts integers only
    high: float = 1.0
    step: float = 0.01
    choices: tuple[str, ...] = ()  # of a string

    def validate(self, value: Any) -> None:
        """Raise ValueError, with the value and the valid values, for an invalid value."""
        if isinstance(self.default, bool):
            is_valid, expected = isinstance(value, bool), "true or false"
        elif isinstance(self.default, str):
            is_valid, expected = value in self.choices, f"one of {', '.join(self.choices)}"
        else:
            types, kind = (int, "a whole number") if isinstance(self.default, int) else (int | float, "a number")
            is_valid = isinstance(value, types) and not isinstance(value, bool) and self.low <= value <= self.high
            expected = f"{kind} between {self.low:g} and {self.high:g}"
        if not is_valid:
            raise ValueError(f"{self.name} must be {expected}, got {value!r}")

    def as_dict(self) -> dict[str, Any]:
        """Return plain data under the keys that API clients read."""
        values = asdict(self)
        values["about"] = values.pop("description")
        return values


@dataclass(frozen=True, slots=True)
class MethodInfo:
    """A method as the UI and the bench show it."""

    name: str
    label: str
    description: str  # what it recomputes, in one sentence
    params: tuple[MethodParam, ...]  # in display order; includes 'ratio' if the method has one
    is_default: bool = False  # used by requests that choose no method

    @property
    def has_ratio(self) -> bool:
        return any(param.name == "ratio" for param in self.params)

    def as_dict(self) -> dict[str, Any]:
        """Return plain data under the keys that API clients read."""
        return {
            "name": self.name,
            "label": self.label,
            "about": self.description,
            "settings": [param.as_dict() for param in self.params],
            "usual": self.is_default,
        }


def local_methods(methods: Sequence[MethodInfo]) -> list[MethodInfo]:
    """Return the methods that run on the models of this machine."""
    return [method for method in methods if method.name != SERVER_METHOD]


def server_note(methods: Sequence[MethodInfo]) -> str:
    """Return which server answers and what it is sent; empty if there is none."""
    return next((method.description for method in methods if method.name == SERVER_METHOD), "")


def default_method(methods: Sequence[MethodInfo]) -> MethodInfo:
    """Return the method of requests that choose none: the first default, or else the first."""
    return next((method for method in methods if method.is_default), methods[0])


def param_field(default: float | str | bool, label: str, description: str, **limits: Any) -> Any:
    """Return a dataclass field for a `MethodParam` with `limits`: low, high and step of a number, or choices."""
    return field(default=default, metadata={"label": label, "description": description, **limits})


def ratio_param(default: float = 0.2) -> Any:
    """Return a dataclass field for the nominal recompute ratio."""
    return param_field(default, "Recompute ratio", "Share of the passages' tokens that get fresh keys and values.")


def list_params(strategy: Any) -> tuple[MethodParam, ...]:
    """Return the parameters of a strategy class."""
    return tuple(MethodParam(one.name, default=cast(float, one.default), **one.metadata) for one in fields(strategy))


def parse_params(strategy: Any, values: Mapping[str, str]) -> dict[str, Any]:
    """Return a strategy's arguments from strings such as {'tokens': '16'}. Raises ValueError."""
    params = {param.name: param for param in list_params(strategy)}
    if unknown := values.keys() - params.keys():
        raise ValueError(f"{min(unknown)!r} is not one of {', '.join(params) or 'no parameters'}")
    return {name: _parse_value(params[name], value) for name, value in values.items()}


def _parse_value(param: MethodParam, value: str) -> float | str | bool:
    if isinstance(param.default, bool):
        return {"true": True, "false": False}.get(value.lower(), value)
    if isinstance(param.default, str):
        return value
    try:
        return type(param.default)(value)
    except ValueError:
        raise ValueError(f"{param.name} must be a number, got {value!r}") from None
