"""Export: lossless in Fader JSON (the same bytes after a round trip), readable and harmless in the other formats."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.conversation import FinishReason, RunStatus
from app.errors import NotFound, RefusedInput, StoreError
from app.transfer import ExportFormat, Outcome
from storage import Store, open_store
from tests.storage import samples


def _fill(store: Store) -> list[str]:
    """Two conversations with all that there can be in one; the first is in the trash."""
    gone = samples.conversation(store, "Gone")
    samples.exchange(store, gone.id, None, "Why?", "Because.")
    store.trash([gone.id])
    talk = samples.conversation(store, 'Tea & "Ü" <b> 東京')
    store.update_conversation(
        talk.id,
        system_prompt="Be short.",
        parameters={"stop_strings": ["\n"], "top_p": 0.1},
        preset="Mine",
        pinned=True,
    )
    first, reply = samples.exchange(store, talk.id, None, "How long?", "Two *minutes* \x00 🙂\r\n")
    other = samples.regenerate(store, talk.id, first.id, "Three.")
    samples.exchange(
        store,
        talk.id,
        reply.id,
        "And?",
        "",
        {
            "status": RunStatus.FAILED,
            "finish_reason": FinishReason.ERROR,
            "error": "no",
            "effective": {"max_time": float("inf")},
            "seed": 2**63,
        },
    )
    store.trash_message(other.id, subtree=False)
    last, _ = samples.exchange(store, talk.id, reply.id, "Last", "One")
    store.trash_message(last.id, subtree=True)
    return [gone.id, talk.id]


def _without_date(text: str) -> str:
    return text.split("\n", 1)[1]


def test_out_in_and_out_again_gives_the_same_bytes(store: Store, tmp_path: Path) -> None:
    _, talk = _fill(store)
    before = "".join(store.export(ExportFormat.FADER_JSON))
    (tmp_path / "all.json").write_text(before, encoding="utf-8", newline="")
    other = open_store(tmp_path / "other")
    try:
        report = other.import_file(tmp_path / "all.json")
        assert (report.format, report.count(Outcome.IMPORTED)) == ("Fader JSON", 2)
        assert _without_date("".join(other.export(ExportFormat.FADER_JSON))) == _without_date(before)
        assert other.branch(talk) == store.branch(talk)
        assert other.conversation(talk) == store.conversation(talk)
        for message in store.messages(talk):
            if message.run is not None:
                assert other.trace(message.run.id) == store.trace(message.run.id)
            if message.trashed_at is not None:
                for one in (store, other):
                    one.restore_message(message.id)
        assert other.branch(talk) == store.branch(talk)
        assert samples.titles(other, "minutes") == samples.titles(store, "minutes")
        assert other.import_file(tmp_path / "all.json").count(Outcome.SKIPPED) == 2
    finally:
        other.close()


_TEXT = st.text(max_size=30)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=15)
@given(
    st.lists(
        st.tuples(_TEXT, _TEXT, st.dictionaries(_TEXT, _JSON, max_size=3), st.lists(st.integers(0, 2**40))), max_size=4
    )
)
def test_any_content_survives_the_round_trip(
    tmp_path_factory: pytest.TempPathFactory, told: list[tuple[str, str, dict[str, object], list[int]]]
) -> None:
    folder = tmp_path_factory.mktemp("round")
    one, other = open_store(folder / "one"), open_store(folder / "other")
    try:
        for asked, answer, values, ids in told:
            talk = samples.conversation(one, asked)
            changes = {"effective": values, "requested": values, "prompt_ids": tuple(ids), "error": answer or None}
            samples.exchange(one, talk.id, None, asked, answer, changes)
        before = "".join(one.export(ExportFormat.FADER_JSON))
        one.export_file(folder / "all.json")
        assert other.import_file(folder / "all.json").count(Outcome.FAILED) == 0
        assert _without_date("".join(other.export(ExportFormat.FADER_JSON))) == _without_date(before)
    finally:
        one.close()
        other.close()


def test_a_file_written_by_another_tool_in_one_line_is_read_too(store: Store, tmp_path: Path) -> None:
    _fill(store)
    document = json.loads("".join(store.export(ExportFormat.FADER_JSON)))
    assert (document["format"], document["version"]) == ("fader", 1)
    (tmp_path / "one-line.json").write_text(json.dumps(document), encoding="utf-8")
    other = open_store(tmp_path / "other")
    assert other.import_file(tmp_path / "one-line.json").count(Outcome.IMPORTED) == 2
    other.close()


def test_a_file_cut_short_gives_what_is_whole(store: Store, tmp_path: Path) -> None:
    _fill(store)
    text = "".join(store.export(ExportFormat.FADER_JSON))
    (tmp_path / "cut.json").write_text(text[: text.rindex('"messages"') + 200], encoding="utf-8")
    other = open_store(tmp_path / "other")
    report = other.import_file(tmp_path / "cut.json")
    assert [item.outcome for item in report.items] == [Outcome.IMPORTED, Outcome.FAILED, Outcome.FAILED]
    assert "ends too early" in report.items[2].reason
    assert len(other.conversations(trashed=True).hits) == 1
    other.close()


def test_a_later_version_of_the_format_is_refused(store: Store, tmp_path: Path) -> None:
    (tmp_path / "later.json").write_text('{"format":"fader","version":2,"conversations":[\n]}\n', encoding="utf-8")
    report = store.import_file(tmp_path / "later.json")
    assert "later Fader" in report.items[0].reason


def test_a_message_id_that_is_taken_fails_the_whole_conversation(store: Store, tmp_path: Path) -> None:
    _, talk = _fill(store)
    document = json.loads("".join(store.export(ExportFormat.FADER_JSON, [talk])))
    document["conversations"][0]["id"] = "another"
    (tmp_path / "taken.json").write_text(json.dumps(document), encoding="utf-8")
    before = _without_date("".join(store.export(ExportFormat.FADER_JSON)))
    (item,) = store.import_file(tmp_path / "taken.json").items
    assert item.outcome is Outcome.FAILED
    assert "same id" in item.reason
    assert _without_date("".join(store.export(ExportFormat.FADER_JSON))) == before


def test_a_running_reply_comes_back_as_interrupted(store: Store, tmp_path: Path) -> None:
    talk = samples.conversation(store)
    _, reply, run = samples.begin(store, talk.id, None, "Why?")
    store.flush_run(run.id, "Beca", "generating")
    store.export_file(tmp_path / "all.json")
    other = open_store(tmp_path / "other")
    other.import_file(tmp_path / "all.json")
    assert other.message(reply.id).content == "Beca"
    assert other.run(run.id).status is RunStatus.INTERRUPTED
    other.close()


def test_markdown_has_the_branch_on_display(store: Store) -> None:
    _, talk = _fill(store)
    text = "".join(store.export(ExportFormat.MARKDOWN))
    assert text.startswith('# Tea & "Ü" <b> 東京\n')
    assert "## System prompt\n\nBe short." in text
    assert "## You\n\nHow long?\n\n## tiny/model\n\nTwo *minutes*" in text
    assert "Three." not in text
    assert "Gone" not in text
    samples.exchange(store, samples.conversation(store, "Second").id, None, "Why?", "Because.")
    assert "\n---\n\n# Second" in "".join(store.export(ExportFormat.MARKDOWN))
    assert "Second" not in "".join(store.export(ExportFormat.MARKDOWN, [talk]))


def test_jsonl_has_a_line_for_each_conversation(store: Store) -> None:
    _fill(store)
    samples.exchange(store, samples.conversation(store, "Second").id, None, "Why?\u2028\n", "Because.")
    lines = [json.loads(line) for line in "".join(store.export(ExportFormat.OPENAI_JSONL)).split("\n")[:-1]]
    assert [message["role"] for message in lines[0]["messages"]] == ["system", "user", "assistant", "user", "assistant"]
    assert lines[1] == {
        "messages": [{"role": "user", "content": "Why?\u2028\n"}, {"role": "assistant", "content": "Because."}]
    }


class _Page(HTMLParser):
    """What a browser would find in a page that could run or fetch something."""

    def __init__(self) -> None:
        super().__init__()
        self.dangers: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in {"script", "iframe", "object", "embed", "svg", "math", "form", "base", "link"}:
            self.dangers.append(tag)
        for name, value in attrs:
            if name.startswith("on") or (value or "").lower().lstrip().startswith(
                ("javascript:", "vbscript:", "data:text")
            ):
                self.dangers.append(f"{name}={value}")

    def handle_data(self, data: str) -> None:
        self.text += data


_ATTACKS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[click](javascript:alert(1))",
    "[click](JaVaScRiPt:alert(1)) <javascript:alert(1)>",
    "![x](data:text/html,<script>alert(1)</script>)",
    '[a](http://x" onmouseover="alert(1))',
    "</article></section></body><script>alert(1)</script>",
    "```html\n<script>alert(1)</script>\n```",
    "`</code><script>alert(1)</script>`",
    "<!--><script>alert(1)</script>-->",
    "[x]: javascript:alert(1)\n[x]",
    "<svg/onload=alert(1)>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
]


def test_html_runs_nothing_whatever_a_model_wrote(store: Store) -> None:
    talk = samples.conversation(store, "<script>alert(0)</script>")
    store.update_conversation(talk.id, system_prompt=_ATTACKS[0])
    parent: str | None = None
    for attack in _ATTACKS:
        changes = {"model_fingerprint": {"name": attack}}
        parent = samples.exchange(store, talk.id, parent, attack, attack, changes)[1].id
    page = _Page()
    text = "".join(store.export(ExportFormat.HTML))
    page.feed(text)
    assert page.dangers == []
    assert "default-src 'none'" in text
    assert page.text.count("alert(1)") >= 2 * len(_ATTACKS)  # shown, not swallowed
    assert "<title>" in text


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from([*_ATTACKS, "<", ">", '"', "'", "`", "\n\n", "](", "![", "|", "a"]), max_size=8).map(
        "".join
    )
)
def test_html_of_mixtures_runs_nothing(text: str) -> None:
    from app.conversation import Conversation, Message, Role
    from storage.transfer import html

    talk = Conversation(title=text)
    page = _Page()
    page.feed(html.write(talk, [Message("m", talk.id, None, Role.ASSISTANT, text)]))
    assert page.dangers == []


def test_files_get_the_format_of_their_name_and_are_whole(store: Store, tmp_path: Path) -> None:
    _fill(store)
    for name, begins in (
        ("a.json", '{"format"'),
        ("a.md", "# Tea"),
        ("a.HTML", "<!doctype"),
        ("a.jsonl", '{"messages"'),
    ):
        (tmp_path / name).write_text("old", encoding="utf-8")
        store.export_file(tmp_path / name)
        assert (tmp_path / name).read_text(encoding="utf-8").startswith(begins)
    with pytest.raises(RefusedInput, match="ends in"):
        store.export_file(tmp_path / "a.docx")
    with pytest.raises(NotFound):
        store.export_file(tmp_path / "a.md", ["nobody"])
    assert (tmp_path / "a.md").read_text(encoding="utf-8").startswith("# Tea")
    with pytest.raises(StoreError):
        store.export_file(tmp_path / "no" / "such" / "folder.md")
    assert not list(tmp_path.glob("*.partial"))


def test_an_empty_store_exports_to_something_importable(store: Store, tmp_path: Path) -> None:
    for form in ExportFormat:
        store.export_file(tmp_path / f"a.{form.value}")
    assert store.import_file(tmp_path / "a.json").items == ()


def test_a_run_keeps_fields_of_a_copied_conversation(store: Store) -> None:
    _, talk = _fill(store)
    copy = replace(store.conversation(talk), id="copy", shown_leaf=None)
    store.add_conversation(copy)
    assert store.branch("copy") == ()
