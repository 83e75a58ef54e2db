"""The one table of generation parameters: 62 of transformers and Fader's own. Everything else about parameters derives from it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from app.conversation import Json
from app.errors import BadParameter
from app.parameters import (
    rows_assisted,
    rows_length,
    rows_outputs,
    rows_own,
    rows_penalties,
    rows_sampling,
    rows_strategy,
)
from app.parameters.row import Parameter

TABLE: tuple[Parameter, ...] = (
    *rows_length.ROWS,
    *rows_strategy.ROWS,
    *rows_sampling.ROWS,
    *rows_penalties.ROWS,
    *rows_outputs.ROWS,
    *rows_assisted.ROWS,
    *rows_own.ROWS,
)

BY_NAME: Mapping[str, Parameter] = MappingProxyType({row.name: row for row in TABLE})

SAMPLING: tuple[str, ...] = tuple(row.name for row in rows_sampling.ROWS)
"""The parameters whose being set implies do_sample."""

EXCLUDED: Mapping[str, str] = MappingProxyType(
    {
        "continuous_batching_config": "deprecated; belongs to a server that batches several users, which Fader's one queue is not",
        "low_memory": "of contrastive search, which left the library and needs remote code",
        "penalty_alpha": "of contrastive search, which left the library and needs remote code",
        "dola_layers": "of DoLa decoding, which left the library and needs remote code",
        "diversity_penalty": "of group beam search, which left the library and needs remote code",
        "num_beam_groups": "of group beam search, which left the library and needs remote code",
        "constraints": "of constrained beam search, which left the library and needs remote code",
        "force_words_ids": "of constrained beam search, which left the library and needs remote code",
        "prefill_chunk_size": "the engine prefills in chunks by itself, so that Stop works and the cache can be reused exactly",
        "transformers_version": "metadata of the file, not a setting",
    }
)
"""Fields of GenerationConfig that are deliberately no row, each with the reason."""


def get(name: str) -> Parameter:
    """The row of that name. Raises BadParameter for an unknown one."""
    if name not in BY_NAME:
        raise BadParameter(name, "there is no parameter of that name; `fader params` lists them all")
    return BY_NAME[name]


def describe() -> list[dict[str, Json]]:
    """The table as JSON: name, group, type, off, minimum, maximum, step, applies_when, help and source of every row.

    ``source`` is "transformers" or "fader"; ``applies_when`` a phrase such as "num_beams above 1".
    """
    return [
        {
            "name": row.name,
            "group": row.group.value,
            "type": row.kind,
            "off": row.off,
            "minimum": row.minimum,
            "maximum": row.maximum,
            "step": row.step,
            "applies_when": row.applies,
            "help": row.help,
            "source": "fader" if row.own else "transformers",
        }
        for row in TABLE
    ]
