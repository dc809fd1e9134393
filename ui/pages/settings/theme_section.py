"""The section for looks: light, dark, or as the system has it. The browser remembers it; the server never knows."""

import gradio as gr

from ui.html import Markup, tag
from ui.pages.settings.section import section

_ABOUT = "Remembered by this browser alone."
# assets/scripts/theme.js keeps the choice and applies it before the page is drawn; here it is only made and shown.
_ON_LOAD = """
const shown = () => element.querySelectorAll('button').forEach((button) =>
    button.setAttribute('aria-checked', String(button.dataset.theme === window.kvTheme.chosen())));
element.addEventListener('click', (event) => {
    const button = event.target.closest('button[data-theme]');
    if (button) { window.kvTheme.choose(button.dataset.theme); shown(); }
});
shown();
"""
_THEMES = {"system": "As the system", "light": "Light", "dark": "Dark"}


def build() -> None:
    """Draw the section inside the open Blocks."""
    with section("Appearance", _ABOUT):
        gr.HTML(_buttons(), elem_id="themes", js_on_load=_ON_LOAD)


def _buttons() -> Markup:
    offered = (
        tag("button", name, type="button", role="radio", aria_checked="false", data_theme=theme)
        for theme, name in _THEMES.items()
    )
    return tag("div", *offered, class_="kv-themes", role="radiogroup", aria_label="Theme")
