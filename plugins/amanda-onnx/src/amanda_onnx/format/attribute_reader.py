"""ONNX attributes as attribute values.

    FLOAT, INT, STRING      float, int, str (bytes where it is not UTF-8)
    TENSOR, TYPE_PROTO      Tensor, Type
    SPARSE_TENSOR           {"values": Tensor, "indices": Tensor, "dims": [int, ...]}
    FLOATS, INTS, ...       a list of these
    GRAPH, GRAPHS           a body of the op: `then_branch`; `bodies[0]`, `bodies[1]`
    a function's attribute  {"onnx:ref": its name, "kind": "FLOAT"}

An empty list has no element type, so its kind is recorded where it is not INTS.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from amanda.formatkit import UNKNOWN_FIELDS, Buffer, Span, raise_at
from amanda_onnx.format.messages import SCHEMA
from amanda_onnx.format.model_file import ModelFile
from amanda_onnx.format.tensor_reader import read_sparse, read_tensor
from amanda_onnx.format.value_types import TypeReader

__all__ = ["CODES", "FIELDS", "KINDS", "REFERENCE", "Attribute", "AttributeReader"]

REFERENCE: Final = "onnx:ref"

KINDS: Final[Mapping[int, tuple[str, str]]] = {
    1: ("FLOAT", "f"),
    2: ("INT", "i"),
    3: ("STRING", "s"),
    4: ("TENSOR", "t"),
    5: ("GRAPH", "g"),
    6: ("FLOATS", "floats"),
    7: ("INTS", "ints"),
    8: ("STRINGS", "strings"),
    9: ("TENSORS", "tensors"),
    10: ("GRAPHS", "graphs"),
    11: ("SPARSE_TENSOR", "sparse_tensor"),
    12: ("SPARSE_TENSORS", "sparse_tensors"),
    13: ("TYPE_PROTO", "tp"),
    14: ("TYPE_PROTOS", "type_protos"),
}
"""The kinds of attributes by number, and the field that holds the value of each."""

CODES: Final = {kind: code for code, (kind, _) in KINDS.items()}
FIELDS: Final = dict(KINDS.values())
_KIND_OF: Final = {field: kind for kind, field in KINDS.values()}
_EMPTY: Final[Mapping[str, Any]] = {
    "FLOAT": 0.0, "INT": 0, "STRING": "", "FLOATS": [], "INTS": [], "STRINGS": [],
    "TENSORS": [], "SPARSE_TENSORS": [], "TYPE_PROTOS": [],
}  # fmt: skip
_CACHED_BYTES: Final = 64  # bytes of an attribute that is cached
_CACHE_SIZE: Final = 4096


class Attribute:
    """One attribute. `graphs` are the spans of its bodies; then `value` is None.

    `kind` is recorded where the value does not imply it, and `beside` what a tensor or
    type in it has that ours does not. `simple`: nothing needs to be recorded.
    """

    __slots__ = ("beside", "doc", "graphs", "kind", "name", "rest", "simple", "value")

    def __init__(
        self,
        name: str,
        value: Any,
        kind: str = "",
        graphs: tuple[Span, ...] = (),
        doc: str = "",
        beside: Any = None,
        rest: bytes = b"",
    ) -> None:
        self.name = name
        self.value = value
        self.kind = kind
        self.graphs = graphs
        self.doc = doc
        self.beside = beside
        self.rest = rest
        self.simple = not (kind or graphs or doc or beside or rest)

    def fresh(self) -> Any:
        """The value for one op; a list is copied, since the attribute may be cached."""
        value = self.value
        return list(value) if type(value) is list else value


class AttributeReader:
    """Reads the attributes of one file. Short ones are cached by their bytes."""

    def __init__(self, source: ModelFile, types: TypeReader) -> None:
        self._source = source
        self._types = types
        self._known: dict[bytes, Attribute] = {}

    def read(self, data: Buffer, pos: int, stop: int, base: int) -> Attribute:
        """The attribute between two positions of `data`, which lies at `base`."""
        if stop - pos > _CACHED_BYTES:
            return self._read(data, pos, stop, base)
        raw = bytes(data[pos:stop])
        found = self._known.get(raw)
        if found is None:
            found = self._read(raw, 0, len(raw), base + pos)
            if found.simple and len(self._known) < _CACHE_SIZE:
                self._known[raw] = found
        return found

    def _read(self, data: Buffer, pos: int, stop: int, base: int) -> Attribute:
        fields = SCHEMA.read("AttributeProto", data, pos, stop, base)
        place = base + pos
        name = fields.get("name", "")
        if not name:
            raise_at("an attribute without a name", place)
        doc, rest = fields.get("doc_string", ""), fields.get(UNKNOWN_FIELDS, b"")
        kind, noted = self._kind(fields, name, place)
        if fields.get("ref_attr_name"):
            value: Any = {REFERENCE: fields["ref_attr_name"], "kind": kind}
            return Attribute(name, value, noted, doc=doc, rest=rest)
        field = FIELDS[kind]
        others = [f for f in _KIND_OF if f in fields and f != field]
        if others and noted:
            raise_at(f"attribute {name!r} has both {field} and {others[0]}", place)
        if others:
            raise_at(
                f"attribute {name!r} is {kind} but has a value in {others[0]}", place
            )
        if field not in fields and kind not in _EMPTY and kind != "GRAPHS":
            raise_at(f"attribute {name!r} is {kind} and has no value", place)
        given: Any = fields.get(field)
        if kind in ("GRAPH", "GRAPHS"):
            many = kind == "GRAPHS"
            spans: list[Span] = given or [] if many else [given]
            graphs = tuple((base + start, base + end) for start, end in spans)
            return Attribute(
                name, None, kind if many else noted, graphs, doc, None, rest
            )
        if given is None:
            empty = _EMPTY[kind]
            value = list(empty) if isinstance(empty, list) else empty
            shown = kind if value == [] and kind != "INTS" else noted
            return Attribute(name, value, shown, doc=doc, rest=rest)
        value, beside = self._value(kind, given, data, base)
        return Attribute(name, value, noted, (), doc, beside, rest)

    def _kind(
        self, fields: Mapping[str, Any], name: str, place: int
    ) -> tuple[str, str]:
        """The kind of an attribute, and the kind to record."""
        code = fields.get("type", 0)
        if code in KINDS:
            return KINDS[code][0], ""
        if code:
            raise_at(
                f"attribute {name!r} has a kind that ONNX does not define",
                place,
                got=code,
            )
        found = [kind for field, kind in _KIND_OF.items() if field in fields]
        if len(found) != 1:  # before IR version 2 the field implies the kind
            raise_at(f"attribute {name!r} has no kind", place)
        return found[0], "UNDEFINED"

    def _value(self, kind: str, given: Any, data: Buffer, base: int) -> tuple[Any, Any]:
        """The value, and what to record of it."""
        if kind in ("INT", "FLOAT", "INTS", "FLOATS"):
            return given, None
        if kind == "STRING":
            return _text(data, given), None
        if kind == "STRINGS":
            return [_text(data, span) for span in given], None
        many = kind.endswith("S")
        spans = given if many else [given]
        read_one = {
            "TENSOR": self._tensor,
            "SPARSE_TENSOR": self._sparse,
            "TYPE_PROTO": self._type,
        }[kind.removesuffix("S")]
        made = [read_one((base + start, base + end)) for start, end in spans]
        values, beside = [one[0] for one in made], [one[1] for one in made]
        if many:
            return values, beside if any(beside) else None
        return values[0], beside[0] or None

    def _tensor(self, span: Span) -> tuple[Any, Any]:
        name, tensor, facts = read_tensor(self._source, span)
        return tensor, {"name": name, **facts} if name else facts

    def _sparse(self, span: Span) -> tuple[Any, Any]:
        name, value, facts = read_sparse(self._source, span)
        return value, {"name": name, **facts} if name else facts

    def _type(self, span: Span) -> tuple[Any, Any]:
        type_, notes = self._types.read(span)
        if type_ is None:
            raise_at("an attribute with an empty type", span[0])
        return type_, notes


def _text(data: Buffer, span: Span) -> str | bytes:
    raw = bytes(data[span[0] : span[1]])
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw
