"""Checkpoints of version 1: a table whose values are the slices of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from amanda.errors import FormatError
from amanda.files import map_file
from amanda.formatkit import MessageFile
from amanda.tensors import Tensor, check_shape
from amanda.types import DType, Shape
from amanda_tf.checkpoints.bundle import assemble, read_extents
from amanda_tf.checkpoints.slice_keys import Extent
from amanda_tf.checkpoints.table import MAGIC, Table
from amanda_tf.messages import ELEMENT_TYPES
from amanda_tf.saved_messages import SAVED
from amanda_tf.tensors import encode_shape, read_shape, read_tensor

__all__ = ["is_single_file", "read_single_file"]


def is_single_file(path: str | Path) -> bool:
    """Whether a file is a table that begins with the description of tensors."""
    data = map_file(path)
    return bytes(data[-8:]) == MAGIC


def read_single_file(path: str | Path) -> dict[str, Tensor]:
    """The tensors of a checkpoint of version 1, by name."""
    types: dict[str, tuple[DType, tuple[int, ...]]] = {}
    parts: dict[str, list[tuple[Sequence[Extent], Tensor]]] = {}
    who = str(path)
    for key, value in Table.open(who):
        fields = SAVED.read("SavedTensorSlices", value)
        if not key:
            meta = SAVED.read(
                "SavedTensorSliceMeta", value, *fields.get("meta", (0, 0))
            )
            for at in meta.get("tensor", ()):
                each = SAVED.read("SavedSliceMeta", value, *at)
                shape = check_shape(read_shape(value, each.get("shape", (0, 0))).dims)
                dtype = ELEMENT_TYPES.dtype(each.get("type", 0), at[0])
                types[each.get("name", "")] = dtype, shape
            continue
        saved = SAVED.read("SavedSlice", value, *fields.get("data", (0, 0)))
        name = saved.get("name", "")
        if name not in types:
            raise FormatError(f"a slice of an unknown tensor {name!r}", who=who)
        extents = read_extents(value, saved.get("slice", (0, 0)))
        # the elements have no shape of their own: that is the one of the slice
        dtype, shape = types[name]
        part = _read_slice(value, saved.get("data", (0, 0)), dtype, shape, extents)
        parts.setdefault(name, []).append((extents, part))
    return {
        name: _join_parts(name, parts.get(name, []), *kind, who)
        for name, kind in types.items()
    }


def _read_slice(
    value: memoryview,
    span: tuple[int, int],
    dtype: DType,
    shape: Sequence[int],
    extents: Sequence[Extent],
) -> Tensor:
    if len(extents) != len(shape):
        raise FormatError("a slice of another rank than its tensor")
    lengths = [
        size if length < 0 else length
        for (_, length), size in zip(extents, shape, strict=True)
    ]
    fields = SAVED.raw_fields(
        "TensorProto", value, span, without=["dtype", "tensor_shape"]
    )
    head = SAVED.writer("TensorProto").put("dtype", ELEMENT_TYPES.code(dtype))
    head.put("tensor_shape", encode_shape(Shape(lengths)))
    raw = head.put_raw(fields).done()
    return read_tensor(MessageFile(memoryview(raw)), (0, len(raw)))[0]


def _join_parts(
    name: str,
    parts: list[tuple[Sequence[Extent], Tensor]],
    dtype: DType,
    shape: tuple[int, ...],
    who: str,
) -> Tensor:
    if len(parts) == 1 and parts[0][1].shape == shape:
        return parts[0][1]
    what = f"{name!r} of {who}"
    return Tensor.lazy(lambda: assemble(parts, dtype, shape, what), dtype, shape)
