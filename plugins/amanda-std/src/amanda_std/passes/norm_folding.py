"""Batch norms and scale factors folded into the weights of the preceding layer."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from amanda.graph import KEEP, Graph, Op, Parameter
from amanda.mapping import Decline, RuleSet
from amanda.passes import Rewriting
from amanda.tensors import Tensor
from amanda_std import ops
from amanda_std.engine.traits import Trait
from amanda_std.engine.values import Value, constant_of
from amanda_std.hub.effect_order import effect_of
from amanda_std.hub.mapping_side import STD_SIDE
from amanda_std.hub.op_access import has_trait, op_arguments, operation_of
from amanda_std.ops.nn.convolution import to_channels_first

__all__ = ["fold_norms"]


def fold_norms(graph: Graph) -> int:
    """Fold norms and factors into constant weights of the preceding layer; returns how
    many.

    Results change by rounding. New weights are computed when they are read, so that no
    more of them than one must be in memory. A graph that writes variables, as one that
    trains does, stays."""
    if any(effect_of(op) == "writes" for op in graph.walk()):
        return 0
    return _folding_rules()(graph)


@cache
def _folding_rules() -> Rewriting:
    rules = RuleSet("fold_norms", "amanda/std", "amanda/std")
    for head, call in _RULES.items():
        rules.read(head)(call)
    return Rewriting(rules, STD_SIDE, worth=_reads_a_layer)


def _reads_a_layer(op: Op) -> bool:
    """Whether the first operand is made by a layer with weights."""
    x = op.inputs[0] if op.inputs else None
    return (
        x is not None
        and not isinstance(x, Parameter)
        and has_trait(x.op, Trait.LINEAR_LAYER)
    )


def _batch_norm(
    x: Any, scale: Any, bias: Any, mean: Any, var: Any, *, axis: int, epsilon: float
) -> Any:
    layer = _preceding_layer(x)
    if axis % x.ndim != _channel_axis(layer, x.ndim):
        raise Decline("it is not the channels that are scaled")
    scale, bias, mean, var = map(_array_of, (scale, bias, mean, var))
    with np.errstate(invalid="ignore", divide="ignore"):  # NaN, as the op computes
        factor = scale / np.sqrt(var + var.dtype.type(epsilon))
    return _scaled_layer(layer, factor, bias - mean * factor)


def _multiply(x: Any, c: Any) -> Any:
    layer = _preceding_layer(x)
    return _scaled_layer(layer, _per_channel_vector(c, x, layer), None)


def _divide(x: Any, c: Any) -> Any:
    layer = _preceding_layer(x)
    vector = _per_channel_vector(c, x, layer)
    return _scaled_layer(layer, vector.dtype.type(1) / vector, None)


def _add(x: Any, c: Any) -> Any:
    layer = _preceding_layer(x)
    vector = _per_channel_vector(c, x, layer)
    is_bias = tuple(c.type.shape.dims) == vector.shape
    return _scaled_layer(layer, None, vector, as_bias=c if is_bias else vector)


def _subtract(x: Any, c: Any) -> Any:
    layer = _preceding_layer(x)
    return _scaled_layer(layer, None, -_per_channel_vector(c, x, layer))


_RULES: dict[str, Callable[..., Any]] = {
    "batch_norm": _batch_norm,
    "multiply": _multiply,
    "divide": _divide,
    "add": _add,
    "subtract": _subtract,
}


# -- layers --------------------------------------------------------------------------


def _preceding_layer(x: Any) -> Op:
    """The layer with constant weights whose only user reads this value."""
    op = x.port.op
    if isinstance(x.port, Parameter) or not has_trait(op, Trait.LINEAR_LAYER):
        raise Decline("it is not made by a layer with weights")
    if len(x.port.users) != 1 or KEEP in x.port.marks or op.graph is not x.port.graph:
        raise Decline("others read what the layer makes")
    weights = [v for v in op.inputs[1:] if v is not None]
    if not all(v.op.is_constant for v in weights):
        raise Decline("the weights are not constant")
    if Value(weights[0]).ndim < 2:
        raise Decline("it is multiplied by a vector")
    return op  # type: ignore[no-any-return]


def _array_of(value: Any) -> Any:
    """The elements of a constant of floats."""
    tensor = constant_of(value.port)
    if tensor is None or tensor.dtype.kind != "float":
        raise Decline("its numbers are not constant floats")
    return tensor.numpy()


def _channel_axis(layer: Op, rank: int) -> int:
    """The channel axis of a layer's result."""
    layout = op_arguments(layer, Value)[1].get("layout")
    return rank - 1 if layout is None else to_channels_first(layout, rank)[1]


def _per_channel_vector(c: Any, x: Any, layer: Op) -> Any:
    """One element per channel, from a constant that broadcasts as such."""
    if constant_of(c.port) is None:
        raise Decline("its numbers are not constant")
    channels = x.type.shape[_channel_axis(layer, x.ndim)]
    if not isinstance(channels, int):
        raise Decline("the number of channels is not known")
    dims = [1] * (x.ndim - c.ndim) + [int(d) for d in c.type.shape]
    wide = [axis for axis, size in enumerate(dims) if size != 1]
    if c.ndim > x.ndim or wide not in ([], [_channel_axis(layer, x.ndim)]):
        raise Decline("it is not one number for each channel")
    return np.broadcast_to(_array_of(c).reshape(-1), [channels])


def _scaled_layer(layer: Op, factor: Any, offset: Any, as_bias: Any = None) -> Any:
    """The layer with its weights times a factor and its bias plus an offset.

    A layer without a bias gets `as_bias`, by default the offset."""
    args, attrs = op_arguments(layer, Value)
    x, w, b, *_ = *args, None
    if factor is not None:
        w = _scaled_weights(w, factor, attrs)
    if b is not None:
        b = _array_of(b)
        b = b if factor is None else b * factor
        b = b if offset is None else b + offset
    else:
        b = offset if as_bias is None else as_bias
    if "kernel_layout" in attrs:
        return _with_names(operation_of(layer)(x, w, b, **attrs), layer)
    return ops.matmul(x, w) if b is None else ops.linear(x, w, b)


def _with_names(result: Any, layer: Op) -> Any:
    """The result of a layer, whose new weights get the names of those it replaces."""
    for port, before in zip(result.port.op.inputs[1:], layer.inputs[1:], strict=False):
        if port is None or before is None or port.op.name or not before.op.name:
            continue
        if port.op.is_constant and len(before.users) == 1:
            name, before.op.name = before.op.name, None
            port.op.name = name
    return result


def _scaled_weights(w: Any, factor: Any, attrs: dict[str, Any]) -> Tensor:
    """The weights times a factor per channel, computed when they are read."""
    weights: Any = constant_of(w.port)
    out = w.ndim - 1
    if "kernel_layout" in attrs:
        out = to_channels_first(attrs["kernel_layout"], w.ndim)[0]
    if weights.dtype.numpy != factor.dtype or weights.shape[out] != factor.size:
        raise Decline("it has not one number of the same type for each channel")
    shape = [-1 if axis == out else 1 for axis in range(w.ndim)]
    wide = factor.reshape(shape)
    return Tensor.lazy(lambda: weights.numpy() * wide, weights.dtype, weights.shape)
