"""A comparison as HTML: how far it is, the table of figures, and the answers side by side."""

from collections.abc import Callable, Sequence

from engine.analysis.comparison import Comparison, Outcome
from ui.components.document_list import PLACES
from ui.figures.pareto import EXACT
from ui.format import UNKNOWN, count, duration, percent, size
from ui.html import Markup, join, tag
from ui.pages.compare.diff import GAP, differences, same

_COLUMNS = {
    "Method": "How the passages' stored keys and values are put together",
    "Asked": "Nominal recompute ratio: the share of passage tokens to compute again. A dash where the method has none",
    "Recomputed": "Realised ratio: the share of passage tokens that was computed again",
    "First word": "Time to first token (TTFT): from the question's arrival, search and everything else counted",
    "of full": "RT: the time to first token as a share of full prefill's",
    "KL": "How far the next-word probabilities lie from full prefill's, in nats: mean over up to 16 tokens of full "
    "prefill's answer. 0 is the same",
    "Same start": "Whether the likeliest first token of the answer is full prefill's",
    "KV reused": "Keys and values of the passages that were taken as they were stored",
}
_STATES = {
    "searching": "Searching, once for all methods",
    "warming": "Warming up: bringing the passages' keys and values to memory",
}
Figure = Callable[[Outcome], float]


def hint() -> Markup:
    """Return what stands on an empty page."""
    said = (
        "Ask one question of several methods and see what each costs and what it changes: how soon the first word "
        "comes, how far the answer moves from that of a full reading, and where the words differ."
    )
    return tag("p", said, class_="kv-promise")


