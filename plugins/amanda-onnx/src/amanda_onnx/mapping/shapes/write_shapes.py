"""To ONNX: shape manipulation, sorting, casts and ops that generate tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.graph import OutputPort
from amanda.mapping import Decline, constant_of
from amanda.tensors import Tensor
from amanda.types import TensorType, float16, float32, float64, int64
from amanda_onnx.format.element_types import CODES
from amanda_onnx.mapping.operands import as_vector, int64_tensor, opset_of, unsqueeze
from amanda_std.mappings import rank_of, static_value, tensor_type_of

__all__ = ["WRITE"]

_END = 2**63 - 1
_WITH_NAN = (float16, float32, float64)
"""The element types of IsNaN in every opset."""


def write_dim(o: Any, x: Any, *, axis: int) -> Any:
    positive = axis % rank_of(x) if axis < 0 else axis
    return o.Gather(o.Shape(x), int64_tensor(positive))


def write_stack(o: Any, *xs: Any, axis: int = 0) -> Any:
    return o.Concat(*[unsqueeze(o, x, [axis]) for x in xs], axis=axis)


def write_split(o: Any, x: Any, sizes: Any = None, *, axis: int = 0,
                outputs: int) -> Any:  # fmt: skip
    if sizes is None and opset_of(o) < 18:
        sizes = _equal_sizes(x, axis, outputs)
    if opset_of(o) >= 18 and sizes is None:
        parts = o.Split(x, axis=axis, num_outputs=outputs, outputs=outputs)
    elif opset_of(o) >= 13:
        operand = int64_tensor(sizes) if isinstance(sizes, list | tuple) else sizes
        parts = o.Split(x, operand, axis=axis, outputs=outputs)
    else:
        known = None if sizes is None else static_value(sizes)
        if sizes is not None and known is None:
            raise Decline("Split of this opset needs its sizes as an attribute")
        parts = o.Split(x, axis=axis, split=known, outputs=outputs)
    return parts if isinstance(parts, tuple) else (parts,)


def _equal_sizes(x: Any, axis: int, outputs: int) -> list[int] | None:
    """The sizes where the last part is smaller; None where all are equal."""
    length = tensor_type_of(x).shape[axis] if isinstance(x.type, TensorType) else None
    if not isinstance(length, int):
        raise Decline("Split of this opset needs its sizes; the dim is dynamic")
    part = -(-length // outputs)
    rest = length - part * (outputs - 1)
    return None if rest == part else [part] * (outputs - 1) + [rest]


def write_full(o: Any, shape: Any, value: Any) -> Any:
    dims = int64_tensor(shape) if isinstance(shape, list | tuple) else shape
    tensor = constant_of(value)
    if tensor is None or opset_of(o) < 9:
        return o.Expand(value, dims)
    return o.ConstantOfShape(dims, value=Tensor.of(tensor.numpy().reshape((1,))))


def write_eye(o: Any, rows: Any, columns: Any = None, *, k: int = 0,
              dtype: Any) -> Any:  # fmt: skip
    dims = [rows, rows if columns is None else columns]
    if any(isinstance(dim, OutputPort) for dim in dims):
        shape = o.Concat(*[as_vector(o, dim) for dim in dims], axis=0)
    else:
        shape = int64_tensor(dims)
    return o.EyeLike(o.ConstantOfShape(shape), dtype=CODES[dtype], k=k)


def write_one_hot(o: Any, i: Any, depth: Any, on: Any, off: Any, *, axis: int = -1,
                  wrap: bool = False) -> Any:  # fmt: skip
    if not wrap:
        raise Decline("OneHot counts negative indices from the end")
    values = o.Concat(*[as_vector(o, v) for v in (off, on)], axis=0)
    return o.OneHot(i, depth, values, axis=axis)


# -- sorting -----------------------------------------------------------------------


def write_topk(o: Any, x: Any, k: Any, *, axis: int = -1, largest: bool = True) -> Any:
    return _topk(o, x, k, axis, descending=largest)


def _topk(o: Any, x: Any, k: Any, axis: int, *, descending: bool) -> Any:
    """`k` is a number, a scalar of the graph, or a vector that is built here."""
    if opset_of(o) < 11 and not descending:
        raise Decline("TopK of this opset returns the largest elements only")
    if opset_of(o) < 10:
        if isinstance(k, OutputPort):
            raise Decline("TopK of this opset needs k as an attribute")
        return o.TopK(x, k=int(np.reshape(k, ())), axis=axis)
    more = {} if descending else {"largest": 0}
    is_scalar = not isinstance(k, OutputPort) or isinstance(k.type, TensorType)
    k = _as_int64(o, k)
    return o.TopK(x, as_vector(o, k) if is_scalar else k, axis=axis, **more)


def write_sort(o: Any, x: Any, *, axis: int = -1, descending: bool = False) -> Any:
    key = _sort_key(o, x)
    values, order = _topk(o, key, _length(o, x, axis), axis, descending=descending)
    return values if key is x else o.GatherElements(x, order, axis=axis)


def write_argsort(o: Any, x: Any, *, axis: int = -1, descending: bool = False) -> Any:
    key = _sort_key(o, x)
    return _topk(o, key, _length(o, x, axis), axis, descending=descending)[1]


def _sort_key(o: Any, x: Any) -> Any:
    """Elements with infinity for NaN, whose order is undefined in TopK."""
    dtype = x.type.dtype if isinstance(x.type, TensorType) else None
    if opset_of(o) < 11 or dtype not in _WITH_NAN:
        return x
    return o.Where(o.IsNaN(x), Tensor.of(np.asarray(np.inf, dtype.numpy)), x)


def _length(o: Any, x: Any, axis: int) -> Any:
    dim = tensor_type_of(x).shape[axis] if isinstance(x.type, TensorType) else None
    if isinstance(dim, int):
        return dim
    return o.Gather(o.Shape(x), int64_tensor([axis % rank_of(x)]))


def write_flip(o: Any, x: Any, axes: Any = None) -> Any:
    known = list(range(rank_of(x))) if axes is None else static_value(axes)
    if known is None:
        raise Decline("Slice with a negative step needs constant axes")
    starts, ends, steps = (int64_tensor([v] * len(known)) for v in (-1, -_END, -1))
    return o.Slice(x, starts, ends, int64_tensor(known), steps)


def write_unique(o: Any, x: Any, *, axis: Any = None, sorted: bool = True) -> Any:
    more: dict[str, Any] = {} if axis is None else {"axis": axis}
    return o.Unique(x, sorted=int(sorted), outputs=4, **more)


def _as_int64(o: Any, value: Any) -> Any:
    """A computed operand that other ops change before an op takes it as int64."""
    known = value.type if isinstance(value, OutputPort) else None
    if not isinstance(known, TensorType) or known.dtype == int64:
        return value
    cast = o.Cast(value, to=CODES[int64])
    cast.type = TensorType(int64, known.shape)
    return cast


# -- padding -----------------------------------------------------------------------


def write_pad(o: Any, x: Any, pads: Any, value: Any = None, axes: Any = None, *,
              mode: str = "constant") -> Any:  # fmt: skip
    pairs = static_value(pads)
    if pairs is not None:
        flat = [p[0] for p in pairs] + [p[1] for p in pairs]
    if axes is not None and not isinstance(axes, OutputPort):
        axes = int64_tensor(axes)
    if opset_of(o) < 11:
        if axes is not None:
            flat = _pads_of_all_axes(x, pairs, axes).tolist()
        return _pad_with_attributes(o, x, None if pairs is None else flat, value, mode)
    if pairs is None:
        transposed = o.Transpose(_as_int64(o, pads), perm=[1, 0])
        operand: Any = o.Reshape(transposed, int64_tensor([-1]))
    else:
        operand = int64_tensor(flat)
    inputs = [x, operand, value] if axes is None else [x, operand, value, axes]
    if axes is not None and opset_of(o) < 18:
        inputs = [x, _pads_of_all_axes(x, pairs, axes), value]
    return o.Pad(*inputs, mode=mode)


def _pads_of_all_axes(x: Any, pairs: Any, axes: Any) -> Tensor:
    known = static_value(axes) if isinstance(axes, OutputPort) else axes.tolist()
    if pairs is None or known is None:
        raise Decline("Pad of this opset needs constant pads and axes")
    rank = rank_of(x)
    every = [[0, 0] for _ in range(rank)]
    for axis, pair in zip(known, pairs, strict=True):
        every[axis % rank] = pair
    return int64_tensor([p[0] for p in every] + [p[1] for p in every])


def _pad_with_attributes(o: Any, x: Any, pads: Any, value: Any, mode: str) -> Any:
    tensor = None if value is None else constant_of(value)
    if pads is None or (value is not None and tensor is None):
        raise Decline("Pad of this opset needs its pads and value as attributes")
    fill = 0.0 if tensor is None else float(tensor.numpy().reshape(()))
    return o.Pad(x, pads=pads, value=fill, mode=mode)


# -- casts -------------------------------------------------------------------------


def write_astype(o: Any, x: Any, *, dtype: Any) -> Any:
    if dtype not in CODES:
        raise Decline(f"ONNX has no dtype {dtype}")
    own = tensor_type_of(x).dtype if isinstance(x.type, TensorType) else dtype
    if "complex" in (str(own.kind), str(dtype.kind)):
        raise Decline(f"Cast does not support complex numbers: {own} to {dtype}")
    is_narrow = str(dtype).startswith(("float8_e4m3", "float8_e5m2"))
    exact = {"saturate": 0} if is_narrow else {}  # astype of std does not saturate
    return o.Cast(x, to=CODES[dtype], **exact)


WRITE: dict[str, Any] = {
    "dim": write_dim,
    "stack": write_stack,
    "split": write_split,
    "full": write_full,
    "eye": write_eye,
    "one_hot": write_one_hot,
    "topk": write_topk,
    "sort": write_sort,
    "argsort": write_argsort,
    "flip": write_flip,
    "unique": write_unique,
    "pad": write_pad,
    "astype": write_astype,
}
