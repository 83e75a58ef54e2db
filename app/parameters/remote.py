"""Parameters for a model on a server elsewhere: which of them its interface has, and how they are resolved for it.

What nobody sets isn't sent, so that the server's own values act. What the server can't do stays visible with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from app.conversation import Json
from app.models.facts import ModelFacts, Remote
from app.parameters.numbers import shown
from app.parameters.resolution import Explanation, Resolution
from app.parameters.row import Group, Parameter
from app.parameters.table import SAMPLING, TABLE

TOP_LOGPROBS = 20
"""The most alternatives per token that the interface has."""

STANDARD: Mapping[str, str] = MappingProxyType(
    {
        "max_new_tokens": "max_tokens",
        "temperature": "temperature",
        "top_p": "top_p",
        "num_return_sequences": "n",
        "seed": "seed",
        "sequence_bias": "logit_bias",
        "output_format": "response_format",
        "trace_top_k": "top_logprobs",
    }
)
"""Row → field of a chat completion, as every OpenAI-compatible server knows it (platform.openai.com, API reference, chat completions)."""

VLLM: Mapping[str, str] = MappingProxyType(
    {
        **STANDARD,
        "output_format": "structured_outputs",
        "top_k": "top_k",
        "min_p": "min_p",
        "repetition_penalty": "repetition_penalty",
        "min_new_tokens": "min_tokens",
        "eos_token_id": "stop_token_ids",
        "bad_words_ids": "bad_words",
    }
)
"""The same for a vLLM server, with its extra sampling parameters (docs.vllm.ai, OpenAI-compatible server)."""

BY_FADER: Mapping[str, str] = MappingProxyType(
    {
        "do_sample": "Fader sends temperature 0 when it is off",
        "stop_strings": "Fader closes the connection when one of them has come",
        "max_time": "Fader closes the connection when the time is up",
    }
)
"""What works on every server, because Fader carries it out itself."""

_WHY_NOT: Mapping[str, str] = MappingProxyType(
    {
        "max_length": "the server counts the prompt's tokens itself; max_new_tokens bounds the reply",
        "num_beams": "replies are streamed from the server, and beam search compares whole ones",
        "context_policy": "the server counts the tokens itself, and refuses a conversation that is too long",
        "watermarking_config": "watermarks are put in where the tokens are chosen, and that is on the server",
        "use_mtp": "the server decides how it computes",
        "bos_token_id": "the server's template begins the prompt",
    }
)
_WHY_NOT_GROUP: Mapping[Group, str] = MappingProxyType(
    {
        Group.CACHE: "the server manages its cache itself",
        Group.OUTPUTS: "the model's inside stays on the server",
        Group.ASSISTED: "whether and how the server drafts is its own affair",
        Group.PERFORMANCE: "the server decides how it computes",
        Group.ENCODER_DECODER: "the server doesn't tell whether its model has an encoder",
    }
)


def fields_of(remote: Remote) -> Mapping[str, str]:
    """Row → field of the request, for this server."""
    return VLLM if remote.kind == "vllm" else STANDARD


def why_not(row: Parameter, remote: Remote) -> str | None:
    """Why this server can't carry a parameter out; None when it can."""
    if row.name in fields_of(remote) or row.name in BY_FADER:
        return None
    if row.name in VLLM:
        return "it isn't part of the OpenAI interface, which is all that is known of this server (vLLM has it)"
    general = (
        "a vLLM server has no such parameter" if remote.kind == "vllm" else "the OpenAI interface has no such parameter"
    )
    return _WHY_NOT.get(row.name) or _WHY_NOT_GROUP.get(row.group) or general


@dataclass
class _Making:
    """A resolution being made."""

    requested: Mapping[str, Json]
    sources: Mapping[str, str]
    facts: ModelFacts
    remote: Remote
    values: dict[str, Json]
    explained: dict[str, Explanation]
    notes: list[str]

    def asked(self, row: Parameter) -> bool:
        """Whether a person set it, and not to "as if unset"."""
        return row.name in self.requested and not (self.requested[row.name] is None and row.null_is_unset)

    def put(self, row: Parameter, value: Json, reason: str, *, active: bool = True, **more: Json) -> None:
        """Decide a row."""
        source = self.sources.get(row.name, "set") if self.asked(row) else more.pop("source", "server")
        self.values[row.name] = value
        self.explained[row.name] = Explanation(source, reason, active, **more)

    def ignore(self, row: Parameter, value: Json, why: str, *, available: bool = False) -> None:
        """A row that can't act; said beside the reply where somebody wanted it."""
        wanted = self.asked(row) and self.requested[row.name] != row.off
        kind = "ignored" if wanted else "unused"
        reason = f"{'Ignored' if wanted else 'Not in use'}: {why}."
        self.put(row, value, reason, active=False, kind=kind, available=available)
        if wanted:
            self.notes.append(f"{row.name}: {reason}")


def resolve_remote(requested: Mapping[str, Json], facts: ModelFacts, sources: Mapping[str, str]) -> Resolution:
    """Effective values and explanations of checked values for a server; None is the value of what isn't sent."""
    assert facts.remote is not None  # noqa: S101  (whom this is for)
    making = _Making(requested, sources, facts, facts.remote, {}, {}, [])
    for row in TABLE:
        if why := why_not(row, facts.remote):
            making.ignore(row, row.off, why)
        elif row.name in _FITS:
            _FITS[row.name](row, making)
        else:
            _plain(row, making)
    _sampling(making)
    return Resolution(making.values, {row.name: making.explained[row.name] for row in TABLE}, tuple(making.notes))


