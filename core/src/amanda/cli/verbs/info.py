"""`amanda info`: a summary of a model file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from amanda.cli.group import verb
from amanda.cli.inputs.model import find_scopes, load_option, open_model
from amanda.cli.output.answer import Answer, Table

if TYPE_CHECKING:
    from amanda.graph import Graph, InputPort, Op, OutputPort

__all__ = ["command"]

_MANY = 20  # rows of a table without --full


@verb("info", "a summary of a model file")
@click.argument("file", type=click.Path())
@click.option("--format", "form", help="The format of the file; default: detected.")
@load_option
@click.option("--full", is_flag=True, help="All op types, not only the most frequent.")
def command(file: str, *, form: str | None, full: bool) -> Answer:
    """Summarize FILE: inputs, outputs, ops by type, weights, nesting.

    Examples:
        amanda info digits.onnx
    """
    graph, form = open_model(file, form)
    counts = count_contents(graph)
    data = {"file": file, "format": form, **_data(graph, counts, form)}
    return Answer(data, _info_lines(file, form, graph, counts, full=full))


@dataclass
class GraphCounts:
    """Counts of ops, graphs and weights at any depth."""

    ops: Counter[str] = field(default_factory=Counter)
    graphs: int = 0
    depth: int = 0
    weights: int = 0
    weight_bytes: int = 0


def count_contents(root: Graph) -> GraphCounts:
    """Count the contents of a graph at any depth.

    Weights are constants and the tensors of variables and parameters; shared ones
    count once in bytes.
    """
    from amanda.graph import VALUE_NOTE
    from amanda.tensors import Tensor

    counts = GraphCounts()
    seen: set[int] = set()
    waiting = [(root, 0)]
    while waiting:
        graph, depth = waiting.pop()
        counts.graphs += 1
        counts.depth = max(counts.depth, depth)
        waiting += [(function, depth) for function in graph.functions.values()]
        for op in graph:
            counts.ops[op.type or "(no type)"] += 1
            waiting += [(inner, depth + 1) for inner in _inner_graphs(op)]
            tensor = op.attrs.get("value" if op.is_constant else VALUE_NOTE)
            if isinstance(tensor, Tensor):
                counts.weights += 1
                new = id(tensor) not in seen
                counts.weight_bytes += tensor.nbytes if new else 0
                seen.add(id(tensor))
    return counts


def _inner_graphs(op: Op) -> Iterator[Graph]:
    """The nested graph that an op is, and its bodies."""
    from amanda.graph import Graph

    if isinstance(op, Graph):
        yield op
    yield from op.bodies.values()


def _data(graph: Graph, counts: GraphCounts, form: str) -> dict[str, object]:
    from amanda.graph import state_ports

    return {
        "namespace": graph.namespace,
        "name": graph.name,
        "imports": dict(graph.imports),
        "inputs": _ports(graph.parameters),
        "outputs": _ports(graph.result_ports),
        "entries": {
            name: {
                "inputs": _named_ports(entry.inputs),
                "outputs": _named_ports(entry.outputs),
            }
            for name, entry in graph.entries.items()
        },
        "functions": list(graph.functions),
        "graphs": counts.graphs,
        "depth": counts.depth,
        "ops": {
            "total": counts.ops.total(),
            "by_type": dict(_by_frequency(counts.ops)),
        },
        "weights": {"count": counts.weights, "bytes": counts.weight_bytes},
        "modules": _count_modules(graph, form),
        "variables": [str(port) for port in state_ports(graph)],
    }


def _count_modules(graph: Graph, form: str) -> int:
    """The number of modules of a framework that its ops were written in."""
    table = find_scopes(graph, form)
    scopes = () if table is None else filter(None, map(table.scope_of, graph.walk()))
    return len({path for scope in scopes for path in scope.modules})


def _ports(ports: Iterable[OutputPort | InputPort]) -> list[dict[str, object]]:
    return [{"name": port.name, "type": _type(port)} for port in ports]


def _named_ports(ports: Mapping[str, OutputPort]) -> list[dict[str, object]]:
    return [{"name": name, "type": _type(port)} for name, port in ports.items()]


def _type(port: OutputPort | InputPort) -> str | None:
    return None if port.type is None else str(port.type)


def _by_frequency(ops: Counter[str]) -> list[tuple[str, int]]:
    """Op types by frequency, then by name."""
    return sorted(ops.items(), key=lambda item: (-item[1], item[0]))


def _info_lines(
    file: str, form: str, graph: Graph, counts: GraphCounts, *, full: bool
) -> Iterator[str | Table]:
    data: dict[str, Any] = _data(graph, counts, form)
    imports = ", ".join(f"{name} {version}" for name, version in graph.imports.items())
    facts = {
        "file": f"{file} ({form})",
        "name": graph.name,
        "namespace": graph.namespace,
        "imports": imports,
        "ops": _ops_text(counts),
        "weights": f"{counts.weights}, {_bytes_text(counts.weight_bytes)}",
        "modules": data["modules"],
        "functions": ", ".join(graph.functions),
    }
    yield from (f"{name:10} {fact}" for name, fact in facts.items() if fact)
    yield from data["variables"]
    yield from _port_tables("", data)
    for name, entry in graph.entries.items():
        part = {
            "inputs": _named_ports(entry.inputs),
            "outputs": _named_ports(entry.outputs),
        }
        yield from _port_tables(f" of entry {name!r}", part)
    ranked = _by_frequency(counts.ops)
    shown = ranked if full else ranked[:_MANY]
    if shown:
        yield ""
        yield Table(("op", "count"), shown)
    if len(shown) < len(ranked):
        yield f"... and {len(ranked) - len(shown)} more types; --full shows them"


def _ops_text(counts: GraphCounts) -> str:
    total = counts.ops.total()
    if counts.graphs == 1:
        return str(total)
    return f"{total} in {counts.graphs} graphs, nested {counts.depth} deep"


def _port_tables(of: str, data: Mapping[str, Any]) -> Iterator[str | Table]:
    for side in ("inputs", "outputs"):
        ports = data[side]
        rows = [
            (port["name"] or f"#{i}", port["type"] or "?")
            for i, port in enumerate(ports)
        ]
        if rows:
            yield ""
            yield Table((f"{side}{of}", "type"), rows)


def _bytes_text(count: int) -> str:
    """
    >>> _bytes_text(0), _bytes_text(1536), _bytes_text(4_000_000_000)
    ('0 bytes', '1.5 KB', '4.0 GB')
    """
    if count < 1000:
        return f"{count} bytes"
    for power, unit in ((4, "TB"), (3, "GB"), (2, "MB")):
        if count >= 1000**power:
            return f"{count / 1000**power:.1f} {unit}"
    return f"{count / 1000:.1f} KB"
