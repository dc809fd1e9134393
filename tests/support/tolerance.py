"""How close is close. Every numeric test names one of these; none picks its own number."""

EXACT = {"rtol": 0.0, "atol": 0.0}  # the same operations in the same order
REORDERED = {"rtol": 1e-5, "atol": 1e-5}  # fp32, a different order of sums
DEEP = {"rtol": 1e-4, "atol": 1e-4}  # fp32 through all layers of a real model


def rotated(positions: int, length: float = 1.0) -> dict[str, float]:
    """Bound for keys of norm `length` turned through `positions`: an fp32 angle keeps 24 bits."""
    return {"rtol": 0.0, "atol": max(1.0, length) * (1e-5 + positions * 2.0**-22)}
