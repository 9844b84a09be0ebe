"""The nodes of a graph or of a function, as ops.

A node is an op under its own name; `Const` is a constant of the core, whose elements
stay in the file. What no part of a graph stands for goes to the file records of
messages.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from amanda.errors import FormatError
from amanda.formatkit import MessageFile, Span
from amanda.graph import Graph, Op, OutputPort
from amanda.tensors import Tensor
from amanda_tf.attributes import read_entry
from amanda_tf.messages import GRAPH_RECORDS, NODE_RECORDS, SCHEMA
from amanda_tf.references import (
    Groups,
    Spelling,
    groups_and_types,
    parse_reference,
)

if TYPE_CHECKING:
    from amanda.dictionary import Dictionary, OpDef

__all__ = ["GraphReader"]

_READ_FIELDS: Final = frozenset({"name", "op", "input", "device", "attr"})
"""The fields of a node that an op stands for."""


class GraphReader:
    """The nodes of one graph, or of one function."""

    def __init__(
        self,
        file: MessageFile,
        graph: Graph,
        dictionary: Dictionary,
        functions: Mapping[str, Groups],
    ) -> None:
        self.file = file
        self.graph = graph
        self.dictionary = dictionary
        self.functions = functions
        self.parameters: dict[str, OutputPort] = {}
        self.ops: dict[str, Op] = {}
        self._groups: dict[str, Groups] = {}
        groups_of = self._groups_of if graph.name in functions else None
        self._spelling = Spelling(lambda op: op.name or "", groups_of)
        self._used: dict[str, dict[str, int]] = {}  # outputs that nodes read, by name

    def read(self, spans: list[Span]) -> None:
        """Add an op for every node, and all edges."""
        nodes = [SCHEMA.read("NodeDef", self.file.data, *span) for span in spans]
        for node in nodes:
            for text in node.get("input", ()):
                name, output, index = parse_reference(text)
                used = self._used.setdefault(name, {})
                used[output] = max(used.get(output, 0), index + 1)
        with self.graph.wiring():
            for node, span in zip(nodes, spans, strict=True):
                self._add_node(node, span)
            for node in nodes:
                self._connect(node)
        for node in nodes:
            self._add_control(node)
        order = [node.get("name", "") for node in nodes]
        if order != [op.name for op in self.graph]:
            GRAPH_RECORDS.add(self.graph, order=order)

    def _add_node(self, node: Mapping[str, Any], span: Span) -> None:
        name, kind = node.get("name", ""), node.get("op", "")
        if not kind:
            raise FormatError(
                "a node without an op", who=repr(name), where=f"byte {span[0]}"
            )
        if not name or name in self.ops or name in self.parameters:
            raise FormatError(
                "a node without a name of its own",
                who=repr(name),
                where=f"byte {span[0]}",
            )
        attrs, facts = self._read_attributes(name, node.get("attr", []))
        entry = self.dictionary.get(kind)
        value = attrs.get("value")
        data = [each for each in node.get("input", ()) if not each.startswith("^")]
        if (
            kind == "Const"
            and not data
            and isinstance(value, Tensor)
            and attrs.get("dtype") == value.dtype
        ):
            op: Op = self.graph.constant(value, name)
            op.output.type = value.type_with_content()
            del attrs["value"], attrs["dtype"]
            op.attrs.update(attrs)
        else:
            op = self._add_op(name, kind, entry, attrs, node.get("input", ()))
        self.ops[name] = op
        rest = b""
        if not node.keys() <= _READ_FIELDS:
            rest = SCHEMA.raw_fields(
                "NodeDef", self.file.data, span, without=_READ_FIELDS
            )
        NODE_RECORDS.add(op, device=node.get("device"), attrs=facts, rest=rest)

    def _add_op(
        self,
        name: str,
        kind: str,
        entry: OpDef | None,
        attrs: dict[str, Any],
        inputs: list[str],
    ) -> Op:
        types: list[Any] = []
        groups = self.functions.get(kind)
        if entry is not None:
            groups, types = groups_and_types(entry, attrs)
        if groups is None:  # an op that nobody knows: as many outputs as are read
            used = self._used.get(name, {"output": 1})
            groups = [(output or "output", number) for output, number in used.items()]
        count = sum(number for _, number in groups)
        op = self.graph.add(
            kind, self._known_inputs(inputs), attrs, name=name, outputs=count,
            feedback=entry is not None and entry.feedback,
        )  # fmt: skip
        self._groups[name] = groups
        if entry is None and kind not in self.functions:
            NODE_RECORDS.add(op, outputs=[list(group) for group in groups])
        for port, type in zip(op.outputs, types, strict=False):
            port.type = type
        return op

    def _known_inputs(self, inputs: list[str]) -> list[OutputPort | None]:
        """The values that a node reads; None for those of later nodes."""
        data = [text for text in inputs if not text.startswith("^")]
        names = (text.partition(":")[0] for text in data)
        return [
            self.value(text, "a node")
            if name in self.ops or name in self.parameters
            else None
            for text, name in zip(data, names, strict=True)
        ]

    def _read_attributes(
        self, node: str, spans: list[Span]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        attrs: dict[str, Any] = {}
        facts: dict[str, Any] = {}
        for span in spans:
            key, value, fact = read_entry(self.file, span, node)
            attrs[key] = value
            if fact:
                facts[key] = dict(fact)
        return attrs, facts

    def _connect(self, node: Mapping[str, Any]) -> None:
        op = self.ops[node["name"]]
        data = [text for text in node.get("input", ()) if not text.startswith("^")]
        for i, text in enumerate(data):
            if op.inputs[i] is None:
                op.input_ports[i].connect(self.value(text, f"{op.name!r}"))

    def _add_control(self, node: Mapping[str, Any]) -> None:
        op = self.ops[node["name"]]
        inputs = node.get("input", [])
        for text in inputs:
            if text.startswith("^") and text[1:] not in self.parameters:
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