def _plain(row: Parameter, making: _Making) -> None:
    """Sent as set, else not sent."""
    if not making.asked(row):
        making.put(row, None, "Not sent: the server’s own value acts.", active=False)
        return
    field = fields_of(making.remote).get(row.name)
    how = f"Sent as {field}" if field else BY_FADER[row.name]
    making.put(row, making.requested[row.name], f"As set. {how}.", kind="set")


def _max_new_tokens(row: Parameter, making: _Making) -> None:
    """Fader's own default goes along, as a server's may be endless; fitted to the context where that is known."""
    wanted = making.requested[row.name] if making.asked(row) else row.fader_default
    room = making.facts.context_length if making.remote.context_known else None
    if wanted is None:
        making.put(row, None, "Not sent: as long as the server allows.", kind="set")
    elif room is not None and wanted > room:
        making.put(row, room, f"Clamped to {room}, the server's context.", kind="clamped")
    elif making.asked(row):
        _plain(row, making)
    else:
        making.put(row, wanted, f"Fader's default {shown(wanted)}, sent as max_tokens.", source="fader")


def _trace(row: Parameter, making: _Making) -> None:
    wanted = making.requested[row.name] if making.asked(row) else row.fader_default
    if wanted > TOP_LOGPROBS:
        making.put(row, TOP_LOGPROBS, f"Clamped to {TOP_LOGPROBS}, the most that the interface has.", kind="clamped")
    elif making.asked(row):
        _plain(row, making)
    else:
        making.put(row, wanted, f"Fader's default {wanted}, asked for as top_logprobs.", source="fader")


def _seed(row: Parameter, making: _Making) -> None:
    """A seed always goes along, so that it is on record; what it is worth is the server's affair."""
    value = making.requested[row.name] if making.asked(row) else None
    said = "As set. Sent as seed." if making.asked(row) else "Drawn for each reply, sent and recorded."
    making.put(
        row, value, f"{said} Servers promise no exact repetition.", kind="set" if making.asked(row) else "default"
    )


def _bias(row: Parameter, making: _Making) -> None:
    """logit_bias takes single ids, and there is no tokenizer here to make them from texts."""
    rows = making.requested.get(row.name) or []
    if any(isinstance(phrase, str) or len(phrase) != 1 for phrase, _ in rows):
        making.ignore(row, row.off, "the server takes single token ids only, written as [[[id], bias]]", available=True)
    else:
        _plain(row, making)


def _ends(row: Parameter, making: _Making) -> None:
    """stop_token_ids takes ids; an empty list means that nothing but length ends the reply."""
    if making.asked(row) and any(isinstance(token, str) for token in making.requested[row.name]):
        making.ignore(row, None, "the server takes token ids only", available=True)
    else:
        _plain(row, making)


def _bad_words(row: Parameter, making: _Making) -> None:
    if making.asked(row) and any(not isinstance(phrase, str) for phrase in making.requested[row.name]):
        making.ignore(row, row.off, "the server takes texts only", available=True)
    else:
        _plain(row, making)


def _format(row: Parameter, making: _Making) -> None:
    wanted = making.requested.get(row.name)
    if wanted and wanted["kind"] != "json_schema" and making.remote.kind != "vllm":
        making.ignore(row, None, "the OpenAI interface has JSON schemas only (vLLM has all three)", available=True)
    else:
        _plain(row, making)


_FITS: Mapping[str, Callable[[Parameter, _Making], None]] = {
    "max_new_tokens": _max_new_tokens,
    "trace_top_k": _trace,
    "seed": _seed,
    "sequence_bias": _bias,
    "eos_token_id": _ends,
    "bad_words_ids": _bad_words,
    "output_format": _format,
}


def _sampling(making: _Making) -> None:
    """Greedy is temperature 0; then what shapes the distribution has nothing to do."""
    rows = {row.name: row for row in TABLE}
    switch, heat = rows["do_sample"], rows["temperature"]
    cold = making.asked(heat) and making.requested["temperature"] == 0
    off = making.asked(switch) and not making.requested["do_sample"]
    if not (cold or off):
        if any(making.asked(rows[name]) for name in _sent_sampling(making)) and not making.asked(switch):
            making.values["do_sample"] = True
            making.explained["do_sample"] = Explanation(
                "implied", "Switched on, implied by what is set for sampling.", active=True, kind="implied"
            )
        return
    why = "Greedy, implied by temperature 0: the likeliest token every time."
    making.values["do_sample"] = False
    if not off:
        making.explained["do_sample"] = Explanation("implied", why, active=True, kind="implied")
    if not cold:
        making.ignore(heat, 0.0, "greedy decoding (do_sample is off) is sent as temperature 0", available=True)
    making.values["temperature"] = 0.0
    for name in _sent_sampling(making):
        if name != "temperature":
            making.ignore(
                rows[name], None, "greedy decoding takes the likeliest token, so nothing is drawn", available=True
            )


def _sent_sampling(making: _Making) -> Iterator[str]:
    return (name for name in SAMPLING if name in fields_of(making.remote))
