"""Run one measurement of graph_scale.py on onnx_ir's graph. Prints JSON."""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import onnx_ir as ir

WIDE, LEVELS = 64, 100


def peak_memory() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return float(line.split()[1]) * 1024
    return 0.0


def build_chain(n: int) -> ir.Graph:
    first = ir.Value(name="x")
    value, nodes = first, []
    for i in range(n):
        node = ir.Node("", "Add", [value, first], name=f"n{i}")
        nodes.append(node)
        value = node.outputs[0]
    return ir.Graph([first], [value], nodes=nodes, name="g")


def build_wide(n: int) -> ir.Graph:
    first = ir.Value(name="x")
    recent, nodes = [first] * WIDE, []
    for i in range(n):
        node = ir.Node("", "Add", [recent[i * 7919 % WIDE], first], name=f"n{i}")
        nodes.append(node)
        recent[i % WIDE] = node.outputs[0]
    return ir.Graph([first], [recent[0]], nodes=nodes, name="g")


def build_nested(n: int) -> ir.Graph:
    first = ir.Value(name="x")
    value, levels = first, []
    for level in range(LEVELS):
        nodes = []
        for i in range(n // LEVELS - 1):
            node = ir.Node("", "Add", [value, first], name=f"n{level}_{i}")
            nodes.append(node)
            value = node.outputs[0]
        levels.append(nodes)
    graph = ir.Graph([], [value], nodes=levels[-1], name="b")
    for level in reversed(range(LEVELS - 1)):
        branch = ir.AttrGraph("then_branch", graph)
        node = ir.Node("", "If", [first], [branch], name=f"if{level}")
        inputs = [first] if level == 0 else []
        graph = ir.Graph(inputs, [], nodes=[*levels[level], node], name="b")
    return graph


SHAPES = {"chain": build_chain, "wide": build_wide, "nested": build_nested}


def count_ops(graph: ir.Graph) -> int:
    return sum(node.op_type == "Add" for node in graph.all_nodes())


def visit_neighbours(graph: ir.Graph) -> int:
    count = 0
    for node in graph.all_nodes():
        for value in node.inputs:
            count += value is not None and value.producer() is not node
        for port in node.outputs:
            count += len(port.uses())
    return count


def remove_half(graph: ir.Graph) -> int:
    for each in [graph, *graph.subgraphs()]:
        keep = False
        outputs = set(each.outputs)
        for node in each:
            keep = not keep
            port = node.outputs[0]
            if not keep and node.op_type == "Add" and port not in outputs:
                first = node.inputs[0]
                assert first is not None
                ir.convenience.replace_all_uses_with(port, first)
                each.remove(node, safe=True)
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
    assert isinstance(graph, ir.Graph)
    memory = (peak_memory() - before) / n
    measure("iterate", lambda: count_ops(graph))
    measure("neighbours", lambda: visit_neighbours(graph))
    measure("copy", graph.clone)
    measure("remove half", lambda: remove_half(graph))
    print(json.dumps({"memory": memory, "times": times}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
