"""Op definitions from rows of raw data, which have the fields of TensorFlow's OpDef."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from amanda.dictionary import Attr, Deprecation, OpDef, Port, round_to_float32
from amanda.tensors import FunctionRef, Tensor
from amanda.types import DType, Shape, Sym
from amanda_dictionaries_dev import sort_patterns

_KINDS = {"type": "dtype", "func": "function"}
_TRAITS = ("aggregate", "commutative", "distributed", "stateful", "uninitialized_input")
_FEEDBACK = {"NextIteration", "RefNextIteration"}
_ROLES = ("type_attr", "number_attr", "type_list_attr")
# element types by their number in protocol buffers, as far as defaults need them
_NUMBERS = {3: DType("int32"), 4: DType("uint8")}


def op_def_of_row(name: str, row: Mapping[str, Any], doc: str = "") -> OpDef:
    """Convert a row to an op definition.

    `full_type`, used by TensorFlow's own type inference, is omitted.

    >>> port = {"name": "x", "type_attr": "T"}
    >>> row = {"inputs": [port], "attrs": [["T", {"type": "type"}]]}
    >>> print(op_def_of_row("Sink", row))
    Sink(x: T) -> ()  T: type
    """
    inputs = row.get("inputs", ())
    inferred = {port[role] for port in inputs for role in _ROLES if role in port}
    attrs = [
        _attr(attr, found, attr in inferred) for attr, found in row.get("attrs", ())
    ]
    traits = {trait for trait in _TRAITS if row.get(trait)}
    if name in _FEEDBACK:
        traits.add("feedback")
    deprecated = None
    if found := row.get("deprecation"):
        deprecated = Deprecation(found["version"], found.get("explanation", ""))
    return OpDef(
        name,
        tuple(map(_port, inputs)),
        tuple(map(_port, row.get("outputs", ()))),
        tuple(attr for attr in attrs if attr.name not in inferred),
        tuple(attr for attr in attrs if attr.name in inferred),
        frozenset(traits),
        deprecated,
        doc=doc,
    )


def _port(row: Mapping[str, Any]) -> Port:
    ref = bool(row.get("ref"))
    if "type_list_attr" in row:
        return Port(row["name"], row["type_list_attr"], "list", ref=ref)
    kind = row["type_attr"] if "type_attr" in row else DType(row["type"])
    if "number_attr" in row:
        return Port(row["name"], kind, "count", 0, row["number_attr"], ref)
    return Port(row["name"], kind, ref=ref)


def _attr(name: str, row: Mapping[str, Any], is_variable: bool) -> Attr:
    kind, is_list = re.sub(r"list\((\w+)\)", r"\1", row["type"]), "(" in row["type"]
    read = _VALUES[kind]
    kind = "type" if is_variable and kind == "type" else _KINDS.get(kind, kind)
    default = row.get("default")
    if default is not None:
        default = tuple(map(read, default)) if is_list else read(default)
    allowed = [read(value) for value in row.get("allowed", ())]
    return Attr(
        name,
        kind + ("[]" if is_list else ""),
        default is None,
        default,
        sort_patterns(allowed) if kind in ("dtype", "type") else tuple(allowed),
        row.get("min"),
    )


def _shape(row: Mapping[str, Any]) -> Shape:
    dims = row["shape"]
    if dims is None:
        return Shape(None)
    return Shape([Sym.unknown() if dim < 0 else dim for dim in dims])


def _tensor(row: Mapping[str, Any]) -> Tensor:
    """Convert a TensorProto of integers, serialized or as text."""
    if "tensor_text" in row:
        fields = [(k, v) for k, v in row["tensor_text"]]
        dims = [int(dict(dim)["size"]) for k, d in fields if k == "tensor_shape"
                for _, dim in d]  # fmt: skip
        numbers = [int(value) for key, value in fields if key == "int_val"]
        return _tensor_of(DType("uint8"), dims, numbers)
    dtype, dims, numbers = DType("int32"), [], []
    for number, value in _fields(bytes.fromhex(row["tensor"])):
        if number == 1:
            dtype = _NUMBERS[value]
        elif number == 2:
            dims = [size for _, dim in _fields(value) for _, size in _fields(dim)]
        elif number == 7:
            numbers = list(_varints(value))
    return _tensor_of(dtype, dims, numbers)


def _tensor_of(dtype: DType, dims: Sequence[int], numbers: Iterable[int]) -> Tensor:
    width = dtype.bits // 8
    content = b"".join(number.to_bytes(width, "little") for number in numbers)
    return Tensor.from_buffer(content, dtype, tuple(dims))


def _varints(data: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Numbers and contents of the fields of a small protobuf message."""
    at = 0
    while at < len(data):
        number, kind = data[at] >> 3, data[at] & 7
        size = data[at + 1]
        if kind == 0:
            yield number, size
            at += 2
        else:
            yield number, data[at + 2 : at + 2 + size]
            at += 2 + size


_VALUES: Mapping[str, Callable[[Any], Any]] = {
    "bool": bool,
    "float": lambda value: round_to_float32(float(value)),
    "func": lambda value: FunctionRef(value["func"]),
    "int": int,
    "shape": _shape,
    "string": str,
    "tensor": _tensor,
    "type": DType,
}
