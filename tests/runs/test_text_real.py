"""Whatever the built-in model might say, the page shows exactly that: its real tokenizer, random tokens and random Unicode."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from app.conversation import RunStatus, new_id
from app.engine.events import StatusChanged, TextDelta
from app.engine.run import LiveRun, RunRequest
from app.engine.streamer import RunStreamer
from app.models.loading import prepare_model
from app.settings import Settings

BAD = "\N{REPLACEMENT CHARACTER}"
SHORT, FULL = 60, 5000
SCRIPTS = st.sampled_from("aé你שนि👩🏽\u200d🚀🇩e\u0301 \n\t<|>{}0" + BAD)
"""Characters of one to four bytes, marks that join what is before them, and a real replacement character."""


@pytest.fixture(scope="module")
def tokenizer(shared_cache: Path) -> PreTrainedTokenizerBase:
    """As it is prepared for the engine."""
    made: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
        prepare_model("builtin", Settings(cache=shared_cache))
    )
    return made


@pytest.fixture
def bounded(pytestconfig: pytest.Config) -> settings:
    """How many examples: many with --full."""
    examples = FULL if pytestconfig.getoption("--full") else SHORT
    return settings(max_examples=examples, suppress_health_check=list(HealthCheck))


def replies(tokenizer: PreTrainedTokenizerBase) -> st.SearchStrategy[list[int]]:
    """Token ids: any, those of single bytes (of which characters may be made or broken), special ones, and encoded text."""
    letters = [i for i in range(len(tokenizer)) if len(tokenizer.convert_ids_to_tokens(i)) == 1]
    one = st.one_of(
        st.integers(0, len(tokenizer) - 1), st.sampled_from(letters), st.sampled_from(tokenizer.all_special_ids)
    )
    text = st.text(st.one_of(SCRIPTS, st.characters(exclude_categories=["Cs"])), max_size=12)
    encoded = text.map(lambda said: list(tokenizer(said, add_special_tokens=False)["input_ids"]))
    stretches = st.one_of(st.lists(one, max_size=8), encoded)
    return st.lists(stretches, max_size=6).map(lambda lists: [i for ids in lists for i in ids])


def decoded(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> str:
    return str(tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))


def shown(tokenizer: PreTrainedTokenizerBase, ids: list[int], stops: list[str], before: list[int]) -> list[str]:
    """All that a reader has seen after each token, and at the end."""
    run = LiveRun(RunRequest(new_id(), "", new_id(), ()))
    run.append(StatusChanged(RunStatus.PREFILL))
    streamer = RunStreamer(run, tokenizer, stops=stops, prefix_ids=before)
    views = []
    for token in ids:
        if streamer.stopped(0):
            break
        streamer.token(0, token)
        views.append(seen(run))
    streamer.end()
    return [*views, seen(run)]


def seen(run: LiveRun) -> str:
    return "".join(event.text for _, event in run.read() if isinstance(event, TextDelta))


def test_streamed_is_decoded_and_nothing_is_ever_taken_back(
    tokenizer: PreTrainedTokenizerBase, bounded: settings
) -> None:
    @bounded
    @given(replies(tokenizer))
    def check(ids: list[int]) -> None:
        whole = decoded(tokenizer, ids)
        views = shown(tokenizer, ids, [], [])
        assert views[-1] == whole
        assert all(whole.startswith(view) for view in views)
        assert views[-1].count(BAD) == whole.count(BAD)

    check()


def test_a_reply_that_goes_on_shows_what_is_new(tokenizer: PreTrainedTokenizerBase, bounded: settings) -> None:
    @bounded
    @given(st.text(SCRIPTS, max_size=8), replies(tokenizer))
    def check(before: str, ids: list[int]) -> None:
        context = list(tokenizer(before, add_special_tokens=False)["input_ids"])
        assert decoded(tokenizer, context) + shown(tokenizer, ids, [], context)[-1] == decoded(
            tokenizer, [*context, *ids]
        )

    check()


def test_a_stop_string_is_never_seen_wherever_tokens_and_characters_split_it(
    tokenizer: PreTrainedTokenizerBase, bounded: settings
) -> None:
    @bounded
    @given(replies(tokenizer), st.data())
    def check(ids: list[int], data: st.DataObject) -> None:
        whole = decoded(tokenizer, ids)
        parts = st.integers(0, max(0, len(whole) - 1)).flatmap(
            lambda start: st.integers(1, 5).map(lambda length: whole[start : start + length] or "x")
        )
        stops = data.draw(st.lists(st.one_of(parts, st.text(SCRIPTS, min_size=1, max_size=3)), min_size=1, max_size=3))
        views = shown(tokenizer, ids, stops, [])
        assert not any(stop in view for stop in stops for view in views)
        complete = [(whole.index(stop) + len(stop), whole.index(stop)) for stop in stops if stop in whole]
        assert views[-1] == (whole[: min(complete)[1]] if complete else whole)

    check()
