"""From ONNX: what the first opsets say in attributes, before 7."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amanda.types import DType
from amanda_onnx.format.element_types import CODES
from amanda_onnx.mapping.elementwise.read_elementwise import (
    maximum,
    mean,
    minimum,
    old_clip,
    total,
)
from amanda_onnx.mapping.nn.read_nn import gemm
from amanda_onnx.mapping.resize.read_resize import upsample_7
from amanda_onnx.mapping.shapes.read_shapes import cast
from amanda_onnx.mapping.static_values import expect, pairs_of, rank_of
from amanda_std import ops

__all__ = ["READ"]


def _with_axis(op: Callable[..., Any]) -> Callable[..., Any]:
    """The second operand lies along the axes of the first, from one of them on."""

    def pair(a: Any, b: Any, *, broadcast: int = 0, axis: int | None = None,
             consumed_inputs: Any = None) -> Any:  # fmt: skip  # noqa: ARG001
        if broadcast and axis is not None:
            at = axis % rank_of(a)
            behind = rank_of(a) - at - rank_of(b)
            expect(behind >= 0, "an axis without room for the second operand")
            rank = rank_of(b)
            b = ops.expand_dims(b, tuple(range(rank, rank + behind))) if behind else b
        return op(a, b)

    return pair


def _hinted(op: Callable[..., Any]) -> Callable[..., Any]:
    """`consumed_inputs` tells whose memory may be written over: nothing of meaning."""

    def same(*xs: Any, consumed_inputs: Any = None) -> Any:  # noqa: ARG001
        return op(*xs)

    return same


def old_gemm(a: Any, b: Any, c: Any, *, alpha: float = 1.0, beta: float = 1.0,
             broadcast: int = 0, transA: int = 0, transB: int = 0) -> Any:  # fmt: skip  # noqa: ARG001, N803
    """Where c may not be spread, it has the shape of the result."""
    return gemm(a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)


def old_prelu(x: Any, slope: Any, *, consumed_inputs: Any = None) -> Any:  # noqa: ARG001
    """One slope, or one for each channel."""
    if slope.type.shape.rank == 1 and rank_of(x) > 2:
        slope = ops.reshape(slope, [-1, *[1] * (rank_of(x) - 2)])
    return ops.prelu(x, slope)


def elu(x: Any, *, alpha: float = 1.0, consumed_inputs: Any = None) -> Any:  # noqa: ARG001
    return ops.elu(x, alpha=alpha)


def leaky_relu(x: Any, *, alpha: float = 0.01, consumed_inputs: Any = None) -> Any:  # noqa: ARG001
    return ops.leaky_relu(x, slope=alpha)


def selu(x: Any, *, alpha: float = 1.6732, gamma: float = 1.0507,
         consumed_inputs: Any = None) -> Any:  # fmt: skip  # noqa: ARG001
    return ops.selu(x, alpha=alpha, gamma=gamma)


def hardsigmoid(x: Any, *, alpha: float = 0.2, beta: float = 0.5,
                consumed_inputs: Any = None) -> Any:  # fmt: skip  # noqa: ARG001
    return ops.hardsigmoid(x, alpha=alpha, beta=beta)


def instance_norm(x: Any, scale: Any, bias: Any, *, epsilon: float = 1e-5,
                  consumed_inputs: Any = None) -> Any:  # fmt: skip  # noqa: ARG001
    return ops.instance_norm(x, scale, bias, epsilon=epsilon)


def clip(x: Any, *, min: float | None = None, max: float | None = None,
         consumed_inputs: Any = None) -> Any:  # fmt: skip  # noqa: ARG001
    return old_clip(x, min=min, max=max)


def reshape(x: Any, *, shape: Any = None, consumed_inputs: Any = None) -> Any:  # noqa: ARG001
    expect(shape is not None, "a Reshape without a shape")
    return ops.reshape(x, shape, copy_zero=True)


def pad(x: Any, *, paddings: Any, value: float = 0.0, mode: str = "constant") -> Any:
    fill = None if mode != "constant" or not value else value
    return ops.pad(x, pairs_of(paddings, "paddings"), fill, mode=mode)


def concat(*xs: Any, axis: int = 1) -> Any:
    return ops.concat(*xs, axis=axis)


def tile(x: Any, tiles: Any, axis: Any) -> Any:
    """So many copies along one axis, which may be known at run time only."""
    places = ops.arange(0, rank_of(x))
    times, at = (ops.reshape(ops.astype(v, dtype="int64"), []) for v in (tiles, axis))
    return ops.tile(x, ops.where(ops.equal(places, at), times, ops.ones_like(places)))


def upsample(x: Any, *, height_scale: float, width_scale: float,
             mode: str = "nearest") -> Any:  # fmt: skip
    how = "linear" if mode == "bilinear" else mode
    return upsample_7(x, scales=[1.0, 1.0, height_scale, width_scale], mode=how)


def cast_by_name(x: Any, *, to: str) -> Any:
    """The first versions name the element type: FLOAT, INT64."""
    name = to.lower()
    name = {"float": "float32", "double": "float64"}.get(name, name)
    expect(DType(name) in CODES, f"there is no element type {to}")
    return cast(x, to=CODES[DType(name)])


_PAIRS: dict[str, tuple[Callable[..., Any], int]] = {
    "Add": (ops.add, 6), "Sub": (ops.subtract, 6), "Mul": (ops.multiply, 6),
    "Div": (ops.divide, 6), "Pow": (ops.pow, 6), "And": (ops.logical_and, 6),
    "Or": (ops.logical_or, 6), "Xor": (ops.logical_xor, 6), "Equal": (ops.equal, 6),
    "Less": (ops.less, 6), "Greater": (ops.greater, 6),
}  # fmt: skip
_HINTED: dict[str, Callable[..., Any]] = {
    "Abs": ops.abs, "Ceil": ops.ceil, "Exp": ops.exp, "Floor": ops.floor,
    "Log": ops.log, "Neg": ops.negative, "Reciprocal": ops.reciprocal,
    "Relu": ops.relu, "Sigmoid": ops.sigmoid, "Sqrt": ops.sqrt, "Tanh": ops.tanh,
    "Max": maximum, "Min": minimum, "Sum": total, "Mean": mean,
}  # fmt: skip

READ: dict[str, Any] = {
    **{f"{t}[:{last}]": _with_axis(op) for t, (op, last) in _PAIRS.items()},
    **{f"{t}[:5]": _hinted(op) for t, op in _HINTED.items()},
    "Gemm[:6]": old_gemm,
    "PRelu[:6]": old_prelu,
    "Elu[:5]": elu,
    "LeakyRelu[:5]": leaky_relu,
    "Selu[:5]": selu,
    "HardSigmoid[:5]": hardsigmoid,
    "InstanceNormalization[:5]": instance_norm,
    "Clip[:5]": clip,
    "Reshape[:4]": reshape,
    "Pad[:1]": pad,
    "Concat[:3]": concat,
    "Tile[:5]": tile,
    "Upsample[:6]": upsample,
    "Cast[:5]": cast_by_name,
}
