"""The messages of a GraphDef, as far as graphs are in them, read where they lie.

Field numbers are those of TensorFlow's graph.proto, node_def.proto, attr_value.proto,
tensor.proto and tensor_shape.proto. A tensor's elements are located when it is read and
decoded when they are asked for.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amanda.errors import AmandaError, FormatError
from amanda.formatkit.wire import (
    BYTES,
    FIXED32,
    VARINT,
    decode_varint,
    iter_fields,
    unpack_varints,
)
from amanda.tensors import FunctionRef, Tensor, check_shape, packed_size
from amanda.types import DType, Shape, Sym

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

__all__ = ["DTYPES", "Node", "Span", "attribute", "element_type", "nodes", "text"]

Span = tuple[int, int]

_NAMES: Final = (  # by their number
    *("", "float32", "float64", "int32", "uint8", "int16", "int8", "string"),
    *("complex64", "int64", "bool", "qint8", "quint8", "qint32", "bfloat16", "qint16"),
    *("quint16", "uint16", "complex128", "half", "resource", "variant", "uint32"),
    *("uint64", "float8_e5m2", "float8_e4m3fn", "", "", "", "int4", "uint4"),
)
DTYPES: Final[Mapping[int, DType]] = {
    number: DType(name) for number, name in enumerate(_NAMES) if name
}
_REF: Final = 100  # what is added to the number of a type for places that hold one


class Node(NamedTuple):
    """A NodeDef. `rest` has its other fields, as bytes."""

    name: str
    type: str
    inputs: tuple[str, ...]
    attrs: dict[str, Any]
    device: str
    rest: bytes


def nodes(data: memoryview) -> Iterator[Node]:
    """The nodes of a GraphDef, in its order."""
    for number, kind, start, end in iter_fields(data):
        if number == 1:
            _expect(kind, BYTES, number, start)
            yield _node(data, (start, end))


def _node(data: memoryview, span: Span) -> Node:
    name = type = device = ""
    inputs: list[str] = []
    attrs: dict[str, Any] = {}
    rest: list[bytes] = []
    place = span[0]
    for number, kind, start, end in iter_fields(data, *span):
        if number < 6:
            _expect(kind, BYTES, number, start)
        if number == 1:
            name = text(data, start, end)
        elif number == 2:
            type = text(data, start, end)
        elif number == 3:
            inputs.append(text(data, start, end))
        elif number == 4:
            device = text(data, start, end)
        elif number == 5:
            key, value = _entry(data, (start, end))
            attrs[key] = _named(data, value, name, key)
        else:
            rest.append(bytes(data[place:end]))
        place = end
    if not type:
        raise FormatError("a node without an op", who=name, where=f"byte {span[0]}")
    return Node(name, type, tuple(inputs), attrs, device, b"".join(rest))


def _entry(data: memoryview, span: Span) -> tuple[str, Span]:
    key, value = "", (span[0], span[0])
    for number, kind, start, end in iter_fields(data, *span):
        _expect(kind, BYTES, number, start)
        if number == 1:
            key = text(data, start, end)
        elif number == 2:
            value = (start, end)
    return key, value


def _named(data: memoryview, value: Span, name: str, key: str) -> Any:
    try:
        return attribute(data, value)
    except AmandaError as error:
        error.who = error.who or f"{key} of {name!r}"
        raise


def text(data: memoryview, start: int, end: int) -> str:
    """A text; FormatError where the bytes are none."""
    try:
        return bytes(data[start:end]).decode()
    except UnicodeDecodeError:
        raise FormatError("a text is not UTF-8", where=f"byte {start}") from None


# -- attributes ------------------------------------------------------------------------


def attribute(data: memoryview, span: Span) -> Any:
    """An AttrValue; None where nothing is in it."""
    value = None
    for number, kind, start, end in iter_fields(data, *span):
        if number == 1:
            _expect(kind, BYTES, number, start)
            value = _list(data, (start, end))
        elif number in _VALUES:
            value = _one(data, _VALUES[number], kind, start, end)
    return value


def _list(data: memoryview, span: Span) -> list[Any]:
    found: list[Any] = []
    for number, kind, start, end in iter_fields(data, *span):
        what = _LISTED.get(number)
        if what is None:
            continue
        if kind == BYTES and what in _PACKED:
            found += _packed(data, what, start, end)
        else:
            found.append(_one(data, what, kind, start, end))
    return found


_VALUES: Final = {
    2: "bytes", 3: "int", 4: "float", 5: "bool", 6: "type", 7: "shape", 8: "tensor",
    9: "text", 10: "function",
}  # fmt: skip
_LISTED: Final = {**{k: v for k, v in _VALUES.items() if k < 9}, 9: "function"}
_PACKED: Final = ("int", "float", "bool", "type")


def _one(data: memoryview, what: str, kind: int, start: int, end: int) -> Any:
    if what in _NUMBERS:
        _expect(kind, VARINT, 0, start)
        return _NUMBERS[what](decode_varint(data, start, end)[0])
    if what == "float":
        _expect(kind, FIXED32, 0, start)
        return struct.unpack("<f", data[start:end])[0]
    _expect(kind, BYTES, 0, start)
    if what == "bytes":
        return _words(bytes(data[start:end]))
    return _READ[what](data, (start, end))


def _packed(data: memoryview, what: str, start: int, end: int) -> list[Any]:
    if what == "float":
        if (end - start) % 4:
            raise FormatError("floats of other than 4 bytes", where=f"byte {start}")
        return [value for (value,) in struct.iter_unpack("<f", data[start:end])]
    return [_NUMBERS[what](value) for value in unpack_varints(data, start, end)]


def _words(value: bytes) -> str | bytes:
    """Texts are texts, whatever else there is stays bytes."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def element_type(number: int) -> DType:
    """An element type by its number; one for places that hold it is that type."""
    found = DTYPES.get(number - _REF if number > _REF else number)
    if found is None:
        raise FormatError("no element type of TensorFlow", got=f"number {number}")
    return found


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


