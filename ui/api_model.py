"""Routes on the model: what state it is in, for the line that is always visible."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter

from app.chat import Chat
from app.conversation import Json
from app.models.facts import ModelFacts


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
        "device": _where(facts) if facts else None,
        "context_length": _context(facts) if facts else None,
        "remote": asdict(facts.remote) if facts and facts.remote else None,
        "detail": status.detail,
        "done": status.done,
        "total": status.total,
        "queue": len(chat.engine.queue()),
        "notices": list(chat.store.notices),
        **_measured(chat),
    }


def _where(facts: ModelFacts) -> str:
    return facts.device if facts.processes == 1 else f"{facts.device}, in {facts.processes} processes"


def _context(facts: ModelFacts) -> int | None:
    """Tokens of context; None where a server doesn't tell."""
    return None if facts.remote and not facts.remote.context_known else facts.context_length


def _measured(chat: Chat) -> dict[str, Json]:
    """What was measured while loading, as rows for people, and what the user must be told about model and conversations."""
    report = chat.engine.report
    if report is None:
        return {"measured": [], "warnings": []}
    facts = chat.engine.status().facts
    if facts and facts.remote:
        known = {"vllm": "vLLM", "openai": "OpenAI-compatible"}[facts.remote.kind]
        return {"measured": [["Interface", known]], "warnings": list(report.warnings)}
    by_dtype = ", ".join(f"{dtype} {size / 1e6:,.0f} MB" for dtype, size in report.bytes_by_dtype.items())
    rows = [
        *_loaded_with(chat),
        ["In 4 bits", f"{report.share_4bit:.0%} of all weights, {report.linear_share_4bit:.0%} of the linear layers"],
        ["In memory", f"{report.resident_bytes / 1e6:,.0f} MB ({by_dtype})"],
        ["Loading took", f"{report.seconds:.1f} s, {report.peak_bytes / 1e6:,.0f} MB at most"],
    ]
    return {"measured": rows, "warnings": list(report.warnings)}


def _loaded_with(chat: Chat) -> list[list[str]]:
    """What was chosen for the load and came of it, where the model is in this machine's memory."""
    loaded = chat.engine.loaded
    if loaded is None or not loaded.facts.load_options:
        return []
    facts = loaded.facts
    doubled = facts.quantization != "none" and bool(facts.fingerprint.get("double_quant"))
    return [
        ["Computes in", str(facts.fingerprint.get("compute_dtype"))],
        *([["Double quantization", "on" if doubled else "off"]] if facts.quantization != "none" else []),
        ["Attention", facts.attention],
    ]
