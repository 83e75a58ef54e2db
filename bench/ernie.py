"""``python -m bench.ernie FOLDER``: ERNIE-4.5-21B-A3B's geometry with random weights, made, quantized, loaded again and chatted with.

Nothing of it can be fetched or judged by its words; sizes, memory and times are those of the real model. ``--layers 3`` does it with a few
layers. The 16-bit checkpoint takes 44 GB, the prepared copy 12; ``--keep`` leaves them for another run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

LAYERS, HIDDEN, DENSE, EXPERT, EXPERTS, VOCABULARY = 28, 2560, 12288, 1536, 64, 103424
HEADS, KV_HEADS, HEAD, SHARED = 20, 4, 128, 2
QUESTION = "What can you tell me about the sea?"
_POOL = 1 << 26
"""Random numbers made once; every weight is a stretch of them that begins elsewhere."""


def config(layers: int) -> Any:
    """The configuration that baidu/ERNIE-4.5-21B-A3B-PT has."""
    from transformers import Ernie4_5_MoeConfig

    fields: dict[str, Any] = {"head_dim": HEAD}
    return Ernie4_5_MoeConfig(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=DENSE,
        num_hidden_layers=layers,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        max_position_embeddings=131072,
        rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
        moe_intermediate_size=EXPERT,
        moe_num_experts=EXPERTS,
        moe_k=6,
        moe_num_shared_experts=SHARED,
        moe_layer_start_index=1,
        tie_word_embeddings=True,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        **fields,
    )


class Pool:
    """Weights without the hour that 21 billion random numbers take."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self._numbers = (torch.randn(_POOL, generator=generator) * 0.02).to(torch.bfloat16)
        self._taken = 0

    def weight(self, rows: int, columns: int) -> torch.Tensor:
        """bfloat16 [rows, columns], standard deviation 0.02."""
        self._taken = (self._taken * 1103515245 + 12345) % (_POOL // 2)
        count = rows * columns
        if self._taken + count <= _POOL:
            return self._numbers[self._taken : self._taken + count].view(rows, columns).clone()
        return self._numbers.repeat(-(-count // _POOL))[:count].view(rows, columns).clone()


def layer(pool: Pool, number: int) -> dict[str, torch.Tensor]:
    """The tensors of one layer, one per expert as in the checkpoint on the hub."""
    at = f"model.layers.{number}"
    made = {
        f"{at}.self_attn.q_proj.weight": pool.weight(HEADS * HEAD, HIDDEN),
        f"{at}.self_attn.k_proj.weight": pool.weight(KV_HEADS * HEAD, HIDDEN),
        f"{at}.self_attn.v_proj.weight": pool.weight(KV_HEADS * HEAD, HIDDEN),
        f"{at}.self_attn.o_proj.weight": pool.weight(HIDDEN, HEADS * HEAD),
        f"{at}.input_layernorm.weight": torch.ones(HIDDEN, dtype=torch.bfloat16),
        f"{at}.post_attention_layernorm.weight": torch.ones(HIDDEN, dtype=torch.bfloat16),
    }
    if number == 0:
        return made | _mlp(pool, f"{at}.mlp", DENSE)
    made |= _mlp(pool, f"{at}.mlp.shared_experts", SHARED * EXPERT)
    for expert in range(EXPERTS):
        made |= _mlp(pool, f"{at}.mlp.experts.{expert}", EXPERT)
    made[f"{at}.mlp.gate.weight"] = pool.weight(EXPERTS, HIDDEN).float()
    made[f"{at}.mlp.moe_statics.e_score_correction_bias"] = torch.linspace(-0.01, 0.01, EXPERTS)[None]
    return made


def _mlp(pool: Pool, at: str, inner: int) -> dict[str, torch.Tensor]:
    return {
        f"{at}.gate_proj.weight": pool.weight(inner, HIDDEN),
        f"{at}.up_proj.weight": pool.weight(inner, HIDDEN),
        f"{at}.down_proj.weight": pool.weight(HIDDEN, inner),
    }


def make(folder: Path, layers: int) -> None:
    """Write the checkpoint, a file a layer, with the built-in model's tokenizer."""
    from transformers import AutoTokenizer

    from app.models.builtin import builtin_gguf

    folder.mkdir(parents=True, exist_ok=True)
    index: dict[str, str] = {}
    pool, gguf = Pool(), builtin_gguf()
    outer = {
        "model.embed_tokens.weight": pool.weight(VOCABULARY, HIDDEN),
        "model.norm.weight": torch.ones(HIDDEN, dtype=torch.bfloat16),
    }
    for number, tensors in enumerate([outer, *(range(layers))]):
        whole = tensors if isinstance(tensors, dict) else layer(pool, tensors)
        name = f"model-{number:05d}-of-{layers:05d}.safetensors"
        save_file(whole, folder / name, metadata={"format": "pt"})
        index |= dict.fromkeys(whole, name)
        print(f"\rlayer {number} of {layers} written", end="", file=sys.stderr, flush=True)
    size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    told = {"metadata": {"total_size": size}, "weight_map": index}
    (folder / "model.safetensors.index.json").write_text(json.dumps(told))
    made = config(layers)
    made.architectures, made.dtype = ["Ernie4_5_MoeForCausalLM"], "bfloat16"
    made.save_pretrained(folder)
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(folder)


def fader(surroundings: dict[str, str], *words: str) -> Any:
    """A command of Fader's, its JSON."""
    command = [sys.executable, "-m", "app", *words, "--json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=surroundings)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def swapped() -> int:
    """Pages written to swap since the machine started; 0 where the system doesn't tell."""
    file = Path("/proc/vmstat")
    lines = dict(line.split() for line in file.read_text().splitlines()) if file.exists() else {}
    return int(lines.get("pswpout", 0))


def measured(model: Path, place: Path, tokens: int) -> Iterator[tuple[str, Any]]:
    """Loads and a reply, each in a process of its own, so that nothing is left of the one before."""
    surroundings = os.environ | {"FADER_HOME": str(place / "home"), "FADER_CACHE": str(place / "cache")}
    wanted = ("seconds", "peak_bytes", "resident_bytes", "share_4bit", "linear_share_4bit", "warnings")
    before = swapped()
    for name in ("first load", "second load"):
        report = fader(surroundings, "models", "load", str(model))
        yield name, {key: report[key] for key in wanted}
    exact = ["-p", f"max_new_tokens={tokens}", "-p", f"min_new_tokens={tokens}"]
    begun = time.monotonic()
    run = fader(surroundings, "ask", QUESTION, "--model", str(model), *exact)
    yield "reply", {**run["stats"], "seconds in all": round(time.monotonic() - begun, 1)}
    yield "pages swapped out", swapped() - before


def main() -> None:
    """Make, measure, tell as JSON lines, clear away."""
    parser = argparse.ArgumentParser(prog="bench.ernie", description=__doc__)
    parser.add_argument("folder", type=Path, help="an empty folder on a disk with room")
    parser.add_argument("--layers", type=int, default=LAYERS)
    parser.add_argument("--tokens", type=int, default=32, help="tokens of the reply (32)")
    parser.add_argument("--keep", action="store_true", help="leave model and prepared copy there")
    asked = parser.parse_args()
    model = asked.folder / f"ernie-{asked.layers}"
    begun = time.monotonic()
    if not (model / "config.json").exists():
        make(model, asked.layers)
    print(json.dumps({"written in": round(time.monotonic() - begun, 1)}), flush=True)
    for name, value in measured(model, asked.folder, asked.tokens):
        print(json.dumps({name: value}), flush=True)
    if not asked.keep:
        shutil.rmtree(asked.folder, ignore_errors=True)


if __name__ == "__main__":
    main()
