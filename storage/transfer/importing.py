"""Reading conversations of every known format: recognised by content, each one whole or not at all, never replacing anything."""

from __future__ import annotations

import json
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol, TypeAlias

from app.conversation import Json
from app.errors import NotFound, RefusedInput, StoreError
from app.transfer import ImportItem, ImportReport, Outcome
from storage.faults import translated
from storage.transfer import chatgpt, fader_json, llama_cpp, open_webui, openai_jsonl, sharegpt, text_generation_webui
from storage.transfer.draft import Draft
from storage.transfer.fader_json import Whole
from storage.transfer.values import Unreadable

_LARGEST = 2**31
"""Bytes of a file that has to be read as a whole."""


class Form(Protocol):
    """A module for a foreign format."""

    NAME: str

    def recognise(self, item: Json) -> bool:
        """Whether a part of a file is a conversation of this format."""

    def read(self, item: Json) -> Draft:
        """One conversation; raises Unreadable."""


_FORMS: tuple[Form, ...] = (chatgpt, open_webui, llama_cpp, sharegpt, text_generation_webui, openai_jsonl)
"""The more particular first."""

Read: TypeAlias = Callable[[], tuple[Whole, str]]
"""Reads a part into a conversation, with a note about what was left out; raises Unreadable."""

Parsed: TypeAlias = tuple[str, str, Read]
"""A part's format, its title as far as that can be seen, and what reads it."""


class Target(Protocol):
    """What an import needs of the store."""

    def place_of(self, conversation_id: str) -> str | None:
        """Where a conversation is, in words ("here", "in the trash"); None when it doesn't exist."""

    def add(self, whole: Whole) -> None:
        """Keep a whole conversation in one transaction."""


def import_file(file: Path, target: Target) -> ImportReport:
    """Add a file's conversations one by one; raises NotFound for a missing file. What can't be read is in the report."""
    if not file.is_file():
        raise NotFound(f"There is no file {file}.")
    items: list[ImportItem] = []
    names: dict[str, None] = {}
    broken = ""
    with translated(file):
        for name, title, read in _parts(file):
            names[name] = None
            try:
                items.append(_failed(title, broken) if broken else _import_one(title, read, target))
            except StoreError as error:
                broken = f"not tried: {error}"
                items.append(_failed(title, str(error)))
    return ImportReport(", ".join(names), tuple(items))


def _failed(title: str, reason: str) -> ImportItem:
    return ImportItem(title, Outcome.FAILED, reason)


_DEFECTS = (Unreadable, RefusedInput, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)
"""What foreign data can cause while it is read; none of them leaves anything behind."""


def _import_one(title: str, read: Read, target: Target) -> ImportItem:
    try:
        whole, note = read()
        title = whole.conversation.title
        if (place := target.place_of(whole.conversation.id)) is not None:
            return ImportItem(title, Outcome.SKIPPED, f"it is already {place}", whole.conversation.id)
        target.add(whole)
    except _DEFECTS as error:
        return _failed(title, _sentence(error))
    return ImportItem(title, Outcome.IMPORTED, note, whole.conversation.id, len(whole.messages))


def _sentence(error: Exception) -> str:
    if isinstance(error, Unreadable | RefusedInput):
        return str(error)
    return f"it isn't as its format demands ({type(error).__name__}: {error!s:.120})"


def _broken(reason: str) -> Parsed:
    """A part that couldn't even be parsed."""

    def read() -> tuple[Whole, str]:
        raise Unreadable(reason)

    return "unreadable", "", read


def _parts(file: Path) -> Iterator[Parsed]:
    """The conversations of a file, each with the name of its format and a function that reads it."""
    if zipfile.is_zipfile(file):
        yield from _zipped(file)
        return
    with file.open("rb") as lines:
        if _is_fader_head(lines.readline()):
            yield from _fader_lines(lines)
            return
    if file.stat().st_size > _LARGEST:
        yield _broken(f"it is larger than {_LARGEST >> 30} GiB")
        return
    yield from _document(file.read_bytes())


