"""The HTML of the Settings page."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from backend.interface.backend import TierUsage
from backend.interface.models import (
    FidelityStatus,
    MemoryEstimate,
    ModelInfo,
    ReloadStatus,
    StaleChunking,
    SystemInfo,
)
from engine.fidelity import DEFAULT_TARGET, TARGETS, FidelityCurve
from ui.components.tiers import TIERS
from ui.format import count, duration, nats, parameters, percent, size, token_rate
from ui.html import Markup, error_box, fact, join, tag

if TYPE_CHECKING:  # torch-free at run time
    from engine.model.spec import SelfTestResult

_ROLES = {
    "primary": ("Answer model", "The main model: reads the passages and writes the answer."),
    "auxiliary": ("Auxiliary model", "Small model on the CPU: its attention selects the tokens to recompute."),
    "token_selector": ("Token selector", "Trained head that selects the tokens to recompute, for 'CacheClip trained'."),
    "span_scorer": ("Span scorer", "Trained head that finds answer spans in the passages; decoding favours them."),
    "quote_encoder": ("Quote encoder", "Ranks sentences, list items and table rows by their meaning."),
    "embedder": ("Search model", "Embedding model: turns passages and questions into vectors, to find the passages."),
    "reranker": ("Reranker", "Cross-encoder that reorders the retrieved passages."),
}
_SELF_TEST = (
    "At load, KVScope compares its next-token scores (logits) with those of transformers on a short text, including "
    "recomputed tokens. A model that differs by more than rounding is rejected."
)
_ATTENTION = (
    "Attention on the CPU: KVScope's kernel, compiled at the first start, if it passes its self-test and is faster "
    "than torch's on this processor."
)
_DECODING = (
    "Decoding on the CPU: KVScope's kernel, if it passes its self-test and is faster than torch on this processor. "
    "With 8-bit weights it reads half as much memory for each token; --decode-weights bf16 keeps the model's precision."
)
_SPEED = "Decode speed: tokens per second while it writes an answer, measured at load with a short text."
_KV = "Keys and values (KV): what the model stores for each token it has read."
_TYPICAL_KV = f"{_KV} For 8 passages, a question and its answer."
_DTYPES = {"bf16": "16-bit numbers (bf16)", "fp32": "32-bit numbers (fp32)"}
_PROMPT = (
    "The keys and values of every passage were computed after this text (the shared prefix), and the bundled LoRA "
    "adapter was trained with it. Changing it would invalidate both, so it is fixed."
)
LANGUAGES = {"browser": "Browser's", "en": "English", "de": "Deutsch", "zh": "\u4e2d\u6587"}
_LICENCE = (
    "KVScope, SmolLM2-135M-Instruct and all-MiniLM-L6-v2: Apache-2.0. Our trained adapter and heads: CC BY-SA 4.0."
)


def render_models(models: Sequence[ModelInfo]) -> Markup:
    """Return one row per loaded model."""
    if not models:
        return tag("p", "No model is loaded yet.", class_="kv-muted kv-empty")
    return tag("ul", *map(_model_row, models), class_="kv-models", aria_label="Loaded models")


def render_estimate(estimate: MemoryEstimate) -> Markup:
    """Return a model's properties, its memory as a bar, and whether it fits."""
    class_, verdict = _verdict(estimate)
    dtype = _DTYPES.get(estimate.dtype, estimate.dtype)
    download = size(estimate.download_bytes) if estimate.download_bytes else "none, already on this machine"
    return tag(
        "section",
        tag("p", tag("bdi", estimate.name, class_="kv-name")),
        tag(
            "dl",
            fact("Architecture", f"{estimate.model_type}, {parameters(estimate.num_parameters)}"),
            fact("Context length", count(estimate.max_context_tokens, "token")),
            fact("Precision", f"{dtype} on the {estimate.device}"),
            fact("Download", download),
        ),
        _memory_bar(estimate),
        tag("p", verdict, class_="kv-verdict"),
        class_=f"kv-footprint {class_}",
        aria_label="Memory estimate",
    )


def render_reload(reload: ReloadStatus, success: str = "") -> Markup:
    """Return the progress of a reload, its error, or `success`."""
    if reload.running:
        bar = None
        if reload.progress is not None:
            bar = tag("progress", value=f"{reload.progress:.2f}", aria_label="Progress")
        return tag("div", tag("p", reload.message or "Starting", dir="auto"), bar, class_="kv-change", role="status")
    if reload.error:
        return error_box(reload.error)
    return tag("p", success, class_="kv-change kv-done", role="status") if success else Markup("")


