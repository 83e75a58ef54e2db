"""Messages and conversations as the JSON that the page shows: plain values, every sentence and figure already in words."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from app.conversation import FAST, Conversation, FinishReason, Json, Message, Role, Run, RunStatus, ShownMessage
from app.store import Hit
from ui.rendering import render_blocks
from ui.thinking import split_thinking

_ENDS = {
    FinishReason.EOS: "finished",
    FinishReason.STOP_STRING: "ended at a stop string",
    FinishReason.LENGTH: "reached max_new_tokens",
    FinishReason.TIME: "reached max_time",
    FinishReason.STOPPED: "stopped by you",
    FinishReason.ERROR: "failed",
}
_MARKED = {
    RunStatus.STOPPED: "Stopped here. Continue takes it up again.",
    RunStatus.INTERRUPTED: "Fader was closed while this reply was being written. Continue takes it up again.",
}


def conversation_view(conversation: Conversation) -> Json:
    """What the page knows of a conversation; ``parameters`` are the set ones."""
    return {
        "id": conversation.id,
        "title": conversation.title,
        "model": conversation.model,
        "system_prompt": conversation.system_prompt,
        "pinned": conversation.pinned,
        "updated_at": conversation.updated_at.isoformat(),
        "trashed": conversation.trashed_at is not None,
    }


def hit_view(hit: Hit) -> Json:
    """A line of the sidebar; ``snippet`` is HTML with the matches marked."""
    snippet = hit.snippet and escape(hit.snippet).replace("\x02", "<mark>").replace("\x03", "</mark>")
    return {**conversation_view(hit.conversation), "snippet": snippet, "message": hit.message_id}


def shown_view(shown: ShownMessage) -> Json:
    """A message on the branch on display, with its place among its siblings."""
    return {**message_view(shown.message), "siblings": list(shown.siblings), "place": shown.place}


def message_view(message: Message) -> Json:
    """A message without its siblings; ``segments`` as in a run's updates, ``text`` raw for copying and editing."""
    return {
        "id": message.id,
        "parent": message.parent_id,
        "role": str(message.role),
        "text": message.content,
        "segments": segments(message.content) if message.role is not Role.USER else [],
        "created_at": message.created_at.isoformat(),
        "run": message.run and run_view(message.run),
    }


def segments(text: str) -> list[Json]:
    """A whole reply as thinking and answer parts, each the HTML of its blocks."""
    return [
        {"n": n, "kind": kind, "index": 0, "from": 0, "blocks": list(render_blocks(part))}
        for n, (kind, part) in enumerate(split_thinking(text))
    ]


def run_view(run: Run) -> Json:
    """How a reply came about; ``stats`` are labelled figures in order, ``mark`` a sentence for a reply cut short,
    ``omitted`` the messages (ids) that the model didn't see because they no longer fitted."""
    return {
        "id": run.id,
        "status": str(run.status),
        "final": run.status.final,
        "finish_reason": run.finish_reason and str(run.finish_reason),
        "error": run.error,
        "notes": list(run.notes),
        "mark": _MARKED.get(run.status),
        "omitted": list((run.explained.get("context_policy") or {}).get("omitted", ())),
        "stats": [{"name": name, "text": text, "title": title} for name, text, title in _figures(run)],
    }


def _figures(run: Run) -> Iterable[tuple[str, str, str]]:
    if not run.status.final:
        return
    stats = run.stats
    if stats.new_tokens:
        yield (
            "tokens",
            f"{stats.new_tokens:,} {'token' if stats.new_tokens == 1 else 'tokens'}",
            f"{stats.prompt_tokens:,} tokens of prompt",
        )
    if stats.tokens_per_s:
        yield "speed", f"{stats.tokens_per_s:.1f} tokens/s", "Tokens per second while writing"
    if stats.ttft_s is not None:
        yield "ttft", f"first after {_seconds(stats.ttft_s)}", "Time from Send to the first text"
    yield from _decoded(run)
    yield from _guessing(run)
    if run.finish_reason is not None:
        yield "end", _ENDS[run.finish_reason], "Why the reply ended"
    if run.seed is not None:
        yield (
            "seed",
            f"seed {run.seed}",
            "The seed of the random numbers: the same seed and settings give the same reply",
        )
    if stats.reused_tokens:
        yield (
            "reused",
            f"{stats.reused_tokens:,} tokens reused",
            "Tokens of the prompt that didn't have to be computed again",
        )


def _decoded(run: Run) -> Iterable[tuple[str, str, str]]:
    told = str(run.model_fingerprint.get("decode") or "")
    if told == FAST:
        yield (
            "decode",
            FAST,
            "Fader’s own step computed the tokens; it was held against the model’s forward when that was loaded",
        )
    elif told:
        yield (
            "decode",
            "library’s forward",
            f"transformers computed the tokens: {told.partition('(')[2].rstrip(')') or told}",
        )


OFFER = 1.1
"""Prompt lookup is worth a word where it would have made a reply so many times as quick."""


def _guessing(run: Run) -> Iterable[tuple[str, str, str]]:
    stats, ours = run.stats, run.model_fingerprint.get("decode") == FAST
    if stats.gain is None:
        return
    passes = f"{stats.new_tokens:,} tokens in {stats.passes:,} passes of the model"
    if stats.drafted_by:
        ends = (
            "The text is the same without; while guessing loses, it rests."
            if ours
            else "Where guessing loses, it rests next time."
        )
        title = f"{passes}, as measured on this machine. {ends}"
        yield "draft", f"{stats.gain:.1f}× by {stats.drafted_by}", title
    elif stats.gain >= OFFER:
        title = f"This very reply would have been {passes} with prompt lookup on (prompt_lookup_num_tokens), by their cost on this machine"
        yield "draft", f"{stats.gain:.1f}× possible with prompt lookup", title


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
