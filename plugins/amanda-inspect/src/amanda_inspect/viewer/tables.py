"""A tree of nodes as the columns of integers and strings that the page reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from amanda.dictionary import OpDef, Port
from amanda.graph import (
    Graph,
    InputPort,
    Op,
    OutputPort,
    Parameter,
    ScopeTable,
    is_note,
    is_record,
)
from amanda.tensors import FunctionRef, Tensor
from amanda_inspect.viewer.nodes import Kind, Node, walk, weight_of
from amanda_inspect.viewer.weights import Histograms

__all__ = ["PAGE_SCHEMA", "Strings", "Tables", "attribute_text", "cut_text"]

PAGE_SCHEMA: Final = 1
LONG: Final = 200
"""Characters of an attribute in the page; what is more is cut."""
MANY_USED: Final = 64
"""Attributes of one op in the page."""


class Strings:
    """Texts by number, each once."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {"": 0}

    def number(self, text: str | None) -> int:
        """The number of a text; 0 for none."""
        return self.numbers.setdefault(text or "", len(self.numbers))


class Tables:
    """The data of the page: nodes in preorder, edges, attributes, definitions."""

    def __init__(
        self,
        root: Node,
        *,
        scopes: ScopeTable | None = None,
        source: Graph | None = None,
        histograms: Histograms | None = None,
        removed: Mapping[Node, list[OutputPort | None]] | None = None,
    ) -> None:
        self.strings = Strings()
        self.nodes = list(walk(root))
        self.places: dict[object, int] = {}
        """The number of the node of each op and port."""
        self._functions: dict[str, int] = {}
        self._scopes = scopes
        self._histograms = histograms
        self._removed = removed or {}
        self._sources = {} if source is None else _ops_by_name(source)
        self._definitions: dict[str, Any] = {}
        self._index()

    def _index(self) -> None:
        for i, node in enumerate(self.nodes):
            subject = node.subject
            if node.kind is Kind.FUNCTION:
                self._functions[node.label] = i
            if subject is not None:
                self.places[subject] = i

    def as_data(self) -> dict[str, Any]:
        """The tables as data for JSON."""
        number = self.strings.number
        parents, ends = _preorder_ranges(self.nodes)
        data: dict[str, Any] = {
            "kind": [int(node.kind) for node in self.nodes],
            "parent": parents,
            "end": ends,
            "label": [number(node.label) for node in self.nodes],
            "type": [number(_type_of(node)) for node in self.nodes],
            "name": [number(_name_of(node)) for node in self.nodes],
            "space": [number(_space_of(node)) for node in self.nodes],
            "inputs": [self._inputs(node) for node in self.nodes],
            "outputs": [self._outputs(node) for node in self.nodes],
            "attributes": [self._attributes(node) for node in self.nodes],
        }
        data |= self._sparse_columns()
        data["definitions"] = self._definitions
        data["strings"] = list(self.strings.numbers)
        return data

    def _sparse_columns(self) -> dict[str, Any]:
        """What few nodes have, by the number of the node."""
        made, scopes, weights, calls = {}, {}, {}, {}
        sources: dict[str, Any] = {}
        for i, node in enumerate(self.nodes):
            op = node.subject
            if not isinstance(op, Op):
                continue
            if node.kind is Kind.CONSTANT and self._histograms is not None:
                weights[i] = self._histograms.describe(weight_of(op))
            called = self._called_functions(op)
            if called:
                calls[i] = called
            self._define(node, op)
            if op.provenance is not None:
                names = op.provenance.sources
                made[i] = [op.provenance.by, list(names)]
                for name in names:
                    if name in self._sources and name not in sources:
                        sources[name] = self._describe_source(self._sources[name])
            scope = None if self._scopes is None else self._scopes.scope_of(op)
            if scope is not None:
                scopes[i] = [".".join(scope.modules[-1:]), *scope.classes[-1:]]
                scopes[i] = [*scopes[i], *[""] * (2 - len(scopes[i])), scope.line]
        found = {i: weight for i, weight in weights.items() if weight is not None}
        return {
            "made": made, "sources": sources, "scopes": scopes, "weights": found,
            "calls": calls,
        }  # fmt: skip

    def _called_functions(self, op: Op) -> list[int]:
        """The nodes of the functions that an op calls, by its type or attributes."""
        names = [v.name for v in op.attrs.values() if isinstance(v, FunctionRef)]
        names += [] if op.type is None else [op.type]
        return [self._functions[name] for name in names if name in self._functions]

    def _define(self, node: Node, op: Op) -> None:
        """Note the dictionary entry of the type of an op."""
        key = f"{op.namespace or ''}:{op.type}"
        if node.kind in (Kind.OP, Kind.REMOVED) and key not in self._definitions:
            found = op.definition
            known = isinstance(found, OpDef)
            self._definitions[key] = _definition_data(found) if known else None

    def _inputs(self, node: Node) -> list[int]:
        """Triples for each input: node, output and name of the port; -1 for none.

        Control edges have the output -2.
        """
        number, rows = self.strings.number, []
        for value, name in self._read_values(node):
            at = None if value is None else self._node_of(value)
            index = 0 if value is None or isinstance(value, Parameter) else value.index
            rows += [-1 if at is None else at, index, number(name)]
        if node.kind is Kind.OP and isinstance(node.subject, Op):
            for first in node.subject.control_inputs:
                if first in self.places:
                    rows += [self.places[first], -2, number("control")]
        return rows

    def _read_values(self, node: Node) -> list[tuple[OutputPort | None, str | None]]:
        subject = node.subject
        if node in self._removed:
            return [(value, None) for value in self._removed[node]]
        if isinstance(subject, InputPort):
            return [(subject.source, None)]
        if node.kind is Kind.PARAMETER and isinstance(subject, Parameter):
            if subject.op.graph is None:
                return []  # of a root graph, a body or a function
            return [(subject.op.inputs[subject.index], None)]
        if node.kind not in (Kind.OP, Kind.REMOVED) or not isinstance(subject, Op):
            return []
        names = _input_names(subject)
        return list(zip(subject.inputs, names, strict=True))

    def _node_of(self, value: OutputPort) -> int | None:
        """The node that gives a value: of a nested graph, its result."""
        op = value.op
        if isinstance(op, Graph) and not isinstance(value, Parameter):
            return self.places.get(InputPort(op, value.index, True))
        return self.places.get(value if isinstance(value, Parameter) else op)

    def _outputs(self, node: Node) -> list[int]:
        """Pairs for each output: its name and type."""
        number, subject = self.strings.number, node.subject
        ports: Sequence[OutputPort | InputPort] = ()
        defined: Sequence[Port] = ()
        if isinstance(subject, OutputPort | InputPort):
            ports = (subject,)
        elif isinstance(subject, Op) and not isinstance(subject, Graph):
            ports, defined = subject.outputs, getattr(subject.definition, "outputs", ())
        names = _with_defined_names([port.name for port in ports], defined)
        pairs = zip(names, map(_type_text, ports), strict=True)
        return [number(text) for pair in pairs for text in pair]

    def _attributes(self, node: Node) -> list[int]:
        number, subject = self.strings.number, node.subject
        if not isinstance(subject, Op) or not subject.has_attrs:
            return []
        pairs = _shown_attributes(subject).items()
        return [each for key, text in pairs for each in (number(key), number(text))]

    def _describe_source(self, op: Op) -> dict[str, Any]:
        """An op of the source graph, for the side-by-side view."""
        names = _input_names(op)
        texts = ("" if value is None else _value_text(value) for value in op.inputs)
        inputs = zip(names, texts, strict=True)
        return {
            "type": op.type,
            "namespace": op.namespace,
            "attributes": _shown_attributes(op),
            "inputs": [[name or "", text] for name, text in inputs],
            "outputs": [[p.name or "", _type_text(p)] for p in op.outputs],
            "signature": getattr(op.definition, "signature", ""),
        }