def progress(comparison: Comparison) -> Markup:
    """Return the line about what goes on, with a bar; once it has ended, what it was."""
    if comparison.finished:
        return _ended(comparison)
    wanted, arms = comparison.request, max(1, comparison.steps // comparison.request.repeats)
    if comparison.state == "running":
        place = (comparison.step - 1) % arms + 1
        said = f"{place} of {arms}: {comparison.now}"
        if wanted.repeats > 1:
            said = f"Round {comparison.round} of {wanted.repeats} · {said}"
    else:
        said = _STATES[comparison.state]
    done = max(0, comparison.step - 1)
    return tag(
        "div",
        tag("p", tag("span", class_="kv-pulse", aria_hidden="true"), f"{said}…", class_="kv-state"),
        tag("progress", value=done, max=max(1, comparison.steps), aria_label="Progress of the comparison"),
        class_="kv-compare-progress",
    )


def begun() -> Markup:
    """Return the view between the click and the first sign of the engine."""
    return tag(
        "div",
        tag("p", tag("span", class_="kv-pulse", aria_hidden="true"), "Waiting for the model…", class_="kv-state"),
        tag("progress", aria_label="Progress of the comparison"),
        class_="kv-compare-progress",
    )


def trouble(sentence: str) -> Markup:
    """Return an error that stays on the page, in the place of the progress."""
    return tag("p", sentence, class_="kv-trouble", role="alert", dir="auto")


def table(comparison: Comparison) -> Markup:
    """Return a row for each outcome, the best of each column in bold; nothing before the first."""
    outcomes = comparison.outcomes
    if not outcomes:
        return Markup("")
    head = tag("tr", *(tag("th", name, scope="col", title=hint, tabindex=0) for name, hint in _COLUMNS.items()))
    best = _best(outcomes[1:])
    caption = tag("caption", "What each method took", class_="kv-unseen")
    body = tag("tbody", *(_row(outcome, outcomes[0], best) for outcome in outcomes))
    drawn = tag("table", caption, tag("thead", head), body, class_="kv-standings")
    how = {"class_": "kv-scroll", "tabindex": 0, "role": "region", "aria_label": "Figures of each method"}
    return join(tag("div", drawn, **how), _protocol(comparison))


def reading() -> Markup:
    """Return how to read the plot."""
    said = (
        "The dotted steps join what nobody beats in both. A grey line leads back to the floor: what computing the same "
        "tokens would take if nothing else took any time."
    )
    return join(tag("h3", "How soon against how near: low and left is best"), tag("p", said, class_="kv-muted"))


def cards(comparison: Comparison) -> Markup:
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
    head = tag(
        "div", tag("h3", "Answers side by side"), legend if len(outcomes) > 1 else None, class_="kv-answers-head"
    )
    drawn = (_card(outcome, outcomes[0], comparison) for outcome in outcomes)
    return tag("section", head, tag("ol", *drawn, class_="kv-answers"), aria_label="Answers side by side")


def _ended(comparison: Comparison) -> Markup:
    arms = count(len(comparison.outcomes), "answer")
    wanted = comparison.request.question
    state = "Stopped early · " if comparison.state == "stopped" else ""
    read = f"{count(len(comparison.passages), 'passage')}, {count(comparison.context_tokens, 'token')}"
    notes = tag("ul", *(tag("li", note) for note in comparison.notes), class_="kv-notes", aria_label="Notes")
    return tag(
        "div",
        tag("h2", wanted, class_="kv-question", dir="auto"),
        tag("p", f"{state}{arms} from {read}", class_="kv-muted"),
        notes if comparison.notes else None,
        class_="kv-compare-ended",
    )


def _row(outcome: Outcome, full: Outcome, best: dict[str, float]) -> Markup:
    reference = outcome is full
    tiers = ", ".join(f"{size(read)} {PLACES.get(tier, tier)}" for tier, read in outcome.read_bytes.items())
    times = ", ".join(duration(each) for each in outcome.ttfts_ms)
    timed = f"Median of {len(outcome.ttfts_ms)}: {times}" if len(outcome.ttfts_ms) > 1 else "Timed once"
    spent = ", ".join(f"{name} {duration(ms)}" for name, ms in _spent(outcome).items())
    floor = "" if reference else f". Floor, what its tokens alone would take: {duration(outcome.floor_ms)}"
    where = f"{timed} ({spent}){floor}"
    near = (
        f"First token alone: {_nats(outcome.kl)}. Same likeliest token at {percent(outcome.answer_top1)} of the answer"
    )
    share = f"--kv-share: {min(1.0, outcome.rt) * 100:.1f}%"
    bar = tag("span", class_="kv-share", style=share, aria_hidden="true")
    return tag(
        "tr",
        tag("th", outcome.label, tag("small", "the reference") if reference else None, scope="row"),
        tag("td", UNKNOWN if outcome.ratio is None else percent(outcome.ratio)),
        tag("td", percent(outcome.realised_ratio, 1)),
        _cell(duration(outcome.ttft_ms), not reference and outcome.ttft_ms == best.get("ttft"), where, bar),
        tag("td", "100\u00a0%" if reference else percent(outcome.rt)),
        _cell(_nats(outcome.answer_kl), not reference and _kl(outcome) == best.get("kl"), near),
        tag("td", UNKNOWN if reference else "yes" if outcome.top1 else "no", class_=None if outcome.top1 else "kv-no"),
        _cell(
            size(outcome.reused_bytes) if outcome.reused_bytes else UNKNOWN,
            not reference and outcome.reused_bytes == best.get("reused"),
            f"Read: {tiers}" if tiers else "Nothing was read",
        ),
        class_="kv-reference" if reference else None,
    )


def _spent(outcome: Outcome) -> dict[str, float]:
    """Return the milliseconds of each stage's name; stages may overlap."""
    spent: dict[str, float] = {}
    for stage in outcome.stages:
        spent[stage.name] = spent.get(stage.name, 0.0) + stage.length_ms
    return spent


def _cell(value: str, best: bool, meaning: str, bar: Markup | None = None) -> Markup:
    shown = tag("strong", value, tag("span", " (best)", class_="kv-unseen")) if best else value
    return tag("td", shown, bar, title=meaning, class_="kv-best" if best else None)


def _best(rivals: Sequence[Outcome]) -> dict[str, float]:
    """Return the best figure of each column; nothing to be best among, no best."""
    if len(rivals) < 2:
        return {}
    return {
        "ttft": min(outcome.ttft_ms for outcome in rivals),
        "kl": min(_kl(outcome) for outcome in rivals),
        "reused": max(outcome.reused_bytes for outcome in rivals),
    }


def _kl(outcome: Outcome) -> float:
    return outcome.answer_kl if outcome.answer_kl >= EXACT else 0.0


def _nats(kl: float) -> str:
    """Return a KL as '0.127', '0.0031', '2e-05', or '0' where it is nothing but rounding."""
    return "0" if kl < EXACT else f"{kl:.3f}" if kl >= 0.1 else f"{kl:.2g}"


def _protocol(comparison: Comparison) -> Markup:
    repeats = comparison.request.repeats
    n = min(len(outcome.ttfts_ms) for outcome in comparison.outcomes)
    timed = "Each was timed once" if n == 1 else f"Median of n = {n}, methods taking turns"
    said = (
        f"{timed}{'' if n == repeats else f' so far, of {repeats}'}. Every first word counts the search "
        f"({duration(comparison.search_ms)}, done once, the same for all), loading, the small model, selection and "
        "recomputation. Passages' keys and values were brought to memory before the first time; no method's work "
        "helps the next."
    )
    return tag("p", said, class_="kv-muted kv-protocol")


def _card(outcome: Outcome, full: Outcome, comparison: Comparison) -> Markup:
    reference = outcome is full
    asked = "" if outcome.ratio is None else f" at {percent(outcome.ratio)}"
    text = differences(full.answer, outcome.answer, comparison.passages)
    alike = same(full.answer, outcome.answer)
    said = "The reference" if reference else "Same words" if alike else "Differs"
    look = "kv-verdict" if reference or alike else "kv-verdict kv-verdict-differs"
    took = duration(outcome.ttft_ms) + ("" if reference else f" · {percent(outcome.rt)} of full")
    empty = tag("p", "The model wrote nothing.", class_="kv-muted")
    return tag(
        "li",
        tag("div", tag("h4", outcome.label, asked), tag("span", said, class_=look), class_="kv-answer-head"),
        tag("p", took, class_="kv-muted"),
        tag("div", text, class_="kv-text", dir="auto") if outcome.answer else empty,
        class_="kv-card kv-answer" + (" kv-reference" if reference else ""),
    )
