"""Gradio's theme in Fader's colours: its variables point at those of assets/style.css, where light and dark are set once."""

from __future__ import annotations

from inspect import signature

import gradio as gr

SANS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "Helvetica Neue", "sans-serif")
MONO = ("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "Liberation Mono", "monospace")

_VARIABLES = {
    "body_background_fill": "var(--paper)",
    "body_text_color": "var(--ink)",
    "body_text_color_subdued": "var(--ink-soft)",
    "background_fill_primary": "var(--paper)",
    "background_fill_secondary": "var(--paper-2)",
    "block_background_fill": "transparent",
    "block_border_color": "transparent",
    "block_border_width": "0px",
    "block_label_background_fill": "transparent",
    "block_label_text_color": "var(--ink-soft)",
    "block_title_text_color": "var(--ink)",
    "block_info_text_color": "var(--ink-soft)",
    "block_shadow": "none",
    "border_color_primary": "var(--line)",
    "border_color_accent": "var(--accent)",
    "color_accent": "var(--accent)",
    "color_accent_soft": "var(--accent-soft)",
    "link_text_color": "var(--accent)",
    "panel_background_fill": "transparent",
    "panel_border_width": "0px",
    "input_background_fill": "var(--field)",
    "input_background_fill_focus": "var(--field)",
    "input_border_color": "var(--line)",
    "input_border_color_focus": "var(--accent)",
    "input_border_width": "1px",
    "input_shadow": "none",
    "input_shadow_focus": "0 0 0 3px var(--ring)",
    "input_placeholder_color": "var(--ink-faint)",
    "input_radius": "10px",
    "slider_color": "var(--accent)",
    "checkbox_background_color": "var(--field)",
    "checkbox_background_color_selected": "var(--accent)",
    "checkbox_border_color": "var(--line-strong)",
    "checkbox_border_color_selected": "var(--accent)",
    "checkbox_label_background_fill": "transparent",
    "checkbox_label_background_fill_hover": "transparent",
    "checkbox_label_background_fill_selected": "transparent",
    "checkbox_label_border_width": "0px",
    "checkbox_label_text_color": "var(--ink)",
    "checkbox_label_text_color_selected": "var(--ink)",
    "button_border_width": "1px",
    "button_primary_background_fill": "var(--accent)",
    "button_primary_background_fill_hover": "var(--accent-strong)",
    "button_primary_border_color": "transparent",
    "button_primary_text_color": "var(--on-accent)",
    "button_secondary_background_fill": "var(--paper-2)",
    "button_secondary_background_fill_hover": "var(--hover)",
    "button_secondary_border_color": "var(--line)",
    "button_secondary_border_color_hover": "var(--line-strong)",
    "button_secondary_text_color": "var(--ink)",
    "error_background_fill": "var(--bad-soft)",
    "error_border_color": "var(--bad)",
    "error_text_color": "var(--bad)",
    "shadow_drop": "none",
    "shadow_drop_lg": "none",
    "table_border_color": "var(--line)",
    "table_even_background_fill": "transparent",
    "table_odd_background_fill": "transparent",
}


def theme() -> gr.themes.Base:
    """The theme; each variable has the same value in dark mode, because the CSS variable it points at changes."""
    base = gr.themes.Base(
        font=SANS, font_mono=MONO, radius_size=gr.themes.sizes.radius_md, spacing_size=gr.themes.sizes.spacing_md
    )
    known = signature(base.set).parameters
    dark = {f"{name}_dark": value for name, value in _VARIABLES.items()}
    return base.set(**_VARIABLES, **{name: value for name, value in dark.items() if name in known})
