"""From a conversation and resolved parameters to the body of a chat completion; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from app.conversation import Json, Role
from app.engine.text import split_thinking
from app.errors import RefusedInput
from app.parameters.remote import fields_of

if TYPE_CHECKING:
    from app.conversation import Message
    from app.models.facts import ModelFacts, Remote

Body = dict[str, Json]
NOT_CONTINUED = (
    "This server can't go on with a text that has been begun: the OpenAI interface has no way to say so (vLLM has). "
    "Regenerate the reply instead."
)


def check_continues(facts: ModelFacts | None) -> None:
    """Raise RefusedInput for a model that can't go on with a text that a reply begins with."""
    if facts and facts.remote and facts.remote.kind != "vllm":
        raise RefusedInput(NOT_CONTINUED)


def body_for(values: Mapping[str, Json], remote: Remote, model: str, turns: Sequence[Body], prefix: str = "") -> Body:
    """The request for a streamed reply to ``turns``. ``prefix``: text that the reply begins with (vLLM only)."""
    body: Body = {
        "model": model,
        "messages": [*turns, *([{"role": "assistant", "content": prefix}] if prefix else [])],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if prefix:
        body |= {"continue_final_message": True, "add_generation_prompt": False}
    for name, field in fields_of(remote).items():
        if values[name] is not None:
            body |= _WRITERS[name](values[name], remote) if name in _WRITERS else {field: values[name]}
    return body


def turns_of(messages: Sequence[Message], system_prompt: str) -> list[Body]:
    """The conversation as the interface wants it; what earlier replies thought stays here, as chat templates leave it out too."""
    turns = [{"role": Role.SYSTEM.value, "content": system_prompt}] if system_prompt else []
    return turns + [{"role": m.role.value, "content": _answer(m)} for m in messages]


def _answer(message: Message) -> str:
    if message.role is not Role.ASSISTANT:
        return message.content
    return "".join(text for kind, text in split_thinking(message.content) if kind == "answer").strip()


def _format(wanted: Json, remote: Remote) -> Body:
    kind = wanted["kind"]
    if remote.kind == "vllm":
        own = {"json_schema": ("json", "schema"), "regex": ("regex", "pattern"), "choices": ("choice", "choices")}
        name, field = own[kind]
        return {"structured_outputs": {name: wanted[field]}}
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "reply", "schema": wanted["schema"]}}}


def _ends(ids: Json, _remote: Remote) -> Body:
    return {"stop_token_ids": ids} if ids else {"ignore_eos": True}


_WRITERS: Mapping[str, Callable[[Json, Remote], Body]] = {
    "num_return_sequences": lambda n, _: {"n": n} if n > 1 else {},
    "sequence_bias": lambda rows, _: {"logit_bias": {str(ids[0]): bias for ids, bias in rows}} if rows else {},
    "trace_top_k": lambda k, _: {"logprobs": True, "top_logprobs": k} if k else {},
    "bad_words_ids": lambda texts, _: {"bad_words": texts} if texts else {},
    "output_format": _format,
    "eos_token_id": _ends,
}


def without_refused(body: Body, said: str, requested: Mapping[str, Json]) -> tuple[Body, str] | None:
    """The body without what Fader put in by itself and the server says it doesn't take, and a note on that; None: nothing to try.

    Interfaces differ in corners: newer OpenAI models want max_completion_tokens, some servers know no seed or no probabilities.
    """
    if "max_completion_tokens" in said and "max_tokens" in body:
        rest = {name: value for name, value in body.items() if name != "max_tokens"}
        return {**rest, "max_completion_tokens": body["max_tokens"]}, ""
    for name, fields, row, note in _OWN:
        if name in said and fields[0] in body and row not in requested:
            return {field: value for field, value in body.items() if field not in fields}, note
    return None


_OWN = (
    ("logprobs", ("logprobs", "top_logprobs"), "trace_top_k", "The server gives no probabilities of tokens."),
    ("stream_options", ("stream_options",), "", ""),
    ("seed", ("seed",), "seed", "The server takes no seed."),
)
"""What in the server's complaint names it, the fields to leave out, the row that makes it the user's own wish, what to say."""
