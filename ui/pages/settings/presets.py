"""The HTML of the presets: a card per model, with its download, its speed on this machine, and a button to load it."""

from collections.abc import Sequence

from backend.interface.models import PresetInfo
from engine.model.loading.presets import BUNDLED_MODEL, copy_instructions
from ui.format import parameters, size, token_rate
from ui.html import Markup, button, join, tag

_ESTIMATED = "Decoding reads all weights for each token, so the speed is inversely proportional to a model's size."


def render_presets(presets: Sequence[PresetInfo], fixed_by: str = "") -> Markup:
    """Return the cards; `fixed_by` is the flag or variable that sets the main model, which then cannot be changed."""
    return tag("ul", *(_card(info, fixed_by) for info in presets), class_="kv-presets", aria_label="Presets")


def _card(info: PresetInfo, fixed_by: str) -> Markup:
    preset = info.preset
    facts = (
        parameters(preset.num_parameters),
        "downloaded" if info.is_local else f"{size(preset.download_bytes)} download",
        preset.licence,
        _speed(info),
    )
    before, command, after = copy_instructions(preset.name).split("`")
    hint = tag("details", tag("summary", "Without internet"), tag("p", before, tag("code", command), after))
    return tag(
        "li",
        tag(
            "div",
            tag("bdi", preset.name.rpartition("/")[2], class_="kv-name"),
            tag("p", preset.purpose),
            tag("small", *(tag("span", fact) for fact in facts if fact)),
            None if info.is_local or preset.name == BUNDLED_MODEL else hint,
        ),
        tag("span", "In use", class_="kv-badge kv-passed") if info.is_loaded else _load_button(preset.name, fixed_by),
        aria_current="true" if info.is_loaded else None,
    )


def _load_button(name: str, fixed_by: str) -> Markup:
    label = "Back to the bundled model" if name == BUNDLED_MODEL else "Load"
    title = f"The main model is set by {fixed_by} at startup." if fixed_by else None
    return button("load", name, label, aria_label=f"{label}: {name}", title=title, disabled=bool(fixed_by))


def _speed(info: PresetInfo) -> Markup | None:
    if info.tokens_per_second is None:
        return None
    rate = token_rate(info.tokens_per_second)
    if info.is_loaded:
        return join(tag("strong", rate), " on this machine, measured")
    return tag("span", tag("strong", f"about {rate}"), ", estimated from the loaded model", title=_ESTIMATED)
