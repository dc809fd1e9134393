"""A comparison as HTML: progress, the table of metrics, and the answers side by side."""

from collections.abc import Sequence

from engine.analysis.comparison import Comparison, Outcome
from ui.components.tiers import TIERS
from ui.figures.pareto import MIN_KL
from ui.format import UNKNOWN, count, duration, percent, size
from ui.html import Markup, join, progress_line, tag
from ui.pages.compare.diff import GAP, has_same_words, mark_differences

_COLUMNS = {
    "Method": "How cached and recomputed keys and values (KV) are combined",
    "Target": "Nominal recompute ratio: share of the passages' tokens to recompute; a dash if the method has none",
    "Actual": "Actual recompute ratio: share of the passages' tokens that were recomputed",
    "Time to first token": "TTFT, measured from the arrival of the question; includes retrieval and loading",
    "vs. full": "TTFT relative to full prefill's",
    "Answer KL": "KL divergence from full prefill's next-token distribution, in nats: mean over up to 16 tokens of "
    "full prefill's answer. 0 is identical",
    "Same first token": "Whether the most likely first token is the same as with full prefill",
    "KV reused": "Size of the passages' KV that was used without recomputing it",
}
_STATES = {
    "searching": "Searching, once for all methods",
    "warming": "Warming up: loading the passages' KV into memory",
}


def render_intro() -> Markup:
    """Return the description on an empty page."""
    intro = (
        "Run one question through several methods and compare their time to first token, how far each answer is from "
        "full prefill's, and which words differ."
    )
    return tag("p", intro, class_="kv-tagline")


def render_plot_help() -> Markup:
    """Return how to read the plot."""
    text = (
        "Dotted steps connect the methods that no other beats in both. A grey line leads to the ideal speedup "
        "(FLOP bound): the time to first token if computing the method's tokens were the only cost."
    )
    return join(tag("h3", "Speed vs. quality: lower left is best"), tag("p", text, class_="kv-muted"))


def render_waiting() -> Markup:
    """Return the view between the click and the first snapshot."""
    return _progress("Waiting for the model")


