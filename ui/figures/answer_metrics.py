"""State and metrics of one answer as HTML, and a bar that shows how its prompt uses the model's context."""

from engine.method import MethodInfo
from engine.request import Answer
from ui.format import UNKNOWN, count, duration, percent, rate
from ui.html import Markup, join, progress_line, tag

_STATES = {"searching": "Searching", "reading": "Reading passages", "writing": "Writing"}
_DRAFT = "Draft from cached KV, not verified yet"
_TTFT = "TTFT, measured from the arrival of the question; includes retrieval, loading and recomputation."
_REUSABLE = "All tokens of the passages are reusable; those not recomputed use cached keys and values (KV)."
_FOLLOW_UP = "The question, with earlier questions of this chat if it is a follow-up."


def render_state(answer: Answer) -> Markup | None:
    """Return what is running, or that the answer was stopped; None if it is complete."""
    if answer.state == "stopped":
        text = "Stopped. The answer is incomplete." if answer.text else "Stopped before the first token."
        if answer.draft_status == "unverified":
            text = "Stopped. This is a draft that was not verified."
        return tag("p", text, class_="kv-state", role="status")
    if answer.state not in _STATES:
        return None
    return progress_line(_DRAFT if answer.draft_status == "unverified" else _STATES[answer.state])


def render_metrics(answer: Answer, method: MethodInfo) -> Markup:
    """Return the metrics of one answer; dashes for values that are not known yet."""
    ttft = duration(answer.trace.ttft_ms)
    ratio = tokens = UNKNOWN
    if answer.trace.ttft_ms is not None and not answer.answered_by:
        ratio = percent(answer.actual_ratio, 1)
        tokens = f"{answer.recomputed_tokens:,}"
    target = f"{method.label} has no ratio"
    about_ratio = "Recomputed tokens / reusable tokens."
    if method.has_ratio:
        target = f"target {percent(answer.request.recompute_ratio)}"
        about_ratio += " It can differ from the target: methods may select whole windows only, or too few tokens."
    reusable = f"of {answer.context_tokens:,} reusable" if answer.context_tokens else "of the reusable tokens"
    speed = rate(answer.tokens_per_second)
    generated = f"tokens per second, {answer.new_tokens:,} generated" if answer.new_tokens else "tokens per second"
    question = f"{answer.question_tokens:,}" if answer.question_tokens else UNKNOWN
    since = "from your question to the first token"
    if answer.draft:
        since = f"to the first verified token; draft after {duration(answer.draft.trace.ttft_ms)}"
    tiles = tag(
        "dl",
        _tile("Time to first token", ttft, since, _TTFT, "kv-figure kv-lead"),
        _tile("Recomputed", ratio, target, about_ratio),
        _tile("Recomputed tokens", tokens, reusable, _REUSABLE),
        _tile("Decode speed", speed, generated, "Generation speed after the first token."),
        _tile("Question tokens", question, "always computed", "Every question is new, so its tokens are never reused."),
        class_="kv-figures",
    )
    return join(tiles, _context_bar(answer))


def _tile(name: str, value: str, note: str, tooltip: str, class_: str = "kv-figure") -> Markup:
    return tag("div", tag("dt", name), tag("dd", value, tag("small", note)), class_=class_, title=tooltip)


def _context_bar(answer: Answer) -> Markup | None:
    """Return the bar with its caption; None before the prompt is known."""
    if not answer.max_tokens or not answer.prompt_tokens:
        return None
    prefix_tokens = answer.prompt_tokens - answer.context_tokens - answer.question_tokens
    answer_tokens = min(answer.request.max_new_tokens, answer.max_tokens - answer.prompt_tokens)
    parts = (
        ("prefix", prefix_tokens, "instructions", "The shared prefix at the start of every prompt; computed once."),
        ("passages", answer.context_tokens, "passages", "The retrieved passages."),
        ("question", answer.question_tokens, "question", _FOLLOW_UP),
        ("room", answer_tokens, "answer", "Reserved for the answer, up to the max answer length."),
    )
    bars = (
        tag(
            "span",
            class_=f"kv-budget-{key}",
            style=f"width:{100 * tokens / answer.max_tokens:.2f}%",
            title=f"{label}: {count(tokens, 'token')}. {meaning}",
        )
        for key, tokens, label, meaning in parts
        if tokens > 0
    )
    used = f"{answer.prompt_tokens:,} of {count(answer.max_tokens, 'token')} used"
    caption = f"{used}, {answer_tokens:,} left for the answer"
    dropped = f"{count(answer.num_dropped_passages, 'passage')} did not fit"
    return tag(
        "div",
        tag("h3", "Context", title="The model's context window, shared by prompt and answer."),
        tag("div", *bars, class_="kv-budget-bar", role="img", aria_label=caption),
        tag("small", caption),
        tag("small", dropped, class_="kv-left-out") if answer.num_dropped_passages else None,
        class_="kv-budget",
    )
