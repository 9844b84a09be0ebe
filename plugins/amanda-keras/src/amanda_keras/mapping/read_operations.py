"""From Keras: operations (`keras.ops`) between the layers of a Functional model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, Final

import numpy as np

from amanda_keras.mapping.activations import ACTIVATIONS
from amanda_keras.mapping.layer_calls import (
    as_axes,
    cast_to,
    expect,
    kind_of,
    operations,
    rank_of,
)
from amanda_std import ops

__all__ = ["READ"]

_ORDER: Final = ("bool", "uint", "int", "float", "complex")


def _is_value(x: Any) -> bool:
    return hasattr(x, "port")


def _promote(*values: Any) -> list[Any]:
    """Values of one element type; numbers take that of the values beside them."""
    typed = [v for v in values if _is_value(v) or isinstance(v, np.ndarray)]
    kinds = {str(v.dtype): kind_of(v) for v in typed}
    if any(isinstance(v, float) for v in values) and not (
        {"float", "complex"} & {*kinds.values()}
    ):
        kinds["float32"] = "float"
    if len(kinds) < 2:
        return list(values)
    best = max(kinds, key=lambda d: (_ORDER.index(kinds[d]), _bits(d)))
    return [_as_dtype(v, best) for v in values]


def _bits(dtype: str) -> int:
    return int("".join(c for c in dtype if c.isdigit()) or 1)


def _as_dtype(value: Any, dtype: str) -> Any:
    if _is_value(value):
        return cast_to(value, dtype)
    return np.asarray(value, dtype)


def _floating(x: Any) -> Any:
    """Integers as float32."""
    return x if kind_of(x) in ("float", "complex") else cast_to(x, "float32")


def _binary(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def read_binary(x1: Any, x2: Any) -> Any:
        return function(*_promote(x1, x2))

    return read_binary


def _logical(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def read_logical(x1: Any, x2: Any) -> Any:
        return function(*(_as_dtype(x, "bool") for x in (x1, x2)))

    return read_logical


def _unary(
    function: Callable[[Any], Any], *, floats: bool = True
) -> Callable[..., Any]:
    def read_unary(x: Any) -> Any:
        return function(_floating(x) if floats else x)

    return read_unary


def read_divide(x1: Any, x2: Any) -> Any:
    a, b = _promote(x1, x2)
    a, b = (_floating(v) if _is_value(v) else v for v in (a, b))
    return ops.divide(a, b)


def read_arctan2(x1: Any, x2: Any) -> Any:
    return ops.atan2(*(_floating(v) for v in _promote(x1, x2)))


# -- reductions ------------------------------------------------------------------------


def _axes(axis: Any, x: Any) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(rank_of(x)))
    return tuple(as_axes(axis, x))


def _reduction(function: Callable[..., Any], dtype: str | None = None) -> Any:
    def read_reduction(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        if dtype is not None:
            x = _floating(x) if dtype == "float" else cast_to(x, dtype)
        return function(x, _axes(axis, x), keepdims=bool(keepdims))

    return read_reduction


def read_extreme(function: Callable[..., Any]) -> Callable[..., Any]:
    def read_max(
        x: Any, axis: Any = None, keepdims: bool = False, initial: Any = None
    ) -> Any:
        expect(initial is None, "a reduction with an initial value")
        return function(x, _axes(axis, x), keepdims=bool(keepdims))

    return read_max


def _position(function: Callable[..., Any]) -> Callable[..., Any]:
    def read_position(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        if axis is None:
            expect(not keepdims, "the position in a whole tensor, with axes")
            return cast_to(function(ops.reshape(x, [-1]), 0), "int32")
        return cast_to(function(x, int(axis), keepdims=bool(keepdims)), "int32")

    return read_position


def read_norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    expect(ord in (None, 2, "euclidean") and axis is not None, f"a norm of order {ord}")
    return ops.norm_l2(_floating(x), _axes(axis, x), keepdims=bool(keepdims))


def read_cumulative_sum(x: Any, axis: Any = None, dtype: Any = None) -> Any:
    x = x if dtype is None else cast_to(x, dtype)
    if axis is None:
        return ops.cumulative_sum(ops.reshape(x, [-1]), 0)
    return ops.cumulative_sum(x, int(axis) % rank_of(x))


# -- shapes ----------------------------------------------------------------------------


def read_get_item(x: Any, key: Any) -> Any:
    """An element or a part, by integers, slices, None and `...`."""
    items = list(key) if isinstance(key, list | tuple) else [key]
    count = sum(1 for k in items if k is not None and k is not Ellipsis)
    if Ellipsis not in [k if not _is_value(k) else 0 for k in items]:
        items.append(Ellipsis)
    at = next(i for i, k in enumerate(items) if k is Ellipsis)
    items[at : at + 1] = [slice(None)] * (rank_of(x) - count)
    axis, axes, rows, dropped, added = 0, [], [], [], []
    out = 0
    for item in items:
        if item is None:
            added.append(out)
            out += 1
            continue
        expect(isinstance(item, int | slice), "an index that is a tensor")
        if isinstance(item, int):
            dropped.append(axis)
            item = slice(item, item + 1 if item != -1 else None)
        else:
            out += 1
        if item != slice(None):
            axes.append(axis)
            rows.append(_bounds(item))
        axis += 1
    if axes:
        x = ops.slice(x, [r[0] for r in rows], [r[1] for r in rows], axes,
                      [r[2] for r in rows])  # fmt: skip
    x = ops.squeeze(x, dropped) if dropped else x
    return ops.expand_dims(x, added) if added else x


def _bounds(item: slice) -> tuple[int, int, int]:
    parts = (item.start, item.stop, item.step)
    expect(all(p is None or isinstance(p, int) for p in parts), "a computed index")
    step = 1 if item.step is None else item.step
    far = 2**31 - 1
    start = item.start if item.start is not None else (0 if step > 0 else far)
    stop = item.stop if item.stop is not None else (far if step > 0 else -far)
    return int(start), int(stop), int(step)


def read_reshape(x: Any, newshape: Any) -> Any:
    listed = newshape if isinstance(newshape, list | tuple) else [newshape]
    shape = [-1 if n is None else n for n in listed]
    return ops.reshape(x, shape)


def read_transpose(x: Any, axes: Any = None) -> Any:
    order = reversed(range(rank_of(x))) if axes is None else axes
    return ops.transpose(x, perm=tuple(int(a) % rank_of(x) for a in order))


def read_swap_axes(x: Any, axis1: int, axis2: int) -> Any:
    order = list(range(rank_of(x)))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return ops.transpose(x, perm=tuple(order))


def read_move_axis(x: Any, source: Any, destination: Any) -> Any:
    pairs = [v if isinstance(v, list | tuple) else [v] for v in (source, destination)]
    rank = rank_of(x)
    order = [i for i in range(rank) if i not in [s % rank for s in pairs[0]]]
    for target, start in sorted(
        (d % rank, s % rank) for s, d in zip(*pairs, strict=True)
    ):
        order.insert(target, start)
    return ops.transpose(x, perm=tuple(order))


def read_expand_dims(x: Any, axis: Any) -> Any:
    return ops.expand_dims(x, list(axis) if isinstance(axis, list | tuple) else [axis])


def read_squeeze(x: Any, axis: Any = None) -> Any:
    if axis is None:
        expect(all(isinstance(d, int) for d in x.shape), "a shape that is not static")
        axis = [i for i, d in enumerate(x.shape) if d == 1]
    return ops.squeeze(x, list(_axes(axis, x)))


def read_concatenate(xs: Any, axis: int = 0) -> Any:
    values = _promote(*xs)
    return ops.concat(*values, axis=int(axis) % rank_of(values[0]))


def read_stack(x: Any, axis: int = 0) -> Any:
    return ops.stack(*_promote(*x), axis=int(axis))


def read_split(x: Any, *, indices_or_sections: Any, outputs: int, axis: int = 0) -> Any:
    axis = int(axis) % rank_of(x)
    if isinstance(indices_or_sections, int):
        count = indices_or_sections
        found = ops.split(x, axis=axis, outputs=count)
    else:
        size = x.shape[axis]
        expect(isinstance(size, int), "a size that is not static")
        edges = [0, *(int(i) for i in indices_or_sections), size]
        sizes = [b - a for a, b in pairwise(edges)]
        found = ops.split(x, sizes, axis=axis, outputs=len(sizes))
    return tuple(found)[:outputs]


def read_repeat(x: Any, repeats: Any, axis: Any = None) -> Any:
    expect(isinstance(repeats, int), "repeats that are no number")
    if axis is None:
        return ops.repeat(ops.reshape(x, [-1]), repeats, axis=0)
    return ops.repeat(x, repeats, axis=int(axis) % rank_of(x))


def read_tile(x: Any, repeats: Any) -> Any:
    given = [repeats] if isinstance(repeats, int) else list(repeats)
    if len(given) > rank_of(x):
        x = ops.expand_dims(x, list(range(len(given) - rank_of(x))))
    return ops.tile(x, [1] * (rank_of(x) - len(given)) + given)


def read_broadcast_to(x: Any, shape: Any) -> Any:
    return ops.broadcast_to(x, list(shape))


def read_pad(
    x: Any, constant_values: Any = None, *, pad_width: Any, mode: str = "constant"
) -> Any:
    known = ("constant", "reflect", "edge", "wrap")
    expect(mode in known, f"mode={mode} is not supported")
    pairs: Any = pad_width
    if isinstance(pairs, int):
        pairs = [(pairs, pairs)] * rank_of(x)
    if constant_values is None:
        return ops.pad(x, [tuple(p) for p in pairs], mode=mode)
    value = ops.number_like(x, value=constant_values)
    return ops.pad(x, [tuple(p) for p in pairs], value, mode=mode)


def read_flip(x: Any, axis: Any = None) -> Any:
    return ops.flip(x, list(_axes(axis, x)))


def read_roll(x: Any, shift: Any, axis: Any = None) -> Any:
    expect(isinstance(shift, int) and isinstance(axis, int), "a roll over several axes")
    return ops.roll(x, np.asarray([shift]), axes=(axis % rank_of(x),))


def read_take(x: Any, indices: Any, axis: Any = None) -> Any:
    if not _is_value(indices):
        indices = np.asarray(indices, "int64")
    if axis is None:
        return ops.gather(ops.reshape(x, [-1]), indices, 0)
    return ops.gather(x, indices, int(axis) % rank_of(x))


def read_take_along_axis(x: Any, indices: Any, axis: Any = None) -> Any:
    expect(axis is not None, "indices into a whole tensor")
    return ops.gather_elements(x, indices, axis=int(axis) % rank_of(x))


# -- products and others ---------------------------------------------------------------


def read_einsum(*xs: Any, subscripts: str) -> Any:
    values = xs[0] if len(xs) == 1 and isinstance(xs[0], list) else xs
    return ops.einsum(*_promote(*values), equation=subscripts.replace(" ", ""))


def read_clip(x: Any, *, x_min: Any = None, x_max: Any = None) -> Any:
    return ops.clip(x, x_min, x_max)


def read_where(condition: Any, x1: Any = None, x2: Any = None) -> Any:
    expect(x1 is not None and x2 is not None, "the positions of true elements")
    a, b = _promote(x1, x2)
    like = a if _is_value(a) else b
    if not _is_value(like):
        a, b = (np.asarray(v, "float32") for v in (a, b))
    else:
        a, b = (v if _is_value(v) else np.asarray(v, str(like.dtype)) for v in (a, b))
    return ops.where(cast_to(condition, "bool"), a, b)


def read_cast(x: Any, dtype: Any) -> Any:
    return cast_to(x, dtype)


def read_convert(x: Any, dtype: Any = None, sparse: Any = None) -> Any:
    expect(not sparse, "a sparse result")
    return ops.identity(x) if dtype is None else cast_to(x, dtype)


def read_like(value: int) -> Callable[..., Any]:
    def read_filled(x: Any, dtype: Any = None) -> Any:
        y = ops.zeros_like(x) if value == 0 else ops.ones_like(x)
        return y if dtype is None else cast_to(y, dtype)

    return read_filled


def read_attach_mask(x: Any, mask: Any) -> Any:
    """The value; layers that use its mask are given it."""
    del mask
    return ops.identity(x)


def read_one_hot(
    x: Any, *, num_classes: int, axis: int = -1, dtype: Any = None, sparse: bool = False
) -> Any:
    expect(not sparse, "a sparse result")
    name = dtype or "float32"
    return ops.one_hot(x, int(num_classes), np.ones((), name), np.zeros((), name),
                       axis=int(axis))  # fmt: skip


def read_top_k(x: Any, k: int, sorted: bool = True) -> Any:
    del sorted
    values, at = ops.topk(x, int(k), axis=rank_of(x) - 1)
    return values, cast_to(at, "int32")


def read_normalize(
    x: Any, *, axis: Any = -1, order: int = 2, epsilon: Any = None
) -> Any:
    expect(order == 2, f"a norm of order {order}")
    total = ops.sum_squares(x, _axes(axis, x), keepdims=True)
    return x * ops.rsqrt(ops.maximum(total, float(epsilon or 1e-12)))


def _activation(name: str) -> Callable[..., Any]:
    function = ACTIVATIONS[name]

    def read_activation(x: Any) -> Any:
        return function(x)

    def read_slope(x: Any, negative_slope: float = 0.2) -> Any:
        return function(x, negative_slope)

    def read_alpha(x: Any, alpha: float = 1.0) -> Any:
        return function(x, alpha)

    def read_approximate(x: Any, approximate: bool = True) -> Any:
        return function(x, approximate)

    def read_axis(x: Any, axis: Any = -1) -> Any:
        return function(x, axis)

    def read_threshold(x: Any, threshold: float = 0.5) -> Any:
        return function(x, threshold)

    forms: Mapping[str, Callable[..., Any]] = {
        "leaky_relu": read_slope, "elu": read_alpha, "celu": read_alpha,
        "gelu": read_approximate, "softmax": read_axis, "log_softmax": read_axis,
        "glu": read_axis, "hard_shrink": read_threshold, "soft_shrink": read_threshold,
    }  # fmt: skip
    return forms.get(name, read_activation)


_UNARY: Final[Mapping[str, Callable[[Any], Any]]] = {
    "Exp": ops.exp, "Exp2": ops.exp2, "Expm1": ops.expm1, "Log": ops.log,
    "Log2": ops.log2, "Log10": ops.log10, "Log1p": ops.log1p, "Sqrt": ops.sqrt,
    "Rsqrt": ops.rsqrt, "Cbrt": ops.cbrt, "Sin": ops.sin, "Cos": ops.cos,
    "Tan": ops.tan, "Arcsin": ops.asin, "Arccos": ops.acos, "Arctan": ops.atan,
    "Sinh": ops.sinh, "Cosh": ops.cosh, "Tanh": ops.tanh, "Arcsinh": ops.asinh,
    "Arccosh": ops.acosh, "Arctanh": ops.atanh, "Erf": ops.erf, "Erfc": ops.erfc,
    "Erfinv": ops.erfinv, "Reciprocal": ops.reciprocal, "Ceil": ops.ceil,
    "Floor": ops.floor, "Trunc": ops.trunc, "Deg2rad": ops.radians,
    "Rad2deg": ops.degrees, "Sinc": ops.sinc, "I0": ops.i0,
}  # fmt: skip
_ANY_TYPE: Final[Mapping[str, Callable[[Any], Any]]] = {
    "Absolute": ops.abs, "Abs": ops.abs, "Negative": ops.negative, "Sign": ops.sign,
    "Square": ops.square, "Isnan": ops.isnan, "Isinf": ops.isinf,
    "Isfinite": ops.isfinite, "Copy": ops.identity, "StopGradient": ops.stop_gradient,
    "Real": ops.real, "Imag": ops.imag, "Conjugate": ops.conj, "Conj": ops.conj,
    "BitwiseNot": ops.bitwise_invert, "BitwiseInvert": ops.bitwise_invert,
    "Ravel": lambda x: ops.reshape(x, [-1]),
    "Signbit": ops.signbit, "LogicalNot": lambda x: ops.logical_not(cast_to(x, "bool")),
}  # fmt: skip
_BINARY: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "Add": ops.add, "Subtract": ops.subtract, "Multiply": ops.multiply,
    "Maximum": ops.maximum, "Minimum": ops.minimum, "Power": ops.pow,
    "Mod": ops.remainder,
    "FloorDivide": ops.floor_divide, "Equal": ops.equal, "NotEqual": ops.not_equal,
    "Greater": ops.greater, "GreaterEqual": ops.greater_equal, "Less": ops.less,
    "LessEqual": ops.less_equal, "Matmul": ops.matmul, "Hypot": ops.hypot,
    "Logaddexp": ops.logaddexp, "DivideNoNan": ops.divide_no_nan,
    "BitwiseAnd": ops.bitwise_and, "BitwiseOr": ops.bitwise_or,
    "BitwiseXor": ops.bitwise_xor,
}  # fmt: skip
_ACTIVATIONS: Final = {
    "Relu": "relu", "Relu6": "relu6", "Sigmoid": "sigmoid", "Softplus": "softplus",
    "Softsign": "softsign", "Silu": "silu", "LogSigmoid": "log_sigmoid",
    "LeakyRelu": "leaky_relu", "HardSigmoid": "hard_sigmoid", "HardSilu": "hard_silu",
    "Elu": "elu", "Selu": "selu", "Gelu": "gelu", "Celu": "celu", "Glu": "glu",
    "Softmax": "softmax", "LogSoftmax": "log_softmax", "HardTanh": "hard_tanh",
    "TanhShrink": "tanh_shrink", "HardShrink": "hard_shrink",
    "SoftShrink": "soft_shrink", "Squareplus": "squareplus",
    "SparsePlus": "sparse_plus", "SparseSigmoid": "sparse_sigmoid",
}  # fmt: skip

READ: Final = operations(
    {name: _unary(function) for name, function in _UNARY.items()}
    | {name: _unary(each, floats=False) for name, each in _ANY_TYPE.items()}
    | {name: _binary(function) for name, function in _BINARY.items()}
    | {name: _activation(known) for name, known in _ACTIVATIONS.items()}
    | {
        "LogicalAnd": _logical(ops.logical_and), "LogicalOr": _logical(ops.logical_or),
        "LogicalXor": _logical(ops.logical_xor), "Divide": read_divide,
        "TrueDivide": read_divide, "Arctan2": read_arctan2,
        "Sum": _reduction(ops.sum_), "Prod": _reduction(ops.prod),
        "Mean": _reduction(ops.mean, "float"), "Var": _reduction(ops.var, "float"),
        "Std": _reduction(ops.std, "float"), "All": _reduction(ops.all_, "bool"),
        "Any": _reduction(ops.any_, "bool"), "Max": read_extreme(ops.max_),
        "Min": read_extreme(ops.min_), "Amax": _reduction(ops.max_),
        "Amin": _reduction(ops.min_), "Logsumexp": _reduction(ops.logsumexp, "float"),
        "Argmax": _position(ops.argmax), "Argmin": _position(ops.argmin),
        "Norm": read_norm, "Cumsum": read_cumulative_sum, "GetItem": read_get_item,
        "Reshape": read_reshape, "Transpose": read_transpose,
        "Swapaxes": read_swap_axes, "Moveaxis": read_move_axis,
        "ExpandDims": read_expand_dims, "Squeeze": read_squeeze,
        "Concatenate": read_concatenate, "Stack": read_stack, "Split": read_split,
        "Repeat": read_repeat, "Tile": read_tile, "BroadcastTo": read_broadcast_to,
        "Pad": read_pad, "Flip": read_flip, "Roll": read_roll, "Take": read_take,
        "TakeAlongAxis": read_take_along_axis, "Einsum": read_einsum,
        "Clip": read_clip, "Where": read_where, "Cast": read_cast,
        "ConvertToTensor": read_convert,
        "ZerosLike": read_like(0), "OnesLike": read_like(1), "OneHot": read_one_hot,
        "TopK": read_top_k, "AttachMask": read_attach_mask, "Normalize": read_normalize,
    }
)  # fmt: skip
