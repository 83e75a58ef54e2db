"""Gradio without what its import does for people who write Gradio programs: half of its time.

For every component class it renders a stub file for editors into its own package, and documentation for each event. Nothing of that is
used when a page runs.
"""

from __future__ import annotations

from app.imports import nothing, replace_on_import


def trim() -> None:
    """Import Gradio like this from now on; too late, and without effect, when it is there already."""
    replace_on_import("gradio.component_meta", "create_or_modify_pyi", nothing)
    replace_on_import("gradio.events", "EventListener.set_doc", nothing)
