"""The look of the page around the player: the player's ink, paper and accent, system fonts, nothing loaded from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import gradio as gr

#: Every style sheet beside this file.
CSS = sorted(Path(__file__).parent.glob("*.css"))
SANS = (
    "ui-sans-serif",
    "system-ui",
    "-apple-system",
    "Segoe UI",
    "Roboto",
    "Helvetica Neue",
    "Liberation Sans",
    "Arial",
    "sans-serif",
)
MONO = ("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "Liberation Mono", "monospace")
#: name -> (light, dark), as in assets/player/player.css.
COLOURS = {
    "paper": ("#ffffff", "#16171b"),
    "wash": ("#f6f5f2", "#1e2025"),
    "page": ("#fbfaf8", "#101114"),
    "ink": ("#1c1b19", "#eceae5"),
    "soft": ("#66635d", "#a09d96"),
    "line": ("#e4e1da", "#2f3138"),
    "accent": ("#4a3aa7", "#a99cf5"),
    "accent_hover": ("#3b2e8a", "#bdb3f8"),
    "on_accent": ("#ffffff", "#16171b"),
}


_SHADOWS = (
    "shadow_drop",
    "shadow_drop_lg",
    "block_shadow",
    "block_shadow_dark",
    "button_primary_shadow",
    "button_primary_shadow_dark",
    "button_secondary_shadow",
    "button_secondary_shadow_dark",
    "input_shadow",
    "input_shadow_dark",
    "input_shadow_focus",
    "input_shadow_focus_dark",
)


def _both(**names: str) -> dict[str, str]:
    """Theme variables for light and dark from names of COLOURS; other values pass through."""
    values = {}
    for variable, name in names.items():
        light, dark = COLOURS.get(name, (name, name))
        values[variable], values[f"{variable}_dark"] = light, dark
    return values


def make_theme() -> gr.themes.Base:
    """A Gradio theme without shadows and with hairlines, light and dark."""
    import gradio as gr

    theme = gr.themes.Base(font=SANS, font_mono=MONO, radius_size="md", spacing_size="md", text_size="md")
    return theme.set(
        **_both(
            body_background_fill="page",
            body_text_color="ink",
            body_text_color_subdued="soft",
            background_fill_primary="paper",
            background_fill_secondary="wash",
            border_color_primary="line",
            border_color_accent="accent",
            color_accent_soft="wash",
            link_text_color="accent",
            block_background_fill="paper",
            block_border_color="line",
            block_label_background_fill="paper",
            block_label_border_color="line",
            block_label_text_color="soft",
            block_title_text_color="soft",
            block_info_text_color="soft",
            panel_background_fill="paper",
            panel_border_color="line",
            input_background_fill="paper",
            input_background_fill_focus="paper",
            input_border_color="line",
            input_border_color_focus="accent",
            input_placeholder_color="soft",
            button_primary_background_fill="accent",
            button_primary_background_fill_hover="accent_hover",
            button_primary_border_color="accent",
            button_primary_text_color="on_accent",
            button_secondary_background_fill="paper",
            button_secondary_background_fill_hover="wash",
            button_secondary_border_color="line",
            button_secondary_text_color="ink",
            slider_color="accent",
            checkbox_background_color="paper",
            checkbox_background_color_selected="accent",
            checkbox_border_color="line",
            checkbox_border_color_selected="accent",
            checkbox_label_background_fill="paper",
            checkbox_label_background_fill_hover="wash",
            checkbox_label_background_fill_selected="wash",
            checkbox_label_border_color="line",
            checkbox_label_border_color_selected="accent",
            checkbox_label_text_color="ink",
            checkbox_label_text_color_selected="ink",
            error_background_fill="paper",
        ),
        color_accent=COLOURS["accent"][0],
        **dict.fromkeys(_SHADOWS, "none"),
        block_label_text_weight="500",
        block_title_text_weight="500",
        button_large_text_weight="600",
    )
