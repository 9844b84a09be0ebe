"""Graphs to documents of the published specification: without version and tags.

Ops are a list, edges are maps. What the specification has no field for is an error.
"""

from __future__ import annotations

import math
from typing import Any, NoReturn

from amanda.errors import FormatError
from amanda.files.text.document.writer import AddressScope, DocumentWriter
from amanda.files.text.syntax.plain_data import Block, Plain, Rows, Tagged
from amanda.graph import Graph, InputPort, Op, OutputPort
from amanda.types import OpaqueType, Type

__all__ = ["PublishedWriter"]

_MAX_DEPTH = 100  # nested graphs
_BUILT_IN = ("name", "type", "namespace")
_PORT = ("name", "type", "attrs", "marks")
_EXACT = "save it without schema='published', in the exact schema"


class PublishedWriter(DocumentWriter):
    """Writes one graph as plain data in the published schema."""

    def __init__(self, root: Graph, is_json: bool) -> None:
        super().__init__(root)
        self.is_json = is_json

    def document(self) -> Plain:
        fields = Block()
        self.work.append((self.root, fields, 1, True))
        while self.work:
            self._graph(*self.work.pop())
        return Block(graph=fields)

    def _graph(self, graph: Graph, fields: Block, depth: int, named: bool) -> None:
        for part in ("imports", "functions", "entries"):
            if getattr(graph, part):
                _refuse(graph, f"`{part}`", f"remove its {part}")
        self._expect_fields(graph)
        super()._graph(graph, fields, depth, named)
        system = graph.attrs.get("default_type_system") if graph.has_attrs else None
        if type(system) is str:
            fields["default_type_system"] = fields["attrs"].pop("default_type_system")
            if not fields["attrs"]:
                del fields["attrs"]

    def _inner(self, graph: Graph, depth: int, named: bool) -> Block:
        if depth >= _MAX_DEPTH:
            _refuse(graph, f"graphs nested over {_MAX_DEPTH} deep", "flatten it")
        fields = Block()
        self.work.append((graph, fields, depth + 1, named))
        return fields

    def _ops(self, graph: Graph, fields: Block, depth: int) -> None:
        fields["ops"] = Rows(self._op(op, depth, True) for op in graph)

    def _op(self, op: Op, depth: int, named: bool) -> Block:
        if not isinstance(op, Graph):
            self._expect_fields(op)
            if op.own_namespace is not None:
                _refuse(op, "a namespace of a single op", "put the op in a graph of it")
        return super()._op(op, depth, named)

    def _expect_fields(self, op: Op) -> None:
        if op.bodies:
            _refuse(op, "bodies", "inline them")
        if op.feedback:
            _refuse(op, "`feedback`", "remove the cycle")
        if op.provenance is not None:
            _refuse(op, "`provenance`", "remove it")
        own = (op.name, op.type, op.own_namespace)
        for key, value in zip(_BUILT_IN, own, strict=True):
            if value is None and op.has_attrs and isinstance(op.attrs.get(key), str):
                _refuse(op, f"an attribute `{key}` and no {key}", f"set its {key}")

    def _attrs(self, op: Op, fields: Block) -> None:
        super()._attrs(op, fields)
        for key, value in fields.get("attrs", {}).items():
            self._expect_plain(op, f"attribute {key!r}", {key: value})

    def _expect_plain(self, op: Op, what: str, data: Plain) -> None:
        """Refuse values that are tagged in YAML or escaped in JSON."""
        work = [data]
        while work:
            item = work.pop()
            if isinstance(item, Tagged):
                hint = "replace it by text, a number, a list or a map"
                _refuse(op, f"a value of kind {item.tag} ({what})", hint)
            if isinstance(item, dict):
                work.extend(item.values())
                if self.is_json and any(key.startswith("$") for key in item):
                    _refuse(op, f"a key that starts with $ ({what})", "rename it")
            elif isinstance(item, list):
                work.extend(item)
            elif self.is_json and type(item) is float and not math.isfinite(item):
                _refuse(op, f"{item} in JSON ({what})", "write YAML")

    # -- ports and edges ---------------------------------------------------------------

    def _ports(self, fields: Block, inputs: list[Plain], outputs: list[Plain]) -> None:
        for key, ports in (("input_ports", inputs), ("output_ports", outputs)):
            if ports:
                fields[key] = Rows(ports)

    def _port(self, port: InputPort | OutputPort, type: Any) -> Plain:
        what = f"port {port.index if port.name is None else port.name!r}"
        if isinstance(port, OutputPort) and port.marks:
            _refuse(port.op, f"marks ({what})", "remove them")
        attrs = dict(port.attrs) if port.has_attrs else {}
        if type is None and isinstance(attrs.get("type"), Type):
            type = attrs.pop("type")  # the document's type of an input
        fields: dict[str, Plain] = {} if port.name is None else {"name": port.name}
        if type is not None:
            opaque = isinstance(type, OpaqueType)
            fields["type"] = type.content if opaque else self.encoder.type_text(type)
        if set(fields) == {"name", "type"} and not attrs and port.name not in _PORT:
            fields = {port.name or "": fields["type"]}
        if attrs:
            fields["attrs"] = self._map(attrs)
        self._expect_plain(port.op, what, fields)
        return Block(fields)

    def _edge(
        self, source: Plain, target: Plain, attrs: dict[str, Any] | None
    ) -> Plain:
        edge = Block(output_port=source, input_port=target)
        if attrs:
            edge["attrs"] = self._map(attrs)
            what = "edge to op {op!r}, port {port!r}".format_map(target)
            self._expect_plain(self.root, what, edge["attrs"])
        return edge

    def scope(self, graph: Graph) -> AddressScope:
        scope = self.scopes.get(graph)
        if scope is None:
            scope = self.scopes[graph] = _MapScope(graph)
        return scope

    def _end(self, value: OutputPort, scope: AddressScope) -> Plain:
        if value.graph is not scope.graph:
            hint = "pass the value through an input of the graph"
            _refuse(scope.graph, f"reading a value of the outer graph, {value!r}", hint)
        return super()._end(value, scope)


class _MapScope(AddressScope):
    """Addresses as maps of `op` and `port`."""

    def address(self, op: Op, port: InputPort | OutputPort, outward: bool) -> Plain:
        ports: Any = op.outputs if outward else op.input_ports
        return self._address(self.op(op), self._keys(op, ports, outward)[port.index])

    def graph_port(self, index: int, outward: bool) -> Plain:
        ports = self.graph.parameters if outward else self.graph.outputs
        return self._address(
            self.name, self._keys(self.graph, ports, outward)[index], True
        )

    def control(self, op: Op) -> Plain:
        own = op is self.graph
        return self._address(self.name if own else self.op(op), "^control", own)

    def _address(self, op: str | int, port: str | int, own: bool = False) -> Plain:
        def index(key: str | int) -> str | int:
            return int(key) if type(key) is str and key.isdecimal() else key

        return Block(op=op if own else index(op), port=index(port))


def _refuse(op: Op, what: str, hint: str) -> NoReturn:
    raise FormatError(
        f"the published schema cannot hold {what}",
        who=op.label,
        hint=f"{hint}, or {_EXACT}",
    )
