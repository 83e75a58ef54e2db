"""Where a reply's tokens went in a mixture of experts, as JSON for the page and as tables for elsewhere."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import asdict

from app.conversation import Json
from app.engine.desk import Desk
from app.insight.balance import BIASED, EXPLAINED, LayerLoad, counts, loads, overall
from app.insight.routing import Routing

COLUMNS = (
    "position",
    "token id",
    "token",
    "layer from 0",
    "choice",
    "expert",
    "weight",
    "router score",
    "place by score",
)


def routing_view(routing: Routing) -> Json:
    """The map (how many tokens each expert of each layer got), the figures of each layer, and what they say in words."""
    figures = loads(routing)
    return {
        "experts": routing.experts,
        "per_token": routing.per_token,
        "layers": list(routing.layers),
        "tokens": routing.tokens,
        "kept": len(routing.choice),
        "counts": counts(routing).tolist(),
        "figures": [{name: _rounded(value) for name, value in asdict(load).items()} for load in figures],
        "sentences": list(_sentences(routing, figures)),
    }


def _rounded(value: Json) -> Json:
    return round(value, 4) if isinstance(value, float) else value


def _sentences(routing: Routing, figures: tuple[LayerLoad, ...]) -> Iterator[str]:
    """What there is to see, in the order in which it matters."""
    means = overall(figures, routing)
    layers = f"{len(figures)} layers with experts" if len(figures) > 1 else "one layer with experts"
    yield (
        f"Each token goes to {routing.per_token} of {routing.experts} experts in each of {layers}. Over all layers the balance is "
        f"{means['entropy']:.2f} on average, the variation {means['variation']:.2f}."
    )
    yield EXPLAINED
    places = len(routing.choice) * routing.per_token
    if places < routing.experts:
        yield f"This reply has {places} places to give for {routing.experts} experts, so the balance can’t reach 1."
    if means["overruled"]:
        yield BIASED.format(share=f"{means['overruled']:.1%}")
    if not routing.complete:
        yield (
            f"Memory for this is bounded: it is shown for the first {len(routing.choice):,} of {routing.tokens:,} tokens."
        )


def token_view(routing: Routing, position: int) -> Json:
    """One token's way: for each layer its experts with weight, score and place by the router's own scores."""
    return [
        {"layer": layer, "experts": list(_chosen(routing, position, index))}
        for index, layer in enumerate(routing.layers)
    ]


def _chosen(routing: Routing, position: int, index: int) -> Iterator[dict[str, Json]]:
    places = zip(
        *(array[position, index].tolist() for array in (routing.choice, routing.weight, routing.place)), strict=True
    )
    for expert, weight, place in places:
        if expert >= 0:
            score = None if routing.scores is None else round(float(routing.scores[position, index, expert]), 4)
            yield {
                "expert": expert,
                "weight": round(weight, 5),
                "score": score,
                "place": None if place < 0 else place,
                "overruled": place >= routing.per_token,
            }


def rows(routing: Routing, ids: tuple[int, ...], desk: Desk) -> Iterator[str]:
    """The whole routing as lines of CSV, one for each token, layer and chosen expert."""
    texts = {piece.id: piece.text for piece in desk.pieces(sorted(set(ids)))}
    yield _line(*COLUMNS)
    for position, token in enumerate(ids[: len(routing.choice)]):
        yield "".join(
            _line(position, token, texts[token], step["layer"], place, *_values(chosen))
            for step in token_view(routing, position)
            for place, chosen in enumerate(step["experts"])
        )


def _values(chosen: Json) -> tuple[Json, ...]:
    found = (chosen["expert"], chosen["weight"], chosen["score"], chosen["place"])
    return tuple("" if value is None else value for value in found)


def _line(*cells: Json) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()


def document(routing: Routing, ids: tuple[int, ...], desk: Desk, **about: Json) -> Iterator[str]:
    """The same as one JSON document, written token by token."""
    texts = {piece.id: piece.text for piece in desk.pieces(sorted(set(ids)))}
    head = {**about, **routing_view(routing)}
    yield json.dumps(head, ensure_ascii=False)[:-1] + ', "routing": [\n'
    for position, token in enumerate(ids[: len(routing.choice)]):
        one = {
            "position": position,
            "id": token,
            "token": texts[token],
            "layers": token_view(routing, position),
            "scores": None
            if routing.scores is None
            else [[round(float(s), 4) for s in layer] for layer in routing.scores[position]],
        }
        yield (",\n" if position else "") + json.dumps(one, ensure_ascii=False)
    yield "\n]}\n"
