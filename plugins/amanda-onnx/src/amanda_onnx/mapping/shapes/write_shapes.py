"""To ONNX: functions for ops of shapes and places."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.graph import OutputPort
from amanda.mapping import Decline, constant_of
from amanda.tensors import Tensor
from amanda.types import TensorType
from amanda_onnx.format.element_types import CODES

__all__ = ["WRITE", "content", "opset", "rank"]

_END = 2**63 - 1


def opset(o: Any) -> int:
    return int(o.side.opset)


def rank(value: Any) -> int:
    """The rank of a value; Undecided where it is not known."""
    if not isinstance(value.type, TensorType):
        raise Decline(f"the type of {value} is not known")
    return value.type.shape.rank


def content(value: Any) -> Any:
    """A host argument as numbers and lists, or None where it is computed."""
    if isinstance(value, OutputPort):
        tensor = constant_of(value)
        return None if tensor is None else tensor.tolist()
    return np.asarray(value, "int64").tolist()


def whole(values: Any) -> Tensor:
    """A constant of integers."""
    return Tensor.of(np.asarray(values, "int64"))


def unsqueezed(o: Any, x: Any, axes: Any) -> Any:
    if opset(o) < 13:
        return o.Unsqueeze(x, axes=axes)
    return o.Unsqueeze(x, whole(axes))


def vector(o: Any, value: Any) -> Any:
    """One number as a list of one."""
    if not isinstance(value, OutputPort):
        return whole([value])
    return o.Reshape(value, whole([1])) if rank(value) == 0 else value


# -- functions ---------------------------------------------------------------------


def dim(o: Any, x: Any, *, axis: int) -> Any:
    return o.Gather(o.Shape(x), whole(axis % rank(x) if axis < 0 else axis))


def stack(o: Any, *xs: Any, axis: int = 0) -> Any:
    return o.Concat(*[unsqueezed(o, x, [axis]) for x in xs], axis=axis)


def split(o: Any, x: Any, sizes: Any = None, *, axis: int = 0, outputs: int) -> Any:
    if sizes is None and opset(o) < 18:
        length = x.type.shape[axis] if isinstance(x.type, TensorType) else None
        if not isinstance(length, int):
            raise Decline("the sizes of equal parts are known at run time only")
        part = -(-length // outputs)
        rest = length - part * (outputs - 1)
        sizes = None if rest == part else [part] * (outputs - 1) + [rest]
    if opset(o) >= 18 and sizes is None:
        made = o.Split(x, axis=axis, num_outputs=outputs, outputs=outputs)
    elif opset(o) >= 13:
        told = whole(sizes) if isinstance(sizes, list | tuple) else sizes
        made = o.Split(x, told, axis=axis, outputs=outputs)
    else:
        told = None if sizes is None else content(sizes)
        if sizes is not None and told is None:
            raise Decline("sizes that are computed")
        made = o.Split(x, axis=axis, split=told, outputs=outputs)
    return made if isinstance(made, tuple) else (made,)


def full(o: Any, shape: Any, value: Any) -> Any:
    given = whole(shape) if isinstance(shape, list | tuple) else shape
    tensor = constant_of(value)
    if tensor is None or opset(o) < 9:
        return o.Expand(value, given)
    one = Tensor.of(tensor.numpy().reshape((1,)))
    return o.ConstantOfShape(given, value=one)


def eye(o: Any, rows: Any, columns: Any = None, *, k: int = 0, dtype: Any) -> Any:
    parts = [rows, rows if columns is None else columns]
    if any(isinstance(part, OutputPort) for part in parts):
        shape = o.Concat(*[vector(o, part) for part in parts], axis=0)
    else:
        shape = whole(parts)
    return o.EyeLike(o.ConstantOfShape(shape), dtype=CODES[dtype], k=k)


def one_hot(o: Any, i: Any, depth: Any, on: Any, off: Any, *, axis: int = -1,
            wrap: bool = False) -> Any:  # fmt: skip
    if not wrap:
        raise Decline("OneHot counts negative places from the end")
    values = o.Concat(*[vector(o, v) for v in (off, on)], axis=0)
    return o.OneHot(i, depth, values, axis=axis)


def topk(o: Any, x: Any, k: Any, *, axis: int = -1, largest: bool = True) -> Any:
    return _sorted(o, x, k, axis, descending=largest)


def _sorted(o: Any, x: Any, k: Any, axis: int, *, descending: bool) -> Any:
    if opset(o) < 11 and not descending:
        raise Decline("TopK finds the largest only")
    if opset(o) < 10:
        if isinstance(k, OutputPort):
            raise Decline("TopK needs k as an attribute")
        return o.TopK(x, k=k, axis=axis)
    more = {} if descending else {"largest": 0}
    return o.TopK(x, vector(o, k), axis=axis, **more)


def sort(o: Any, x: Any, *, axis: int = -1, descending: bool = False) -> Any:
    return _sorted(o, x, _length(o, x, axis), axis, descending=descending)[0]


def argsort(o: Any, x: Any, *, axis: int = -1, descending: bool = False) -> Any:
    return _sorted(o, x, _length(o, x, axis), axis, descending=descending)[1]


def _length(o: Any, x: Any, axis: int) -> Any:
    found = x.type.shape[axis] if isinstance(x.type, TensorType) else None
    if isinstance(found, int):
        return found
    return o.Gather(o.Shape(x), whole([axis % rank(x)]))


def flip(o: Any, x: Any, axes: Any = None) -> Any:
    places = list(range(rank(x))) if axes is None else content(axes)
    if places is None:
        raise Decline("axes that are computed")
    count = len(places)
    backwards = [whole([v] * count) for v in (-1, -_END, -1)]
    starts, ends, steps = backwards
    return o.Slice(x, starts, ends, whole(places), steps)


def pad(o: Any, x: Any, pads: Any, value: Any = None, axes: Any = None, *,
        mode: str = "constant") -> Any:  # fmt: skip
    told = content(pads)
    if told is not None:
        flat = [p[0] for p in told] + [p[1] for p in told]
    if opset(o) < 11:
        if axes is not None:
            places = axes if isinstance(axes, OutputPort) else whole(axes)
            flat, axes = _spread(x, told, places).tolist(), None
        return _old_pad(o, x, None if told is None else flat, value, axes, mode)
    if told is None:
        turned = o.Transpose(pads, perm=[1, 0])
        given: Any = o.Reshape(turned, whole([-1]))
    else:
        given = whole(flat)
    if axes is not None and not isinstance(axes, OutputPort):
        axes = whole(axes)
    inputs = [x, given, value] if axes is None else [x, given, value, axes]
    if axes is not None and opset(o) < 18:
        inputs = [x, _spread(x, told, axes), value]
    return o.Pad(*inputs, mode=mode)


def _spread(x: Any, told: Any, axes: Any) -> Tensor:
    """Pads of all axes, from those of some."""
    places = content(axes) if isinstance(axes, OutputPort) else axes.tolist()
    if told is None or places is None:
        raise Decline("pads of some axes, which are computed")
    count = rank(x)
    pairs = [[0, 0] for _ in range(count)]
    for place, pair in zip(places, told, strict=True):
        pairs[place % count] = pair
    return whole([p[0] for p in pairs] + [p[1] for p in pairs])


def _old_pad(o: Any, x: Any, flat: Any, value: Any, axes: Any, mode: str) -> Any:
    tensor = None if value is None else constant_of(value)
    if flat is None or axes is not None or (value is not None and tensor is None):
        raise Decline("Pad of this opset needs its pads and value as attributes")
    fill = 0.0 if tensor is None else float(tensor.numpy().reshape(()))
    return o.Pad(x, pads=flat, value=fill, mode=mode)


def astype(o: Any, x: Any, *, dtype: Any) -> Any:
    if dtype not in CODES:
        raise Decline(f"ONNX has no element type {dtype}")
    own = x.type.dtype if isinstance(x.type, TensorType) else dtype
    if "complex" in (str(own.kind), str(dtype.kind)):
        raise Decline(f"Cast of ONNX knows no complex numbers: {own} to {dtype}")
    is_narrow = str(dtype).startswith(("float8_e4m3", "float8_e5m2"))
    exact = {"saturate": 0} if is_narrow else {}  # std does not clip what it converts
    return o.Cast(x, to=CODES[dtype], **exact)


WRITE: dict[str, Any] = {
    "dim": dim,
    "stack": stack,
    "split": split,
    "full": full,
    "eye": eye,
    "one_hot": one_hot,
    "topk": topk,
    "sort": sort,
    "argsort": argsort,
    "flip": flip,
    "pad": pad,
    "astype": astype,
}