_NUMBERS: Final[Mapping[str, Callable[[int], Any]]] = {
    "int": _signed, "bool": bool, "type": element_type,
}  # fmt: skip


def _shape(data: memoryview, span: Span) -> Shape:
    sizes: list[int | Sym] = []
    known = True
    for number, kind, start, end in iter_fields(data, *span):
        if number == 2:
            _expect(kind, BYTES, number, start)
            size = 0
            for inner, inner_kind, at, stop in iter_fields(data, start, end):
                if inner == 1:
                    _expect(inner_kind, VARINT, inner, at)
                    size = _signed(decode_varint(data, at, stop)[0])
            sizes.append(Sym.unknown() if size < 0 else size)
        elif number == 3 and kind == VARINT:
            known = not decode_varint(data, start, end)[0]
    return Shape(sizes if known else None)


def _function(data: memoryview, span: Span) -> FunctionRef:
    for number, kind, start, end in iter_fields(data, *span):
        if number == 1:
            _expect(kind, BYTES, number, start)
            return FunctionRef(text(data, start, end))
    raise FormatError("a function without a name", where=f"byte {span[0]}")


# -- tensors ---------------------------------------------------------------------------

_FIELDS: Final[Mapping[str, tuple[int, str]]] = {
    "bfloat16": (13, "bits"), "bool": (11, "varint"), "complex128": (12, "<c16"),
    "complex64": (9, "<c8"), "float16": (13, "bits"), "float32": (5, "<f4"),
    "float64": (6, "<f8"), "int64": (10, "varint"), "string": (8, ""),
    "uint32": (16, "varint"), "uint64": (17, "varint"),
}  # fmt: skip
"""The field that holds elements of a type, and how; others are in `int_val`."""
_INTS: Final = (7, "varint")
_ONE: Final = 16  # bytes that one element takes at most
_MOST_TEXTS: Final = 1 << 16