def render_stale_documents(stale: Sequence[StaleChunking], chunk_size: int, chunk_overlap: int) -> Markup:
    """Return how many documents were chunked with which other settings; empty without any."""
    if not stale:
        return Markup("")
    sentences = []
    for each in stale:
        number = len(each.document_ids)
        verb = "was" if number == 1 else "were"
        chunking = f"{each.chunk_size} / {each.chunk_overlap} tokens"
        sentences.append(f"{count(number, 'document')} {verb} chunked at {chunking}.")
    text = " ".join([*sentences, f"Re-index to apply the current settings ({chunk_size} / {chunk_overlap})."])
    return tag("p", text, class_="kv-warning")


def render_usage(tiers: Sequence[TierUsage]) -> Markup:
    """Return a bar for each tier; empty without tiers."""
    rows = []
    for tier in tiers:
        ratio = min(1.0, tier.size_bytes / tier.budget_bytes) if tier.budget_bytes else 0.0
        usage = f"{size(tier.size_bytes)} of {size(tier.budget_bytes)}"
        rows.append(_bar_row(TIERS[tier.tier].name, ratio, usage, f"{percent(ratio)} of this budget is used"))
    return tag("ul", *rows, class_="kv-parts", aria_label="Cache usage") if rows else Markup("")


def render_system_info(info: SystemInfo) -> Markup:
    """Return versions, the disk usage of the data folder as bars, and licences."""
    total = sum(num_bytes for _, num_bytes in info.disk_usage)
    rows = (_bar_row(name, num_bytes / max(1, total), size(num_bytes)) for name, num_bytes in info.disk_usage)
    return tag(
        "div",
        tag("h4", f"Data folder: {size(total)}"),
        tag("p", tag("code", info.data_folder), class_="kv-muted"),
        tag("ul", *rows, class_="kv-parts"),
        tag("h4", "Versions"),
        tag("dl", *(fact(name, version) for name, version in info.versions), class_="kv-versions", translate="no"),
        tag("h4", "Licences"),
        tag("p", _LICENCE),
        class_="kv-about",
    )


def render_fidelity(status: FidelityStatus) -> Markup:
    """Return how far the calibration has come, its result by ratio, and the recommended setting."""
    parts = []
    if status.measured < status.total or status.curve is None:
        progress = f"{status.measured} of {status.total} questions measured"
        state = "Not calibrated" if status.curve is None else "Preliminary"
        parts.append(tag("p", f"{state}: {progress}; {_progress(status)}.", class_="kv-muted", role="status"))
    if status.error:
        parts.append(error_box(status.error))
    if (curve := status.curve) is not None:
        parts.append(tag("p", _recommendation(curve)))
        heads = ("Recomputed", "KL, nats", "Same token", "Time to first token", "Speedup")
        rows = [
            (percent(each.ratio), nats(each.kl), percent(each.top1), duration(each.ttft_ms), f"{each.speedup:.1f}x")
            for each in curve.points
        ]
        rows.append(("Full prefill", "0", percent(1), duration(curve.full_ttft_ms), "1x"))
        table = tag(
            "table",
            tag("thead", tag("tr", *(tag("th", head, scope="col") for head in heads))),
            tag("tbody", *(_row(*row) for row in rows)),
            class_="kv-history",
        )
        scroll = {"class_": "kv-scroll", "tabindex": 0, "role": "region", "aria_label": "Fidelity by recompute ratio"}
        parts.append(tag("div", table, **scroll))
    return join(*parts)


def _progress(status: FidelityStatus) -> str:
    if status.error:
        return "it failed and is not repeated before the next start"
    if not status.is_enabled:
        return "switched off at the start (--no-idle-calibration)"
    return "running" if status.is_running else "it continues when KVScope has been idle for half a minute"


def _row(name: str, *cells: str) -> Markup:
    return tag("tr", tag("th", name, scope="row"), *(tag("td", cell) for cell in cells))


def _recommendation(curve: FidelityCurve) -> str:
    ratio = curve.least_ratio(TARGETS[DEFAULT_TARGET])
    if ratio is None:
        return (
            f"Not faithful: even at {percent(curve.points[-1].ratio)} the KL is above {TARGETS[DEFAULT_TARGET]} nats. "
            "Use the method 'Exact prefix' with this model; it reuses only exact keys and values."
        )
    return (
        f"Recommended: a recompute ratio of {percent(ratio)}, the least with an expected KL of at most "
        f"{TARGETS[DEFAULT_TARGET]} nats ({curve.num_questions} questions, 8 passages each)."
    )


def render_prompt(prompt: str) -> Markup:
    """Return the system prompt, and why it is fixed."""
    return join(tag("blockquote", prompt, dir="auto", translate="no"), tag("p", _PROMPT, class_="kv-muted"))


def render_theme_buttons() -> Markup:
    """Return the choice of a theme; assets/scripts/theme.js connects it, stores the choice and applies it."""
    look = {"type": "button", "role": "radio", "aria_checked": "false"}
    buttons = (tag("button", label, data_theme=label.lower(), **look) for label in ("System", "Light", "Dark"))
    return join(tag("h4", "Theme"), tag("div", *buttons, class_="kv-themes", role="radiogroup", aria_label="Theme"))


