"""Methods as OpenAI models: `kvscope`, `kvscope/cacheblend`, `kvscope/cacheblend@15` (recompute ratio in per cent).

OpenAI's clients can choose only a model, so the method and its recompute ratio are part of the model's name.
"""

import re
from collections.abc import Sequence
from typing import Any

from engine.method import MethodInfo, default_method
from engine.request import Request
from server.errors import ApiError

OWNER = "kvscope"
_MODEL_NAME = re.compile(rf"{OWNER}(?:/(?P<method>[\w.-]+))?(?:@(?P<percent>\d+(?:\.\d+)?))?")


def parse_model(model: str, methods: Sequence[MethodInfo]) -> tuple[MethodInfo, float]:
    """Return the method and recompute ratio of a model name. Raises ApiError (404) if there is no such model."""
    match = _MODEL_NAME.fullmatch(model)
    name = (match["method"] or default_method(methods).name) if match else None
    method = next((each for each in methods if each.name == name), None)
    if match is None or method is None:
        names = ", ".join(each.name for each in methods)
        raise _not_found(model, f"Use {OWNER}, or {OWNER}/METHOD with one of: {names}.")
    if match["percent"] is None:
        defaults = {param.name: param.default for param in method.params}
        return method, float(defaults.get("ratio", Request("").recompute_ratio))
    if not method.has_ratio:
        raise _not_found(model, f"This method has no recompute ratio; use {OWNER}/{method.name}.")
    if float(match["percent"]) > 100:
        raise _not_found(model, "The number after @ is a percentage, 0 to 100.")
    return method, float(match["percent"]) / 100


def model_list(methods: Sequence[MethodInfo], created: int) -> dict[str, Any]:
    """Return all models in OpenAI's format, the default first. `created`: seconds since the epoch."""
    names = {OWNER: default_method(methods)} | {f"{OWNER}/{method.name}": method for method in methods}
    return {"object": "list", "data": [model_object(name, method, created) for name, method in names.items()]}


def model_object(name: str, method: MethodInfo, created: int) -> dict[str, Any]:
    """Return one model in OpenAI's format, with the method's description under `kvscope`."""
    about = {"method": method.name, "label": method.label, "about": method.description, "has_ratio": method.has_ratio}
    return {"id": name, "object": "model", "created": created, "owned_by": OWNER, "kvscope": about}


def _not_found(model: str, hint: str) -> ApiError:
    return ApiError(404, f"The model {model!r} does not exist. {hint}", code="model_not_found", param="model")
