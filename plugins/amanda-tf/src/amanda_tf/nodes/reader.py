"""The nodes of a graph or of a function, as ops.

A node is an op under its own name; `Const` is a constant of the core, whose elements
stay in the file. What no part of a graph stands for goes to the file records of
messages.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

from amanda.errors import FormatError
from amanda.formatkit import Span, raise_at
from amanda.graph import Graph, Op, OutputPort
from amanda.tensors import Tensor
from amanda_tf.messages import GRAPH_RECORDS, NODE_RECORDS, SCHEMA
from amanda_tf.nodes.kinds import NodeKind, NodeKinds
from amanda_tf.nodes.references import Groups, Spelling, parse_reference

__all__ = ["GraphReader"]

_READ_FIELDS: Final = frozenset({"name", "op", "input", "device", "attr"})
"""The fields of a node that an op stands for."""


class GraphReader:
    """The nodes of one graph, or of one function."""

    def __init__(
        self, graph: Graph, kinds: NodeKinds, functions: Mapping[str, Groups]
    ) -> None:
        self.file = kinds.file
        self.graph = graph
        self.kinds = kinds
        self.functions = functions
        self.ops: dict[str, Op] = {}
        self.parameters: dict[str, OutputPort] = {}
        self._is_function = graph.name in functions
        self._values: dict[str, OutputPort] = {}  # by their usual references
        self._groups: dict[str, Groups] = {}
        groups_of = self._groups_of if self._is_function else None
        self._spelling = Spelling(lambda op: op.name or "", groups_of)
        self._nodes: list[dict[str, Any]] = []

    def read(self, spans: list[Span]) -> None:
        """Add an op for every node, and all edges."""
        data = self.file.data
        nodes = self._nodes = [SCHEMA.read("NodeDef", data, *span) for span in spans]
        later: list[tuple[Op, list[str]]] = []
        spelled: list[tuple[Op, list[str]]] = []
        with self.graph.wiring():
            for node, span in zip(nodes, spans, strict=True):
                op = self._add_node(node, span)
                inputs = node.get("input")
                if inputs:
                    if None in op.inputs:
                        later.append((op, inputs))
                    if not all(map(self._values.__contains__, inputs)):
                        spelled.append((op, inputs))  # or one with control edges
            for op, inputs in later:
                self._connect(op, inputs)
        for op, inputs in spelled:
            self._add_control(op, inputs)
        order = [node["name"] for node in nodes]
        if order != [op.name for op in self.graph]:
            GRAPH_RECORDS.add(self.graph, order=order)

    def add_parameter(self, name: str, port: OutputPort) -> None:
        """Let references with this name, of an argument, be of this value."""
        self.parameters[name] = self._values[name] = port

    def _add_node(self, node: Mapping[str, Any], span: Span) -> Op:
        name, kind = node.get("name", ""), node.get("op", "")
        if not kind or not name or name in self.ops or name in self.parameters:
            what = "a name of its own" if kind else "an op"
            raise_at(f"a node without {what}", span[0], got=repr(name))
        found = self.kinds.kind_of(name, kind, node.get("attr", []))
        inputs, value = node.get("input", ()), found.attrs.get("value")
        if (
            kind == "Const"
            and isinstance(value, Tensor)
            and found.attrs.get("dtype") == value.dtype
            and all(each.startswith("^") for each in inputs)
        ):
            op = self._add_constant(name, value, found.copy_attrs())
        else:
            op = self._add_op(name, kind, found, inputs)
        self.ops[name] = op
        rest = b""
        if not node.keys() <= _READ_FIELDS:
            rest = SCHEMA.raw_fields(
                "NodeDef", self.file.data, span, without=_READ_FIELDS
            )
        if rest or found.facts or "device" in node:
            facts = {key: dict(fact) for key, fact in found.facts.items()}
            NODE_RECORDS.add(op, device=node.get("device"), attrs=facts, rest=rest)
        return op

    def _add_constant(self, name: str, value: Tensor, attrs: dict[str, Any]) -> Op:
        op = self.graph.constant(value, name)
        op.output.type = value.type_with_content()
        op.attrs.update({k: v for k, v in attrs.items() if k not in ("value", "dtype")})
        self._name_values(op, name, [("output", 1)])
        return op

    def _add_op(self, name: str, kind: str, found: NodeKind, inputs: list[str]) -> Op:
        entry, (groups, types) = found.entry, found.outputs
        if groups is None:
            groups = self.functions.get(kind)
        if groups is None:  # an op that nobody knows: as many outputs as are read
            groups = self._groups_read.get(name, [("output", 1)])
        values = [self._known_value(text) for text in inputs if text[:1] != "^"]
        op = self.graph.add(
            kind, values, found.copy_attrs(), name=name,
            outputs=sum([count for _, count in groups]),
            feedback=entry is not None and entry.feedback,
        )  # fmt: skip
        self._groups[name] = groups
        if entry is None and kind not in self.functions:
            NODE_RECORDS.add(op, outputs=[list(group) for group in groups])
        for port, type in zip(op.outputs, types, strict=False):
            port.type = type
        self._name_values(op, name, groups)
        return op

    def _name_values(self, op: Op, name: str, groups: Groups) -> None:
        """Note the usual references to the outputs of an op."""
        if ":" in name or name[0] == "^":
            return
        put = self._values.setdefault
        if not self._is_function:
            for port in op.outputs:
                put(f"{name}:{port.index}" if port.index else name, port)
            return
        ports = iter(op.outputs)
        for group, count in groups:
            for i in range(count):
                put(f"{name}:{group}:{i}", next(ports))

    @cached_property
    def _groups_read(self) -> dict[str, Groups]:
        """The outputs of each node, as far as other nodes read them."""
        used: dict[str, dict[str, int]] = {}
        for node in self._nodes:
            for text in node.get("input", ()):
                name, output, index = parse_reference(text)
                counts = used.setdefault(name, {})
                counts[output] = max(counts.get(output, 0), index + 1)
        return {
            name: [(output or "output", count) for output, count in counts.items()]
            for name, counts in used.items()
        }

    def _known_value(self, text: str) -> OutputPort | None:
        """The value that a node reads; None for that of a later node."""
        found = self._values.get(text)
        if found is None:
            name = text.partition(":")[0]
            if name in self.ops or name in self.parameters:
                return self.value(text, "a node")
        return found

    def _connect(self, op: Op, inputs: list[str]) -> None:
        """Connect an op to the values of later nodes."""
        data = [text for text in inputs if text[:1] != "^"]
        for i, text in enumerate(data):
            if op.inputs[i] is None:
                op.input_ports[i].connect(self.value(text, f"{op.name!r}"))

    def _add_control(self, op: Op, inputs: list[str]) -> None:
        """Add control edges; record inputs that are spelled in another way."""
        for text in inputs:
            if text[:1] == "^" and text[1:] not in self.parameters:
                first = self._op(text[1:], f"{op.name!r}")
                if not op.feedback and first not in op.control_inputs:
                    self.graph.control(first, op)
        if inputs != self._spelling.inputs(op):
            NODE_RECORDS.add(op, inputs=inputs)

    def _groups_of(self, op: Op) -> Groups:
        return self._groups.get(op.name or "", [("output", 1)])

    def value(self, text: str, who: str) -> OutputPort:
        """The value that a reference names."""
        name, output, index = parse_reference(text)
        if name in self.parameters:
            return self.parameters[name]
        outputs = self._op(name, who).outputs
        place = index
        if output and name in self._groups:
            for group, count in self._groups[name]:
                if group == output:
                    break
                place += count
            else:
                place = len(outputs)
        if place >= len(outputs):
            raise FormatError(
                f"{who} reads an output that {name!r} does not have",
                expected=f"one of {len(outputs)} outputs", got=text,
            )  # fmt: skip
        return outputs[place]

    def _op(self, name: str, who: str) -> Op:
        found = self.ops.get(name)
        if found is None:
            raise FormatError(f"{who} reads {name!r}, which does not exist")
        return found
