"""The parts of the page that assets/page fills: their empty HTML, with names for screen readers."""

from __future__ import annotations

SIDEBAR = """
<header class="brand"><span class="logo" aria-hidden="true"></span><h1>Fader</h1>
<button type="button" id="theme-toggle" class="icon" aria-label="Light or dark" title="Light or dark"></button>
<button type="button" id="show-keys" class="icon" aria-label="Keys" title="Keys (?)" data-icon="keyboard"></button>
<button type="button" class="icon" id="close-sidebar" aria-label="Close the list of conversations" data-icon="close"></button></header>
<button type="button" id="new-chat" class="wide" title="New chat (Ctrl+Shift+O)"><i data-icon="plus"></i>New chat</button>
<div id="conversation-search"><i data-icon="search"></i><input type="search" placeholder="Search" autocomplete="off"
 aria-label="Search conversations" title="Search (Ctrl+K)"></div>
<div id="selection-bar" hidden></div>
<nav id="conversation-list" aria-label="Conversations"></nav>
<footer><button type="button" id="trash-toggle" class="quiet" aria-pressed="false"><i data-icon="trash"></i>Trash</button>
<button type="button" id="select-toggle" class="quiet" aria-pressed="false"><i data-icon="check"></i>Select</button>
<button type="button" id="transfer" class="icon" aria-label="Export and import" title="Export and import"
 data-icon="dots"></button></footer>
"""

TOPBAR = """
<button type="button" class="icon" id="open-sidebar" aria-label="Conversations" title="Conversations" data-icon="menu"></button>
<h2 id="conversation-title" tabindex="-1">New chat</h2>
<div id="model-status" role="status" data-state="none"><span class="dot" aria-hidden="true"></span><span class="words">…</span></div>
<button type="button" class="icon" id="toggle-panel" aria-label="Settings" title="Settings" aria-expanded="false"
 data-icon="sliders"></button>
"""

CHAT = """
<div id="chat-scroll" tabindex="-1" data-max-chars="{max_chars}">
<div id="chat-log" role="log" aria-live="polite" aria-relevant="additions" aria-label="Conversation"></div></div>
<button type="button" id="to-end" class="icon" hidden aria-label="To the end" data-icon="down"></button>
"""

TOASTS = """
<div id="toasts" role="status" aria-live="polite"></div><dialog id="keys" aria-label="Keys"></dialog>
<div id="live-region" class="sr-only" aria-live="polite"></div>
"""
