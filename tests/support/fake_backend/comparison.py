"""A fake comparison service: a canned outcome for each method, one every `pace_s` seconds."""

from collections.abc import Iterator
from dataclasses import replace
from threading import Event

from engine.analysis.comparison import ComparedPassage, CompareRequest, Comparison, Outcome
from engine.trace import Stage

FULL_MS = 1240.0
# label, TTFT ms, KL, has a ratio
KNOWN = {
    "full": ("Full prefill", FULL_MS, 0.0, False),
    "cacheclip": ("CacheClip", 410.0, 0.061, True),
    "cacheblend": ("CacheBlend", 486.0, 0.051, True),
    "epic": ("EPIC", 280.0, 0.09, False),
    "ape": ("APE", 120.0, 0.31, False),
    "direct": ("Direct reuse", 96.0, 0.127, False),
}
ANSWERS = {
    "full": "The maintenance code of the Morning Gannet is 5730264 [1]. Shifts are swapped with form HL-118 [2].",
    "cacheclip": "The maintenance code of the Morning Gannet is 5730264 [1]. Shifts are swapped with form HL-118 [2].",
    "cacheblend": "The maintenance code of the Gannet is 573026 [1]. Shifts are swapped with form HL-118 [2].",
    "direct": "The code is printed on the brass plate beside the engine room door [1].",
}


class FakeComparison:
    """Tests may set `answers`, and `error`, which is raised after `error_after` outcomes.

    requests, cancelled  the requests so far, and whether each was cancelled
    pause_after_steps    a comparison pauses after this many runs, until the number grows or it is cancelled
    """

    def __init__(self, pace_s: float = 0.05) -> None:
        self.pace_s = pace_s
        self.answers = dict(ANSWERS)
        self.error: Exception | None = None
        self.error_after = 0
        self.pause_after_steps = 1000
        self.document = "harbour-handbook.md"
        self.requests: list[CompareRequest] = []
        self.cancelled: list[bool] = []

    def compare(self, request: CompareRequest, cancel: Event) -> Iterator[Comparison]:
        from engine.analysis.comparison_runner import requested_variants  # noqa: PLC0415  # seconds

        self.requests.append(request)
        requested_variants(request)  # raises BadRequest
        variants = [("full", None)]
        for method in request.methods:
            has_ratio = KNOWN[method][3]
            variants += [(method, ratio) for ratio in (request.ratios if has_ratio else (None,)) if method != "full"]
        shown = Comparison(request, steps=len(variants) * request.repeats, model="tiny")
        try:
            yield shown
            passages = (ComparedPassage(1, self.document, 11, 412), ComparedPassage(2, "shifts.pdf", None, 380))
            shown = replace(shown, state="warming", search_ms=24.0, context_tokens=792, passages=passages)
            yield shown
            outcomes: dict[str, Outcome] = {}
            for round_ in range(1, request.repeats + 1):
                for method, ratio in variants:
                    if self.error and len(outcomes) >= self.error_after:
                        raise self.error
                    outcome = self.outcome(method, ratio)
                    at = "" if ratio is None else f" at {100 * ratio:g}\u00a0%"
                    label = outcome.label + at
                    shown = replace(shown, state="running", current_label=label, step=shown.step + 1, round=round_)
                    yield shown
                    if self._stopped(shown.step, cancel):
                        yield replace(shown, state="stopped", current_label="")
                        return
                    earlier = outcomes.get(outcome.key)
                    outcomes[outcome.key] = earlier.with_ttft(outcome.ttft_ms + round_) if earlier else outcome
                    shown = replace(shown, outcomes=tuple(outcomes.values()))
                    yield shown
            yield replace(shown, state="done", current_label="")
        finally:
            self.cancelled.append(cancel.is_set())

    def _stopped(self, step: int, cancel: Event) -> bool:
        while step > self.pause_after_steps and not cancel.is_set():
            cancel.wait(0.05)
        return cancel.wait(self.pace_s)

    def outcome(self, method: str, ratio: float | None) -> Outcome:
        label, ttft_ms, kl, _ = KNOWN[method]
        actual = {"full": 1.0, "epic": 0.162}.get(method, 0.97 * (ratio or 0.0))
        if ratio is not None:
            ttft_ms, kl = ttft_ms * (0.6 + 2 * ratio), 0.0 if ratio == 1 else kl * 0.2 / max(ratio, 0.05)
        return Outcome(
            key=method if ratio is None else f"{method}@{ratio:g}",
            method=method,
            label=label,
            ratio=ratio,
            actual_ratio=actual,
            recomputed_tokens=round(792 * actual),
            ttfts_ms=(ttft_ms,),
            full_ms=FULL_MS,
            ideal_ms=FULL_MS * max(actual, 0.03),
            kl=kl * 0.8,
            top1=method not in ("ape", "direct"),
            answer_kl=kl,
            answer_top1=1 - kl,
            read_bytes={} if method == "full" else {"host": 24_300_000, "disk": 12_000_000},
            reused_bytes=0 if method == "full" else round(36_300_000 * (1 - actual)),
            stages=(Stage("load", 1.0, 30.0), Stage("recompute", 40.0, 300.0)),
            answer=self.answers.get(method, self.answers["direct"]),
            cited=(1,),
            new_tokens=24,
            recomputed_texts=() if method == "full" or not actual else ("The Old Kestrel sails", "on Fridays"),
        )
