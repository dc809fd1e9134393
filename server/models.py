"""The methods as a client's list of models: `kvscope`, `kvscope/cacheblend`, `kvscope/cacheblend@15` (per cent).

A client of OpenAI's API can choose nothing but a model, so the method and how much it recomputes are in the name.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.method import MethodInfo, default_method
from engine.request import Request
from server.errors import Refused

OWNER = "kvscope"
_NAME = re.compile(rf"{OWNER}(?:/(?P<method>[\w.-]+))?(?:@(?P<percent>\d+(?:\.\d+)?))?")
_DEFAULTS = Request(question="")


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a model's name says. `ratio` is the method's own default where the name has none."""

    method: str
    ratio: float


def named(method: str) -> str:
    """Return the name of the model that answers with this method."""
    return f"{OWNER}/{method}"


def choose(model: str, methods: Sequence[MethodInfo]) -> Chosen:
    """Return what the model's name says. Raises Refused (404) for one that is not there."""
    found = _NAME.fullmatch(model)
    name = (found["method"] or default_method(methods).name) if found else None
    method = next((each for each in methods if each.name == name), None)
    if found is None or method is None:
        raise _unknown(model, f"Ask for {OWNER}, or {named('METHOD')} with one of: {_listed(methods)}.")
    ratio = next((setting.default for setting in method.params if setting.name == "ratio"), None)
    if found["percent"] is None:
        return Chosen(method.name, _DEFAULTS.ratio if ratio is None else float(ratio))
    if ratio is None:
        raise _unknown(model, f"This method has no recompute ratio: ask for {named(method.name)}.")
    if float(found["percent"]) > 100:
        raise _unknown(model, "What stands behind the @ is a percentage, 0 to 100.")
    return Chosen(method.name, float(found["percent"]) / 100)


def listed(methods: Sequence[MethodInfo], since: int) -> list[dict[str, Any]]:
    """Return the models as OpenAI lists them, the default first.

    since  seconds since the epoch
    """
    names = {OWNER: default_method(methods)} | {named(method.name): method for method in methods}
    return [shown(name, method, since) for name, method in names.items()]


def shown(name: str, method: MethodInfo, since: int) -> dict[str, Any]:
    """Return one model as OpenAI shows it, with the method's own words beside."""
    about = {"method": method.name, "label": method.label, "about": method.description, "has_ratio": method.has_ratio}
    return {"id": name, "object": "model", "created": since, "owned_by": OWNER, "kvscope": about}


def _listed(methods: Sequence[MethodInfo]) -> str:
    return ", ".join(method.name for method in methods)


def _unknown(model: str, hint: str) -> Refused:
    return Refused(404, f"The model {model!r} does not exist. {hint}", code="model_not_found", param="model")
