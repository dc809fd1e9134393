"""Fidelity of reuse by recompute ratio, with the built-in questions: what Settings shows for a model.

The first of --methods that has a recompute ratio and no parameters is measured; --ratios and --context-lengths do not
apply.
"""

from argparse import ArgumentParser, Namespace
from typing import Any

from bench.errors import InvalidArgument
from bench.harness.engine import measure_fidelity, model_config
from bench.tables import columns_of
from engine.builder import load_models
from engine.fidelity import fidelity_curve
from engine.strategies import STRATEGIES

TITLE = "fidelity of reuse by recompute ratio, built-in questions"
COLUMNS = columns_of("method ratio answer_kl answer_top1 ttft_ms full_ttft_ms speedup n")
MAX_SAMPLES = 1000  # more than there are questions


def add_arguments(parser: ArgumentParser) -> None:
    """Measure all questions by default."""
    parser.set_defaults(samples=MAX_SAMPLES)


def run(arguments: Namespace) -> list[dict[str, Any]]:
    """Return one row per ratio."""
    method = next((name for name in arguments.methods if hasattr(STRATEGIES.get(name), "ratio")), None)
    if method is None:
        raise InvalidArgument("--methods needs a method with a ratio and without parameters, such as cacheclip.")
    calibration = measure_fidelity(load_models(model_config(arguments)), method, arguments.samples)
    curve = fidelity_curve(method, list(calibration.samples.values()), min_questions=1)
    assert curve is not None
    return [
        {
            "method": method,
            "ratio": point.ratio,
            "answer_kl": point.kl,
            "answer_top1": point.top1,
            "ttft_ms": point.ttft_ms,
            "full_ttft_ms": curve.full_ttft_ms,
            "speedup": point.speedup,
            "n": curve.num_questions,
        }
        for point in curve.points
    ]