def _tensor(data: memoryview, span: Span) -> Tensor:
    dtype = DType("float32")
    shape: Sequence[Any] = ()
    content: Span | None = None
    held: dict[int, list[Span]] = {}
    for number, kind, start, end in iter_fields(data, *span):
        if number == 1:
            _expect(kind, VARINT, number, start)
            dtype = element_type(decode_varint(data, start, end)[0])
        elif number == 2:
            _expect(kind, BYTES, number, start)
            shape = _shape(data, (start, end)).dims
        elif number == 4:
            content = (start, end)
        elif number != 3:
            held.setdefault(number, []).append((start, end))
    dims = check_shape(tuple(shape))
    if content is not None and content[0] < content[1]:
        size = packed_size(dtype, dims)
        if size != content[1] - content[0]:
            raise FormatError(
                "the content of a tensor is not as long as its dims say",
                where=f"byte {content[0]}",
                expected=f"{size} bytes for {dtype}{list(dims)}",
                got=f"{content[1] - content[0]} bytes",
            )
        return Tensor.from_buffer(data, dtype, dims, content[0])
    return _typed(data, dtype, dims, held)


def _typed(
    data: memoryview, dtype: DType, dims: tuple[int, ...], held: dict[int, list[Span]]
) -> Tensor:
    """Elements in a field of their own; the last one stands for all that follow."""
    number, how = _FIELDS.get(str(dtype), _INTS)
    spans = held.get(number, [])
    if str(dtype) == "string":
        return _texts([bytes(data[start:end]) for start, end in spans], dims)
    raw = b"".join(bytes(data[start:end]) for start, end in spans)
    if not raw:
        return Tensor.splat(dtype, dims, 0)
    if len(raw) <= _ONE:
        first, *others = _decoded(raw, how, dtype).tolist()
        if not others:
            return Tensor.splat(dtype, dims, first)
    return Tensor.lazy(lambda: _filled(raw, how, dtype, dims), dtype, dims)


def _texts(given: list[bytes], dims: tuple[int, ...]) -> Tensor:
    count = math.prod(dims)
    if count > max(len(given), _MOST_TEXTS):
        raise FormatError(
            "a tensor claims more texts than it has",
            expected=f"at most {_MOST_TEXTS} that are not there",
            got=count,
        )
    last = given[-1:] or [b""]
    return Tensor.strings([*given, *last * (count - len(given))][:count], dims)


def _decoded(raw: bytes, how: str, dtype: DType) -> Array:
    import numpy as np

    kind: Any = dtype.numpy
    if how == "varint":
        numbers = np.array(unpack_varints(raw, 0, len(raw)), "<u8")
        return numbers.astype(bool if str(dtype) == "bool" else kind)
    if how == "bits":
        return np.array(unpack_varints(raw, 0, len(raw)), "<u2").view(kind)
    if len(raw) % np.dtype(how).itemsize:
        raise FormatError(
            f"elements of {dtype} of another size", got=f"{len(raw)} bytes"
        )
    return np.frombuffer(raw, how)


def _filled(raw: bytes, how: str, dtype: DType, dims: tuple[int, ...]) -> Array:
    import numpy as np

    values = _decoded(raw, how, dtype)
    made = np.empty(math.prod(dims), values.dtype)
    given = values[: made.size]
    made[: given.size] = given
    made[given.size :] = values[-1]
    return made.reshape(dims)


_READ: Final[Mapping[str, Callable[[memoryview, Span], Any]]] = {
    "shape": _shape,
    "tensor": _tensor,
    "function": _function,
    "text": lambda data, span: text(data, *span),
}


def _expect(kind: int, wanted: int, number: int, place: int) -> None:
    if kind != wanted:
        what = f"field {number}" if number else "a value"
        raise FormatError(f"{what} is written in another way", where=f"byte {place}")
