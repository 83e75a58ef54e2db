"""Routes on the model: what state it is in, for the line that is always visible."""

from __future__ import annotations

from fastapi import APIRouter

from app.chat import Chat
from app.conversation import Json


def router(chat: Chat) -> APIRouter:
    """``GET /api/model``, ``POST /api/model/unload``; loading is asked for on the page's model panel."""
    routes = APIRouter(prefix="/api/model")

    @routes.get("")
    def model() -> Json:
        return model_view(chat)

    @routes.post("/unload")
    def unload() -> Json:
        """Free the model after what is queued; answers when it is done."""
        chat.engine.unload().finished.wait()
        return model_view(chat)

    return routes


def model_view(chat: Chat) -> Json:
    """The model's state in words, with progress while loading and what is known of it once it is ready."""
    status = chat.engine.status()
    facts = status.facts
    return {
        "state": status.state,
        "name": status.name,
        "label": facts.label if facts else None,
        "quantization": facts.quantization if facts else None,
        "device": facts.device if facts else None,
        "context_length": facts.context_length if facts else None,
        "detail": status.detail,
        "done": status.done,
        "total": status.total,
        "queue": len(chat.engine.queue()),
        "notices": list(chat.store.notices),
        **_measured(chat),
    }


def _measured(chat: Chat) -> dict[str, Json]:
    """What was measured while loading, as rows for people, and what the user must be told about model and conversations."""
    report = chat.engine.report
    if report is None:
        return {"measured": [], "warnings": []}
    by_dtype = ", ".join(f"{dtype} {size / 1e6:,.0f} MB" for dtype, size in report.bytes_by_dtype.items())
    rows = [
        ["In 4 bits", f"{report.share_4bit:.0%} of all weights, {report.linear_share_4bit:.0%} of the linear layers"],
        ["In memory", f"{report.resident_bytes / 1e6:,.0f} MB ({by_dtype})"],
        ["Loading took", f"{report.seconds:.1f} s, {report.peak_bytes / 1e6:,.0f} MB at most"],
    ]
    return {"measured": rows, "warnings": list(report.warnings)}