def render_progress(comparison: Comparison) -> Markup:
    """Return the current step with a progress bar; after the end, a summary of the comparison."""
    if comparison.is_finished:
        return _summary(comparison)
    repeats = comparison.request.repeats
    if comparison.state == "running":
        num_variants = max(1, comparison.steps // repeats)
        position = (comparison.step - 1) % num_variants + 1
        message = f"{position} of {num_variants}: {comparison.current_label}"
        if repeats > 1:
            message = f"Round {comparison.round} of {repeats} · {message}"
    else:
        message = _STATES[comparison.state]
    return _progress(message, value=max(0, comparison.step - 1), max=max(1, comparison.steps))


def render_table(comparison: Comparison) -> Markup:
    """Return one row per outcome, the best value of each column in bold; empty before the first outcome."""
    outcomes = comparison.outcomes
    if not outcomes:
        return Markup("")
    head = tag("tr", *(tag("th", name, scope="col", title=hint, tabindex=0) for name, hint in _COLUMNS.items()))
    best = _best_values(outcomes[1:])
    caption = tag("caption", "Metrics of each method", class_="kv-visually-hidden")
    body = tag("tbody", *(_row(outcome, outcomes[0], best) for outcome in outcomes))
    table = tag("table", caption, tag("thead", head), body, class_="kv-comparison")
    scroll = {"class_": "kv-scroll", "tabindex": 0, "role": "region", "aria_label": "Metrics of each method"}
    return join(tag("div", table, **scroll), _protocol(comparison))


def render_answers(comparison: Comparison) -> Markup:
    """Return the answers side by side, full prefill's first; words that differ from it are marked."""
    outcomes = comparison.outcomes
    if not outcomes:
        return Markup("")
    legend = tag(
        "p",
        tag("span", tag("mark", "Abc", class_="kv-differs"), " differs from full prefill's answer"),
        tag("span", tag("mark", GAP, class_="kv-gap"), " words left out"),
        class_="kv-legend",
    )
    title = tag("h3", "Answers side by side")
    head = tag("div", title, legend if len(outcomes) > 1 else None, class_="kv-answers-head")
    cards = (_answer_card(outcome, outcomes[0], comparison) for outcome in outcomes)
    return tag("section", head, tag("ol", *cards, class_="kv-answers"), aria_label="Answers side by side")


def _progress(message: str, **attributes: object) -> Markup:
    bar = tag("progress", aria_label="Progress of the comparison", **attributes)
    return tag("div", progress_line(message), bar, class_="kv-compare-progress")


def _summary(comparison: Comparison) -> Markup:
    stopped = "Stopped early · " if comparison.state == "stopped" else ""
    answers = count(len(comparison.outcomes), "answer")
    context = f"{count(len(comparison.passages), 'passage')}, {count(comparison.context_tokens, 'token')}"
    notes = tag("ul", *(tag("li", note) for note in comparison.notes), class_="kv-notes", aria_label="Notes")
    return tag(
        "div",
        tag("h2", comparison.request.question, class_="kv-question", dir="auto"),
        tag("p", f"{stopped}{answers} from {context}", class_="kv-muted"),
        notes if comparison.notes else None,
        class_="kv-compare-ended",
    )


def _row(outcome: Outcome, full: Outcome, best: dict[str, float]) -> Markup:
    is_reference = outcome is full
    same_top1 = f"Same most likely token at {percent(outcome.answer_top1)} of the answer"
    agreement = f"First token only: {_nats(outcome.kl)}. {same_top1}"
    read = ", ".join(
        f"{size(num_bytes)} {TIERS[tier].location if tier in TIERS else tier}"
        for tier, num_bytes in outcome.read_bytes.items()
    )
    width = f"--kv-share: {min(1.0, outcome.relative_ttft) * 100:.1f}%"
    bar = tag("span", class_="kv-share", style=width, aria_hidden="true")
    same_first_token = UNKNOWN if is_reference else "yes" if outcome.top1 else "no"
    return tag(
        "tr",
        tag("th", outcome.label, tag("small", "reference") if is_reference else None, scope="row"),
        tag("td", UNKNOWN if outcome.ratio is None else percent(outcome.ratio)),
        tag("td", percent(outcome.actual_ratio, 1)),
        _cell(
            duration(outcome.ttft_ms),
            not is_reference and outcome.ttft_ms == best.get("ttft"),
            _timing_tooltip(outcome, is_reference),
            bar,
        ),
        tag("td", "100\u00a0%" if is_reference else percent(outcome.relative_ttft)),
        _cell(_nats(outcome.answer_kl), not is_reference and _rounded_kl(outcome) == best.get("kl"), agreement),
        tag("td", same_first_token, class_=None if outcome.top1 else "kv-no"),
        _cell(
            size(outcome.reused_bytes) if outcome.reused_bytes else UNKNOWN,
            not is_reference and outcome.reused_bytes == best.get("reused"),
            f"Read: {read}" if read else "Nothing was read from the cache",
        ),
        class_="kv-reference" if is_reference else None,
    )


def _timing_tooltip(outcome: Outcome, is_reference: bool) -> str:
    """Return measurements, the time of each stage (stages may overlap), and the ideal time."""
    stages: dict[str, float] = {}
    for stage in outcome.stages:
        stages[stage.name] = stages.get(stage.name, 0.0) + stage.length_ms
    times = ", ".join(duration(ttft_ms) for ttft_ms in outcome.ttfts_ms)
    timed = f"Median of {len(outcome.ttfts_ms)}: {times}" if len(outcome.ttfts_ms) > 1 else "Timed once"
    spent = ", ".join(f"{name} {duration(ms)}" for name, ms in stages.items())
    ideal = "" if is_reference else f". Ideal (FLOP bound): {duration(outcome.ideal_ms)}"
    return f"{timed} ({spent}){ideal}"


def _cell(value: str, is_best: bool, tooltip: str, bar: Markup | None = None) -> Markup:
    content = tag("strong", value, tag("span", " (best)", class_="kv-visually-hidden")) if is_best else value
    return tag("td", content, bar, title=tooltip, class_="kv-best" if is_best else None)


def _best_values(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Return the best value of each column; nothing for fewer than two outcomes."""
    if len(outcomes) < 2:
        return {}
    return {
        "ttft": min(outcome.ttft_ms for outcome in outcomes),
        "kl": min(_rounded_kl(outcome) for outcome in outcomes),
        "reused": max(outcome.reused_bytes for outcome in outcomes),
    }


def _rounded_kl(outcome: Outcome) -> float:
    return outcome.answer_kl if outcome.answer_kl >= MIN_KL else 0.0


def _nats(kl: float) -> str:
    """Return a KL as '0.127', '0.0031' or '2e-05'; '0' if it is rounding error."""
    return "0" if kl < MIN_KL else f"{kl:.3f}" if kl >= 0.1 else f"{kl:.2g}"


def _protocol(comparison: Comparison) -> Markup:
    repeats = comparison.request.repeats
    n = min(len(outcome.ttfts_ms) for outcome in comparison.outcomes)
    timed = "Each method was timed once" if n == 1 else f"Median of n = {n} rounds, methods taking turns"
    planned = "" if n == repeats else f" ({repeats} planned)"
    text = (
        f"{timed}{planned}. The time to first token includes the search ({duration(comparison.search_ms)}, run once "
        "for all methods), loading, the auxiliary model, token selection and recomputation. The passages' KV was "
        "loaded into memory beforehand, and no method uses another's results."
    )
    return tag("p", text, class_="kv-muted kv-protocol")


def _answer_card(outcome: Outcome, full: Outcome, comparison: Comparison) -> Markup:
    is_reference = outcome is full
    ratio = "" if outcome.ratio is None else f" at {percent(outcome.ratio)}"
    is_same = has_same_words(full.answer, outcome.answer)
    verdict = "Reference" if is_reference else "Same words" if is_same else "Differs"
    verdict_class = "kv-verdict" if is_reference or is_same else "kv-verdict kv-verdict-differs"
    verdict_badge = tag("span", verdict, class_=verdict_class)
    timing = duration(outcome.ttft_ms) + (
        "" if is_reference else f" · {percent(outcome.relative_ttft)} of full prefill"
    )
    text = mark_differences(full.answer, outcome.answer, comparison.passages)
    empty = tag("p", "The model returned an empty answer.", class_="kv-muted")
    return tag(
        "li",
        tag("div", tag("h4", outcome.label, ratio), verdict_badge, class_="kv-answer-head"),
        tag("p", timing, class_="kv-muted"),
        tag("div", text, class_="kv-text", dir="auto") if outcome.answer else empty,
        class_="kv-card kv-answer" + (" kv-reference" if is_reference else ""),
    )
