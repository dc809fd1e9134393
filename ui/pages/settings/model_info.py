"""What the Settings page shows as HTML: loaded models, what another would take, a change under way, the data folder."""

from collections.abc import Sequence

from backend.interface.models import MemoryEstimate, ModelInfo, ReloadStatus, StaleChunking, SystemInfo
from engine.selftest_result import SelfTestResult
from ui.format import count, duration, size
from ui.html import Markup, join, tag

ROLES = {
    "primary": ("Answers", "The model that reads the passages and writes the answer."),
    "auxiliary": (
        "Chooses",
        "A small model on the CPU: its attention chooses which tokens are computed again.",
    ),
    "selector": ("Selects", "Trained to select what is worth computing again; the method CacheClip trained asks it."),
    "pointer": ("Points", "Trained to point at the words that answer; the model that answers leans towards them."),
    "embedder": ("Finds", "Turns passages and questions into vectors: near vectors are found first."),
    "reranker": ("Orders", "Reads question and passage together and orders the last few that were found."),
}
_EXACT = (
    "At load, a short text is read once as transformers reads it and once as KVScope does, with stale keys and values "
    "computed anew. The scores of the next word may differ by rounding only, or the model is refused."
)
_KV = "Keys and values (KV): what the model keeps of each token it has read."
_FORMATS = {"bf16": "16-bit numbers (bf16)", "fp32": "32-bit numbers (fp32)"}


def loaded(models: Sequence[ModelInfo]) -> Markup:
    """Return a row for each model in use."""
    if not models:
        return tag("p", "No model is loaded yet.", class_="kv-muted kv-empty")
    return tag("ul", *map(_model, models), class_="kv-models", aria_label="Models in use")


def _model(model: ModelInfo) -> Markup:
    label, meaning = ROLES[model.role]
    facts = [
        f"{billions(model.parameters)} parameters" if model.parameters else None,
        tag("span", model.dtype, title=_FORMATS.get(model.dtype)),
        f"on the {model.device}",
        f"reads {count(model.context, 'token')}" if model.context else None,
        f"{size(model.memory_bytes)} of memory" if model.memory_bytes else None,
        model.note or None,
    ]
    return tag(
        "li",
        tag("span", label, class_="kv-role", title=meaning),
        tag(
            "div",
            tag("bdi", model.name, class_="kv-name"),
            tag("small", *(tag("span", fact) for fact in facts if fact)),
        ),
        _badge(model.selftest) if model.selftest else None,
    )


def _badge(test: SelfTestResult) -> Markup:
    measured = (
        f"Here they differ by {test.deviation:.2g} of their standard deviation (the largest by {test.largest:.2g}); "
        f"{test.bound:.2g} is allowed. It took {duration(test.ms)}."
    )
    figure = tag("span", f"{test.deviation:.2g} of {test.bound:.2g} allowed", class_="kv-number")
    return tag("span", "Self-test: ", figure, class_="kv-badge kv-passed", title=f"{_EXACT} {measured}")


def footprint(found: MemoryEstimate) -> Markup:
    """Return what a model is and takes, drawn against the memory that is free, with a plain verdict."""
    look, verdict = _verdict(found)
    facts = {
        "Kind": f"{found.family}, {billions(found.parameters)} parameters",
        "Reads at once": count(found.context, "token"),
        "Format": f"{_FORMATS.get(found.dtype, found.dtype)} on the {found.device}",
        "To download": size(found.fetch_bytes) if found.fetch_bytes else "nothing, it is on this machine",
    }
    return tag(
        "section",
        tag("p", tag("bdi", found.name, class_="kv-name")),
        tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in facts.items())),
        _bar(found),
        tag("p", verdict, class_="kv-verdict"),
        class_=f"kv-footprint {look}",
        aria_label="What this model takes",
    )


def _verdict(found: MemoryEstimate) -> tuple[str, str]:
    """Return the look and the sentence for whether a model fits."""
    usual, whole = (size(found.weights_bytes + kv) for kv in (found.question_bytes, found.kv_bytes))
    free = size(found.free_bytes)
    if found.short:
        return "kv-short", f"Too large: {usual} for a usual question, {free} free. Loading it may end KVScope."
    if found.weights_bytes + found.kv_bytes > found.free_bytes:
        return "kv-tight", f"Fits for usual questions: {usual} of {free} free. A whole context would need {whole}."
    return "kv-fits", f"Fits: at most {whole} of {free} free."


