"""What dictionaries cost: one op beside all of them, validating beside copying.

    python benchmarks/dictionary.py [ROUNDS]

Each figure is the best of some rounds in this process. Exits with 1 where a limit is
missed: finding one op takes at most 5% of loading its whole version, and validating a
graph of a few thousand ops at most as long as `graph.clone()`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from amanda.dictionary import Shelf
from amanda.graph import Graph, OutputPort
from amanda.types import DType, TensorType, Type

LOOKUP, VALIDATE = 0.05, 1.0
ROUNDS, LAYERS = 15, 100
PACKAGE = Path(__file__).parent.parent / "namespaces" / "src" / "amanda_namespaces"
SPACES = (
    ("amanda/tensorflow", "1.13.1", "MatMul"),
    ("amanda/tensorflow", "2.21.0", "MatMul"),
    ("amanda/onnx", "18", "Conv"),
)


def best(rounds: int, *works: Callable[[], object]) -> list[float]:
    """Milliseconds of the fastest round of each, taken in turn.

    So whatever else the machine does falls on all alike.
    """
    times: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for i, work in enumerate(works):
            begin = time.perf_counter()
            work()
            times[i].append(time.perf_counter() - begin)
    return [min(each) * 1e3 for each in times]


def transformer(layers: int, recorded: bool) -> Graph:
    """Layers of attention as ONNX exporters write them, or as TensorFlow's do."""
    space = "amanda/tensorflow/1.13.1" if recorded else "amanda/onnx/18"
    graph = Graph(space)
    if not recorded:
        graph.imports[""] = 18
    type = TensorType("float32", [1, 128, 768])
    hidden: OutputPort = graph.parameter(type, "x")
    weight = graph.parameter(TensorType("float32", [768, 768]), "w")
    shape = graph.parameter(TensorType("int64", [4]), "shape")
    axes = graph.parameter(TensorType("int32", [4]), "axes")
    add = _tensorflow if recorded else _onnx
    for layer in range(layers):
        hidden = add(graph, f"layer{layer}", type, (hidden, weight, shape, axes))
    graph.result(hidden, "y")
    return graph


Inputs = tuple[OutputPort, OutputPort, OutputPort, OutputPort]


def _onnx(graph: Graph, name: str, type: Type, given: Inputs) -> OutputPort:
    hidden, weight, shape, _ = given

    def op(kind: str, *inputs: OutputPort, **attrs: object) -> OutputPort:
        label = graph.fresh_name(f"{name}/{kind}")
        made = graph.add(kind, inputs, attrs, name=label).output
        made.type, made.name = type, f"{label}_output_0"
        return made

    parts = []
    for _ in range(3):
        part = op("Add", op("MatMul", hidden, weight), weight)
        part = op("Reshape", part, shape, allowzero=0)
        parts.append(op("Transpose", part, perm=[0, 2, 1, 3]))
    scores = op("Softmax", op("Div", op("MatMul", *parts[:2]), weight), axis=-1)
    mixed = op("Transpose", op("MatMul", scores, parts[2]), perm=[0, 2, 1, 3])
    mixed = op("Add", op("MatMul", op("Reshape", mixed, shape), weight), hidden)
    normal = op("LayerNormalization", mixed, weight, weight, axis=-1, epsilon=1e-12)
    inner = op("Gemm", normal, weight, weight, alpha=1.0, beta=1.0, transB=1)
    return op("Add", op("Erf", op("Relu", inner)), normal)


def _tensorflow(graph: Graph, name: str, type: Type, given: Inputs) -> OutputPort:
    hidden, weight, _, axes = given
    real, integer = DType("float32"), DType("int32")

    def op(kind: str, *inputs: OutputPort, **attrs: object) -> OutputPort:
        label = graph.fresh_name(f"{name}/{kind}")
        made = graph.add(kind, inputs, {"T": real, **attrs}, name=label).output
        made.type = type
        return made

    parts = []
    for _ in range(3):
        part = op("MatMul", hidden, weight, transpose_a=False, transpose_b=False)
        part = op("BiasAdd", part, weight, data_format="NHWC")
        part = op("Reshape", part, axes, Tshape=integer)
        parts.append(op("Transpose", part, axes, Tperm=integer))
    scores = op("BatchMatMul", *parts[:2], adj_x=False, adj_y=True)
    scores = op("Softmax", op("Mul", scores, weight))
    mixed = op("Transpose", op("BatchMatMul", scores, parts[2]), axes, Tperm=integer)
    mixed = op("ConcatV2", mixed, hidden, axes, N=2, Tidx=integer)
    mean = op("Mean", mixed, axes, keep_dims=True, Tidx=integer)
    mixed = op("Sub", mixed, mean, _output_shapes=[])
    return op("Add", op("Tanh", op("Rsqrt", mixed)), hidden)


def lookups(rounds: int) -> list[str]:
    """Prints the table of what finding one op costs; the limits that were missed."""
    missed = []
    print(f"{'dictionary':28} {'one op':>9} {'all of them':>12} {'ratio':>7}")
    for path, version, op_type in SPACES:

        def one(path: str = path, version: str = version, op: str = op_type) -> object:
            return Shelf(PACKAGE)[path].at(version)[op]

        def every(path: str = path, version: str = version) -> object:
            return list(Shelf(PACKAGE)[path].at(version).values())

        single, whole = best(rounds, one, every)
        ratio = single / whole
        name = f"{path}/{version}"
        print(f"{name:28} {single:6.2f} ms {whole:9.1f} ms {ratio:7.3f}")
        if ratio > LOOKUP:
            missed.append(f"{name}: one op costs {ratio:.3f} of all, at most {LOOKUP}")
    return missed


def validation(rounds: int) -> list[str]:
    """Prints the table of what validating costs; the limits that were missed."""
    missed = []
    print(f"\n{'graph':28} {'ops':>6} {'validate':>11} {'clone':>10} {'ratio':>6}")
    for recorded in (False, True):
        graph = transformer(LAYERS, recorded)
        path, version = SPACES[0 if recorded else 2][:2]
        dictionary = Shelf(PACKAGE)[path].at(version)
        problems = dictionary.validate(graph)
        assert not problems, problems[:3]

        def validate(d: object = dictionary, graph: Graph = graph) -> object:
            return d.validate(graph)  # type: ignore[attr-defined]

        mine, copy = best(2 * rounds, validate, graph.clone)
        name, ratio = f"attention in {path}", mine / copy
        print(f"{name:28} {len(graph):6} {mine:8.2f} ms {copy:7.2f} ms {ratio:6.2f}")
        if ratio > VALIDATE:
            missed.append(f"{name}: validating costs {ratio:.2f} of a copy")
    return missed


def main(rounds: int = ROUNDS) -> int:
    missed = [*lookups(rounds), *validation(rounds)]
    print("\n" + ("\n".join(missed) or "all limits met"))
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])))
