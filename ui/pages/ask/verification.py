"""The draft of an answer while it is verified, and what the verification found."""

from engine.request import Answer
from ui.components.differences import mark_differences
from ui.format import duration
from ui.html import Markup, tag

_ABOUT = (
    "The draft was generated from cached KV as it is. Then the method recomputed what it selects, and every token of "
    "the draft was checked against what the model generates after that: the answer is the same as without a draft."
)
_RESULTS = {  # and the class of the line, by status
    "unchanged": ("Verified, unchanged", "kv-verdict-high"),
    "changed": ("Changed by verification", "kv-verdict-low"),
    "unverified": ("Stopped before it was verified", "kv-verdict-low"),
}


def render_verification(answer: Answer) -> Markup | None:
    """Return what the verification of a finished answer's draft found; None if there was no draft."""
    if (draft := answer.draft) is None:
        return None
    status = answer.draft_status
    result, level = _RESULTS[status]
    times = f"Draft after {duration(draft.trace.ttft_ms)}"
    if answer.trace.ttft_ms is not None:
        times += f", verified after {duration(answer.trace.ttft_ms)}"
    line = tag("p", tag("strong", result), tag("span", times, title=_ABOUT), class_=f"kv-verdict {level}")
    if status != "changed":
        return line
    marked = mark_differences(answer.text, draft.text, "Answer")
    draft_text = tag("p", marked, class_="kv-text kv-draft", dir="auto")
    return tag("div", line, tag("details", tag("summary", "Show the draft"), draft_text))
