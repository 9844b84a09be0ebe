"""TensorProto as tensors: elements stay in the file until they are used.

Elements are packed in `tensor_content`, or stand in the field of their type, where the
last value given is repeated for the elements that follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any, Final

from amanda.errors import LimitError
from amanda.formatkit import (
    UNKNOWN_FIELDS,
    MessageChunks,
    MessageFile,
    Span,
    count_varints,
    decode_varint_array,
    encode_varint_tensor,
    join_spans,
    raise_at,
)
from amanda.tensors import Tensor, check_shape, packed_size
from amanda.types import DType, Shape, Sym
from amanda_tf.messages import ELEMENT_TYPES, SCHEMA

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

__all__ = ["encode_shape", "is_supported", "read_shape", "read_tensor", "tensor_chunks"]

_FIELDS: Final = {
    "bfloat16": "half_val", "bool": "bool_val", "complex128": "dcomplex_val",
    "complex64": "scomplex_val", "float16": "half_val", "float32": "float_val",
    "float8_e4m3b11fnuz": "float8_val", "float8_e4m3fn": "float8_val",
    "float8_e4m3fnuz": "float8_val", "float8_e5m2": "float8_val",
    "float8_e5m2fnuz": "float8_val",
    "float64": "double_val", "int64": "int64_val", "string": "string_val",
    "uint32": "uint32_val", "uint64": "uint64_val",
}  # fmt: skip
"""The field with the elements of a type; of other types it is `int_val`."""
_FIXED: Final = (
    "float_val", "double_val", "scomplex_val", "dcomplex_val", "float8_val"
)  # fmt: skip
_MAX_STRINGS: Final = 1 << 16


def read_shape(data: memoryview, span: Span) -> Shape:
    """The shape of a TensorShapeProto."""
    fields = SCHEMA.read("TensorShapeProto", data, *span)
    if fields.get("unknown_rank"):
        return Shape(None)
    dims = [
        SCHEMA.read("TensorShapeProto.Dim", data, *at) for at in fields.get("dim", ())
    ]
    sizes = [each.get("size", 0) for each in dims]
    return Shape([Sym.unknown() if size < 0 else size for size in sizes])


def encode_shape(shape: Shape) -> bytes:
    """A TensorShapeProto; dims that are not static are -1."""
    writer = SCHEMA.writer("TensorShapeProto")
    if not shape.has_rank:
        return writer.put("unknown_rank", True).done()
    for dim in shape:
        size = dim if isinstance(dim, int) else -1
        writer.put(
            "dim", SCHEMA.writer("TensorShapeProto.Dim").put_if("size", size).done()
        )
    return writer.done()


def is_supported(data: memoryview, span: Span) -> bool:
    """Whether the elements can be a tensor; handles and variants cannot."""
    fields = SCHEMA.read("TensorProto", data, *span)
    dtype = ELEMENT_TYPES.dtype(fields.get("dtype", 0), span[0])
    if dtype.name == "string":
        return "tensor_content" not in fields
    return dtype.bits >= 8


def read_tensor(file: MessageFile, span: Span) -> tuple[Tensor, dict[str, Any]]:
    """A tensor, and how it was written where `tensor_chunks` would do otherwise.

    `head` are the fields in front of the elements; `values` counts the elements given
    in the field of their type.
    """
    fields = SCHEMA.read("TensorProto", file.data, *span)
    dtype = ELEMENT_TYPES.dtype(fields.get("dtype", 0), span[0])
    at = fields.get("tensor_shape", (span[0], span[0]))
    shape = check_shape(read_shape(file.data, at).dims)
    tensor, values = _read_elements(file, fields, dtype, shape, span[0])
    facts: dict[str, Any] = {}
    head = SCHEMA.writer("TensorProto").put_if("dtype", fields.get("dtype"))
    if "tensor_shape" in fields:
        head.put("tensor_shape", bytes(file.data[at[0] : at[1]]))
    head.put_if("version_number", fields.get("version_number"))
    raw = head.put_raw(fields.get(UNKNOWN_FIELDS, b"")).done()
    if raw != _encode_head(tensor):
        facts["head"] = raw
    if values != _default_values(tensor):
        facts["values"] = values
    return tensor, facts


def _read_elements(
    file: MessageFile,
    fields: Mapping[str, Any],
    dtype: DType,
    shape: tuple[int, ...],
    place: int,
) -> tuple[Tensor, int | None]:
    """The tensor, and the number of values given; None where they are packed."""
    start, end = fields.get("tensor_content", (0, 0))
    if start < end:
        _check_size(dtype, shape, packed_size(dtype, shape), end - start, start)
        return file.tensor((start, end), dtype, shape), None
    name = _FIELDS.get(dtype.name, "int_val")
    spans: list[Span] = fields.get(name, [])
    if name == "float8_val":  # a single field of bytes
        spans = [fields[name]] if name in fields else []
    if dtype.name == "string":
        return _read_strings(file, spans, shape, place), len(spans)
    size, width = prod(shape), dtype.bits // 8
    if name in _FIXED:
        count, odd = divmod(sum(end - start for start, end in spans), width)
        if odd:
            raise_at(f"{name} ends inside a number", place)
    else:
        count = sum(count_varints(file.data, *each) for each in spans)
    if count > max(size, 1):
        _check_size(dtype, shape, size, count, place)
    if not count:
        return Tensor.splat(dtype, shape, 0), 0
    if name in _FIXED and count == size and len(spans) == 1:
        return file.tensor(spans[0], dtype, shape), count
    data = file.data
    if count == 1:
        one = _decode(join_spans(data, spans), name, dtype, 1)[0]
        return Tensor.splat(dtype, shape, one), 1
    return Tensor.lazy(
        lambda: _fill(join_spans(data, spans), name, dtype, shape, count), dtype, shape
    ), count


def _check_size(
    dtype: DType, shape: tuple[int, ...], size: int, got: int, place: int
) -> None:
    if size != got:
        raise_at(
            "the data of a tensor does not fit its shape", place,
            expected=f"{size} for {dtype}{list(shape)}", got=got,
        )  # fmt: skip


def _read_strings(
    file: MessageFile, spans: list[Span], shape: tuple[int, ...], place: int
) -> Tensor:
    values = [bytes(file.data[start:end]) for start, end in spans]
    size = prod(shape)
    if size > max(len(values), _MAX_STRINGS):
        raise LimitError(
            "a tensor claims more strings than it has", where=f"byte {place}",
            expected=f"at most {_MAX_STRINGS} repeated", got=size,
        )  # fmt: skip
    last = values[-1:] or [b""]
    return Tensor.strings([*values, *last * (size - len(values))][:size], shape)


def _decode(raw: Any, name: str, dtype: DType, count: int) -> Array:
    import numpy as np

    if name in _FIXED:
        return np.frombuffer(raw, dtype.numpy)
    return decode_varint_array(raw, dtype, (count,))


def _fill(
    raw: Any, name: str, dtype: DType, shape: tuple[int, ...], count: int
) -> Array:
    import numpy as np

    values = _decode(raw, name, dtype, count)
    filled = np.empty(prod(shape), values.dtype)
    filled[:count] = values
    filled[count:] = values[-1]
    return filled.reshape(shape)


# -- writing -----------------------------------------------------------------------


def _default_values(tensor: Tensor) -> int | None:
    """The number of values written in the field of their type; None: packed."""
    if tensor.size == 0 or tensor.dtype.name == "string":
        return tensor.size
    return 1 if tensor.size == 1 or tensor.stores_one_element else None


def _encode_head(tensor: Tensor) -> bytes:
    writer = SCHEMA.writer("TensorProto").put("dtype", ELEMENT_TYPES.code(tensor.dtype))
    return writer.put("tensor_shape", encode_shape(Shape(tensor.shape))).done()


def tensor_chunks(tensor: Tensor, facts: Mapping[str, Any]) -> MessageChunks:
    """A TensorProto; written as `facts` say, as far as they fit the tensor."""
    head = _fitting_head(facts.get("head"), tensor)
    out = MessageChunks(head or _encode_head(tensor))
    values = facts.get("values", _default_values(tensor))
    if values is None or values > tensor.size:
        out.append_tensor(SCHEMA.tag("TensorProto", "tensor_content"), tensor)
        return out
    name = _FIELDS.get(tensor.dtype.name, "int_val")
    array = tensor.numpy()
    if not _repeats(array, values):
        values = tensor.size
    writer = SCHEMA.writer("TensorProto")
    if values:
        part = array[(0,) * array.ndim] if values == 1 else array.reshape(-1)[:values]
        if tensor.dtype.name == "string":
            writer.put_all(name, [part] if values == 1 else part.tolist())
        elif name in _FIXED:
            writer.put(name, part.tobytes())
        else:
            writer.put(name, encode_varint_tensor(Tensor.of(part, tensor.dtype)))
    out.append(writer.done())
    return out


def _repeats(array: Array, values: int) -> bool:
    """Whether the first `values` elements and the last of them repeated are all."""
    if values == array.size or (values == 1 and not any(array.strides)):
        return True
    last = array.reshape(-1)[values - 1] if values else array.dtype.type(0)
    rest = array.reshape(-1)[values:]
    if array.dtype.hasobject:
        return all(each == (last or b"") for each in rest)
    return bool(rest.tobytes() == last.tobytes() * len(rest))


def _fitting_head(head: object, tensor: Tensor) -> bytes | None:
    """A recorded head, if it still describes the tensor."""
    if not isinstance(head, bytes):
        return None
    fields = SCHEMA.read("TensorProto", head)
    shape = read_shape(memoryview(head), fields.get("tensor_shape", (0, 0)))
    fits = fields.get("dtype", 0) == ELEMENT_TYPES.code(tensor.dtype)
    return head if fits and shape == Shape(tensor.shape) else None
