"""Ops as the nodes of a GraphDef or of a function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from amanda.dictionary import Dictionary, cast_value
from amanda.errors import AmandaError, FormatError
from amanda.formatkit import MessageChunks
from amanda.graph import CONSTANT, CORE, Graph, Op, OutputPort
from amanda.tensors import Tensor
from amanda.types import DType, Shape, TensorType
from amanda_tf.derived_attributes import element_type
from amanda_tf.loading.interface import PLACEHOLDER_RECORDS, parameter_node
from amanda_tf.messages import NODE_RECORDS, SCHEMA
from amanda_tf.nodes.attributes import attribute_chunks
from amanda_tf.nodes.references import Spelling
from amanda_tf.notes import STATE_NOTES

__all__ = ["NamedNode", "NodeWriter"]

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
                yield (
                    port.name,
                    _node_chunks(port.name, "Identity", [text], {"T": dtype}, {}),
                )

    @contextmanager
    def problem_of(self, op: Op) -> Iterator[None]:
        """Report an error of the block as a problem of the op."""
        try:
            yield
        except AmandaError as error:
            got = "" if error.got is None else f" ({error.got})"
            self.problems.append(f"{op.label}: {error.message}{got}")

    def _node(self, op: Op, spelling: Spelling) -> MessageChunks:
        is_constant = op.type == CONSTANT and op.own_namespace == CORE
        if isinstance(op, Graph):
            raise FormatError(
                "a GraphDef has no nested graphs as ops",
                got='amanda.improve(graph, "inline") inlines them',
            )
        if op.bodies or op.type is None:
            raise FormatError("a GraphDef has no bodies, and no ops without a type")
        if op.own_namespace is not None and not is_constant:
            raise FormatError("an op of another namespace", got=op.own_namespace)
        facts = NODE_RECORDS.of(op)
        inputs = spelling.inputs(op, facts.get("inputs"))
        left_out = (NODE_RECORDS.key, *STATE_NOTES)
        keys = [key for key in op.attrs if key not in left_out]
        attrs = {key: self._cast(op, key, op.attrs[key]) for key in keys}
        if is_constant and isinstance(attrs.get("value"), Tensor):
            attrs = {"dtype": attrs["value"].dtype, **attrs}
        kind = "Const" if is_constant else op.type
        return _node_chunks(spelling.name_of(op), kind, inputs, attrs, facts)

    def _cast(self, op: Op, key: str, value: Any) -> Any:
        """A value as its attribute has it: text forms have shapes as lists, say."""
        if not isinstance(value, str | list):
            return value
        definition = self.dictionary.get(op.type or "")
        attr = None if definition is None else definition.attr(key)
        return value if attr is None else cast_value(attr, value)


def _node_chunks(
    name: str, kind: str, inputs: list[str], attrs: Mapping[str, Any],
    facts: Mapping[str, Any],
) -> MessageChunks:  # fmt: skip
    """A node, with the device, the encodings of attributes and other fields that were
    recorded."""
    writer = SCHEMA.writer("NodeDef").put("name", name).put("op", kind)
    writer.put_all("input", inputs).put_if("device", facts.get("device"))
    out, encodings = MessageChunks(writer.done()), facts.get("attrs", {})
    for key, value in attrs.items():
        entry = MessageChunks(SCHEMA.writer("NodeDef.AttrEntry").put("key", key).done())
        entry.append_message(
            SCHEMA.tag("NodeDef.AttrEntry", "value"),
            attribute_chunks(value, encodings.get(key, {})),
        )
        out.append_message(SCHEMA.tag("NodeDef", "attr"), entry)
    out.append(facts.get("rest", b""))
    return out


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
    kind = facts.get("op") or "Placeholder"
    return _node_chunks(parameter_node(port), kind, [], attrs, facts)
