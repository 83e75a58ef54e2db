"""Each sampling parameter narrows or reshapes the distribution as its definition says, and tokens are drawn from what is left."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch

from tests.proofs.conftest import OPEN, Lab, Reply

KEPT = {"output_scores": True, "output_logits": True, "max_new_tokens": 8}


def sampled(lab: Lab, **asked: Any) -> Reply:
    return lab.reply(**(OPEN | KEPT | asked))


def steps(reply: Reply) -> list[tuple[torch.Tensor, torch.Tensor, int]]:
    """Per token: the model's probabilities, which tokens were left to draw from, and the one drawn, which is always among them."""
    found = []
    for logits, scores, token in zip(reply.inside.logits, reply.inside.scores, reply.ids, strict=True):
        left = torch.isfinite(scores)
        assert left[token]
        found.append((logits.softmax(-1), left, token))
    assert any(not left.all() for _, left, _ in found), "nothing was ever left out"
    return found


def likeliest_first(probabilities: torch.Tensor) -> list[int]:
    order: list[int] = probabilities.argsort(descending=True).tolist()
    return order


@pytest.mark.parametrize("temperature", [0.3, 1.7])
def test_temperature(lab: Lab, temperature: float) -> None:
    reply = sampled(lab, temperature=temperature)
    for logits, scores in zip(reply.inside.logits, reply.inside.scores, strict=True):
        torch.testing.assert_close(scores.softmax(-1), (logits / temperature).softmax(-1))


def test_temperature__frequencies_of_the_drawn_tokens_follow_it(lab: Lab) -> None:
    asked: dict[str, Any] = {"temperature": 0.8, "max_new_tokens": 1, "num_return_sequences": 16}
    drawn: Counter[int] = Counter()
    for seed in range(0, 16 * 50, 16):
        reply = sampled(lab, seed=seed, **asked)
        drawn.update([reply.ids[0], *(sibling.run.output_ids[0] for sibling in reply.ended.siblings)])
    expected = (reply.inside.logits[0] / 0.8).softmax(-1)
    total = drawn.total()
    top = likeliest_first(expected)[:6]
    rest = 1 - float(expected[top].sum())
    observed = [*(drawn[token] for token in top), total - sum(drawn[token] for token in top)]
    wanted = [*(float(expected[token]) * total for token in top), rest * total]
    chi_square = sum((o - w) ** 2 / w for o, w in zip(observed, wanted, strict=True) if w > 5)
    assert total == 800
    assert chi_square < 25  # 6 degrees of freedom: p = 0.0003


def test_temperature__zero_is_greedy_and_says_so(lab: Lab) -> None:
    reply = lab.reply(temperature=0, output_logits=True)
    assert reply.ids == [int(logits.argmax()) for logits in reply.inside.logits]
    assert "greedy" in reply.explained["temperature"]["reason"]
    assert reply.effective["do_sample"] is False


@pytest.mark.parametrize("k", [1, 5, 50])
def test_top_k(lab: Lab, k: int) -> None:
    for probabilities, left, _ in steps(sampled(lab, top_k=k)):
        assert int(left.sum()) == k
        assert float(probabilities[left].min()) >= float(probabilities[~left].max())


@pytest.mark.parametrize("p", [0.2, 0.9])
def test_top_p(lab: Lab, p: float) -> None:
    for probabilities, left, _ in steps(sampled(lab, top_p=p)):
        order = likeliest_first(probabilities)
        kept = int(left.sum())
        assert set(left.nonzero().flatten().tolist()) == set(order[:kept])
        assert float(probabilities[order[:kept]].sum()) >= p - 1e-5
        assert float(probabilities[order[: kept - 1]].sum()) < p + 1e-5


@pytest.mark.parametrize("share", [0.05, 0.5])
def test_min_p(lab: Lab, share: float) -> None:
    for probabilities, left, _ in steps(sampled(lab, min_p=share)):
        threshold = share * float(probabilities.max())
        assert float(probabilities[left].min()) >= threshold - 1e-7
        assert left.all() or float(probabilities[~left].max()) < threshold + 1e-7


@pytest.mark.parametrize("share", [0.2, 0.7])
def test_top_h(lab: Lab, share: float) -> None:
    for probabilities, left, _ in steps(sampled(lab, top_h=share)):
        first = probabilities[likeliest_first(probabilities)[:100]]
        considered = first / first.sum()
        spent = (-considered * considered.log()).cumsum(0)
        kept = int(left.sum())
        whole = float(spent[-1])
        if whole < 1e-3:  # the model is certain: rounding decides
            continue
        assert kept == 1 or float(spent[kept - 1]) <= share * whole * 1.001
        assert float(spent[kept]) >= share * whole * 0.999


@pytest.mark.parametrize("mass", [0.2, 0.8])
def test_typical_p(lab: Lab, mass: float) -> None:
    for probabilities, left, _ in steps(sampled(lab, typical_p=mass)):
        surprise = -probabilities.log()
        entropy = float((probabilities * surprise).nansum())
        order = (surprise - entropy).abs().argsort().tolist()
        kept = int(left.sum())
        assert set(left.nonzero().flatten().tolist()) == set(order[:kept])
        assert float(probabilities[order[:kept]].sum()) >= mass - 1e-5
        assert float(probabilities[order[: kept - 1]].sum()) < mass + 1e-5


@pytest.mark.parametrize("epsilon", [0.001, 0.02])
def test_epsilon_cutoff(lab: Lab, epsilon: float) -> None:
    for probabilities, left, _ in steps(sampled(lab, epsilon_cutoff=epsilon)):
        assert float(probabilities[left].min()) >= epsilon or int(left.sum()) == 1
        assert float(probabilities[~left].max()) < epsilon


@pytest.mark.parametrize("epsilon", [0.001, 0.02])
def test_eta_cutoff(lab: Lab, epsilon: float) -> None:
    for probabilities, left, _ in steps(sampled(lab, eta_cutoff=epsilon)):
        entropy = float(-(probabilities * probabilities.log()).nansum())
        eta = min(epsilon, epsilon**0.5 * float(torch.exp(torch.tensor(-entropy))))
        assert float(probabilities[left].min()) >= eta - 1e-7 or int(left.sum()) == 1
        assert left.all() or float(probabilities[~left].max()) < eta + 1e-7
