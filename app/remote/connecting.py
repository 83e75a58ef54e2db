"""Choosing a model on a server elsewhere as the one to chat with: asks the server what it has, and loads nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from threading import Event
from typing import TYPE_CHECKING, Any, Literal

from app.errors import ModelNotFound, RemoteFailed
from app.models.facts import ModelFacts, Remote
from app.models.loading import LoadedModel
from app.models.measure import LoadReport
from app.remote import failures
from app.remote.address import Address, parse
from app.remote.client import client_for, key_for, talk

if TYPE_CHECKING:
    from app.settings import Settings

UNKNOWN_CONTEXT = 131_072
"""Bounds the controls where a server doesn't tell its context; it clamps nothing."""

PATIENCE_S = 20.0
ANY_VOCABULARY = 1 << 24
"""A server doesn't tell how many tokens it knows; an id that it doesn't have it refuses itself."""


@dataclass(frozen=True, slots=True)
class Served:
    """A model that a server has. ``context``: its length in tokens where the server tells it. ``owner``: who serves it."""

    id: str
    owner: str = ""
    context: int | None = None


class RemoteModel(LoadedModel):
    """The chosen model: takes the place of a loaded one, and holds nothing but its description. It has no weights and no tokenizer
    here, so whoever computes asks first which of the two kinds there is."""

    def __init__(self, address: Address, facts: ModelFacts, report: LoadReport, settings: Settings) -> None:
        nothing: Any = None
        super().__init__(nothing, nothing, facts, report)
        self.address = address
        self.settings = settings


def connect(name: str, settings: Settings, *, cancelled: Event | None = None) -> RemoteModel:
    """The model of that name, after asking its server for it. Raises RefusedInput, ModelNotFound, RemoteFailed or Cancelled."""
    address = parse(name)
    warnings: list[str] = []
    try:
        served = listed(address, settings, cancelled=cancelled)
    except NoList as why:
        if not address.model:
            raise
        served, warnings = (), [str(why)]
    found = _pick(address, served)
    address = replace(address, model=found.id)
    warnings += _doubts(address, settings)
    return RemoteModel(address, _facts(name, address, found, settings), _report(warnings), settings)


class NoList(RemoteFailed):
    """A server that does not tell which models it has."""


def listed(
    address: Address, settings: Settings, *, cancelled: Event | None = None, patience_s: float = PATIENCE_S
) -> tuple[Served, ...]:
    """The models that a server has. Raises RemoteFailed or Cancelled."""
    return talk(_list(address, settings, patience_s), cancelled or Event())


async def _list(address: Address, settings: Settings, patience_s: float) -> tuple[Served, ...]:
    import httpx

    keyed = key_for(address, settings) is not None
    async with client_for(address, settings, silent_s=patience_s, connect_s=patience_s) as client:
        try:
            response = await client.get(f"{address.base}/models")
            if response.status_code in (404, 405, 501):
                raise NoList(
                    f"{address.host} doesn't list its models, so it was not checked that it has “{address.model}”."
                )
            await failures.raise_for(response, address, keyed=keyed)
            return tuple(_served(entry) for entry in response.json()["data"])
        except (httpx.HTTPError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise failures.of_exception(error, address) from error


def _served(entry: dict[str, Any]) -> Served:
    length = entry.get("max_model_len")
    return Served(str(entry["id"]), str(entry.get("owned_by") or ""), length if isinstance(length, int) else None)


def _pick(address: Address, served: tuple[Served, ...]) -> Served:
    if not served:
        return Served(address.model)
    names = ", ".join(entry.id for entry in served[:8]) + (", …" if len(served) > 8 else "")
    if not address.model:
        if len(served) > 1:
            raise ModelNotFound(
                f"{address.host} has several models: {names}. Choose one: {address.base}#{served[0].id}"
            )
        return served[0]
    for entry in served:
        if entry.id == address.model:
            return entry
    raise ModelNotFound(f"{address.host} has no model “{address.model}”. It has {names}.")


def _doubts(address: Address, settings: Settings) -> list[str]:
    doubts = []
    if address.leaves_machine:
        doubts.append(
            f"What you write in a chat with this model, and its whole conversation, is sent to {address.host}."
        )
        if not address.encrypted:
            doubts.append("The connection is not encrypted: others on the way can read along.")
    if settings.remote_key is not None and key_for(address, settings) is None:
        doubts.append("FADER_REMOTE_KEY is not sent here: it belongs to FADER_REMOTE_URL only.")
    return doubts


def _facts(name: str, address: Address, served: Served, settings: Settings) -> ModelFacts:
    kind: Literal["openai", "vllm"] = "vllm" if served.owner.lower() == "vllm" else "openai"
    if settings.remote_kind != "auto":
        kind = settings.remote_kind
    remote = Remote(kind, address.host, address.leaves_machine, served.context is not None)
    return ModelFacts(
        name=name,
        label=served.id.rpartition("/")[2] or served.id,
        architecture="",
        context_length=served.context or UNKNOWN_CONTEXT,
        vocab_size=ANY_VOCABULARY,
        num_layers=1,
        device=address.host,
        quantization="",
        remote=remote,
        fingerprint={"name": address.name, "remote": address.host, "model": served.id, "interface": kind},
    )


def _report(warnings: list[str]) -> LoadReport:
    return LoadReport(
        resident_bytes=0,
        bytes_by_dtype={},
        share_4bit=0.0,
        linear_share_4bit=0.0,
        peak_bytes=0,
        seconds=0.0,
        warnings=tuple(warnings),
    )
