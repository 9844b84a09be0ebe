"""Tensors of ONNX: where their elements are, of which there are eight ways to say it.

The bytes of `raw_data`, and of floats in fields of their own, are shared with the file.
Integers in fields of their own are decoded when they are asked for. What a tensor of
ours has no place for (its name, a text, which field it was in) comes beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amanda.errors import AmandaError, FormatError
from amanda.proto.wire import Buffer, unpacked
from amanda.tensors import Tensor
from amanda.tensors.packing import checked_shape, packed_size
from amanda.types import DType
from amanda_onnx import varints
from amanda_onnx.schema import REST, Span, bad, joined
from amanda_onnx.source import Source

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

__all__ = ["CODES", "DTYPES", "FIELDS", "Told", "read_sparse", "read_tensor"]

# The element types of ONNX by number, and the field that holds such elements where
# `raw_data` does not.
_ROWS: Final = """
1 float32 float_data        11 float64 double_data        21 uint4 int32_data
2 uint8 int32_data          12 uint32 uint64_data         22 int4 int32_data
3 int8 int32_data           13 uint64 uint64_data         23 float4_e2m1fn int32_data
4 uint16 int32_data         14 complex64 float_data       24 float8_e8m0fnu int32_data
5 int16 int32_data          15 complex128 double_data     25 uint2 int32_data
6 int32 int32_data          16 bfloat16 int32_data        26 int2 int32_data
7 int64 int64_data          17 float8_e4m3fn int32_data   27 float6_e2m3fn int32_data
8 string string_data        18 float8_e4m3fnuz int32_data 28 float6_e3m2fn int32_data
9 bool int32_data           19 float8_e5m2 int32_data
10 float16 int32_data       20 float8_e5m2fnuz int32_data
"""
_WORDS: Final = _ROWS.split()

DTYPES: Final[Mapping[int, DType]] = {
    int(number): DType(name)
    for number, name in zip(_WORDS[::3], _WORDS[1::3], strict=True)
}
CODES: Final[Mapping[DType, int]] = {dtype: code for code, dtype in DTYPES.items()}
FIELDS: Final[Mapping[DType, str]] = {
    DType(name): field for name, field in zip(_WORDS[1::3], _WORDS[2::3], strict=True)
}
"""The field that holds elements of a type, other than `raw_data`."""

_SHARED: Final = ("float_data", "double_data")  # whose bytes are those of raw_data
_EXTERNAL: Final = 1
_AT_ONCE: Final = 1 << 12  # bytes of integers that are decoded when they are met


class Told(NamedTuple):
    """A tensor, and what the message says beside it."""

    name: str
    tensor: Tensor
    facts: dict[str, Any]


def read_tensor(source: Source, span: Span) -> Told:
    """A TensorProto. Only what is around its elements is looked at."""
    told = source.read("TensorProto", span)
    name = told.get("name", "")
    try:
        return Told(name, *_read(source, told, span))
    except AmandaError as error:
        if isinstance(error, FormatError) and error.where:
            error.who = error.who or (f"tensor {name!r}" if name else None)
            raise
        who = f"tensor {name!r}" if name else None
        raise FormatError(
            error.message,
            who=who,
            where=f"byte {span[0]}",
            expected=error.expected,
            got=error.got,
        ) from error


def _read(
    source: Source, told: Mapping[str, Any], span: Span
) -> tuple[Tensor, dict[str, Any]]:
    code = told.get("data_type", 0)
    dtype = DTYPES.get(code)
    if dtype is None:
        bad("a tensor of no element type that ONNX has", span[0], got=f"number {code}")
    if "segment" in told:
        bad("a tensor in segments, which no version of ONNX supports", span[0])
    shape = checked_shape(told.get("dims", ()))
    facts: dict[str, Any] = {}
    if told.get("doc_string"):
        facts["doc_string"] = told["doc_string"]
    if "metadata_props" in told:
        facts["metadata_props"] = source.pairs(told["metadata_props"])
    if REST in told:
        facts["rest"] = told[REST]
    if told.get("data_location", 0) == _EXTERNAL:
        facts["external"] = True
        return _beside(source, told, dtype, shape, span), facts
    present = [field for field in (*_DATA, "raw_data") if field in told]
    if len(present) > 1:
        bad(f"a tensor with both {present[0]} and {present[1]}", span[0])
    if dtype.name == "string":
        return _texts(source, told, shape, present, span), facts
    if present == ["raw_data"]:
        start, end = told["raw_data"]
        _expect(dtype, shape, end - start, span[0])
        return source.tensor((start, end), dtype, shape), facts
    field = FIELDS[dtype]
    facts["data"] = field
    if present and present != [field]:
        bad(f"a tensor of {dtype} in {present[0]}", span[0], expected=field)
    return _typed(source, told.get(field, []), field, dtype, shape, span[0]), facts


_DATA: Final = tuple(dict.fromkeys(_WORDS[2::3]))


def _expect(dtype: DType, shape: tuple[int, ...], there: int, place: int) -> None:
    size = packed_size(dtype, shape)
    if size != there:
        bad(
            "the data of a tensor is not as long as its dims say",
            place,
            expected=f"{size} bytes for {dtype}{list(shape)}",
            got=f"{there} bytes",
        )


def _beside(
    source: Source,
    told: Mapping[str, Any],
    dtype: DType,
    shape: tuple[int, ...],
    span: Span,
) -> Tensor:
    entries = dict(source.pairs(told.get("external_data", [])))
    if dtype.name == "string":
        bad("texts in a file beside the model, where they cannot be", span[0])
    stretch = source.beside(span[0], entries, packed_size(dtype, shape))
    return stretch.tensor(dtype, shape)


def _texts(
    source: Source,
    told: Mapping[str, Any],
    shape: tuple[int, ...],
    present: list[str],
    span: Span,
) -> Tensor:
    if present and present != ["string_data"]:
        bad(f"texts in {present[0]}", span[0], expected="string_data")
    data = source.data
    return Tensor.strings(
        [bytes(data[start:end]) for start, end in told.get("string_data", [])], shape
    )


# -- integers in fields of their own ---------------------------------------------------


def _typed(
    source: Source,
    spans: list[Span],
    field: str,
    dtype: DType,
    shape: tuple[int, ...],
    place: int,
) -> Tensor:
    size = packed_size(dtype, shape)
    data = source.data
    if field in _SHARED:
        _expect(dtype, shape, sum(end - start for start, end in spans), place)
        if len(spans) == 1:
            return source.tensor(spans[0], dtype, shape)
        return Tensor.from_buffer(joined(data, spans), dtype, shape)
    count = sum(varints.count(data, start, end) for start, end in spans)
    wanted = varints.items(dtype, shape)
    if count != wanted:
        bad(
            f"the {field} of a tensor has not as many numbers as its dims say",
            place,
            expected=f"{wanted} for {dtype}{list(shape)}",
            got=f"{count}",
        )
    if sum(end - start for start, end in spans) <= _AT_ONCE:
        raw = joined(data, spans)
        values = unpacked(raw, 0, len(raw), place)
        return Tensor.from_buffer(varints.packed(values, dtype, size), dtype, shape)
    return Tensor.lazy(_decoder(data, spans, dtype, shape), dtype, shape)


def _decoder(
    data: Buffer, spans: list[Span], dtype: DType, shape: tuple[int, ...]
) -> Callable[[], Array]:
    def decode() -> Array:
        return varints.array(joined(data, spans), dtype, shape)

    return decode


# -- sparse tensors --------------------------------------------------------------


def read_sparse(
    source: Source, span: Span
) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """A sparse tensor: its name, itself as an attribute value, and what is beside.

    The value is a dict of the tensors `values` and `indices`, and the list `dims`.
    """
    told = source.read("SparseTensorProto", span)
    value: dict[str, Any] = {}
    facts: dict[str, Any] = {}
    name = ""
    for part in ("values", "indices"):
        if part not in told:
            bad(f"a sparse tensor without {part}", span[0])
        found = read_tensor(source, told[part])
        value[part] = found.tensor
        beside = dict(found.facts)
        if part == "values":
            name = found.name
        elif found.name:
            beside["name"] = found.name
        if beside:
            facts[part] = beside
    value["dims"] = list(checked_shape(told.get("dims", [])))
    if REST in told:
        facts["rest"] = told[REST]
    return name, value, facts
