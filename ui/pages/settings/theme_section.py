"""The Appearance section: light, dark or system theme, stored in the browser only."""

import gradio as gr

from ui.html import Markup, tag
from ui.pages.settings.section import section

# assets/scripts/theme.js stores the choice and applies it before the page is drawn; this only shows and changes it.
_ON_LOAD = """
const update = () => element.querySelectorAll('button').forEach((button) =>
    button.setAttribute('aria-checked', String(button.dataset.theme === window.kvTheme.chosen())));
element.addEventListener('click', (event) => {
    const button = event.target.closest('button[data-theme]');
    if (button) { window.kvTheme.choose(button.dataset.theme); update(); }
});
update();
"""
_THEMES = {"system": "System", "light": "Light", "dark": "Dark"}


def build() -> None:
    """Create the section inside the open Blocks."""
    with section("Appearance", "Saved in this browser only."):
        gr.HTML(_theme_buttons(), elem_id="themes", js_on_load=_ON_LOAD)


def _theme_buttons() -> Markup:
    buttons = (
        tag("button", label, type="button", role="radio", aria_checked="false", data_theme=theme)
        for theme, label in _THEMES.items()
    )
    return tag("div", *buttons, class_="kv-themes", role="radiogroup", aria_label="Theme")
