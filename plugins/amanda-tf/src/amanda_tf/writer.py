"""Ops as the nodes of a GraphDef or of a function."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from amanda.errors import AmandaError, FormatError
from amanda.formatkit import MessageChunks
from amanda.graph import CONSTANT, CORE, Graph, Op
from amanda.tensors import Tensor
from amanda.types import Shape, TensorType
from amanda_tf.attributes import attribute_chunks
from amanda_tf.derived_attributes import element_type
from amanda_tf.messages import GRAPH_RECORDS, NODE_RECORDS, SCHEMA
from amanda_tf.notes import STATE_NOTES
from amanda_tf.references import Spelling, parse_reference

__all__ = ["NodeWriter", "node_names"]


class NodeWriter:
    """Writes nodes; `problems` has all that TensorFlow cannot hold."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def write_nodes(
        self, graph: Graph, tag: bytes, spelling: Spelling
    ) -> MessageChunks:
        """All nodes of a graph, as fields with this tag."""
        out = MessageChunks()
        order = {
            name: i for i, name in enumerate(GRAPH_RECORDS.of(graph).get("order", ()))
        }
        ops = (
            sorted(graph, key=lambda op: order.get(op.name, len(order)))
            if order
            else graph
        )
        for op in ops:
            with self.problem_of(op):
                out.append_message(tag, self._node(op, spelling))
        return out

    def write_placeholders(self, graph: Graph, tag: bytes) -> MessageChunks:
        """The parameters of a root graph."""
        out = MessageChunks()
        for port in graph.parameters:
            with self.problem_of(graph):
                type = port.type
                dtype = element_type(type)
                if dtype is None or not port.name:
                    raise FormatError("an input without a name or an element type")
                shape = type.shape if isinstance(type, TensorType) else Shape(None)
                attrs = {"dtype": dtype, "shape": shape}
                out.append_message(
                    tag, _plain_node(port.name, "Placeholder", [], attrs)
                )
        return out

    def write_results(
        self, graph: Graph, tag: bytes, spelling: Spelling
    ) -> MessageChunks:
        """Identity for each result of a root graph that is no op of its name."""
        out = MessageChunks()
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
                attrs = {"T": dtype}
                out.append_message(
                    tag, _plain_node(port.name, "Identity", [text], attrs)
                )
        return out

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
        if recorded and _same_inputs(recorded, inputs, op.feedback):
            inputs = recorded
        writer = SCHEMA.writer("NodeDef").put("name", spelling.name_of(op))
        writer.put("op", "Const" if is_constant else op.type).put_all("input", inputs)
        out = MessageChunks(writer.put_if("device", facts.get("device")).done())
        left_out = (NODE_RECORDS.key, *STATE_NOTES)
        attrs = {key: op.attrs[key] for key in op.attrs if key not in left_out}
        if is_constant and isinstance(attrs.get("value"), Tensor):
            attrs = {"dtype": attrs["value"].dtype, **attrs}
        for key, value in attrs.items():
            fact = facts.get("attrs", {}).get(key, {})
            entry = MessageChunks(
                SCHEMA.writer("NodeDef.AttrEntry").put("key", key).done()
            )
            entry.append_message(
                SCHEMA.tag("NodeDef.AttrEntry", "value"), attribute_chunks(value, fact)
            )
            out.append_message(SCHEMA.tag("NodeDef", "attr"), entry)
        out.append(facts.get("rest", b""))
        return out


def _plain_node(
    name: str, kind: str, inputs: list[str], attrs: Mapping[str, Any]
) -> MessageChunks:
    writer = SCHEMA.writer("NodeDef").put("name", name).put("op", kind)
    out = MessageChunks(writer.put_all("input", inputs).done())
    for key, value in attrs.items():
        entry = MessageChunks(SCHEMA.writer("NodeDef.AttrEntry").put("key", key).done())
        entry.append_message(
            SCHEMA.tag("NodeDef.AttrEntry", "value"), attribute_chunks(value, {})
        )
        out.append_message(SCHEMA.tag("NodeDef", "attr"), entry)
    return out


_VALID_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")


def node_names(graph: Graph) -> dict[Op, str]:
    """The name of every op; a new one where it has none, or not a valid one.

    Inputs and results of a root graph keep their names.
    """
    names: dict[Op, str] = {}
    used = {port.name for port in graph.parameters if port.name}
    for port, value in zip(graph.outputs, graph.results, strict=True):
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


def _same_inputs(recorded: list[str], inputs: list[str], feedback: bool) -> bool:
    """Whether inputs as they were spelled still are these.

    Control edges into an op with feedback are only in the record: they may be cycles.
    """
    values, control = _split_inputs(recorded)
    found, waits = _split_inputs(inputs)
    return values == found and (feedback or set(control) == set(waits))


def _split_inputs(inputs: list[str]) -> tuple[list[tuple[str, str, int]], list[str]]:
    control = [text for text in inputs if text.startswith("^")]
    return [parse_reference(t) for t in inputs if not t.startswith("^")], control
