"""The nodes of a graph or of a function, as ops.

Nodes are read in blocks of a megabyte, and their usual fields inline, for speed. An
input that is defined by a later node is connected at the end. A body is read after the
graph around it, so that every value that it may capture exists.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from amanda.errors import AmandaError, DuplicateNameError, FormatError, LimitError
from amanda.formatkit import (
    BYTES,
    UNKNOWN_FIELDS,
    Buffer,
    Span,
    decode_varint,
    iter_fields,
    raise_at,
)
from amanda.graph import Graph, InputPort, Op, OutputPort
from amanda.tensors import Tensor
from amanda.types import VoidType
from amanda_onnx.format.attribute_reader import Attribute
from amanda_onnx.format.free_attributes import restore_attributes
from amanda_onnx.format.messages import SCHEMA
from amanda_onnx.format.model_file import ModelFile
from amanda_onnx.format.model_metadata import NOTES_KEY

if TYPE_CHECKING:
    from amanda_onnx.format.reader import ModelReader

__all__ = ["MAX_DEPTH", "GraphReader", "locate_nodes"]

# The fields of a node that are read inline; a test compares them with the schema.
_INPUT, _OUTPUT, _NAME, _TYPE, _ATTRIBUTE, _DOMAIN = 0x0A, 0x12, 0x1A, 0x22, 0x2A, 0x3A
_BLOCK: Final = 1 << 20
_MAX_HEADER: Final = 12  # maximum bytes of key and length
_VOID: Final = VoidType()
_MESSAGE_FIELDS: Final = frozenset(
    number
    for message in ("GraphProto", "FunctionProto")
    for number, codec in SCHEMA.codecs[message].items()
    if codec.is_message
)

MAX_DEPTH: Final = 100
"""Bodies in bodies that are followed; the readers of protobuf stop at about 30."""

_CONSTANT_ATTRIBUTES: Final[Mapping[str, tuple[Any, str]]] = {
    "value": (Tensor, ""),
    "value_int": (int, "int64"),
    "value_ints": (int, "int64"),
    "value_float": (float, "float32"),
    "value_floats": (float, "float32"),
    "value_string": (str | bytes, ""),
    "value_strings": (str | bytes, ""),
}
"""The attributes of a `Constant` node that make it a constant of the core."""


def locate_nodes(
    source: ModelFile, span: Span, number: int
) -> tuple[list[Span], list[tuple[int, int, int, int]]]:
    """The spans with nothing but nodes, and the other fields.

    `number` is the field of the nodes. The others are (number, position of the key,
    start, end).
    """
    data = source.data
    pos, stop = span
    node = number << 3 | BYTES
    found: list[Span] = []
    others: list[tuple[int, int, int, int]] = []
    block, base = b"", pos
    while pos < stop:
        if data[pos] == node:
            at = pos - base
            if at + _MAX_HEADER >= len(block):
                block, base, at = bytes(data[pos : min(pos + _BLOCK, stop)]), pos, 0
            end = base + _skip_nodes(block, at, node, base)
            if end == pos:  # longer than a block, or the last one
                _, _, _, end = next(iter_fields(data, pos, stop))
            if found and found[-1][1] == pos:
                found[-1] = (found[-1][0], end)
            else:
                found.append((pos, end))
        else:
            field, kind, start, end = next(iter_fields(data, pos, stop))
            if field == number or (field in _MESSAGE_FIELDS and kind != BYTES):
                raise_at(f"field {field} of a graph has another wire type", pos)
            others.append((field, pos, start, end))
            source.release(end)
        pos = end
    return found, others


def _skip_nodes(block: bytes, at: int, node: int, base: int) -> int:
    """The position after all nodes from `at` on that are complete in the block."""
    end = len(block)
    while at + _MAX_HEADER < end and block[at] == node:
        size = block[at + 1]
        start = at + 2
        if size > 127:
            size, start = decode_varint(block, at + 1, end, base)
        if start + size > end:
            break
        at = start + size
    return at


class GraphReader:
    """Reads the nodes of one graph; has its values by name, and the graph around it."""

    def __init__(
        self, model: ModelReader, graph: Graph, outer: GraphReader | None, place: int
    ) -> None:
        self.model = model
        self.graph = graph
        self.outer = outer
        self.depth: int = outer.depth + 1 if outer else 0
        self.values: dict[str, OutputPort] = {}
        self._late: list[tuple[Op, int, str]] = []
        self._kinds: dict[str, str] = {}  # one string for all ops of a type
        self._at = place
        if self.depth > MAX_DEPTH:
            raise LimitError(
                "graphs nested too deeply",
                where=f"byte {place}",
                expected=f"at most {MAX_DEPTH} levels",
            )

    def find(self, name: str) -> OutputPort | None:
        """The value with a name, in this graph or in one around it."""
        scope: GraphReader | None = self
        while scope is not None:
            found = scope.values.get(name)
            if found is not None:
                return found
            scope = scope.outer
        return None

    def define(self, name: str, port: OutputPort, place: int) -> None:
        """Name a value; names are unique in a graph."""
        if name in self.values:
            raise_at("two values of the same name in a graph", place, got=repr(name))
        self.values[name] = port
        port.name = name

    # -- nodes ---------------------------------------------------------------------

    def nodes(self, stretches: Sequence[Span]) -> None:
        """Read all nodes in file order."""
        try:
            for pos, stop in stretches:
                while pos < stop:
                    pos = self._node_block(pos, stop) or self._long_node(pos, stop)
            self._connect_late()
        except (IndexError, UnicodeDecodeError) as error:
            cause = "a string that is not UTF-8"
            if isinstance(error, IndexError):
                cause = "a node ends inside a field"
            raise FormatError(cause, where=f"byte {self._at}") from error
        except AmandaError as error:
            self._add_location(error)

    def _add_location(self, error: AmandaError) -> NoReturn:
        if isinstance(error, FormatError) and error.where:
            raise error
        raise FormatError(
            error.message,
            who=error.who,
            where=error.where or f"the node at byte {self._at}",
            expected=error.expected,
            got=error.got,
            hint=error.hint,
        ) from error

    def _node_block(self, pos: int, stop: int) -> int:
        """Read the nodes that are complete in a block; the position behind, or 0."""
        data = bytes(self.model.source.data[pos : min(pos + _BLOCK, stop)])
        text = data.decode("latin-1")  # a character for each byte
        end = len(data)
        at = 0
        while at + 1 < end:
            size = data[at + 1]
            start = at + 2
            if size > 127:
                if at + _MAX_HEADER > end:
                    break
                size, start = decode_varint(data, at + 1, end, pos)
            if start + size > end:
                break
            self._at = pos + at
            at = start + size
            self._node(data, text, start, at, pos)
        return pos + at if at else 0

    def _long_node(self, pos: int, stop: int) -> int:
        """Read one node of any length in place."""
        self._at = pos
        data = self.model.source.data
        _, _, start, end = next(iter_fields(data, pos, stop))
        self._node_rare(data, start, end, 0)
        return end

    def _node(self, data: bytes, text: str, pos: int, stop: int, base: int) -> None:
        """Read a node of short ASCII fields; others go to `_node_general`."""
        start = pos
        if not text[pos:stop].isascii():
            self._node_general(data, pos, stop, base)
            return
        inputs: list[str] = []
        outputs: list[str] = []
        attributes: list[Attribute] = []
        name = kind = domain = ""
        while pos < stop:
            tag = data[pos]
            end = pos + 2 + data[pos + 1]
            if tag == _INPUT:
                inputs.append(text[pos + 2 : end])
            elif tag == _OUTPUT:
                outputs.append(text[pos + 2 : end])
            elif tag == _NAME:
                name = text[pos + 2 : end]
            elif tag == _TYPE:
                kind = text[pos + 2 : end]
            elif tag == _ATTRIBUTE:
                attributes.append(self._attribute(data, pos + 2, end, base))
            elif tag == _DOMAIN:
                domain = text[pos + 2 : end]
            else:
                self._node_rare(data, start, stop, base)
                return
            pos = end
        if pos != stop:
            raise_at("a field extends beyond the end of its node", base + start)
        if attributes or domain or not kind:
            self._node_with_attributes(
                (kind, name, domain), inputs, outputs, attributes
            )
        else:
            kind = self._kinds.get(kind) or self._kinds.setdefault(kind, kind)
            self._add_op(kind, name, inputs, outputs, None)

    def _node_general(self, data: bytes, pos: int, stop: int, base: int) -> None:
        """Read a node with fields of any length, in any script."""
        start = pos
        inputs: list[str] = []
        outputs: list[str] = []
        attributes: list[Attribute] = []
        words = {_NAME: "", _TYPE: "", _DOMAIN: ""}
        while pos < stop:
            tag = data[pos]
            size, pos = decode_varint(data, pos + 1, stop, base)
            end = pos + size
            if end > stop:
                raise_at("a field extends beyond the end of its node", base + start)
            if tag == _ATTRIBUTE:
                attributes.append(self._attribute(data, pos, end, base))
            elif tag == _INPUT:
                inputs.append(str(data[pos:end], "utf-8"))
            elif tag == _OUTPUT:
                outputs.append(str(data[pos:end], "utf-8"))
            elif tag in words:
                words[tag] = str(data[pos:end], "utf-8")
            else:
                self._node_rare(data, start, stop, base)
                return
            pos = end
        label = (words[_TYPE], words[_NAME], words[_DOMAIN])
        self._node_with_attributes(label, inputs, outputs, attributes)

    def _node_with_attributes(
        self,
        label: tuple[str, str, str],
        inputs: list[str],
        outputs: list[str],
        attributes: list[Attribute],
    ) -> None:
        """Read a node with attributes or a domain; simple ones take a shortcut."""
        kind, name, domain = label
        plain = not domain and kind and kind != "Constant"
        if plain and all(each.simple for each in attributes):
            values = {each.name: each.fresh() for each in attributes}
            if len(values) == len(attributes):
                kind = self._kinds.get(kind) or self._kinds.setdefault(kind, kind)
                self._add_op(kind, name, inputs, outputs, values)
                return
        self._node_complete(label, inputs, outputs, attributes, {})

    def _add_op(
        self,
        kind: str,
        name: str | None,
        inputs: list[str],
        outputs: list[str],
        attrs: dict[str, Any] | None,
    ) -> Op:
        """Add an op and name its outputs."""
        values = self.values
        sources = [values.get(word) for word in inputs]
        late = self._find_outside(inputs, sources) if None in sources else None
        count = len(outputs)
        try:
            op = self.graph.add(kind, sources, attrs, name=name or None, outputs=count)
        except DuplicateNameError:
            op = self.graph.add(kind, sources, attrs, outputs=count)
            op.attrs[NOTES_KEY] = {"name": name}
        for port in op.outputs:
            word = outputs[port.index]
            if not word:
                port.type = _VOID
            elif values.setdefault(word, port) is port:
                port.name = word
            else:
                self._raise_duplicate(op, word)
        if late:
            self._late += [(op, i, word) for i, word in late]
        return op

    def _find_outside(
        self, inputs: list[str], sources: list[OutputPort | None]
    ) -> list[tuple[int, str]]:
        """Fill in values of outer graphs; returns the inputs not defined yet."""
        late = []
        for i, word in enumerate(inputs):
            if word and sources[i] is None:
                sources[i] = self.find(word)
                if sources[i] is None:
                    late.append((i, word))
        return late

    def _raise_duplicate(self, op: Op, word: str) -> NoReturn:
        raise FormatError(
            "two values of the same name in a graph",
            who=op.label,
            where=f"the node at byte {self._at}",
            got=repr(word),
        )

    def _connect_late(self) -> None:
        """Connect inputs that later nodes define."""
        if not self._late:
            return
        with self.graph.wiring():
            for op, i, word in self._late:
                value = self.find(word)
                if value is None:
                    raise FormatError(
                        "a node reads a value that no node produces",
                        who=op.label,
                        where=f"its input {i}",
                        got=repr(word),
                    )
                InputPort(op, i).connect(value)
        self._late.clear()

    # -- nodes with more than names --------------------------------------------------

    def _node_rare(self, data: Buffer, pos: int, stop: int, base: int) -> None:
        fields = SCHEMA.read("NodeProto", data, pos, stop, base)
        attributes = [
            self._attribute(data, a, b, base) for a, b in fields.get("attribute", ())
        ]
        props = fields.get("metadata_props", ())
        pairs = self.model.source.pairs([(base + a, base + b) for a, b in props])
        notes = {
            "doc_string": fields.get("doc_string"),
            "overload": fields.get("overload"),
            "metadata_props": pairs,
            "device_configurations": [
                bytes(data[a:b]) for a, b in fields.get("device_configurations", ())
            ],
            "rest": fields.get(UNKNOWN_FIELDS),
        }
        label = (
            fields.get("op_type", ""),
            fields.get("name", ""),
            fields.get("domain", ""),
        )
        inputs, outputs = fields.get("input", []), fields.get("output", [])
        noted = {key: value for key, value in notes.items() if value}
        self._node_complete(label, inputs, outputs, attributes, noted)

    def _attribute(self, data: Buffer, pos: int, stop: int, base: int) -> Attribute:
        return self.model.attributes.read(data, pos, stop, base)

    def _node_complete(
        self,
        label: tuple[str, str, str],
        inputs: list[str],
        outputs: list[str],
        attributes: list[Attribute],
        notes: dict[str, Any],
    ) -> None:
        """Add a node with attributes, of another domain, or with records."""
        kind, name, domain = label
        if not kind:
            raise FormatError(
                "a node without an op type",
                who=f"node {name!r}" if name else None,
                where=f"byte {self._at}",
            )
        kind = self._kinds.setdefault(kind, kind)
        attrs = self._attrs(kind, name, attributes, notes)
        if domain == "ai.onnx":
            notes["domain"] = domain
        own = self.model.namespace(domain)
        if kind == "Constant" and own is None and not inputs:
            tensor = constant_of(attrs)
            if tensor is not None and len(outputs) == 1 and outputs[0]:
                notes["node"] = next(iter(attrs))
                self._weight(tensor, name, outputs[0], notes)
                return
        bodies = self._bodies(attributes, own)
        op = self._add_op(kind, name, inputs, outputs, attrs)
        _restore_attributes(op, notes)
        if notes:
            op.attrs[NOTES_KEY] = {**op.attrs.get(NOTES_KEY, {}), **notes}
        if own is not None:
            op.namespace = own
        for key, scope, _ in bodies:
            op.set_body(key, scope.graph)
        self.model.waiting += [(scope, span) for _, scope, span in bodies]

    def _attrs(
        self,
        kind: str,
        name: str | None,
        attributes: list[Attribute],
        notes: dict[str, Any],
    ) -> dict[str, Any]:
        """The attributes with a value; the rest goes to the record."""
        attrs: dict[str, Any] = {}
        seen: set[str] = set()
        for each in attributes:
            if each.name in seen:
                raise FormatError(
                    f"two attributes {each.name!r} of one node",
                    who=f"{kind} {name!r}" if name else kind,
                    where=f"the node at byte {self._at}",
                )
            seen.add(each.name)
            if each.value is not None:
                attrs[each.name] = each.fresh()
            if not each.simple:
                self.note(each, notes)
        return attrs

    @staticmethod
    def note(each: Attribute, notes: dict[str, Any]) -> None:
        """Record what an attribute has beside its value."""
        for key, fact in (
            ("kinds", each.kind),
            ("docs", each.doc),
            ("values", each.beside),
            ("rests", each.rest),
        ):
            if fact:
                notes.setdefault(key, {})[each.name] = fact

    def _bodies(
        self, attributes: list[Attribute], own: str | None
    ) -> list[tuple[str, GraphReader, Span]]:
        """An empty graph for each body; its nodes are read later."""
        bodies = []
        for each in attributes:
            many = each.kind == "GRAPHS"
            for i, span in enumerate(each.graphs):
                key = f"{each.name}[{i}]" if many else each.name
                space = self.graph.namespace if own is not None else None
                graph = Graph(space, outer=self.graph)
                bodies.append(
                    (key, GraphReader(self.model, graph, self, span[0]), span)
                )
        return bodies

    def _weight(
        self, tensor: Tensor, name: str | None, word: str, notes: dict[str, Any]
    ) -> None:
        if name and name in self.graph:
            notes["name"], name = name, None
        op = self.graph.constant(tensor, name or None)
        _restore_attributes(op, notes)
        op.attrs[NOTES_KEY] = notes
        self.define(word, op.output, self._at)


def _restore_attributes(op: Op, notes: dict[str, Any]) -> None:
    """Set the attributes that stand in the record of a node, and remove them there."""
    if "metadata_props" in notes:
        kept = restore_attributes(op, notes.pop("metadata_props"))
        notes.update({"metadata_props": kept} if kept else {})


def constant_of(attrs: dict[str, Any]) -> Tensor | None:
    """The tensor of a `Constant` node; None if a constant cannot hold it."""
    if len(attrs) != 1:
        return None
    (key, value), *_ = attrs.items()
    if key not in _CONSTANT_ATTRIBUTES:
        return None
    wanted, dtype = _CONSTANT_ATTRIBUTES[key]
    if wanted is Tensor:
        return value if isinstance(value, Tensor) else None
    many = isinstance(value, list)
    items = value if many else [value]
    if many != key.endswith("s") or not all(isinstance(i, wanted) for i in items):
        return None
    shape = [len(items)] if many else []
    if not dtype:
        return Tensor.strings(items, shape)
    raw = struct.pack(f"<{len(items)}{'q' if dtype == 'int64' else 'f'}", *items)
    return Tensor.from_buffer(raw, dtype, shape)