def attribute_text(value: object) -> str:
    """The value of an attribute on one line, cut if it is long.

    >>> attribute_text([1, 2]), attribute_text("a")
    ('[1, 2]', "'a'")
    """
    if isinstance(value, Tensor):
        return f"tensor {value.type}, {value.nbytes} bytes"
    if isinstance(value, list | tuple | bytes | str) and len(value) > LONG:
        cut = attribute_text(value[: LONG // 2])
        return f"{cut[:LONG]}… ({len(value)} in all)"
    return cut_text(repr(value) if isinstance(value, str | bytes) else str(value))


def cut_text(text: str) -> str:
    """A text, cut if it is long."""
    return text if len(text) <= LONG else f"{text[:LONG]}… ({len(text)} characters)"


def _shown_attributes(op: Op) -> dict[str, str]:
    """Attributes as text, without notes and records of the file."""
    found = [(k, v) for k, v in sorted(op.attrs.items()) if not _is_hidden(k)]
    shown = {key: attribute_text(value) for key, value in found[:MANY_USED]}
    if len(found) > MANY_USED:
        shown["…"] = f"{len(found) - MANY_USED} more"
    return shown


def _is_hidden(key: str) -> bool:
    return is_note(key) or is_record(key)


def _preorder_ranges(nodes: list[Node]) -> tuple[list[int], list[int]]:
    """The parent of each node, and the number after its last descendant."""
    numbers = {node: i for i, node in enumerate(nodes)}
    parents, ends = [-1] * len(nodes), [i + 1 for i in range(len(nodes))]
    for i, node in enumerate(nodes):
        for child in node.children:
            parents[numbers[child]] = i
    for i in range(len(nodes) - 1, 0, -1):
        ends[parents[i]] = max(ends[parents[i]], ends[i])
    return parents, ends


def _ops_by_name(graph: Graph) -> dict[str, Op]:
    return {op.name: op for op in graph.walk() if op.name is not None}


def _type_of(node: Node) -> str | None:
    subject = node.subject
    if isinstance(subject, Op):
        return subject.type
    return {Kind.PARAMETER: "input", Kind.RESULT: "result"}.get(node.kind)


def _name_of(node: Node) -> str | None:
    subject = node.subject
    return None if subject is None else subject.name


def _space_of(node: Node) -> str | None:
    """The namespace, of ops."""
    return node.subject.namespace if isinstance(node.subject, Op) else None


def _type_text(port: OutputPort | InputPort) -> str:
    return "" if port.type is None else str(port.type)


def _value_text(value: OutputPort) -> str:
    return value.name or value.op.short


def _input_names(op: Op) -> list[str | None]:
    """The names of the input ports of an op."""
    own = [port.name for port in op.input_ports]
    return _with_defined_names(own, getattr(op.definition, "inputs", ()))


def _with_defined_names(
    own: list[str | None], ports: Sequence[Port]
) -> list[str | None]:
    """Names of ports: their own, or those of fixed ports in the dictionary."""
    for i, (name, port) in enumerate(zip(own, ports, strict=False)):
        if port.repeats:
            break
        own[i] = name or port.name
    return own


def _definition_data(found: OpDef) -> dict[str, str]:
    return {"signature": found.signature, "doc": found.doc or ""}
