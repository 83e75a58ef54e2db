"""From a branch of messages to the exact token ids the model reads: template, merging, and what is left out when it doesn't fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from app.conversation import Role
from app.engine.encoding import Shield, encode, encode_literal
from app.engine.fitting import Fitted, fit
from app.engine.text import opening
from app.errors import RefusedInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from transformers import PreTrainedTokenizerBase

    from app.conversation import Message
    from app.models.facts import ModelFacts

Turn: TypeAlias = dict[str, str]

NOTE_NO_TEMPLATE = "This model has no chat template. The conversation was written as plain text with the labels “User:” and “Assistant:”."
NOTE_SYSTEM_MERGED = "This model's template knows no system prompt; it was put in front of the first message."
NOTE_TURNS_MERGED = "This model's template wants turns to alternate; consecutive messages of one side were joined."


@dataclass(frozen=True, slots=True)
class Prompt:
    """``ids``: the prompt as token ids. ``text``: the same for reading. ``omitted``: ids of messages that were left out.

    ``opening``: the tag (with what follows it) by which the template has already opened a thinking block, where it has; the reply
    begins inside that.
    """

    ids: tuple[int, ...]
    text: str
    notes: tuple[str, ...] = ()
    omitted: tuple[str, ...] = ()
    opening: str = ""


def build_prompt(
    tokenizer: PreTrainedTokenizerBase,
    facts: ModelFacts,
    messages: Sequence[Message],
    *,
    system_prompt: str = "",
    prefix: str = "",
    reserve: int = 256,
    policy: str = "drop_oldest",
) -> Prompt:
    """The prompt for a reply to the last message; ``reserve`` tokens are kept free for it.

    Messages that don't fit are left out as ``policy`` says (see ``fitting``). Raises RefusedInput when even the last message
    alone is too long, when the policy is "stop", or when the template refuses the conversation.
    """
    costs = [len(encode_literal(tokenizer, m.content)) + 8 for m in messages]
    fixed = len(encode_literal(tokenizer, system_prompt)) + len(encode_literal(tokenizer, prefix)) + 8
    room = facts.context_length - reserve
    while True:
        fitted = fit(messages, costs, room - fixed, policy)
        prompt = _render(tokenizer, facts, fitted.kept, system_prompt, prefix)
        excess = len(prompt.ids) - room
        if excess <= 0:
            return replace(prompt, notes=(*prompt.notes, *_omission_note(fitted)), omitted=fitted.omitted)
        if len(fitted.kept) == 1:
            _refuse_too_long(len(prompt.ids), facts.context_length)
        fixed += excess  # the estimate was low: templates add tokens of their own


def _refuse_too_long(length: int, context: int) -> None:
    sentence = (
        f"The prompt alone has {length:,} tokens; the model's context holds {context:,} and some must stay free for the reply. "
        "Shorten the message or the system prompt, or load a model with a longer context."
    )
    raise RefusedInput(sentence)


def _omission_note(fitted: Fitted) -> tuple[str, ...]:
    if not fitted.omitted:
        return ()
    count = len(fitted.omitted)
    which = "1 earlier message" if count == 1 else f"{count} earlier messages"
    return (f"The context is full: {which} left out.",)


def _render(
    tokenizer: PreTrainedTokenizerBase, facts: ModelFacts, messages: Sequence[Message], system_prompt: str, prefix: str
) -> Prompt:
    if facts.is_encoder_decoder:
        return _render_source(tokenizer, messages, system_prompt)
    shield = Shield(tokenizer, [system_prompt, *(m.content for m in messages)])
    turns = [{"role": m.role.value, "content": shield.hide(m.content)} for m in messages]
    if system_prompt:
        turns.insert(0, {"role": Role.SYSTEM.value, "content": shield.hide(system_prompt)})
    rendered, notes = _apply_template(tokenizer, turns)
    ids = (*shield.encode(rendered), *encode_literal(tokenizer, prefix))
    return Prompt(ids, shield.reveal(rendered) + prefix, notes, opening=opening(rendered))


def _render_source(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message], system_prompt: str) -> Prompt:
    """An encoder reads one text: the message itself, preceded by the conversation so far when there is one."""
    texts = [system_prompt] if system_prompt else []
    texts += [m.content for m in messages]
    text = "\n".join(texts)
    before, after = _frame(tokenizer)
    return Prompt((*before, *encode_literal(tokenizer, text), *after), text)


def _frame(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int]]:
    """The special tokens that the tokenizer puts before and behind a text."""
    plain, framed = (list(tokenizer("x", add_special_tokens=on)["input_ids"]) for on in (False, True))
    start = next((i for i in range(len(framed)) if framed[i : i + len(plain)] == plain), 0)
    return framed[:start], framed[start + len(plain) :]


def _apply_template(tokenizer: PreTrainedTokenizerBase, turns: list[Turn]) -> tuple[str, tuple[str, ...]]:
    """The rendering and notes on what had to be merged for the template to accept the conversation."""
    if not tokenizer.chat_template:
        return _plain(tokenizer, turns), (NOTE_NO_TEMPLATE,)
    attempts = (
        (turns, ()),
        (_without_system(turns), (NOTE_SYSTEM_MERGED,)),
        (_alternating(turns), (NOTE_TURNS_MERGED,)),
        (_alternating(_without_system(turns)), (NOTE_SYSTEM_MERGED, NOTE_TURNS_MERGED)),
    )
    reason = ""
    for attempt, notes in attempts:
        if notes and attempt == turns:
            continue
        try:
            rendered = str(tokenizer.apply_chat_template(attempt, tokenize=False, add_generation_prompt=True))
        except Exception as error:  # noqa: BLE001  (a template is a program of the model's author and may raise anything)
            reason = reason or str(error)
            continue
        if _all_said(rendered, attempt):
            return rendered, notes
    sentence = f"The model's chat template refuses this conversation: {reason or 'it leaves out the system prompt'}."
    raise RefusedInput(sentence)


def _all_said(rendered: str, turns: list[Turn]) -> bool:
    """Whether the system prompt and the last message really are in the rendering: some templates drop a system turn silently."""
    wanted = [t["content"].strip() for t in turns if t["role"] == Role.SYSTEM.value] + [turns[-1]["content"].strip()]
    return all(content in rendered for content in wanted)


def _without_system(turns: list[Turn]) -> list[Turn]:
    if turns[0]["role"] != Role.SYSTEM.value or len(turns) == 1:
        return turns
    system, first, *rest = turns
    if first["role"] != Role.USER.value:
        return [{"role": Role.USER.value, "content": system["content"]}, first, *rest]
    return [{**first, "content": f"{system['content']}\n\n{first['content']}"}, *rest]


def _alternating(turns: list[Turn]) -> list[Turn]:
    merged: list[Turn] = []
    for turn in turns:
        if merged and merged[-1]["role"] == turn["role"]:
            merged[-1] = {**turn, "content": f"{merged[-1]['content']}\n\n{turn['content']}"}
        else:
            merged.append(dict(turn))
    return merged


def _plain(tokenizer: PreTrainedTokenizerBase, turns: list[Turn]) -> str:
    labels = {Role.SYSTEM.value: "", Role.USER.value: "User: ", Role.ASSISTANT.value: "Assistant: "}
    lines = [labels[t["role"]] + t["content"] for t in turns]
    return (tokenizer.bos_token or "") + "\n".join([*lines, "Assistant:"])


def count_tokens(tokenizer: PreTrainedTokenizerBase, text: str) -> int:
    """How many tokens a text has, control tokens counted as one."""
    return len(encode(tokenizer, text))
