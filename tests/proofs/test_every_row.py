"""Every parameter of the table has a proof, and every value that a control can send is sent without an exception."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from app.conversation import RunStatus
from app.errors import BadParameter
from app.parameters.resolve import resolve
from app.parameters.row import Parameter
from app.parameters.table import BY_NAME, TABLE
from app.parameters.validate import nullable, validate
from tests.proofs.conftest import Lab

FOLDER = Path(__file__).parent


def proofs() -> set[str]:
    """The names of all test functions of this folder."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in FOLDER.glob("test_*.py"))
    return {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("name", BY_NAME)
def test_every_row_has_a_proof(name: str) -> None:
    assert any(test == f"test_{name}" or test.startswith(f"test_{name}__") for test in proofs())


def test_there_are_62_parameters_of_the_library_and_all_are_proven() -> None:
    assert sum(not row.own for row in TABLE) == 62


SAMPLES: dict[str, list[Any]] = {
    "bool": [True, False],
    "texts": [[], ["a stop"], ["\n", "。"]],
    "token": [5, "a"],
    "tokens": [[], [5], ["a", 7]],
    "phrases": [[], ["hello"], [[5, 6], " there"]],
    "rows": [[], [["hello", 2]], [[[5], -1.5]]],
    "pair": [[0, 1.0], [3, 1.5], [400, 0.5]],
    "json": [{}, {"nbits": 4}],
    "watermark": [{"kind": "greenlist"}, {"kind": "synthid"}],
    "compile": [{"backend": "eager"}],
    "format": [{"kind": "choices", "choices": ["yes"]}],
    "text": ["", "some text"],
}


def ends(row: Parameter, lab: Lab) -> list[Any]:
    """Both ends of a control and its off value."""
    if row.kind == "choice":
        return list(row.choices)
    if row.kind not in ("int", "float"):
        return SAMPLES[row.kind]
    values: list[Any] = [row.minimum, row.maximum_for(lab.loaded.facts)]
    if row.step is not None:
        spread = row.slider(lab.loaded.facts)
        values += [spread.low, spread.high]
    accepted = []
    for value in values:
        try:
            accepted += [] if value is None else [validate({row.name: value})[row.name]]
        except BadParameter:
            assert value in (row.minimum, row.maximum), "an exclusive bound"
    return list(dict.fromkeys(accepted))


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_both_ends_and_off_can_be_sent(lab: Lab, row: Parameter) -> None:
    """Each value is carried out, or refused with the parameter's name where this model can't do it at all."""
    values = ends(row, lab)
    if row.off not in values and (row.off is not None or nullable(row)):
        values.append(row.off)
    for value in values:
        asked: dict[str, Any] = {"seed": 1, "max_new_tokens": 3} | {row.name: value}
        if row.name in ("num_beams", "num_return_sequences"):
            asked["do_sample"] = True
        if row.name == "max_new_tokens" and (value is None or value > 50):
            asked["max_time"] = 0.05
        reply = lab.ask(**asked)
        if row.refused and value not in (row.off, None):
            refused = reply.status is RunStatus.FAILED and reply.error.startswith(f"{row.name}: ")
            assert refused or reply.status is RunStatus.DONE, (value, reply.error)
        else:
            assert reply.status is RunStatus.DONE, (value, reply.error)


def test_what_ran_is_what_was_shown_before(lab: Lab) -> None:
    for requested in (
        {},
        {"top_k": 5},
        {"temperature": 0},
        {"num_beams": 2, "early_stopping": True},
        {"top_p": 0.5, "min_p": 0.1},
    ):
        reply = lab.ask(max_new_tokens=4, seed=1, **requested)
        shown = resolve(requested | {"max_new_tokens": 4, "seed": 1}, lab.loaded.facts, prompt_tokens=len(reply.prompt))
        assert reply.effective == dict(shown.values)


CONFLICTS = [
    ({"max_length": 30, "max_new_tokens": 5}, "max_length"),
    ({"min_length": 30, "min_new_tokens": 5}, "min_length"),
    ({"do_sample": False, "temperature": 0.5}, "temperature"),
    ({"do_sample": True, "temperature": 0}, "do_sample"),
    ({"num_beams": 2, "guidance_scale": 2.0}, "guidance_scale"),
    ({"num_beams": 2, "prompt_lookup_num_tokens": 4}, "prompt_lookup_num_tokens"),
    ({"use_cache": False, "prompt_lookup_num_tokens": 4}, "prompt_lookup_num_tokens"),
    ({"guidance_scale": 2.0, "prompt_lookup_num_tokens": 4}, "prompt_lookup_num_tokens"),
    ({"min_new_tokens": 40, "max_new_tokens": 5}, "min_new_tokens"),
    ({"num_return_sequences": 3, "do_sample": False}, "num_return_sequences"),
    ({"num_return_sequences": 3, "num_beams": 2}, "num_return_sequences"),
    ({"early_stopping": True}, "early_stopping"),
    ({"length_penalty": 2.0}, "length_penalty"),
    (
        {"cache_implementation": "static", "disable_compile": True, "compile_config": {"backend": "eager"}},
        "compile_config",
    ),
    ({"output_scores": True, "return_dict_in_generate": False}, "return_dict_in_generate"),
    ({"eos_token_id": [], "min_new_tokens": 2}, "min_new_tokens"),
    ({"max_cache_len": 40}, "max_cache_len"),
    ({"max_matching_ngram_size": 4}, "max_matching_ngram_size"),
    ({"num_assistant_tokens": 4}, "num_assistant_tokens"),
]


@pytest.mark.parametrize(("requested", "told"), CONFLICTS, ids=lambda value: value if isinstance(value, str) else None)
def test_parameters_that_conflict_say_so(lab: Lab, requested: dict[str, Any], told: str) -> None:
    reply = lab.reply(**({"max_new_tokens": 5} | requested))
    assert any(note.startswith(f"{told}: ") for note in reply.ended.run.notes)


@pytest.mark.parametrize("name", ["forced_bos_token_id", "forced_eos_token_id"])
def test_a_token_forced_and_suppressed_at_once_is_refused(lab: Lab, name: str) -> None:
    forced: dict[str, Any] = {name: 5 if name.startswith("forced_bos") else [5]}
    reply = lab.ask(**forced, suppress_tokens=[5])
    assert reply.error.startswith(f"{name}: conflicts with suppress_tokens")
