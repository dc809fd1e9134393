"""The Gradio theme: system fonts (nothing is downloaded), neutral greys and one accent colour."""

import gradio as gr

# Shades from 50 to 950.
_TEAL = "#eefaf8 #d3f1ec #a9e3da #74cec2 #45b3a6 #1f978a #0f766e #0d5f59 #0e4c48 #0f3f3c #062523"
_GREY = "#f8f8f6 #f1f1ee #e4e4df #d2d2cc #a0a19c #70726f #565856 #3a3d3e #26292b #1a1d1f #121416"
_COLOURS = {  # in the light and in the dark theme
    "body_background_fill": ("*neutral_50", "*neutral_950"),
    "body_text_color": ("*neutral_900", "*neutral_100"),
    "body_text_color_subdued": ("*neutral_500", "*neutral_400"),
    "background_fill_primary": ("#ffffff", "*neutral_900"),
    "background_fill_secondary": ("*neutral_50", "*neutral_950"),
    "block_background_fill": ("#ffffff", "*neutral_900"),
    "block_label_text_color": ("*neutral_600", "*neutral_300"),
    "block_title_text_color": ("*neutral_800", "*neutral_200"),
    "input_background_fill": ("#ffffff", "*neutral_900"),
    "input_border_color": ("*neutral_300", "*neutral_700"),
    "input_placeholder_color": ("*neutral_500", "*neutral_400"),
    "slider_color": ("*primary_600", "*primary_400"),
    "button_primary_background_fill": ("*primary_600", "*primary_400"),
    "button_primary_background_fill_hover": ("*primary_700", "*primary_300"),
    "button_primary_border_color": ("*primary_600", "*primary_400"),
    "button_primary_text_color": ("#ffffff", "*neutral_950"),
    "button_secondary_background_fill": ("#ffffff", "*neutral_900"),
    "button_secondary_background_fill_hover": ("*neutral_100", "*neutral_800"),
    "button_secondary_border_color": ("*neutral_300", "*neutral_700"),
}


def theme() -> gr.themes.Base:
    """Return the theme for `gr.Blocks.launch`."""
    colours = {name: light for name, (light, _) in _COLOURS.items()}
    colours |= {f"{name}_dark": dark for name, (_, dark) in _COLOURS.items()}
    return gr.themes.Base(
        primary_hue=gr.themes.Color(*_TEAL.split()),
        secondary_hue=gr.themes.Color(*_TEAL.split()),
        neutral_hue=gr.themes.Color(*_GREY.split()),
        radius_size="lg",
        font=["system-ui", "-apple-system", "Segoe UI", "Roboto", "Noto Sans", "sans-serif"],
        font_mono=["ui-monospace", "SFMono-Regular", "Consolas", "DejaVu Sans Mono", "monospace"],
    ).set(
        block_border_width="0px",
        block_title_text_size="*text_sm",
        block_title_text_weight="600",
        block_info_text_size="*text_xs",
        input_border_width="1px",
        **colours,
    )
