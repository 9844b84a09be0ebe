"""From ONNX: the forms of ops before opset 7, with more attributes than later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amanda.types import DType
from amanda_onnx.format.element_types import CODES
from amanda_onnx.mapping.elementwise.read_elementwise import (
    read_clip_10,
    read_max,
    read_mean,
    read_min,
    read_sum,
)
from amanda_onnx.mapping.nn.read_conv import read_gemm
from amanda_onnx.mapping.resize.read_resize import read_upsample_8
from amanda_onnx.mapping.shapes.read_shapes import read_cast
from amanda_onnx.mapping.static_values import pairs_of
from amanda_std import ops
from amanda_std.mappings import expect, rank_of, tensor_type_of

__all__ = ["READ"]


def _binary(op: Callable[..., Any]) -> Callable[..., Any]:
    """A binary op whose second operand is aligned with the first one from `axis` on."""

    def read(a: Any, b: Any, *, broadcast: int = 0, axis: int | None = None,
             consumed_inputs: Any = None) -> Any:  # fmt: skip  # noqa: ARG001
        if broadcast and axis is not None:
            rank = rank_of(b)
            trailing = rank_of(a) - axis % rank_of(a) - rank
            expect(trailing >= 0, f"axis={axis} leaves too few axes for b")
            if trailing:
                b = ops.expand_dims(b, tuple(range(rank, rank + trailing)))
        return op(a, b)

    return read


def _in_place(op: Callable[..., Any]) -> Callable[..., Any]:
    """An op with `consumed_inputs`, a hint about memory without effect on results."""

    def read(*xs: Any, consumed_inputs: Any = None) -> Any:  # noqa: ARG001
        return op(*xs)

    return read


def read_gemm_6(a: Any, b: Any, c: Any, *, alpha: float = 1.0, beta: float = 1.0,
                broadcast: int = 0,  # noqa: ARG001
                transA: int = 0, transB: int = 0) -> Any:  # fmt: skip  # noqa: N803
    """Without `broadcast`, c has the shape of the result."""
    return read_gemm(a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)


def read_prelu_6(x: Any, slope: Any, *, consumed_inputs: Any = None) -> Any:  # noqa: ARG001
    """One slope, or one for each channel."""
    if tensor_type_of(slope).shape.rank == 1 and rank_of(x) > 2:
        slope = ops.reshape(slope, [-1, *[1] * (rank_of(x) - 2)])
    return ops.prelu(x, slope)


def read_elu_5(x: Any, *, alpha: float = 1.0, consumed_inputs: Any = None) -> Any:  # noqa: ARG001
    return ops.elu(x, alpha=alpha)


def read_leaky_relu_5(x: Any, *, alpha: float = 0.01,
                      consumed_inputs: Any = None) -> Any:  # fmt: skip  # noqa: ARG001
    return ops.leaky_relu(x, slope=alpha)


def read_selu_5(x: Any, *, alpha: float = 1.6732, gamma: float = 1.0507,
                consumed_inputs: Any = None) -> Any:  # fmt: skip  # noqa: ARG001
    return ops.selu(x, alpha=alpha, gamma=gamma)


def read_hard_sigmoid_5(x: Any, *, alpha: float = 0.2, beta: float = 0.5,
                        consumed_inputs: Any = None) -> Any:  # fmt: skip  # noqa: ARG001
    return ops.hardsigmoid(x, alpha=alpha, beta=beta)


def read_instance_norm_5(x: Any, scale: Any, bias: Any, *, epsilon: float = 1e-5,
                         consumed_inputs: Any = None) -> Any:  # fmt: skip  # noqa: ARG001
    return ops.instance_norm(x, scale, bias, epsilon=epsilon)


def read_clip_5(x: Any, *, min: float | None = None, max: float | None = None,
                consumed_inputs: Any = None) -> Any:  # fmt: skip  # noqa: ARG001
    return read_clip_10(x, min=min, max=max)


def read_reshape_4(x: Any, *, shape: Any = None, consumed_inputs: Any = None) -> Any:  # noqa: ARG001
    expect(shape is not None, "Reshape needs its attribute shape")
    return ops.reshape(x, shape, copy_zero=True)


def read_pad_1(x: Any, *, paddings: Any, value: float = 0.0,
               mode: str = "constant") -> Any:  # fmt: skip
    fill = None if mode != "constant" or not value else value
    return ops.pad(x, pairs_of(paddings, "paddings"), fill, mode=mode)


def read_concat_3(*xs: Any, axis: int = 1) -> Any:
    return ops.concat(*xs, axis=axis)


def read_tile_5(x: Any, tiles: Any, axis: Any) -> Any:
    """Copies along one axis, which may be computed."""
    axes = ops.arange(0, rank_of(x))
    count, at = (ops.reshape(ops.astype(v, dtype="int64"), []) for v in (tiles, axis))
    return ops.tile(x, ops.where(ops.equal(axes, at), count, ops.ones_like(axes)))


def read_upsample_6(x: Any, *, height_scale: float, width_scale: float,
                    mode: str = "nearest") -> Any:  # fmt: skip
    scales = [1.0, 1.0, height_scale, width_scale]
    return read_upsample_8(x, scales=scales, mode=_MODES.get(mode, mode))


def read_cast_5(x: Any, *, to: str) -> Any:
    """Before opset 6, dtypes are names: FLOAT, INT64."""
    name = to.lower()
    dtype = DType(_DTYPES.get(name, name))
    expect(dtype in CODES, f"unknown dtype {to}")
    return read_cast(x, to=CODES[dtype])


_MODES = {"bilinear": "linear"}
_DTYPES = {"float": "float32", "double": "float64"}
_BINARY: dict[str, Callable[..., Any]] = {
    "Add": ops.add, "Sub": ops.subtract, "Mul": ops.multiply, "Div": ops.divide,
    "Pow": ops.pow, "And": ops.logical_and, "Or": ops.logical_or,
    "Xor": ops.logical_xor, "Equal": ops.equal, "Less": ops.less,
    "Greater": ops.greater,
}  # fmt: skip
_IN_PLACE: dict[str, Callable[..., Any]] = {
    "Abs": ops.abs, "Ceil": ops.ceil, "Exp": ops.exp, "Floor": ops.floor,
    "Log": ops.log, "Neg": ops.negative, "Reciprocal": ops.reciprocal,
    "Relu": ops.relu, "Sigmoid": ops.sigmoid, "Sqrt": ops.sqrt, "Tanh": ops.tanh,
    "Max": read_max, "Min": read_min, "Sum": read_sum, "Mean": read_mean,
}  # fmt: skip

READ: dict[str, Any] = {
    **{f"{type}[:6]": _binary(op) for type, op in _BINARY.items()},
    **{f"{type}[:5]": _in_place(op) for type, op in _IN_PLACE.items()},
    "Gemm[:6]": read_gemm_6,
    "PRelu[:6]": read_prelu_6,
    "Elu[:5]": read_elu_5,
    "LeakyRelu[:5]": read_leaky_relu_5,
    "Selu[:5]": read_selu_5,
    "HardSigmoid[:5]": read_hard_sigmoid_5,
    "InstanceNormalization[:5]": read_instance_norm_5,
    "Clip[:5]": read_clip_5,
    "Reshape[:4]": read_reshape_4,
    "Pad[:1]": read_pad_1,
    "Concat[:3]": read_concat_3,
    "Tile[:5]": read_tile_5,
    "Upsample[:6]": read_upsample_6,
    "Cast[:5]": read_cast_5,
}
