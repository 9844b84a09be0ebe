"""Saves models in processes that may be killed at any time.

    python save_until_killed.py KIND PATH

Each line of standard input starts a process that saves model after model to the path;
its id is printed. When it has ended, `ended` is printed. The models differ in name,
weights and size; all weights of one are equal to its number, which is in its name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np

import amanda
from amanda.tensors import Tensor

KINDS = ("external", "onnx", "amanda", "executable")
SUFFIX = {"external": ".onnx", "onnx": ".onnx", "amanda": ".amanda", "executable": ""}
LARGEST = 20_000
MODELS = 4


def model(number: int) -> amanda.Graph:
    graph = amanda.Graph("amanda/std/1", name=f"m{number}")
    size = LARGEST >> number
    x = graph.parameter(amanda.parse_type(f"float32[{size}]"), name=f"x{number}")
    for name in ("first", "second"):
        weight = np.full(size, number, "float32")
        held = graph.constant(Tensor.of(weight), name).output
        x = graph.add("add", [x, held]).output
    graph.result(x, name="y")
    return graph


def savers(kind: str, path: Path) -> list[Callable[[], None]]:
    """Functions that save one model each; slow preparations are done."""
    graphs = [model(number) for number in range(1, MODELS + 1)]
    if kind == "executable":
        return [_executable_saver(graph, path) for graph in graphs]
    options: dict[str, Any] = {"external": kind == "external"}
    if kind == "amanda":
        options = {}
    else:
        graphs = [amanda.convert(graph, "onnx@18") for graph in graphs]
    return [lambda g=graph: amanda.save(g, path, **options) for graph in graphs]  # type: ignore[misc]


def _executable_saver(graph: amanda.Graph, path: Path) -> Callable[[], None]:
    compiled = amanda.compile(graph, "jax")
    compiled([np.zeros(graph.parameters[0].type.shape.dims, "float32")])  # type: ignore[union-attr]
    from amanda_jax.export.exporter import ExportedGraph
    from amanda_jax.export.saved_program import save

    executable: Any = compiled.executable
    exported = executable.export()
    content = exported.program.serialize()  # threads of XLA do not survive a fork
    program = SimpleNamespace(serialize=lambda: content)
    weights = [np.asarray(weight) for weight in exported.weights]
    plain = ExportedGraph(program, weights)
    return lambda: save(path, plain, executable._names)


def save_forever(saves: list[Callable[[], None]]) -> None:
    order = Random(os.getpid())
    for _ in count():
        order.choice(saves)()


def main(kind: str, path: Path) -> None:
    saves = savers(kind, path)
    for save in saves:
        save()
    print("ready", flush=True)
    for _ in sys.stdin:
        started, told = os.pipe()
        child = os.fork()
        if not child:
            os.write(told, b"!")
            save_forever(saves)
        os.read(started, 1)
        os.close(started)
        os.close(told)
        print(child, flush=True)
        os.waitpid(child, 0)
        print("ended", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
