"""What a model's self-test measured. Free of torch, so that the UI can show it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SelfTestResult:
    """What a model's self-test measured, in standard deviations of the reference logits.

    deviation  root mean square of the logits' differences, which must not pass `bound`
    largest    of a single logit, for comparison
    """

    deviation: float
    largest: float
    bound: float
    ms: float
