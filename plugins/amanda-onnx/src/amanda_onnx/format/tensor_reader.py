"""Tensors of ONNX: where their elements are, of which there are eight ways to say it.

The bytes of `raw_data`, and of floats in fields of their own, are shared with the file.
Integers in fields of their own are decoded when they are asked for. What a tensor of
ours has no place for (its name, a text, which field it was in) comes beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amanda.errors import AmandaError, FormatError
from amanda.formatkit import (
    UNKNOWN_FIELDS,
    Buffer,
    Span,
    count_varints,
    decode_varint_array,
    join_spans,
    pack_elements,
    raise_at,
    unpack_varints,
    varints_per_tensor,
)
from amanda.tensors import Tensor, check_shape, packed_size
from amanda.types import DType
from amanda_onnx.format.element_types import DTYPES, FIELDS
from amanda_onnx.format.model_file import ModelFile

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

__all__ = ["TensorRecord", "read_sparse", "read_tensor"]

_SHARED: Final = ("float_data", "double_data")  # whose bytes are those of raw_data
_EXTERNAL: Final = 1
_AT_ONCE: Final = 1 << 12  # bytes of integers that are decoded when they are met


class TensorRecord(NamedTuple):
    """A tensor, and what the message says beside it."""

    name: str
    tensor: Tensor
    facts: dict[str, Any]


def read_tensor(source: ModelFile, span: Span) -> TensorRecord:
    """A TensorProto. Only what is around its elements is looked at."""
    told = source.read("TensorProto", span)
    name = told.get("name", "")
    try:
        return TensorRecord(name, *_read(source, told, span))
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
    source: ModelFile, told: Mapping[str, Any], span: Span
) -> tuple[Tensor, dict[str, Any]]:
    code = told.get("data_type", 0)
    dtype = DTYPES.get(code)
    if dtype is None:
        raise_at(
            "a tensor of no element type that ONNX has", span[0], got=f"number {code}"
        )
    if "segment" in told:
        raise_at("a tensor in segments, which no version of ONNX supports", span[0])
    shape = check_shape(told.get("dims", ()))
    facts: dict[str, Any] = {}
    if told.get("doc_string"):
        facts["doc_string"] = told["doc_string"]
    if "metadata_props" in told:
        facts["metadata_props"] = source.pairs(told["metadata_props"])
    if UNKNOWN_FIELDS in told:
        facts["rest"] = told[UNKNOWN_FIELDS]
    if told.get("data_location", 0) == _EXTERNAL:
        facts["external"] = True
        return _beside(source, told, dtype, shape, span), facts
    present = [
        field
        for field in (*dict.fromkeys(FIELDS.values()), "raw_data")
        if field in told
    ]
    if len(present) > 1:
        raise_at(f"a tensor with both {present[0]} and {present[1]}", span[0])
    if dtype.name == "string":
        return _texts(source, told, shape, present, span), facts
    if present == ["raw_data"]:
        start, end = told["raw_data"]
        _expect(dtype, shape, end - start, span[0])
        return source.tensor((start, end), dtype, shape), facts
    field = FIELDS[dtype]
    facts["data"] = field
    if present and present != [field]:
        raise_at(f"a tensor of {dtype} in {present[0]}", span[0], expected=field)
    return _typed(source, told.get(field, []), field, dtype, shape, span[0]), facts


def _expect(dtype: DType, shape: tuple[int, ...], there: int, place: int) -> None:
    size = packed_size(dtype, shape)
    if size != there:
        raise_at(
            "the data of a tensor is not as long as its dims say",
            place,
            expected=f"{size} bytes for {dtype}{list(shape)}",
            got=f"{there} bytes",
        )


def _beside(
    source: ModelFile,
    told: Mapping[str, Any],
    dtype: DType,
    shape: tuple[int, ...],
    span: Span,
) -> Tensor:
    entries = dict(source.pairs(told.get("external_data", [])))
    if dtype.name == "string":
        raise_at("texts in a file beside the model, where they cannot be", span[0])
    stretch = source.beside(span[0], entries, packed_size(dtype, shape))
    return stretch.tensor(dtype, shape)


def _texts(
    source: ModelFile,
    told: Mapping[str, Any],
    shape: tuple[int, ...],
    present: list[str],
    span: Span,
) -> Tensor:
    if present and present != ["string_data"]:
        raise_at(f"texts in {present[0]}", span[0], expected="string_data")
    data = source.data
    return Tensor.strings(
        [bytes(data[start:end]) for start, end in told.get("string_data", [])], shape
    )


# -- integers in fields of their own ---------------------------------------------------


def _typed(
    source: ModelFile,
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
        return Tensor.from_buffer(join_spans(data, spans), dtype, shape)
    count = sum(count_varints(data, start, end) for start, end in spans)
    wanted = varints_per_tensor(dtype, shape)
    if count != wanted:
        raise_at(
            f"the {field} of a tensor has not as many numbers as its dims say",
            place,
            expected=f"{wanted} for {dtype}{list(shape)}",
            got=f"{count}",
        )
    if sum(end - start for start, end in spans) <= _AT_ONCE:
        raw = join_spans(data, spans)
        values = unpack_varints(raw, 0, len(raw), place)
        return Tensor.from_buffer(pack_elements(values, dtype, size), dtype, shape)
    return Tensor.lazy(_decoder(data, spans, dtype, shape), dtype, shape)


def _decoder(
    data: Buffer, spans: list[Span], dtype: DType, shape: tuple[int, ...]
) -> Callable[[], Array]:
    def decode() -> Array:
        return decode_varint_array(join_spans(data, spans), dtype, shape)

    return decode


# -- sparse tensors --------------------------------------------------------------


def read_sparse(
    source: ModelFile, span: Span
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
            raise_at(f"a sparse tensor without {part}", span[0])
        found = read_tensor(source, told[part])
        value[part] = found.tensor
        beside = dict(found.facts)
        if part == "values":
            name = found.name
        elif found.name:
            beside["name"] = found.name
        if beside:
            facts[part] = beside
    value["dims"] = list(check_shape(told.get("dims", [])))
    if UNKNOWN_FIELDS in told:
        facts["rest"] = told[UNKNOWN_FIELDS]
    return name, value, facts
