"""Ops as the nodes of a GraphDef or of a function."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from amanda.dictionary import Dictionary, cast_value
from amanda.errors import AmandaError, FormatError
from amanda.formatkit import MessageChunks
from amanda.graph import CONSTANT, CORE, Graph, Op, OutputPort
from amanda.tensors import Tensor
from amanda.types import DType, Shape, TensorType
from amanda_tf.attributes import attribute_chunks
from amanda_tf.derived_attributes import element_type
from amanda_tf.loading.interface import PLACEHOLDER_RECORDS, parameter_node
from amanda_tf.messages import NODE_RECORDS, SCHEMA
from amanda_tf.notes import STATE_NOTES
from amanda_tf.references import Spelling, parse_reference

__all__ = ["NodeWriter", "in_order", "node_names", "plain_node"]

NamedNode: TypeAlias = tuple[str, MessageChunks]
"""The name of a node, and the node."""


class NodeWriter:
    """Writes nodes; `problems` has all that TensorFlow cannot hold."""

    def __init__(self, dictionary: Dictionary) -> None:
        self.dictionary = dictionary
        self.problems: list[str] = []

    def nodes(self, graph: Graph, spelling: Spelling) -> Iterator[NamedNode]:
        """All ops of a graph."""
        for op in graph:
            with self.problem_of(op):
                yield spelling.name_of(op), self._node(op, spelling)

    def placeholders(self, graph: Graph) -> Iterator[NamedNode]:
        """The parameters of a root graph."""
        for port in graph.parameters:
            with self.problem_of(graph):
                dtype = element_type(port.type)
                if dtype is None or not port.name:
                    raise FormatError("an input without a name or an element type")
                yield parameter_node(port), _placeholder(port, dtype)

    def results(self, graph: Graph, spelling: Spelling) -> Iterator[NamedNode]:
        """Identity for each result of a root graph that is no op of its name."""
        for port, value in zip(graph.outputs, graph.results, strict=True):
            with self.problem_of(graph):
                text = spelling.value(value, graph)
                if not port.name or value is None or text == port.name:
                    continue
                dtype = element_type(value.type)
                if dtype is None:
                    raise FormatError(
                        "a result of an unknown element type", who=port.name
                    )
                yield port.name, plain_node(port.name, "Identity", [text], {"T": dtype})

    @contextmanager
    def problem_of(self, op: Op) -> Iterator[None]:
        """Report an error of the block as a problem of the op."""
        try:
            yield
        except AmandaError as error:
            got = "" if error.got is None else f" ({error.got})"
            self.problems.append(f"{op.label}: {error.message}{got}")

    def _node(self, op: Op, spelling: Spelling) -> MessageChunks:
        facts = NODE_RECORDS.of(op)
        is_constant = op.type == CONSTANT and op.own_namespace == CORE
        if isinstance(op, Graph):
            raise FormatError(
                "a GraphDef has no nested graphs as ops",
                got='amanda.improve(graph, "inline") inlines them',
            )
        if op.bodies or op.type is None:
            raise FormatError("a GraphDef has no bodies, and no ops without a type")
        if op.own_namespace not in (None, CORE) or (
            op.own_namespace == CORE and not is_constant
        ):
            raise FormatError("an op of another namespace", got=op.own_namespace)
        inputs = spelling.inputs(op)
        recorded = facts.get("inputs")
        if recorded and _same_inputs(recorded, inputs, op):
            inputs = recorded
        writer = SCHEMA.writer("NodeDef").put("name", spelling.name_of(op))
        writer.put("op", "Const" if is_constant else op.type).put_all("input", inputs)
        out = MessageChunks(writer.put_if("device", facts.get("device")).done())
        left_out = (NODE_RECORDS.key, *STATE_NOTES)
        attrs = {
            key: self._cast(op, key, op.attrs[key])
            for key in op.attrs
            if key not in left_out
        }
        if is_constant and isinstance(attrs.get("value"), Tensor):
            attrs = {"dtype": attrs["value"].dtype, **attrs}
        _append_attributes(out, attrs, facts.get("attrs", {}))
        out.append(facts.get("rest", b""))
        return out

    def _cast(self, op: Op, key: str, value: Any) -> Any:
        """A value as its attribute has it: text forms have shapes as lists, say."""
        if not isinstance(value, str | list):
            return value
        definition = self.dictionary.get(op.type or "")
        attr = None if definition is None else definition.attr(key)
        return value if attr is None else cast_value(attr, value)


def in_order(nodes: Iterable[NamedNode], order: Sequence[str]) -> Iterable[NamedNode]:
    """Nodes in a recorded order of names; others behind them."""
    if not order:
        return nodes
    places = {name: place for place, name in enumerate(order)}
    return sorted(nodes, key=lambda node: places.get(node[0], len(places)))


def plain_node(
    name: str, kind: str, inputs: list[str], attrs: Mapping[str, Any]
) -> MessageChunks:
    """A node that no op of a graph stands for."""
    writer = SCHEMA.writer("NodeDef").put("name", name).put("op", kind)
    out = MessageChunks(writer.put_all("input", inputs).done())
    _append_attributes(out, attrs, {})
    return out


def _append_attributes(
    out: MessageChunks, attrs: Mapping[str, Any], facts: Mapping[str, Any]
) -> None:
    """Append attributes to a node, written as `facts` say."""
    for key, value in attrs.items():
        entry = MessageChunks(SCHEMA.writer("NodeDef.AttrEntry").put("key", key).done())
        entry.append_message(
            SCHEMA.tag("NodeDef.AttrEntry", "value"),
            attribute_chunks(value, facts.get(key, {})),
        )
        out.append_message(SCHEMA.tag("NodeDef", "attr"), entry)


def _placeholder(port: OutputPort, dtype: DType) -> MessageChunks:
    """The node of a parameter; as it was recorded, if it has the type of the port."""
    type, facts = port.type, PLACEHOLDER_RECORDS.of(port)
    shape = type.shape if isinstance(type, TensorType) else Shape(None)
    attrs = dict(facts.get("attributes", {"shape": shape}))
    if attrs.get("dtype") != dtype:
        attrs["dtype"] = dtype
    known = attrs.get("shape")
    if (known if isinstance(known, Shape) else Shape(None)) != shape:
        attrs["shape"] = shape
    writer = SCHEMA.writer("NodeDef").put("name", parameter_node(port))
    writer.put("op", facts.get("op") or "Placeholder")
    out = MessageChunks(writer.put_if("device", facts.get("device")).done())
    _append_attributes(out, attrs, facts.get("attrs", {}))
    out.append(facts.get("rest", b""))
    return out


_VALID_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")


def node_names(graph: Graph, *, results: bool = False) -> dict[Op, str]:
    """The name of every op; a new one where it has none, or not a valid one.

    Inputs keep their names; so do `results`, where they are nodes.
    """
    names: dict[Op, str] = {}
    used = {parameter_node(port) for port in graph.parameters if port.name}
    rows = zip(graph.outputs, graph.results, strict=True) if results else ()
    for port, value in rows:
        if port.name and (value is None or value.op.name != port.name or value.index):
            used.add(port.name)
    count = 0
    for op in graph:
        name = op.name or f"{op.type}_{count}"
        if not _VALID_NAME.fullmatch(name):
            name = "n" + re.sub(r"[^A-Za-z0-9_.\\/>-]", "_", name)
        stem = name
        while name in used or (name != op.name and name in graph):
            name, count = f"{stem}_{count}", count + 1
        used.add(name)
        names[op] = name
    return names


def _same_inputs(recorded: list[str], inputs: list[str], op: Op) -> bool:
    """Whether inputs as they were spelled still are these.

    Control edges into an op with feedback are only in the record, since they may be
    cycles; so are those from parameters, which order nothing.
    """
    values, control = _split_inputs(recorded)
    found, waits = _split_inputs(inputs)
    if values != found:
        return False
    more = {text[1:] for text in control} - {text[1:] for text in waits}
    if op.feedback or set(control) == set(waits):
        return True
    ports = op.graph.parameters if op.graph is not None else ()
    return set(waits) <= set(control) and more <= set(map(parameter_node, ports))


def _split_inputs(inputs: list[str]) -> tuple[list[tuple[str, str, int]], list[str]]:
    control = [text for text in inputs if text.startswith("^")]
    return [parse_reference(t) for t in inputs if not t.startswith("^")], control
