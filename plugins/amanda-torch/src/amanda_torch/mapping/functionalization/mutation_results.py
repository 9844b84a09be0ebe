"""Results of core IR programs that buffers, parameters and inputs take on."""

from __future__ import annotations

from typing import Any, Final

from amanda.graph import Graph, Op
from amanda_torch.records import INPUT_RECORDS

__all__ = ["assign_mutated"]

_ASSIGNED: Final = {
    "buffer_mutation": "buffer_name",
    "parameter_mutation": "parameter_name",
}
_OF_INPUT: Final = "user_input_mutation"


def assign_mutated(graph: Graph) -> set[Op]:
    """Assign results to the buffers and parameters that take them on.

    Returns the ops that are kept. Values that inputs take on follow the other results.
    """
    weights = {op.attrs["target"]: op for op in graph if op.type == "get_attr"}
    kept: set[Op] = set()
    moved: list[tuple[Any, str | None]] = []
    for i in reversed(range(len(graph.outputs))):
        port, source = graph.outputs[i], graph.result_ports[i].source
        recorded = INPUT_RECORDS.of(port).get("spec") or {"": {}}
        [(role, spec)] = recorded.items()
        if role == _OF_INPUT:
            moved.append((source, port.name))
        elif role not in _ASSIGNED or source is None:
            continue
        else:
            weight = weights[spec[_ASSIGNED[role]]]
            update = graph.add("aten.copy_.default", [weight.output, source])
            update.output.type = weight.output.type
            kept |= {update, weight}
        graph.remove_result(i)
    for source, name in reversed(moved):
        graph.result(source, name)
    return kept
