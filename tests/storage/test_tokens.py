"""Token ids come back exactly, although a prompt is stored only as far as it differs from the one before."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from app.conversation import Run
from storage import Store, open_store
from tests.storage import samples


def _reply(
    store: Store, conversation_id: str, parent: str | None, prompt: tuple[int, ...], output: tuple[int, ...]
) -> Run:
    _, _, run = samples.begin(store, conversation_id, parent, "question")
    done = samples.ended(run, prompt_ids=prompt, output_ids=output)
    store.finish_run(done, "reply")
    return done


@settings(max_examples=20)
@given(st.data())
def test_whatever_prompts_share_they_come_back(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(Path(folder))
        talk = samples.conversation(store)
        runs: list[Run] = []
        for _ in range(data.draw(st.integers(1, 8))):
            base = data.draw(st.sampled_from(runs)) if runs else None
            before = base.prompt_ids + base.output_ids if base else ()
            kept = before[: data.draw(st.integers(0, len(before)))]
            added = tuple(data.draw(st.lists(st.integers(-1, 2**40) | st.just(7), max_size=60)))
            output = tuple(data.draw(st.lists(st.integers(0, 200_000), max_size=40)))
            runs.append(_reply(store, talk.id, base.message_id if base else None, kept + added, output))
        again = data.draw(st.sampled_from(runs))
        changed = samples.ended(again, prompt_ids=(1, 2), output_ids=())
        store.finish_run(changed, "again")
        for run in runs:
            assert store.run(run.id) == (changed if run.id == again.id else run)
        store.close()


def test_a_long_conversation_grows_with_its_text_not_with_its_square(store: Store) -> None:
    talk = samples.conversation(store)
    parent, prompt = None, tuple(range(100_000, 100_050))
    runs = []
    for turn in range(80):
        output = tuple(range(turn * 50, turn * 50 + 50))
        runs.append(_reply(store, talk.id, parent, prompt, output))
        parent, prompt = runs[-1].message_id, prompt + output + tuple(range(turn, turn + 30))
    with store._db.read() as db:
        (stored,) = db.execute("SELECT sum(length(prompt_ids) + length(output_ids)) FROM run_tokens").fetchone()
    assert stored < 100_000  # in full it would be more than a million bytes before compression
    shown = [one.message.run for one in store.branch(talk.id) if one.message.run]
    assert shown == runs
    assert store.run(runs[-1].id) == runs[-1]
