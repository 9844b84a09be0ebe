"""Ops as the nodes of a GraphDef or of a function."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from amanda.errors import AmandaError, FormatError
from amanda.formatkit import MessageChunks
from amanda.graph import CONSTANT, CORE, Graph, Op
from amanda.tensors import Tensor
from amanda_tf.attributes import attribute_chunks
from amanda_tf.messages import GRAPH_RECORDS, NODE_RECORDS, SCHEMA
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
        attrs = {key: op.attrs[key] for key in op.attrs if key != NODE_RECORDS.key}
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


def node_names(graph: Graph) -> dict[Op, str]:
    """The name of every op; a new one where it has none."""
    names = {}
    count = 0
    for op in graph:
        name = op.name
        while not name or (name != op.name and name in graph):
            name, count = f"{op.type}_{count}", count + 1
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
