"""What a graph takes and returns: placeholders as parameters, and chosen results.

A parameter that was a placeholder keeps its node in a file record, so that the file is
written as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from amanda.errors import FormatError, UsageError
from amanda.formatkit import FileRecords, dict_of, is_message, of_class
from amanda.graph import Entry, Graph, Op, OutputPort
from amanda.types import DType, Shape, TensorType
from amanda_tf.messages import GRAPH_RECORDS, NODE_RECORDS, SAVED_RECORDS
from amanda_tf.nodes.references import Spelling, parse_reference
from amanda_tf.notes import CONTROL_OUTPUT

__all__ = [
    "PLACEHOLDER_RECORDS",
    "add_results",
    "cut_graph",
    "drop_colocations",
    "expose_entry",
    "expose_placeholders",
    "forget_files",
    "parameter_node",
    "placeholder_type",
    "is_left_by_lowering",
    "reference_to",
    "remove_placeholders",
    "value_of",
]

_COLOCATION: Final = "_class"
_KINDS: Final = ("Placeholder", "PlaceholderV2")
_NO_RESULTS: Final = ("NoOp", "Assert", "ControlTrigger")
_TEXT: Final = of_class(str)

PLACEHOLDER_RECORDS: Final = FileRecords(
    "_tensorflow:placeholder",
    {
        "name": _TEXT, "op": _TEXT, "attributes": of_class(dict), "device": _TEXT,
        "attrs": dict_of(of_class(dict)), "rest": is_message,
    },
)  # fmt: skip
"""Of a parameter: the node that it was, its name, attributes and other fields."""


def parameter_node(port: OutputPort) -> str:
    """The name of the node of a parameter of a root graph."""
    return PLACEHOLDER_RECORDS.of(port).get("name") or port.name or ""


def forget_files(graph: Graph) -> None:
    """Drop from a graph what its files had beside it: its names are free to change."""
    for key in (GRAPH_RECORDS.key, SAVED_RECORDS.key):
        graph.attrs.pop(key, None)
    for port in graph.parameters:
        if port.has_attrs:
            port.attrs.pop(PLACEHOLDER_RECORDS.key, None)


def placeholder_type(op: Op) -> TensorType | None:
    """The type that the attributes of a placeholder state."""
    dtype, shape = op.attrs.get("dtype"), op.attrs.get("shape")
    if not isinstance(dtype, DType):
        return None
    known = isinstance(shape, Shape) and shape.has_rank
    return TensorType(dtype, shape if known else None)


def add_results(graph: Graph) -> None:
    """Add results to a graph without any: all outputs that no op uses."""
    has_effects = any(op.has_attrs and CONTROL_OUTPUT in op.attrs for op in graph)
    if graph.results or graph.entries or has_effects:
        return
    for op in graph:
        is_other = op.type in _NO_RESULTS or _is_pivot(op) or is_left_by_lowering(op)
        if not is_other and not any(p.users for p in op.outputs):
            for port in op.outputs:
                graph.result(port, reference_to(port))


def _is_pivot(op: Op) -> bool:
    """Whether the ops of a branch wait for an op, whose value nothing uses."""
    source = op.inputs[0] if op.inputs else None
    is_branch = source is not None and source.op.type in ("Switch", "_SwitchN")
    return op.type == "Identity" and is_branch and bool(op.control_outputs)


def reference_to(port: OutputPort) -> str:
    """How users name a value: `y`, or `y:1` for the second output."""
    name = port.name if port.op.is_graph else port.op.name
    return f"{name}:{port.index}" if port.index and not port.op.is_graph else name or ""


def _can_be_parameter(op: Op) -> bool:
    return (
        op.type in _KINDS
        and op.own_namespace is None
        and not op.control_inputs
        and not is_left_by_lowering(op)
        and isinstance(op.attrs.get("dtype"), DType)
    )


def is_left_by_lowering(op: Op) -> bool:
    """Whether TensorFlow added a placeholder while it lowered loops, and left it."""
    name = op.name or ""
    return name.startswith("unused_control_flow_input") and not op.output.users


def expose_placeholders(graph: Graph, names: Mapping[Op, str] | None = None) -> None:
    """Replace placeholders by parameters: those named, else all, by their own names."""
    found = [op for op in graph if _can_be_parameter(op)]
    if names is not None:
        found = [op for op in names if op in set(found)]
    if not found:
        return
    order = GRAPH_RECORDS.of(graph).get("order") or [op.name or "" for op in graph]
    if order[: len(found)] != [op.name for op in found] or names is not None:
        GRAPH_RECORDS.add(graph, order=list(order))
    spelling = Spelling(lambda op: op.name or "")
    for op in found:
        for other in op.control_outputs:
            spelled = NODE_RECORDS.of(other).get("inputs") or spelling.inputs(other)
            NODE_RECORDS.add(other, inputs=spelled)
    for op in found:
        _expose(graph, op, (names or {}).get(op) or op.name or "")


def _expose(graph: Graph, op: Op, name: str) -> None:
    """Replace a placeholder by a parameter; its node is recorded."""
    facts = dict(NODE_RECORDS.of(op))
    attributes = {k: v for k, v in op.attrs.items() if k != NODE_RECORDS.key}
    kind = "" if op.type == "Placeholder" else op.type
    node = op.name if op.name != name else ""
    port = graph.parameter(placeholder_type(op))
    graph.replace(op, [port], "interface")
    port.name = name
    if attributes.keys() != {"dtype", "shape"} or attributes["shape"] is None:
        facts["attributes"] = attributes  # not only those that the type states
    PLACEHOLDER_RECORDS.add(port, **facts, op=kind, name=node)


def expose_entry(graph: Graph, entry: Entry) -> bool:
    """Make the inputs and outputs of an entry those of the graph; all stays in it.

    False, and nothing is changed, where an input is no placeholder.
    """
    ports = {name: entry.inputs[name] for name in sorted(entry.inputs)}
    ops = {port.op: name for name, port in ports.items()}
    if len(ops) != len(ports) or not all(map(_can_be_parameter, ops)):
        return False
    names = [entry.outputs[name] for name in sorted(entry.outputs)]
    outputs = dict(zip(sorted(entry.outputs), names, strict=True))
    expose_placeholders(graph, ops)
    for name, value in outputs.items():
        graph.result(value if value.graph is not None else value.resolve(), name)
    return True


def cut_graph(
    graph: Graph,
    inputs: Mapping[str, OutputPort] | None,
    outputs: Mapping[str, OutputPort] | None,
) -> None:
    """Keep what the outputs need of a graph, with these inputs in place of values.

    Without `inputs`, all placeholders that are needed are; without `outputs`, all
    values that no op uses.
    """
    from amanda_tf.mapping.tables.table_content import note_table_contents
    from amanda_tf.mapping.unused_ops import remove_unused

    note_table_contents(graph)  # whose initializers no output needs
    for name in list(graph.entries):
        graph.remove_entry(name)
    while graph.results:
        graph.remove_result(len(graph.results) - 1)
    GRAPH_RECORDS.add(graph, order=None)
    results = dict(outputs or {})
    for name, value in results.items():
        graph.result(value, name)
    if outputs is None:
        add_results(graph)
    _replace_inputs(graph, inputs or {})
    remove_unused(graph)
    remove_placeholders(graph)
    if inputs is None:
        expose_placeholders(graph)
    for port in reversed(graph.parameters):
        if not port.is_used and port.name not in (inputs or ()):
            graph.remove_parameter(port.index)
    drop_colocations(graph)


def drop_colocations(graph: Graph) -> None:
    """Drop from attributes that ops be placed where ops are that the graph lacks."""
    for op in graph:
        places = op.attrs.get(_COLOCATION) if op.has_attrs else None
        if isinstance(places, list):
            names = [str(each).removeprefix("loc:@") for each in places]
            if not all(name in graph for name in names):
                del op.attrs[_COLOCATION]


def remove_placeholders(graph: Graph) -> None:
    """Remove placeholders that nothing uses."""
    for op in list(graph):
        is_used = any(port.users for port in op.outputs) or op.control_outputs
        if op.type in _KINDS and op.own_namespace is None and not is_used:
            graph.remove(op)


def _replace_inputs(graph: Graph, inputs: Mapping[str, OutputPort]) -> None:
    """Replace values by new parameters."""
    for name, value in inputs.items():
        if value.op is graph:
            continue
        is_placeholder = _can_be_parameter(value.op)
        type = placeholder_type(value.op) if is_placeholder else value.type
        port = graph.parameter(type)
        if is_placeholder:
            graph.replace(value.op, [port], "interface")
        else:
            graph.replace_uses(value, port)
        if name in graph:  # a node that a GraphDef of this graph would have twice
            graph.rename(graph[name], graph.fresh_name(f"{name}_replaced"))
        port.name = name


def value_of(graph: Graph, text: str) -> OutputPort:
    """The value that a tensor name of TensorFlow names: `x`, `x:0`, `x:1`."""
    try:
        name, output, index = parse_reference(text)
    except FormatError as error:
        raise UsageError(
            "this is no name of a tensor", expected="NODE or NODE:INDEX", got=repr(text)
        ) from error
    for port in graph.parameters:
        if name in (port.name, parameter_node(port)):
            return port
    op = _op_of(graph, name)
    if op is None or output or index >= len(op.outputs):
        raise _unknown_value(graph, name, text, op)
    return op.outputs[index]


def _op_of(graph: Graph, name: str) -> Op | None:
    if name not in graph:
        return None
    return graph[name]


def _unknown_value(graph: Graph, name: str, text: str, op: Op | None) -> UsageError:
    from difflib import get_close_matches

    if op is not None:
        return UsageError(
            f"the node {name!r} has no such output", got=text,
            expected=f"an index below {len(op.outputs)}",
        )  # fmt: skip
    names: Iterable[str] = [each.name or "" for each in graph]
    near: Sequence[str] = get_close_matches(name, list(names), n=1)
    return UsageError(
        f"there is no tensor {text!r} in the graph",
        hint=f"did you mean {near[0]!r}?" if near else "amanda show FILE lists its ops",
    )
