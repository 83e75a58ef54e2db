"""What the commands print and how they exit; the parts they work on are put together in ``app/cli.py``."""
