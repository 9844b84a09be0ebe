"""Build a small model, print it, save it in every format, load it back and compare.

python examples/round_trip.py [FOLDER]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import amanda

SUFFIXES = (".yaml", ".json", ".amtxt", ".ampb", ".amanda")


def build_model() -> amanda.Graph:
    """Build two layers and a data-dependent branch: graphs as bodies of an op."""
    graph = amanda.Graph("amanda/onnx/18", name="small")
    x = graph.parameter(amanda.parse_type("float32[batch, 4]"), name="x")
    first = dense(graph, x, 4, 8, "first")
    second = dense(graph, first, 8, 2, "second")
    positive = graph.add("IsPositive", [second], name="positive")
    bodies = {"then": branch(second, "Relu"), "else": branch(second, "Neg")}
    chosen = graph.add("If", [positive.output], name="chosen", bodies=bodies)
    graph.result(chosen.output, name="y")
    return graph


def dense(
    graph: amanda.Graph, x: amanda.OutputPort, rows: int, columns: int, name: str
) -> amanda.OutputPort:
    tensor = amanda.Tensor.splat(amanda.types.float32, (rows, columns), 0.5)
    weight = graph.constant(tensor, name=f"{name}_weight")
    return graph.add("MatMul", [x, weight.output], name=name).output


def branch(value: amanda.OutputPort, kind: str) -> amanda.Graph:
    """Build a body with a capture of the enclosing graph."""
    body = amanda.Graph(outer=value.graph)
    body.result(body.add(kind, [value]).output)
    return body


def round_trip(graph: amanda.Graph, folder: Path) -> None:
    for suffix in SUFFIXES:
        file = folder / f"small{suffix}"
        amanda.save(graph, file)
        loaded = amanda.load(file)
        difference = graph.difference(loaded)
        size = file.stat().st_size
        print(f"{file.name:13} {size:5} bytes  {difference or 'identical'}")
        if difference:
            raise SystemExit(1)


def main(folder: str | None = None) -> None:
    import amanda.files.text.readable as readable

    graph = build_model()
    print(readable.dumps(graph))
    if folder:
        round_trip(graph, Path(folder))
    else:
        with tempfile.TemporaryDirectory() as temporary:
            round_trip(graph, Path(temporary))


if __name__ == "__main__":
    main(*sys.argv[1:])
