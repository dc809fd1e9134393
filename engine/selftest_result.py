"""The result of a model's self-test, as plain data for the UI."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SelfTestResult:
    """How far recomputed logits are from the reference, in standard deviations of the reference logits.

    deviation       root mean square of the differences; at most `bound`
    max_difference  largest difference of a single logit
    bound           depends on the dtype
    ms              duration of the test
    """

    deviation: float
    max_difference: float
    bound: float
    ms: float
