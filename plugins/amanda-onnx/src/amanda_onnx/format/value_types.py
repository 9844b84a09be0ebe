"""ONNX types as types of Amanda, both ways.

    tensor_type         TensorType; the denotations of dims are the names of its axes
    dim_param           a symbolic dim, or the expression that it is (`past + 1`)
    no dim, no shape    an anonymous dim; a shape of unknown rank
    sequence, optional  SequenceType, OptionalType
    map                 MapType
    sparse, opaque      OpaqueType("onnx.sparse_tensor float32[3, n]"), "onnx.opaque a"

The bytes of a type that is not fully represented so are recorded, and written again
as long as the type has not changed.
"""

from __future__ import annotations

import re
from typing import Any, Final

from amanda.errors import AmandaError, FormatError, LimitError
from amanda.formatkit import Span, raise_at
from amanda.types import (
    Dim,
    DType,
    MapType,
    OpaqueType,
    OptionalType,
    SequenceType,
    Shape,
    Sym,
    Symbols,
    TensorType,
    Type,
    accepts,
    parse_dim,
    parse_type,
    unknown,
)
from amanda_onnx.format.element_types import CODES, DTYPES
from amanda_onnx.format.messages import SCHEMA
from amanda_onnx.format.model_file import ModelFile

__all__ = ["TypeReader", "same_type", "matches_bytes", "encode_type"]

_MAX_DEPTH: Final = 60
_OPERATORS: Final = re.compile(r"[+*]|//| - ")  # a hyphen may be part of a name
_MAX_LENGTH: Final = 200  # of a dim_param that is parsed as an expression
_CACHE_SIZE: Final = 4096
_UNKNOWN_NAMES: Final = frozenset({"?", "*", "-1", "None"})
"""What some exporters write for unknown dims; not names."""

_SPARSE: Final = "onnx.sparse_tensor "
_OPAQUE: Final = "onnx.opaque "


class TypeReader:
    """Reads types of one file. Equal bytes share a type without anonymous dims."""

    def __init__(self, source: ModelFile) -> None:
        self._source = source
        self._known: dict[bytes, tuple[Type | None, dict[str, Any], bool]] = {}
        self._dims: dict[str, Dim] = {}

    def read(self, span: Span) -> tuple[Type | None, dict[str, Any]]:
        """The type at a span, and what to record of it."""
        start, stop = span
        return self.of(bytes(self._source.data[start:stop]), start)

    def of(self, raw: bytes, place: int) -> tuple[Type | None, dict[str, Any]]:
        """The type in some bytes, which are at `place` of the file."""
        found = self._known.get(raw)
        if found is not None:
            type_, notes, is_closed = found
            return type_ if is_closed else _fresh_type(type_), notes
        fields = SCHEMA.read("TypeProto", raw, 0, len(raw), place)
        type_ = self._type(raw, fields, place, 0)
        notes = {}
        if fields.get("denotation"):
            notes["denotation"] = fields["denotation"]
        if encode_type(type_, fields.get("denotation")) != raw:
            notes["type"] = raw
        is_closed = _is_closed(type_)
        if len(self._known) < _CACHE_SIZE and (is_closed or type(type_) is TensorType):
            self._known[raw] = (type_, notes, is_closed)
        return type_, notes

    def _type(
        self, raw: bytes, fields: dict[str, Any], base: int, depth: int
    ) -> Type | None:
        if depth > _MAX_DEPTH:
            raise LimitError(
                "types nested too deeply",
                where=f"byte {base}",
                expected=f"at most {_MAX_DEPTH} levels",
            )
        kinds = [kind for kind in _READERS if kind in fields]
        if not kinds:
            return None
        if len(kinds) > 1:
            raise_at(f"a type that is both {kinds[0]} and {kinds[1]}", base)
        kind = kinds[0]
        message = _READERS[kind]
        part = _read_part(message, raw, fields[kind], base)
        if kind == "tensor_type":
            return self._tensor(raw, part, base)
        if kind == "sparse_tensor_type":
            return OpaqueType(f"{_SPARSE}{self._tensor(raw, part, base)}")
        if kind == "opaque_type":
            return OpaqueType(
                f"{_OPAQUE}{part.get('domain', '')} {part.get('name', '')}"
            )
        inner = part.get("value_type" if kind == "map_type" else "elem_type")
        element: Type | None = None
        if inner is not None:
            nested = _read_part("TypeProto", raw, inner, base)
            element = self._type(raw, nested, base, depth + 1)
        element = TensorType() if element is None else element
        if kind == "map_type":
            return MapType(_element(part.get("key_type", 0), base), element)
        if kind == "sequence_type":
            return SequenceType(element)
        return OptionalType(element)

    def _tensor(self, raw: bytes, part: dict[str, Any], base: int) -> TensorType:
        dtype = _element(part.get("elem_type", 0), base)
        if "shape" not in part:
            return TensorType(dtype)
        spans = _read_part("TensorShapeProto", raw, part["shape"], base).get("dim", [])
        rows = [
            _read_part("TensorShapeProto.Dimension", raw, span, base) for span in spans
        ]
        shape = Shape([self._dim(row) for row in rows])
        axes = [row.get("denotation") or None for row in rows]
        return TensorType(dtype, shape, axes if any(axes) else None)

    def _dim(self, row: dict[str, Any]) -> Dim:
        value = row.get("dim_value")
        if value is not None and value >= 0:
            return value  # type: ignore[no-any-return]
        name = row.get("dim_param")
        if not name or name in _UNKNOWN_NAMES:
            return Sym.unknown()
        found = self._dims.get(name)
        if found is None:
            found = self._dims[name] = _parse_named_dim(name)
        return found


