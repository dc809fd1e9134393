"""State and metrics of one answer as HTML, and a bar that shows how its prompt uses the model's context."""

from engine.method import MethodInfo
from engine.request import Answer
from ui.format import UNKNOWN, count, duration, percent
from ui.html import Markup, join, progress_line, tag

_STATES = {"searching": "Searching", "reading": "Reading passages", "writing": "Writing"}
_CONTEXT_PARTS = {
    "prefix": ("instructions", "The shared prefix at the start of every prompt; computed once."),
    "passages": ("passages", "The retrieved passages."),
    "question": ("question", "The question, with earlier questions of this chat if it is a follow-up."),
    "room": ("answer", "Reserved for the answer, up to the max answer length."),
}


def render_state(answer: Answer) -> Markup | None:
    """Return what is running, or that the answer was stopped; None if it is complete."""
    if answer.state == "stopped":
        return tag("p", "Stopped. The answer is incomplete.", class_="kv-state", role="status")
    return progress_line(_STATES[answer.state]) if answer.state in _STATES else None


def render_metrics(answer: Answer, method: MethodInfo) -> Markup:
    """Return the metrics of one answer; dashes for values that are not known yet."""
    has_prefill = answer.trace.ttft_ms is not None
    ratio_tooltip = "Recomputed tokens / reusable tokens."
    if method.has_ratio:
        ratio_tooltip += " It can differ from the target: methods may select whole windows only, or too few tokens."
    tiles = tag(
        "dl",
        _tile(
            "Time to first token",
            duration(answer.trace.ttft_ms),
            "from your question to the first token",
            "TTFT, measured from the arrival of the question; includes retrieval, loading and recomputation.",
            "kv-lead",
        ),
        _tile(
            "Recomputed",
            percent(answer.actual_ratio, 1) if has_prefill else UNKNOWN,
            f"target {percent(answer.request.recompute_ratio)}" if method.has_ratio else f"{method.label} has no ratio",
            ratio_tooltip,
        ),
        _tile(
            "Recomputed tokens",
            f"{answer.recomputed_tokens:,}" if has_prefill else UNKNOWN,
            f"of {answer.context_tokens:,} reusable" if answer.context_tokens else "of the reusable tokens",
            "All tokens of the passages are reusable; those not recomputed use cached keys and values (KV).",
        ),
        _tile(
            "Decode speed",
            decode_speed(answer.tokens_per_second),
            "tokens per second" + (f", {answer.new_tokens:,} generated" if answer.new_tokens else ""),
            "Generation speed after the first token.",
        ),
        _tile(
            "Question tokens",
            f"{answer.question_tokens:,}" if answer.question_tokens else UNKNOWN,
            "always computed",
            "Every question is new, so its tokens are never reused.",
        ),
        class_="kv-figures",
    )
    return join(tiles, _context_bar(answer))


def decode_speed(tokens_per_second: float | None) -> str:
    """Return tokens per second with one decimal; a dash for None."""
    return UNKNOWN if tokens_per_second is None else f"{tokens_per_second:.1f}"


def _tile(name: str, value: str, note: str, tooltip: str, extra_class: str = "") -> Markup:
    return tag(
        "div",
        tag("dt", name),
        tag("dd", value, tag("small", note)),
        class_=f"kv-figure {extra_class}".strip(),
        title=tooltip,
    )


def _context_bar(answer: Answer) -> Markup | None:
    """Return the bar with its caption; None before the prompt is known."""
    if not answer.max_tokens or not answer.prompt_tokens:
        return None
    answer_tokens = min(answer.request.max_new_tokens, answer.max_tokens - answer.prompt_tokens)
    sizes = {
        "prefix": answer.prompt_tokens - answer.context_tokens - answer.question_tokens,
        "passages": answer.context_tokens,
        "question": answer.question_tokens,
        "room": answer_tokens,
    }
    parts = [
        tag(
            "span",
            class_=f"kv-budget-{name}",
            style=f"width:{100 * size / answer.max_tokens:.2f}%",
            title=f"{_CONTEXT_PARTS[name][0]}: {count(size, 'token')}. {_CONTEXT_PARTS[name][1]}",
        )
        for name, size in sizes.items()
        if size > 0
    ]
    caption = (
        f"{answer.prompt_tokens:,} of {count(answer.max_tokens, 'token')} used, {answer_tokens:,} left for the answer"
    )
    dropped = f"{count(answer.num_dropped_passages, 'passage')} did not fit"
    return tag(
        "div",
        tag("h3", "Context", title="The model's context window, shared by prompt and answer."),
        tag("div", *parts, class_="kv-budget-bar", role="img", aria_label=caption),
        tag("small", caption),
        tag("small", dropped, class_="kv-left-out") if answer.num_dropped_passages else None,
        class_="kv-budget",
    )
