"""What a notebook shows of a graph and of an op."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from amanda.html_tables import MAX_ROWS, MAX_TEXT, html_page, html_table
from amanda.tensors import Tensor

if TYPE_CHECKING:
    from amanda.graph._graph import Graph
    from amanda.graph._op import Op
    from amanda.graph._port import InputPort, OutputPort

__all__ = ["graph_html", "op_html"]


def graph_html(graph: Graph) -> str:
    """Inputs, results and the most frequent types of ops."""
    counts = Counter(op.type or "graph" for op in graph)
    facts = {
        "namespace": graph.namespace,
        "ops": f"{len(graph):,}",
        "functions": len(graph.functions) or None,
        "entries": ", ".join(graph.entries),
    }
    tables = [
        _port_table("input", graph.parameters),
        _port_table("result", graph.result_ports),
        html_table(("op", "count"), counts.most_common(MAX_ROWS), len(counts)),
    ]
    return html_page(graph.label, facts, tables)


def op_html(op: Op) -> str:
    """Inputs, outputs and attributes of an op."""
    made = op.provenance
    facts = {
        "type": op.type,
        "namespace": op.namespace,
        "made by": None if made is None else made.by,
        "made from": None if made is None else ", ".join(islice(made.sources, 8)),
        "bodies": ", ".join(op.bodies),
    }
    reads = [
        (port.name or port.index, _source_text(port), _type_text(port))
        for port in islice(op.input_ports, MAX_ROWS)
    ]
    attributes = islice(sorted(op.attrs.items()) if op.has_attrs else (), MAX_ROWS)
    rows = [(key, _value_text(value)) for key, value in attributes]
    tables = [
        html_table(("input", "from", "type"), reads, len(op.inputs)),
        _port_table("output", op.outputs),
        html_table(("attribute", "value"), rows, len(op.attrs) if rows else 0),
    ]
    return html_page(op.label, facts, tables)


def _port_table(what: str, ports: Sequence[OutputPort | InputPort]) -> str:
    rows = [(port.name or port.index, _type_text(port)) for port in ports[:MAX_ROWS]]
    return html_table((what, "type"), rows, len(ports))


def _type_text(port: OutputPort | InputPort) -> str:
    return "?" if port.type is None else str(port.type)


def _source_text(port: InputPort) -> str:
    return "none" if port.source is None else repr(port.source)


def _value_text(value: Any) -> str:
    """An attribute as text, without that of long lists."""
    if isinstance(value, Tensor):
        return f"tensor {value.type}"
    if isinstance(value, list | tuple | str | bytes) and len(value) > MAX_TEXT:
        return f"{_value_text(value[:MAX_TEXT])[:MAX_TEXT]}… ({len(value)} in all)"
    return repr(value) if isinstance(value, str | bytes) else str(value)