def _zipped(file: Path) -> Iterator[Parsed]:
    """ChatGPT's export is an archive with the conversations in one or several files."""
    try:
        with zipfile.ZipFile(file) as archive:
            members = [one for one in archive.infolist() if _MEMBER.fullmatch(one.filename)]
            for member in members:
                if member.file_size > _LARGEST:
                    yield _broken(f"{member.filename} is larger than {_LARGEST >> 30} GiB")
                else:
                    yield from _document(archive.read(member))
            if not members:
                yield _broken("there is no conversations.json in the archive")
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        yield _broken(f"the archive can't be read ({error})")


_MEMBER = re.compile(r"(?:[^/]+/)?conversations[-\w]*\.json")


def _is_fader_head(line: bytes) -> bool:
    """Whether a first line opens the document that ``fader_json`` writes."""
    try:
        fader_json.check_head(json.loads(line + fader_json.TAIL.encode()))
    except _DEFECTS:
        return False
    return True


def _fader_lines(lines: Iterable[bytes]) -> Iterator[Parsed]:
    ended = False
    for number, line in enumerate(lines, start=2):
        text = line.strip().removesuffix(b",")
        if text == fader_json.TAIL.strip().encode():
            ended = True
        elif text:
            try:
                yield _fader(json.loads(text))
            except (ValueError, RecursionError) as error:
                yield _broken(f"line {number} can't be read ({error!s:.120})")
    if not ended:
        yield _broken("the file ends too early; what stood before was read")


def _fader(told: Json) -> Parsed:
    return fader_json.NAME, _title(told), lambda: (fader_json.read(told), "")


def _document(data: bytes) -> Iterator[Parsed]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        yield _broken(f"it isn't text in UTF-8 ({error})")
        return
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        yield from _json_lines(text, error)
    else:
        yield from _of_document(document)


def _json_lines(text: str, error: Exception) -> Iterator[Parsed]:
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < _SEVERAL or not lines[0].lstrip().startswith("{"):
        yield _broken(f"it isn't JSON ({error!s:.120})")
        return
    for number, line in enumerate(lines, start=1):
        try:
            yield _recognised(json.loads(line))
        except (ValueError, RecursionError) as defect:
            yield _broken(f"line {number} isn't JSON ({defect!s:.120})")


_SEVERAL = 2


def _of_document(document: Json) -> Iterator[Parsed]:
    if isinstance(document, dict) and document.get("format") == "fader":
        try:
            fader_json.check_head(document)
        except Unreadable as error:
            yield _broken(str(error))
            return
        conversations = document.get("conversations")
        yield from (
            map(_fader, conversations) if isinstance(conversations, list) else [_broken("it has no conversations")]
        )
    elif isinstance(document, list):
        yield from map(_recognised, document)
    else:
        yield _recognised(document)


def _recognised(item: Json) -> Parsed:
    form = next((form for form in _FORMS if form.recognise(item)), None)
    if form is None:
        return _broken(f"it is in none of the formats {', '.join(one.NAME for one in _FORMS)} and {fader_json.NAME}")
    return form.NAME, _title(item), lambda: _drafted(form, item)


def _title(item: Json) -> str:
    """What a part calls itself, in any of the formats."""
    for told in (item, item.get("conv"), item.get("chat")) if isinstance(item, dict) else ():
        if isinstance(told, dict):
            for name in ("title", "name"):
                if isinstance(told.get(name), str):
                    return str(told[name])
    return ""


def _drafted(form: Form, item: Json) -> tuple[Whole, str]:
    draft = form.read(item)
    left_out = ", ".join(f"{count} {what}" for what, count in draft.left_out.items())
    return Whole(*draft.build(form.NAME)), f"left out: {left_out}" if left_out else ""
