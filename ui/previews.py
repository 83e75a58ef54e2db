"""The exact prompt before it is sent, and how it fills the context: what the page's meter and its preview show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from app.chat import Chat
from app.conversation import Json
from app.engine.desk import Preview
from app.errors import FaderError
from ui.api_errors import sentence


@dataclass(frozen=True, slots=True)
class Previews:
    """Answers the page's question what would be sent now."""

    chat: Chat

    def answer(
        self, asked: Mapping[str, Json], system_prompt: str, requested: Callable[[], Mapping[str, Json]]
    ) -> Json:
        """The meter, with the whole prompt when ``asked["whole"]``. Never raises: ``{"nonce", "error"}`` says what was wrong."""
        nonce = asked.get("nonce")
        try:
            preview = self.chat.preview(
                str(asked.get("text") or ""),
                conversation_id=asked.get("conversation") or None,
                parent_id=asked.get("message") or None,
                requested=requested(),
                system_prompt=system_prompt,
                prefix=str(asked.get("prefix") or ""),
            )
        except Exception as error:  # noqa: BLE001  (Gradio would show the page an empty error)
            known = str(error) if isinstance(error, FaderError) else sentence(error)
            return {"nonce": nonce, "error": known}
        return {"nonce": nonce, **preview_view(preview, whole=bool(asked.get("whole")))}


def preview_view(preview: Preview, *, whole: bool) -> Json:
    """The meter and what was left out; with ``whole`` the prompt as text and as tokens too."""
    meter, prompt = preview.meter, preview.prompt
    view: dict[str, Json] = {
        "context": meter.context,
        "used": meter.used,
        "reserved": meter.reserved,
        "free": meter.free,
        "omitted": list(prompt.omitted),
        "notes": list(prompt.notes),
    }
    if whole:
        tokens = [[piece.id, piece.text, piece.special] for piece in preview.pieces]
        view |= {"text": prompt.text, "tokens": tokens}
    return view
