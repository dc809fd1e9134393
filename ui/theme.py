"""The Gradio theme: system fonts (nothing is downloaded), neutral greys and one accent colour."""

import gradio as gr

# Shades from 50 to 950.
_TEAL = gr.themes.Color(
    *("#eefaf8", "#d3f1ec", "#a9e3da", "#74cec2", "#45b3a6", "#1f978a"),
    *("#0f766e", "#0d5f59", "#0e4c48", "#0f3f3c", "#062523"),
    name="teal",
)
_GREY = gr.themes.Color(
    *("#f8f8f6", "#f1f1ee", "#e4e4df", "#d2d2cc", "#a0a19c", "#70726f"),
    *("#565856", "#3a3d3e", "#26292b", "#1a1d1f", "#121416"),
    name="grey",
)


def theme() -> gr.themes.Base:
    """Return the theme for `gr.Blocks.launch`."""
    return gr.themes.Base(
        primary_hue=_TEAL,
        secondary_hue=_TEAL,
        neutral_hue=_GREY,
        radius_size="lg",
        text_size="md",
        font=["system-ui", "-apple-system", "Segoe UI", "Roboto", "Noto Sans", "sans-serif"],
        font_mono=["ui-monospace", "SFMono-Regular", "Consolas", "DejaVu Sans Mono", "monospace"],
    ).set(
        body_background_fill="*neutral_50",
        body_background_fill_dark="*neutral_950",
        body_text_color="*neutral_900",
        body_text_color_dark="*neutral_100",
        body_text_color_subdued="*neutral_500",
        body_text_color_subdued_dark="*neutral_400",
        background_fill_primary="#ffffff",
        background_fill_primary_dark="*neutral_900",
        background_fill_secondary="*neutral_50",
        background_fill_secondary_dark="*neutral_950",
        border_color_primary="*neutral_200",
        border_color_primary_dark="*neutral_700",
        block_background_fill="#ffffff",
        block_background_fill_dark="*neutral_900",
        block_border_width="0px",
        block_shadow="none",
        block_label_text_color="*neutral_600",
        block_label_text_color_dark="*neutral_300",
        block_title_text_color="*neutral_800",
        block_title_text_color_dark="*neutral_200",
        block_title_text_size="*text_sm",
        block_title_text_weight="600",
        block_info_text_color="*neutral_500",
        block_info_text_color_dark="*neutral_400",
        block_info_text_size="*text_xs",
        input_background_fill="#ffffff",
        input_background_fill_dark="*neutral_900",
        input_border_color="*neutral_300",
        input_border_color_dark="*neutral_700",
        input_border_width="1px",
        input_placeholder_color="*neutral_500",
        input_placeholder_color_dark="*neutral_400",
        slider_color="*primary_600",
        slider_color_dark="*primary_400",
        button_primary_background_fill="*primary_600",
        button_primary_background_fill_hover="*primary_700",
        button_primary_background_fill_dark="*primary_400",
        button_primary_background_fill_hover_dark="*primary_300",
        button_primary_text_color="#ffffff",
        button_primary_text_color_dark="*neutral_950",
        button_secondary_background_fill="#ffffff",
        button_secondary_background_fill_hover="*neutral_100",
        button_secondary_background_fill_dark="*neutral_900",
        button_secondary_background_fill_hover_dark="*neutral_800",
        button_secondary_border_color="*neutral_300",
        button_secondary_border_color_dark="*neutral_700",
        button_border_width="1px",
        button_primary_border_color="*primary_600",
        button_primary_border_color_dark="*primary_400",
    )