def _bar(found: MemoryEstimate) -> Markup:
    """Draw weights, KV of a usual question and KV of a whole context on one scale with what is free."""
    scale = max(found.free_bytes, found.weights_bytes + found.kv_bytes, 1)
    more = max(0, found.kv_bytes - found.question_bytes)
    shares = (
        ("Weights", "kv-weights", found.weights_bytes, "The model's parameters."),
        ("KV of a usual question", "kv-usual", found.question_bytes, f"{_KV} 8 passages, a question and its answer."),
        ("KV up to a whole context", "kv-whole", more, f"{_KV} More only for very long prompts."),
    )
    drawn = (tag("i", class_=look, style=f"width:{100 * part / scale:.2f}%") for _, look, part, _ in shares)
    free = tag("i", class_="kv-free", style=f"left:{100 * min(1.0, found.free_bytes / scale):.2f}%")
    key = (
        tag("li", tag("i", class_=look), f"{name} {size(part)}", title=meaning) for name, look, part, meaning in shares
    )
    line = tag(
        "li", tag("i", class_="kv-free"), f"free {size(found.free_bytes)}", title="Free memory of this machine now."
    )
    return join(
        tag("div", tag("div", *drawn), free, class_="kv-memory", aria_hidden="true"),
        tag("ul", *key, line, class_="kv-memory-key"),
    )


def changing(change: ReloadStatus, done: str = "") -> Markup:
    """Return how far a change is, what went wrong with it, or that it is made."""
    if change.running:
        bar = (
            None if change.progress is None else tag("progress", value=f"{change.progress:.2f}", aria_label="Progress")
        )
        return tag("div", tag("p", change.line or "Beginning", dir="auto"), bar, class_="kv-change", role="status")
    if change.error:
        return error(change.error)
    return tag("p", done, class_="kv-change kv-done", role="status") if done else Markup("")


def error(said: str) -> Markup:
    """Return a sentence about what went wrong."""
    return tag("p", said, class_="kv-trouble", role="alert", dir="auto")


def stale_documents(found: Sequence[StaleChunking], tokens: int, overlap: int) -> Markup:
    """Return which documents keep an earlier cut; nothing where all are cut as the settings say."""
    if not found:
        return Markup("")
    said = []
    for cut in found:
        were = "was" if len(cut.documents) == 1 else "were"
        said.append(f"{count(len(cut.documents), 'document')} {were} cut at {cut.tokens} / {cut.overlap} tokens")
    text = f"{'; '.join(said)} and keep that until re-indexed. New ones are cut at {tokens} / {overlap}."
    return tag("p", text, class_="kv-warning")


def about(found: SystemInfo) -> Markup:
    """Return versions, the data folder's parts drawn to scale, and licences."""
    total = sum(part for _, part in found.parts)
    rows = [
        tag(
            "li",
            tag("span", name),
            bar(part / max(1, total)),
            tag("span", size(part), class_="kv-number"),
        )
        for name, part in found.parts
    ]
    versions = (tag("div", tag("dt", name), tag("dd", version)) for name, version in found.versions)
    return tag(
        "div",
        tag("h4", f"Data folder: {size(total)}"),
        tag("p", tag("code", found.folder), class_="kv-muted"),
        tag("ul", *rows, class_="kv-parts"),
        tag("h4", "Versions"),
        tag("dl", *versions, class_="kv-versions"),
        tag("h4", "Licence"),
        tag(
            "p",
            "KVScope, SmolLM2-135M-Instruct and all-MiniLM-L6-v2: Apache-2.0. What we trained: CC BY-SA 4.0.",
        ),
        class_="kv-about",
    )


def bar(share: float) -> Markup:
    """Return a bar that is filled to a share in [0, 1]."""
    return tag("div", tag("i", style=f"width:{100 * share:.2f}%"), class_="kv-part", aria_hidden="true")


def prompt(text: str) -> Markup:
    """Return the system prompt, and why it cannot be changed here."""
    why = (
        "Every passage's keys and values are computed behind these words. Other words would make all of them "
        "worthless, and the shipped reader was trained with exactly these; so they are fixed."
    )
    return join(tag("blockquote", text, dir="auto"), tag("p", why, class_="kv-muted"))


def billions(parameters: int) -> str:
    """Return '135 M' or '1.7 B'."""
    if parameters < 999_500_000:
        return f"{parameters / 1e6:.0f}\u00a0M" if parameters >= 1e6 else f"{parameters:,}"
    return f"{parameters / 1e9:.1f}\u00a0B"
