"""The table is complete, agrees with the installed transformers, and everything that derives from it misses no row."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from transformers import GenerationConfig

from app.errors import BadParameter
from app.parameters.presets import neutral
from app.parameters.row import Group, Parameter
from app.parameters.table import BY_NAME, EXCLUDED, TABLE, describe, get
from app.parameters.validate import check, validate
from tests.parameters.tiny import FACTS, ends

DOCUMENTED = {
    Group.LENGTH: "max_length max_new_tokens min_length min_new_tokens early_stopping max_time stop_strings",
    Group.STRATEGY: "do_sample num_beams use_mtp",
    Group.CACHE: "use_cache cache_implementation cache_config max_cache_len",
    Group.LOGITS: "temperature top_k top_p min_p top_h typical_p epsilon_cutoff eta_cutoff repetition_penalty "
    "encoder_repetition_penalty length_penalty no_repeat_ngram_size bad_words_ids renormalize_logits forced_bos_token_id "
    "forced_eos_token_id remove_invalid_values exponential_decay_length_penalty suppress_tokens begin_suppress_tokens "
    "sequence_bias token_healing guidance_scale watermarking_config",
    Group.OUTPUTS: "num_return_sequences output_attentions output_hidden_states output_scores output_logits "
    "return_dict_in_generate",
    Group.SPECIAL_TOKENS: "pad_token_id bos_token_id eos_token_id",
    Group.ENCODER_DECODER: "encoder_no_repeat_ngram_size decoder_start_token_id",
    Group.ASSISTED: "is_assistant num_assistant_tokens num_assistant_tokens_schedule assistant_confidence_threshold "
    "prompt_lookup_num_tokens max_matching_ngram_size assistant_early_exit assistant_lookbehind target_lookbehind "
    "assistant_ensemble_weight speculation_type",
    Group.PERFORMANCE: "compile_config disable_compile",
}
"""The 62 parameters as the transformers documentation groups and orders them."""


def test_names_groups_and_order_are_the_documents() -> None:
    ours = {
        group: " ".join(row.name for row in TABLE if row.group is group) for group in Group if group is not Group.OWN
    }
    assert ours == DOCUMENTED
    assert sum(not row.own for row in TABLE) == 62


def test_every_field_of_the_installed_configuration_is_a_row_or_excluded_with_a_reason() -> None:
    fields = {name for name in vars(GenerationConfig()) if not name.startswith("_")}
    assert fields - {row.name for row in TABLE} - set(EXCLUDED) == set(), "a new parameter: give it a row, or a reason"
    assert {row.name for row in TABLE if not row.own} - fields == set(), "transformers no longer knows this parameter"
    assert set(EXCLUDED) <= fields
    assert all(len(reason) > 20 for reason in EXCLUDED.values())


def test_library_defaults_are_those_of_the_installed_transformers() -> None:
    installed = GenerationConfig._get_default_generation_params()
    fields = vars(GenerationConfig())
    for row in TABLE:
        if not row.own:
            value = installed.get(row.name) if fields[row.name] is None else fields[row.name]
            assert row.library_default == value, row.name


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_a_row_is_fit_for_a_page(row: Parameter) -> None:
    assert row.help.endswith(".")
    assert 30 < len(row.help) < 320, "one or two sentences"
    assert row.paper is None or re.fullmatch(r"\d{4}\.\d{5}", row.paper)
    assert all(name in BY_NAME for name in row.conflicts_with)
    if row.control in ("slider", "log_slider"):
        reach = row.slider(FACTS)
        assert reach.low < reach.high, "a slider one can move"
        assert 0 < reach.step <= reach.high - reach.low
        assert (row.control == "log_slider") == (row.log_low is not None)
    assert (row.kind == "choice") == bool(row.choices)
    assert row.range_text(FACTS)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_both_ends_and_off_are_accepted_and_stay_what_they_are(row: Parameter) -> None:
    for value in ends(row):
        once = check(row.name, value, FACTS)
        assert check(row.name, once, FACTS) == once, "validating twice changes nothing"
        assert json.loads(json.dumps(once)) == once, "a value is plain JSON"


def test_conflicts_are_mutual() -> None:
    one_sided = [
        (row.name, other)
        for row in TABLE
        for other in row.conflicts_with
        if row.name not in BY_NAME[other].conflicts_with
    ]
    assert one_sided == []


def test_describe_has_every_row_with_exactly_the_promised_fields() -> None:
    described = json.loads(json.dumps(describe(), allow_nan=False))
    assert [entry["name"] for entry in described] == [row.name for row in TABLE]
    fields = {"name", "group", "type", "off", "minimum", "maximum", "step", "applies_when", "help", "source"}
    assert all(set(entry) == fields for entry in described)
    assert {entry["source"] for entry in described} == {"transformers", "fader"}


def test_neutral_puts_everything_at_its_off_value() -> None:
    everything = neutral()
    assert validate(everything, FACTS) == everything
    left_out = {row.name for row in TABLE} - set(everything)
    assert left_out == {row.name for row in TABLE if not row.neutral}
    assert all(value == BY_NAME[name].off for name, value in everything.items())


def test_unknown_names_are_refused() -> None:
    with pytest.raises(BadParameter, match="top_q"):
        get("top_q")


def test_importing_the_table_loads_neither_torch_nor_transformers() -> None:
    code = (
        "import sys, app.parameters.resolve, app.parameters.presets, app.parameters.docs;"
        "sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
