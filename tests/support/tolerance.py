"""Tolerances of numeric tests. Tests use one of these instead of their own numbers."""

EXACT = {"rtol": 0.0, "atol": 0.0}  # same operations, same order
REORDERED = {"rtol": 1e-5, "atol": 1e-5}  # fp32, different order of sums
DEEP = {"rtol": 1e-4, "atol": 1e-4}  # fp32, all layers of a real model


def rotation_tolerance(positions: int, length: float = 1.0) -> dict[str, float]:
    """Tolerance for keys of norm `length` rotated by `positions`: an fp32 angle has 24 bits."""
    return {"rtol": 0.0, "atol": max(1.0, length) * (1e-5 + positions * 2.0**-22)}
