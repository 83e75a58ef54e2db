"""What the commands about kept conversations print: search hits, imports, replays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.commands.output import table

if TYPE_CHECKING:
    from app.conversation import Json
    from app.insight.replay import Candidate, Replay
    from app.store import Hit, Page
    from app.transfer import ImportReport

MARKS = str.maketrans({"\x02": "«", "\x03": "»"})


def hit_json(hit: Hit) -> dict[str, Json]:
    """A search hit as plain values; matched parts of the snippet stand in « »."""
    return {
        "conversation_id": hit.conversation.id,
        "title": hit.conversation.title,
        "updated_at": hit.conversation.updated_at.isoformat(),
        "message_id": hit.message_id,
        "snippet": hit.snippet.translate(MARKS) if hit.snippet else None,
    }


def hit_lines(page: Page) -> str:
    """Hits for people."""
    if not page.hits:
        return "Nothing found."
    rows = [(h.conversation.id[:8], h.conversation.title, (h.snippet or "").translate(MARKS)) for h in page.hits]
    return table(rows) + ("\n… and more: raise --limit" if page.more else "")


def import_lines(report: ImportReport) -> str:
    """The report for people: the counts, then every conversation."""
    lines = [f"  {item.outcome}: {item.title}  {item.reason}".rstrip() for item in report.items]
    return "\n".join([str(report), *lines])


def replay_sentence(replay: Replay) -> str:
    """Identical, or where it parts and what may be the reason."""
    lines = ["Identical: every token is the same."]
    if not replay.identical:
        lines = [f"The first difference is at output token {(replay.first_divergence or 0) + 1}."]
        lines += [f"  then: {_chances(replay.then)}", f"  now:  {_chances(replay.now)}"]
    lines += [f"  {d.what}: {d.then} → {d.now}" for d in replay.differences]
    return "\n".join(lines)


def _chances(candidates: tuple[Candidate, ...]) -> str:
    return ", ".join(f"{c.id} ({c.probability:.1%})" for c in candidates) or "not recorded"
