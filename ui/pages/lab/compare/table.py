"""A comparison as HTML: progress, the table of metrics, and the answers side by side."""

import re
from collections.abc import Sequence

from engine.analysis.comparison import ComparedPassage, Comparison, Outcome
from ui.components.differences import GAP, has_same_words, mark_differences
from ui.components.tiers import TIERS
from ui.format import MIN_KL, SHORT_TOKENS, UNKNOWN, count, duration, nats, percent, size
from ui.html import Markup, join, progress_line, tag

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
_CITATION = re.compile(r"((?:^|(?<= ))\[\d{1,3}\])")  # as the engine writes them; a run of words may start with one
_MAX_SPREAD = 0.3  # of a method's times, relative to their median; above it, the machine may be busy
_MIN_SPREAD_MS = 20.0  # shorter differences are noise on any machine
_STATES = {
    "searching": "Searching, once for all methods",
    "warming": "Warming up: loading the passages' KV into memory",
}


def render_progress(comparison: Comparison) -> Markup:
    """Return the current step with a progress bar; after the end, a summary of the comparison."""
    if comparison.is_finished:
        return _summary(comparison)
    repeats = comparison.request.repeats
    if comparison.state == "running":
        num_variants = comparison.steps // repeats
        position = (comparison.step - 1) % num_variants + 1
        message = f"{position} of {num_variants}: {comparison.current_label}"
        if repeats > 1:
            message = f"Round {comparison.round} of {repeats} · {message}"
    else:
        message = _STATES[comparison.state]
    return render_step(message, value=max(0, comparison.step - 1), max=comparison.steps)


def render_step(message: str, **attributes: object) -> Markup:
    """Return a step with a progress bar; `attributes` are its value and its maximum, if they are known."""
    bar = tag("progress", aria_label="Progress of the comparison", **attributes)
    return tag("div", progress_line(message), bar, class_="kv-compare-progress")


def render_table(comparison: Comparison) -> Markup:
    """Return one row per outcome, the best value of each column in bold; empty before the first outcome."""
    outcomes = comparison.outcomes
    if not outcomes:
        return Markup("")
    head = tag("tr", *(tag("th", name, scope="col", title=hint, tabindex=0) for name, hint in _COLUMNS.items()))
    best = _best_values(outcomes[1:])
    rows = (_row(outcome, {} if outcome.method == "full" else best) for outcome in outcomes)
    caption = tag("caption", "Metrics of each method", class_="kv-visually-hidden")
    table = tag("table", caption, tag("thead", head), tag("tbody", *rows), class_="kv-comparison")
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
    cards = (_answer_card(outcome, outcomes[0].answer, comparison.passages) for outcome in outcomes)
    return tag("section", head, tag("ol", *cards, class_="kv-answers"), aria_label="Answers side by side")


def _summary(comparison: Comparison) -> Markup:
    stopped = "Stopped early · " if comparison.state == "stopped" else ""
    answers = count(len(comparison.outcomes), "answer")
    context = f"{count(len(comparison.passages), 'passage')}, {count(comparison.context_tokens, 'token')}"
    notes = (*comparison.notes, *_remarks(comparison))
    return tag(
        "div",
        tag("h2", comparison.request.question, class_="kv-question", dir="auto", translate="no"),
        tag("p", f"{stopped}{answers} from {context}", class_="kv-muted"),
        tag("ul", *(tag("li", note) for note in notes), class_="kv-notes", aria_label="Notes") if notes else None,
        class_="kv-compare-ended",
    )


def _remarks(comparison: Comparison) -> list[str]:
    """Return what limits the comparison: times that differ from run to run, and a prompt with little to save."""
    remarks = []
    uneven = max(comparison.outcomes, key=_spread, default=None)
    if uneven and _spread(uneven) > _MAX_SPREAD and max(uneven.ttfts_ms) - min(uneven.ttfts_ms) > _MIN_SPREAD_MS:
        remarks.append(
            f"The times of {uneven.label} differ by {percent(_spread(uneven))}: the machine may be busy with something "
            "else. Run it again when it is not."
        )
    if 0 < comparison.context_tokens < SHORT_TOKENS:
        are_all = len(comparison.passages) < comparison.request.passages
        remedy = "" if are_all else " Choose more passages."
        tokens = count(comparison.context_tokens, "token")
        remarks.append(f"The passages have only {tokens}, so there is little to save.{remedy}")
    return remarks


def _spread(outcome: Outcome) -> float:
    return (max(outcome.ttfts_ms) - min(outcome.ttfts_ms)) / outcome.ttft_ms


