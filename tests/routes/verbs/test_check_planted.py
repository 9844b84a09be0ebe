"""`amanda check` names every op planted in a model, also in bodies, at once."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
from routes.verbs.planted_graphs import plant, random_graph
from routes.verbs.verb_goldens import call, host_in_calls

import amanda
from amanda.graph import Graph

MODELS = 100
ERF = {"onnx": "Erf", "std": "erf", "tensorflow": "Erf", "torch": "aten.erf.default"}
"""An op by framework, which all mappings have; `Picky` has no kernel of it."""
GOALS = {
    "onnx": ("numpy", "jax", "onnxruntime", "tensorflow", "torch"),
    "std": ("numpy", "jax", "onnx", "tensorflow", "torch"),
    "tensorflow": ("numpy", "jax", "onnx", "torch"),
    "torch": ("numpy", "jax", "onnx", "tensorflow"),
}
BACKENDS = ("numpy", "jax", "onnxruntime", "picky")


class Picky:
    """A backend of the hub without `erf`, and without ops that the hub has not."""

    name = "picky"
    namespace = "amanda/std/1"

    def devices(self) -> list[str]:
        return ["here"]

    def takes(self, op: Any) -> Any:
        return op.type not in ("erf", "Planted") or f"there is no kernel for {op.type}"

    def compile(self, graph: Graph, device: str | None, options: Any) -> Any:
        raise AssertionError("nobody runs anything")


def planted_model(seed: int, source: str) -> tuple[Graph, set[str]]:
    """A random model of a framework, and the names of unsupported ops in it."""
    random = Random(seed)
    graph = random_graph(random)
    if source != "onnx":
        graph = amanda.convert(graph, source)
    kinds: list[tuple[str, dict[str, object]]] = [("Planted", {"k": seed})]
    kinds.append((ERF[source], {}))
    names = plant(graph, random.choices(kinds, k=random.randint(1, 6)), random)
    return graph, set(names)


def names_in(answer: Any) -> set[str]:
    """The names of planted ops in gaps and refusals."""
    texts = [gap["where"] for gap in answer["gaps"]]
    texts += [each["label"] for each in answer["refusals"]]
    return {name for text in texts for name in re.findall(r"\bplanted_\d+", text)}


@pytest.mark.parametrize("seed", range(MODELS))
def test_every_planted_op_is_named(seed: int, tmp_path: Path) -> None:
    source = list(GOALS)[seed % len(GOALS)]
    graph, names = planted_model(seed, source)
    file = tmp_path / "model.ampb"
    amanda.save(graph, file)
    unknown = {op.name for op in graph.walk() if op.type == "Planted"}
    for goal in ("picky", GOALS[source][seed // len(GOALS) % len(GOALS[source])]):
        option = "--for" if goal in BACKENDS else "--to"
        with host_in_calls() as host:
            host.register_backend("picky", Picky())
            ended = call(f"amanda check {file} {option} {goal} --json")
        wanted = names if goal == "picky" else unknown
        assert ended.code == bool(wanted), (source, goal, ended)
        assert names_in(json.loads(ended.out)) == wanted, (source, goal)
