"""The page that asks for the password: plain HTML that works without a script."""

from __future__ import annotations

from html import escape

from ui.static import address


def login_page(problem: str = "") -> str:
    """HTML with a form; ``problem`` says why the last try failed."""
    told = f'<p class="problem" role="alert">{escape(problem)}</p>' if problem else ""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Fader: log in</title>
<link rel="icon" href="{address("icon.svg")}"><link rel="stylesheet" href="{address("style.css")}"></head>
<body class="login"><form method="post" action="/login"><h1>Fader</h1><label>Password
<input type="password" name="password" autocomplete="current-password" autofocus required></label>{told}
<button class="primary">Log in</button></form></body></html>"""
