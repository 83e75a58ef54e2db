"""Lists for people: parameters, models, and what a loaded model really is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.commands.output import human_bytes, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.conversation import Json


def parameter_table(rows: Sequence[dict[str, Json]]) -> str:
    """Name, type, range and help of every parameter, under its group."""
    lines: list[str] = []
    group = None
    for row in rows:
        if row["group"] != group:
            group = row["group"]
            lines += ["", str(group)]
        bounds = f"{row['minimum']} … {row['maximum']}" if row["minimum"] is not None else ""
        lines.append(f"  {row['name']:<34}{row['type']:<10}{bounds:<14}{row['help']}")
    return "\n".join(lines).lstrip("\n")


def model_table(rows: Sequence[dict[str, Json]]) -> str:
    """Name, kind and size of every model found."""
    if not rows:
        return "No models found. Set up the built-in one with: python3 launch.py setup"
    return table([("NAME", "KIND", "SIZE"), *((r["name"], r["kind"], _size(r)) for r in rows)])


def _size(row: dict[str, Json]) -> str:
    """Bytes on the disk; of a server the reason why it doesn't answer, if it doesn't."""
    if row["kind"] == "remote":
        return "on the server" if row["detail"].startswith("on ") else row["detail"]
    return human_bytes(row["bytes"] or 0)


def load_report(report: dict[str, Json]) -> str:
    """Memory, share in 4-bit and warnings; of a model on a server, what is known of it."""
    told = [f"warning    {warning}" for warning in report["warnings"]]
    if host := report["fingerprint"].get("remote"):
        where = f"runs on   {host} ({report['fingerprint']['interface']}); nothing is held in memory here"
        return "\n".join([where, *told])
    by_dtype = ", ".join(f"{name} {human_bytes(count)}" for name, count in report["bytes_by_dtype"].items())
    lines = [
        f"resident   {human_bytes(report['resident_bytes'])} ({by_dtype})",
        f"4-bit      {report['share_4bit']:.1%} of all parameters, {report['linear_share_4bit']:.1%} of the linear layers",
        f"peak       {human_bytes(report['peak_bytes'])} while loading, {report['seconds']:.1f} s",
        *([_settings(report)] if report.get("options") else []),
        *told,
    ]
    return "\n".join(lines)


def _settings(report: dict[str, Json]) -> str:
    """What it was loaded with."""
    options = report["options"]
    scheme = options["scheme"] + (
        " with double quantization" if options["double_quant"] and options["scheme"] != "none" else ""
    )
    return f"loaded     {scheme}, computes in {options['compute_dtype']}, {report['attention']} attention, on {report['device']}"
