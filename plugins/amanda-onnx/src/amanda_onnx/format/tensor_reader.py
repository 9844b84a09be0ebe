"""TensorProto as tensors; elements can be in eight fields, or in another file.

The bytes of `raw_data`, `float_data` and `double_data` are shared with the file.
Integers in typed fields are decoded when they are used. What a tensor has no attribute
for (name, doc string, field of its elements) is returned beside it.
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

_SHARED: Final = ("float_data", "double_data")  # the same bytes as in raw_data
_EXTERNAL: Final = 1
_BATCH: Final = 1 << 12  # bytes of integers that are decoded immediately


class TensorRecord(NamedTuple):
    """A tensor, its name, and what to record of the message."""

    name: str
    tensor: Tensor
    facts: dict[str, Any]


def read_tensor(source: ModelFile, span: Span) -> TensorRecord:
    """Read a TensorProto; its elements are only located."""
    fields = source.read("TensorProto", span)
    name = fields.get("name", "")
    try:
        return TensorRecord(name, *_read(source, fields, span))
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
    source: ModelFile, fields: Mapping[str, Any], span: Span
) -> tuple[Tensor, dict[str, Any]]:
    code = fields.get("data_type", 0)
    dtype = DTYPES.get(code)
    if dtype is None:
        raise_at(
            "a tensor whose element type ONNX does not define",
            span[0],
            got=f"number {code}",
        )
    if "segment" in fields:
        raise_at("a tensor in segments, which is not supported", span[0])
    shape = check_shape(fields.get("dims", ()))
    facts: dict[str, Any] = {}
    if fields.get("doc_string"):
        facts["doc_string"] = fields["doc_string"]
    if "metadata_props" in fields:
        facts["metadata_props"] = source.pairs(fields["metadata_props"])
    if UNKNOWN_FIELDS in fields:
        facts["rest"] = fields[UNKNOWN_FIELDS]
    if fields.get("data_location", 0) == _EXTERNAL:
        facts["external"] = True
        return _read_external(source, fields, dtype, shape, span), facts
    present = [
        field
        for field in (*dict.fromkeys(FIELDS.values()), "raw_data")
        if field in fields
    ]
    if len(present) > 1:
        raise_at(f"a tensor with both {present[0]} and {present[1]}", span[0])
    if dtype.name == "string":
        return _read_strings(source, fields, shape, present, span), facts
    if present == ["raw_data"]:
        start, end = fields["raw_data"]
        _check_length(dtype, shape, end - start, span[0])
        return source.tensor((start, end), dtype, shape), facts
    field = FIELDS[dtype]
    facts["data"] = field
    if present and present != [field]:
        raise_at(f"a tensor of {dtype} in {present[0]}", span[0], expected=field)
    return _read_typed(
        source, fields.get(field, []), field, dtype, shape, span[0]
    ), facts


def _check_length(dtype: DType, shape: tuple[int, ...], there: int, place: int) -> None:
    size = packed_size(dtype, shape)
    if size != there:
        raise_at(
            "the data of a tensor does not have the length of its shape",
            place,
            expected=f"{size} bytes for {dtype}{list(shape)}",
            got=f"{there} bytes",
        )


def _read_external(
    source: ModelFile,
    fields: Mapping[str, Any],
    dtype: DType,
    shape: tuple[int, ...],
    span: Span,
) -> Tensor:
    entries = dict(source.pairs(fields.get("external_data", [])))
    if dtype.name == "string":
        raise_at("strings as external data, which ONNX does not allow", span[0])
    stretch = source.external_data(span[0], entries, packed_size(dtype, shape))
    return stretch.tensor(dtype, shape)


def _read_strings(
    source: ModelFile,
    fields: Mapping[str, Any],
    shape: tuple[int, ...],
    present: list[str],
    span: Span,
) -> Tensor:
    if present and present != ["string_data"]:
        raise_at(f"strings in {present[0]}", span[0], expected="string_data")
    data = source.data
    return Tensor.strings(
        [bytes(data[start:end]) for start, end in fields.get("string_data", [])], shape
    )


# -- typed fields ----------------------------------------------------------------------


def _read_typed(
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
        _check_length(dtype, shape, sum(end - start for start, end in spans), place)
        if len(spans) == 1:
            return source.tensor(spans[0], dtype, shape)
        return Tensor.from_buffer(join_spans(data, spans), dtype, shape)
    count = sum(count_varints(data, start, end) for start, end in spans)
    wanted = varints_per_tensor(dtype, shape)
    if count != wanted:
        raise_at(
            f"the {field} of a tensor does not have the length of its shape",
            place,
            expected=f"{wanted} for {dtype}{list(shape)}",
            got=f"{count}",
        )
    if sum(end - start for start, end in spans) <= _BATCH:
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
    """A sparse tensor: its name, its attribute value, and what to record.

    The value is a dict of the tensors `values` and `indices`, and the list `dims`.
    """
    fields = source.read("SparseTensorProto", span)
    value: dict[str, Any] = {}
    facts: dict[str, Any] = {}
    name = ""
    for part in ("values", "indices"):
        if part not in fields:
            raise_at(f"a sparse tensor without {part}", span[0])
        found = read_tensor(source, fields[part])
        value[part] = found.tensor
        beside = dict(found.facts)
        if part == "values":
            name = found.name
        elif found.name:
            beside["name"] = found.name
        if beside:
            facts[part] = beside
    value["dims"] = list(check_shape(fields.get("dims", [])))
    if UNKNOWN_FIELDS in fields:
        facts["rest"] = fields[UNKNOWN_FIELDS]
    return name, value, facts
