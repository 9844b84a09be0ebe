"""Run one measurement of graph_scale.py on Amanda's graph. Prints JSON."""

from __future__ import annotations

import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from amanda.files.binary import archive, codec
from amanda.graph import Graph, OutputPort

WIDE, LEVELS = 64, 100


def peak_memory() -> float:
    """Return the peak resident memory in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return float(line.split()[1]) * 1024
    return 0.0


def build_chain(n: int) -> Graph:
    graph = Graph("amanda/std/1")
    first = graph.parameter()
    value = graph.add("Add", [first, first], name="n").outputs[0]
    for i in range(1, n):
        value = graph.add("Add", [value, first], name=f"n{i}").outputs[0]
    graph.result(value)
    return graph


def build_wide(n: int) -> Graph:
    graph = Graph("amanda/std/1")
    first = graph.parameter()
    recent = [graph.add("Add", [first, first], name="n").outputs[0]] * WIDE
    for i in range(1, n):
        source = recent[i * 7919 % WIDE]
        value = graph.add("Add", [source, first], name=f"n{i}").outputs[0]
        recent[i % WIDE] = value
    graph.result(recent[0])
    return graph


def build_nested(n: int) -> Graph:
    """Build LEVELS nested bodies, each with a capture of the enclosing graph."""
    root = inner = Graph("amanda/std/1")
    first = root.parameter()
    value: OutputPort = first
    for level in range(LEVELS):
        for i in range(n // LEVELS - 1):
            value = inner.add("Add", [value, first], name=f"n{level}_{i}").outputs[0]
        if level < LEVELS - 1:
            body = Graph(outer=inner)
            inner.add("If", [first], name=f"if{level}", bodies={"then": body})
            inner = body
    inner.result(value)
    return root


SHAPES = {"chain": build_chain, "wide": build_wide, "nested": build_nested}


def count_ops(graph: Graph) -> int:
    return sum(op.type == "Add" for op in graph.walk())


def visit_neighbours(graph: Graph) -> int:
    count = 0
    for op in graph.walk():
        for value in op.inputs:
            count += value is not None and value.op is not None
        for port in op.outputs:
            count += len(port.users)
    return count


def remove_half(graph: Graph) -> int:
    """Replace every second op by its first input."""
    for each in list(graph.graphs()):
        keep = False
        for op in each:
            keep = not keep
            if not keep and not op.bodies:
                each.replace(op, [op.inputs[0]])
    return len(graph)


def main(shape: str, n: int) -> None:
    times: dict[str, float] = {}

    def measure(stage: str, work: Callable[[], object]) -> object:
        begin = time.process_time()
        result = work()
        times[stage] = (time.process_time() - begin) / n * 1e6
        return result

    gc.collect()
    gc.disable()  # of both libraries, in all stages: it is not what is compared
    before = peak_memory()
    graph = measure("build", lambda: SHAPES[shape](n))
    assert isinstance(graph, Graph)
    memory = (peak_memory() - before) / n
    measure("iterate", lambda: count_ops(graph))
    measure("neighbours", lambda: visit_neighbours(graph))
    measure("hash", graph.digest)
    measure("copy", graph.clone)
    with tempfile.TemporaryDirectory() as folder:
        pb, zipped = Path(folder) / "g.ampb", Path(folder) / "g.amanda"
        with pb.open("wb") as file:
            measure("save pb", lambda: codec.dump(graph, file))
        measure("load pb", lambda: codec.load(pb))
        measure("save .amanda", lambda: archive.save(graph, zipped))
        measure("load .amanda", lambda: archive.load(zipped))
    measure("remove half", lambda: remove_half(graph))
    print(json.dumps({"memory": memory, "times": times}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
