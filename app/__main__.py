"""``python -m app`` is ``fader``."""

from app.cli import main

main()