def render_language_buttons() -> Markup:
    """Return the choice of a language; assets/scripts/translate.js connects it and translates the page."""
    look = {"type": "button", "role": "radio", "aria_checked": "false"}
    buttons = (tag("button", label, data_language=language, **look) for language, label in LANGUAGES.items())
    group = tag("div", *buttons, class_="kv-themes", role="radiogroup", aria_label="Language")
    return join(tag("h4", "Language"), group)


def _bar_row(name: str, ratio: float, value: str, tooltip: str | None = None) -> Markup:
    """Return a list item with a bar filled to `ratio`, which is in [0, 1]."""
    bar = tag("div", tag("i", style=f"width:{100 * ratio:.2f}%"), class_="kv-part", aria_hidden="true")
    return tag("li", tag("span", name), bar, tag("span", value, class_="kv-number"), title=tooltip)


def _model_row(model: ModelInfo) -> Markup:
    role, tooltip = _ROLES[model.role]
    facts = (
        parameters(model.num_parameters) if model.num_parameters else None,
        tag("span", model.dtype, title=_DTYPES.get(model.dtype)),
        f"on the {model.device}",
        f"context {count(model.max_context_tokens, 'token')}" if model.max_context_tokens else None,
        f"{size(model.memory_bytes)} of memory" if model.memory_bytes else None,
        tag("span", token_rate(model.tokens_per_second), title=_SPEED) if model.tokens_per_second else None,
        tag("span", "attention: " + model.attention.partition(",")[0], title=_ATTENTION) if model.attention else None,
        tag("span", "decoding: " + model.decoding.partition(",")[0], title=_DECODING) if model.decoding else None,
        model.note,
    )
    name = tag("bdi", model.name, class_="kv-name")
    return tag(
        "li",
        tag("span", role, class_="kv-role", title=tooltip),
        tag("div", name, tag("small", *(tag("span", text) for text in facts if text))),
        _self_test_badge(model.selftest) if model.selftest else None,
    )


def _self_test_badge(result: "SelfTestResult") -> Markup:
    measured = (
        f"Measured difference: {result.deviation:.2g} standard deviations (RMS), {result.max_difference:.2g} at "
        f"most; the limit is {result.bound:.2g}. The test took {duration(result.ms)}."
    )
    figure = tag("span", f"{result.deviation:.2g} (limit {result.bound:.2g})", class_="kv-number")
    return tag("span", "Self-test: ", figure, class_="kv-badge kv-passed", title=f"{_SELF_TEST} {measured}")


def _verdict(estimate: MemoryEstimate) -> tuple[str, str]:
    """Return the CSS class and the sentence that say whether a model fits."""
    max_bytes = estimate.weights_bytes + estimate.max_kv_bytes
    typical = size(estimate.weights_bytes + estimate.typical_kv_bytes)
    free = size(estimate.free_bytes)
    if estimate.exceeds_memory:
        verdict = f"Too large: a typical question needs {typical}, {free} is free. Loading it may crash KVScope."
        return "kv-short", verdict
    if max_bytes > estimate.free_bytes:
        verdict = f"Fits for typical questions: {typical} of {free} free. A full context would need {size(max_bytes)}."
        return "kv-tight", verdict
    return "kv-fits", f"Fits: at most {size(max_bytes)} of {free} free."


def _memory_bar(estimate: MemoryEstimate) -> Markup:
    """Return weights, KV of a typical question and KV of a full context on one scale with the free memory."""
    scale = max(estimate.free_bytes, estimate.weights_bytes + estimate.max_kv_bytes, 1)
    rest = max(0, estimate.max_kv_bytes - estimate.typical_kv_bytes)
    parts = (
        ("Weights", "kv-weights", estimate.weights_bytes, "The model's parameters."),
        ("KV of a typical question", "kv-typical", estimate.typical_kv_bytes, _TYPICAL_KV),
        ("KV up to a full context", "kv-whole", rest, f"{_KV} Needed only for very long prompts."),
    )
    bars, key = [], []
    for name, class_, num_bytes, tooltip in parts:
        bars.append(tag("i", class_=class_, style=f"width:{100 * num_bytes / scale:.2f}%"))
        key.append(tag("li", tag("i", class_=class_), f"{name} {size(num_bytes)}", title=tooltip))
    free = tag("i", class_="kv-free", style=f"left:{100 * estimate.free_bytes / scale:.2f}%")
    key.append(tag("li", tag("i", class_="kv-free"), f"free {size(estimate.free_bytes)}", title="Free memory now."))
    return join(
        tag("div", tag("div", *bars), free, class_="kv-memory", aria_hidden="true"),
        tag("ul", *key, class_="kv-memory-key"),
    )