def _row(outcome: Outcome, best: dict[str, float]) -> Markup:
    is_reference = outcome.method == "full"
    same_top1 = f"Same most likely token at {percent(outcome.answer_top1)} of the answer"
    read = ", ".join(f"{size(num_bytes)} {TIERS[tier].location}" for tier, num_bytes in outcome.read_bytes.items())
    width = f"--kv-share: {min(1.0, outcome.relative_ttft) * 100:.1f}%"
    bar = tag("span", class_="kv-share", style=width, aria_hidden="true")
    same_first_token = UNKNOWN if is_reference else "yes" if outcome.top1 else "no"
    return tag(
        "tr",
        tag("th", outcome.label, tag("small", "reference") if is_reference else None, scope="row"),
        tag("td", percent(outcome.ratio)),
        tag("td", percent(outcome.actual_ratio, 1)),
        _cell(
            duration(outcome.ttft_ms),
            outcome.ttft_ms == best.get("ttft"),
            _timing_tooltip(outcome),
            _range(outcome),
            bar,
        ),
        tag("td", "100\u00a0%" if is_reference else percent(outcome.relative_ttft)),
        _cell(
            nats(outcome.answer_kl),
            max(MIN_KL, outcome.answer_kl) == best.get("kl"),
            f"First token only: {nats(outcome.kl)}. {same_top1}",
        ),
        tag("td", same_first_token, class_=None if outcome.top1 else "kv-no"),
        _cell(
            size(outcome.reused_bytes) if outcome.reused_bytes else UNKNOWN,
            outcome.reused_bytes == best.get("reused"),
            f"Read: {read}" if read else "Nothing was read from the cache",
        ),
        class_="kv-reference" if is_reference else None,
    )


def _range(outcome: Outcome) -> Markup | None:
    """Return the shortest and the longest time, if they differ."""
    shortest, longest = duration(min(outcome.ttfts_ms)), duration(max(outcome.ttfts_ms))
    return None if shortest == longest else tag("small", f"{shortest} to {longest}")


def _timing_tooltip(outcome: Outcome) -> str:
    """Return measurements, the time of each stage (stages may overlap), and the ideal time."""
    stages: dict[str, float] = {}
    for stage in outcome.stages:
        stages[stage.name] = stages.get(stage.name, 0.0) + stage.length_ms
    times = ", ".join(duration(ttft_ms) for ttft_ms in outcome.ttfts_ms)
    timed = f"Median of {len(outcome.ttfts_ms)}: {times}" if len(outcome.ttfts_ms) > 1 else "Timed once"
    spent = ", ".join(f"{name} {duration(ms)}" for name, ms in stages.items())
    ideal = "" if outcome.method == "full" else f". Ideal (FLOP bound): {duration(outcome.ideal_ms)}"
    return f"{timed} ({spent}){ideal}"


def _cell(value: str, is_best: bool, tooltip: str, *details: Markup | None) -> Markup:
    content = tag("strong", value, tag("span", " (best)", class_="kv-visually-hidden")) if is_best else value
    return tag("td", content, *details, title=tooltip, class_="kv-best" if is_best else None)


def _best_values(outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Return the best value of each column; nothing for fewer than two outcomes."""
    if len(outcomes) < 2:
        return {}
    return {
        "ttft": min(outcome.ttft_ms for outcome in outcomes),
        "kl": min(max(MIN_KL, outcome.answer_kl) for outcome in outcomes),
        "reused": max(outcome.reused_bytes for outcome in outcomes),
    }


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


def _answer_card(outcome: Outcome, reference: str, passages: Sequence[ComparedPassage]) -> Markup:
    ratio = None if outcome.ratio is None else tag("span", f" at {percent(outcome.ratio)}")
    is_reference = outcome.method == "full"
    is_same = has_same_words(outcome.answer, reference)
    verdict = "Reference" if is_reference else "Same words" if is_same else "Differs"
    verdict_badge = tag("span", verdict, class_="kv-verdict" if is_same else "kv-verdict kv-verdict-differs")
    timing = duration(outcome.ttft_ms)
    if not is_reference:
        timing += f" · {percent(outcome.relative_ttft)} of full prefill"
    text = mark_differences(reference, outcome.answer, "Full prefill", lambda text: label_citations(text, passages))
    empty = tag("p", "The model returned an empty answer.", class_="kv-muted")
    return tag(
        "li",
        tag("div", tag("h4", outcome.label, ratio), verdict_badge, class_="kv-answer-head"),
        tag("p", timing, class_="kv-muted"),
        tag("div", text, class_="kv-text", dir="auto", translate="no") if outcome.answer else empty,
        _recomputed_text(outcome) if outcome.recomputed_texts else None,
        class_="kv-card kv-answer" + (" kv-reference" if is_reference else ""),
    )


def _recomputed_text(outcome: Outcome) -> Markup:
    """Return the windows of the passages that were recomputed, folded."""
    summary = tag("summary", f"Recomputed for this question: {count(outcome.recomputed_tokens, 'token')}")
    windows = (tag("li", text) for text in outcome.recomputed_texts)
    return tag("details", summary, tag("ul", *windows, dir="auto", translate="no"), class_="kv-windows")


def label_citations(text: str, passages: Sequence[ComparedPassage]) -> Markup:
    """Return the text with each [n] of a passage as a label whose tooltip names its document."""
    sources = {f"[{passage.rank}]": passage for passage in passages}
    parts: list[object] = []
    for part in _CITATION.split(text):
        if (source := sources.get(part)) is None:
            parts.append(part)
            continue
        name = source.document if source.page is None else f"{source.document}, page {source.page}"
        parts.append(tag("span", part[1:-1], class_="kv-cite", title=name, aria_label=f"Source: {name}"))
    return join(*parts)
