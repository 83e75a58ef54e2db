"""The tools above the parameters: search, filter, presets, and steering everything at once; assets/parameters fills them."""

from __future__ import annotations

TOOLS = """
<div class="find"><div id="parameter-search"><i data-icon="search"></i><input type="search" placeholder="Search parameters"
 autocomplete="off" aria-label="Search parameters"></div>
<button type="button" id="set-only" class="chip" aria-pressed="false" title="Show only what is set">Set <b>0</b></button></div>
<div class="steer"><div id="preset"><select aria-label="Preset"><option value="">No preset</option></select></div>
<button type="button" class="icon" id="preset-menu" aria-label="Manage presets" aria-haspopup="menu"
 title="Save, rename, delete, export, import" data-icon="dots"></button></div>
<div class="steer"><button type="button" id="neutralize" class="chip" title="Everything to off">Neutralize</button>
<button type="button" id="model-defaults" class="chip" title="Unset everything">Model’s defaults</button>
<button type="button" id="undo-parameters" class="chip" disabled title="Take the last change back">Undo</button></div>
"""

EFFECTIVE = '<div role="group" aria-label="In effect"></div>'
"""What acts, in a line and in full."""
