"""How a prompt shares the model's context: a bar, so that nothing is left out silently."""

from engine.request import Answer
from ui.format import count
from ui.html import Markup, tag

_PARTS = {
    "prefix": ("instructions", "The shared prefix: what every prompt begins with, computed once."),
    "passages": ("passages", "The passages that were read."),
    "question": ("question", "The question, with what it leans on of this chat."),
    "room": ("room for the answer", "The longest answer that was asked for, as far as it fits."),
}


def budget(answer: Answer) -> Markup | None:
    """Return the bar with its words; None until it is known what will be read."""
    if not answer.max_tokens or not answer.prompt_tokens:
        return None
    prefix = answer.prompt_tokens - answer.context_tokens - answer.question_tokens
    room = min(answer.request.max_new_tokens, answer.max_tokens - answer.prompt_tokens)
    sizes = {
        "prefix": prefix,
        "passages": answer.context_tokens,
        "question": answer.question_tokens,
        "room": room,
    }
    parts = [
        tag(
            "span",
            class_=f"kv-budget-{name}",
            style=f"width:{100 * size / answer.max_tokens:.2f}%",
            title=f"{_PARTS[name][0]}: {count(size, 'token')}. {_PARTS[name][1]}",
        )
        for name, size in sizes.items()
        if size > 0
    ]
    said = f"{answer.prompt_tokens:,} of {count(answer.max_tokens, 'token')} read, {room:,} left for the answer"
    return tag(
        "div",
        tag("h3", "Context", title="What a model can read at once: its context, in tokens."),
        tag("div", *parts, class_="kv-budget-bar", role="img", aria_label=said),
        tag("small", said),
        tag("small", f"{count(answer.left_out, 'passage')} did not fit", class_="kv-left-out")
        if answer.left_out
        else None,
        class_="kv-budget",
    )