_READERS: Final = {
    "tensor_type": "TypeProto.Tensor",
    "sequence_type": "TypeProto.Sequence",
    "map_type": "TypeProto.Map",
    "optional_type": "TypeProto.Optional",
    "sparse_tensor_type": "TypeProto.SparseTensor",
    "opaque_type": "TypeProto.Opaque",
}


def _read_part(message: str, raw: bytes, span: Span, base: int) -> dict[str, Any]:
    return SCHEMA.read(message, raw, span[0], span[1], base)


def _parse_named_dim(name: str) -> Dim:
    """A dim_param as a dim: an expression, or a symbol.

    >>> _parse_named_dim("past + 1"), _parse_named_dim("batch-size").name
    (past+1, 'batch-size')
    """
    if len(name) <= _MAX_LENGTH and _OPERATORS.search(name):
        try:
            found = parse_dim(name)
        except AmandaError:
            return Sym.named(name)
        if isinstance(found, Sym):
            return found
    return Sym.named(name)


def _element(code: int, place: int) -> DType:
    if code == 0:
        return unknown
    dtype = DTYPES.get(code)
    if dtype is None:
        raise_at(
            "an element type that ONNX does not define", place, got=f"number {code}"
        )
    return dtype


def _fresh_type(type_: Type | None) -> Type | None:
    """The type with new anonymous dims, for another value."""
    assert isinstance(type_, TensorType)
    shape = type_.shape.map(lambda dim: Sym.unknown() if dim.is_anonymous else dim)
    return TensorType(type_.dtype, shape, type_.axes)


def _is_closed(type_: Type | None) -> bool:
    """Whether it has no anonymous dims, so that two values can share it."""
    return type_ is None or "?" not in str(type_)


# -- writing -----------------------------------------------------------------------


def matches_bytes(raw: bytes, type_: Type | None, *, loose: bool = False) -> bool:
    """Whether recorded bytes describe a type, or (`loose`) are compatible with it."""
    source = ModelFile(memoryview(raw))
    try:
        found, _ = TypeReader(source).read((0, len(raw)))
    except AmandaError:
        return False
    if loose and isinstance(found, TensorType) and isinstance(type_, TensorType):
        return accepts(found, type_) is not False
    return same_type(found, type_)


def same_type(one: Type | None, other: Type | None) -> bool:
    """Whether two types are equal up to their anonymous dims."""
    if one is None or other is None or one is other:
        return one is other
    return one.text(Symbols()) == other.text(Symbols())


def encode_type(type_: Type | None, denotation: str | None = None) -> bytes:
    """A TypeProto; InvalidTypeError or FormatError where ONNX has no such type."""
    return (
        SCHEMA.writer("TypeProto")
        .put_raw(_value(type_))
        .put_if("denotation", denotation)
        .done()
    )


def _value(type_: Type | None) -> bytes:
    out = SCHEMA.writer("TypeProto")
    match type_:
        case None:
            return b""
        case TensorType():
            return out.put(
                "tensor_type", _tensor_bytes("TypeProto.Tensor", type_)
            ).done()
        case SequenceType():
            part = SCHEMA.writer("TypeProto.Sequence").put(
                "elem_type", _value(type_.element)
            )
            return out.put("sequence_type", part.done()).done()
        case OptionalType():
            part = SCHEMA.writer("TypeProto.Optional").put(
                "elem_type", _value(type_.element)
            )
            return out.put("optional_type", part.done()).done()
        case MapType() if isinstance(type_.key, DType):
            part = SCHEMA.writer("TypeProto.Map").put("key_type", _code(type_.key))
            part.put("value_type", _value(type_.value))
            return out.put("map_type", part.done()).done()
        case OpaqueType():
            return _opaque_bytes(type_)
    raise FormatError("ONNX has no such type", got=type_)


def _opaque_bytes(type_: OpaqueType) -> bytes:
    out = SCHEMA.writer("TypeProto")
    if type_.content.startswith(_OPAQUE):
        domain, _, name = type_.content.removeprefix(_OPAQUE).partition(" ")
        part = (
            SCHEMA.writer("TypeProto.Opaque")
            .put_if("domain", domain)
            .put_if("name", name)
        )
        return out.put("opaque_type", part.done()).done()
    if type_.content.startswith(_SPARSE):
        dense = parse_type(type_.content.removeprefix(_SPARSE))
        if isinstance(dense, TensorType):
            raw = _tensor_bytes("TypeProto.SparseTensor", dense)
            return out.put("sparse_tensor_type", raw).done()
    raise FormatError("ONNX has no such type", got=type_)


def _tensor_bytes(message: str, type_: TensorType) -> bytes:
    out = SCHEMA.writer(message)
    if type_.dtype is not unknown:
        out.put("elem_type", _code(type_.dtype))
    if type_.shape.has_rank:
        shape = SCHEMA.writer("TensorShapeProto")
        names = type_.axes or [None] * type_.shape.rank
        for dim, name in zip(type_.shape, names, strict=True):
            row = SCHEMA.writer("TensorShapeProto.Dimension")
            if isinstance(dim, int):
                row.put("dim_value", dim)
            elif not dim.is_anonymous:
                row.put("dim_param", dim.name or str(dim))
            shape.put("dim", row.put_if("denotation", name).done())
        out.put("shape", shape.done())
    return out.done()


def _code(dtype: Any) -> int:
    code = CODES.get(dtype)
    if code is None:
        raise FormatError("ONNX has no such element type", got=dtype)
    return code
