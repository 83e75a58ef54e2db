"""The tools above the parameters: search, filter, presets, and steering everything at once."""

from __future__ import annotations

from collections.abc import Mapping

from app.chat import Chat
from app.conversation import EMPTY, Json

TOOLS = """
<div class="find"><div id="parameter-search"><i data-picture="search"></i><input type="search" placeholder="Search parameters"
 autocomplete="off" aria-label="Search parameters"></div>
<button type="button" id="set-only" class="chip" aria-pressed="false" title="Show only what is set">Set <b>0</b></button></div>
<div class="steer"><div id="preset"><select aria-label="Preset"><option value="">Preset…</option></select></div>
<button type="button" class="icon" id="preset-menu" aria-label="Manage presets" aria-haspopup="menu" title="Save, rename, delete, export, import">
</button></div>
<div class="steer"><button type="button" id="neutralize" class="chip" title="Everything to off">Neutralize</button>
<button type="button" id="model-defaults" class="chip" title="Unset everything">Model’s defaults</button>
<button type="button" id="undo-parameters" class="chip" disabled title="Take the last change back">Undo</button></div>
<div id="effective" role="status" aria-label="In effect"></div>
"""


def default_parameters(chat: Chat) -> Mapping[str, Json]:
    """The default preset of the model in use; nothing where there is none."""
    return EMPTY
