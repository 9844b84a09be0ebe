"""To ONNX: the recurrent layers RNN, GRU and LSTM."""

from __future__ import annotations

from typing import Any

from amanda.mapping import Decline, constant_of
from amanda.types import TensorType
from amanda_onnx.mapping.operands import expect_opset, int64_tensor
from amanda_onnx.mapping.recurrent.gates import (
    LSTM_GATES,
    ONNX_NAMES,
    PEEPHOLES,
    reorder_rows,
)

__all__ = ["WRITE"]

_DEFAULTS = {
    "affine": (1.0, 0.0), "leaky_relu": (0.01,), "thresholded_relu": (1.0,),
    "scaled_tanh": (1.0, 1.0), "hard_sigmoid": (0.2, 0.5), "elu": (1.0,),
}  # fmt: skip


def _static_dim(value: Any, axis: int) -> int:
    type = value.type
    if isinstance(type, TensorType) and type.shape.has_rank:
        dim = type.shape.dims[axis]
        if isinstance(dim, int):
            return dim
    raise Decline("the hidden size is dynamic")


def _reorder_gates(
    o: Any, value: Any, order: tuple[int, ...], size: int, halves: int = 1
) -> Any:
    """A weight with its gates in ONNX's order; the original one where it came so."""
    if value is None or order == tuple(sorted(order)):
        return value
    as_read = _in_halves(reorder_rows(size, order), halves)
    op = value.op
    if op.type == "Gather" and op.attrs.get("axis") == 1:
        indices = constant_of(op.inputs[1])
        if indices is not None and indices.tolist() == as_read:
            return op.inputs[0]
    back = reorder_rows(size, tuple(order.index(i) for i in range(len(order))))
    return o.Gather(value, int64_tensor(_in_halves(back, halves)), axis=1)


def _in_halves(rows: list[int], halves: int) -> list[int]:
    """The same indices in each half."""
    return [half * len(rows) + i for half in range(halves) for i in rows]


def _attributes(
    per_direction: int, activations: Any, alphas: Any, betas: Any, direction: str,
    clip: Any,
) -> dict[str, Any]:  # fmt: skip
    """The attributes that all layers share.

    `per_direction`: the number of activations; given once, they are those of both
    directions.
    """
    attrs: dict[str, Any] = {}
    if direction != "forward":
        attrs["direction"] = direction
    if clip is not None:
        attrs["clip"] = clip
    if activations is None:
        return attrs
    if direction == "bidirectional" and len(activations) == per_direction:
        activations = (*activations, *activations)
    numbers: tuple[list[float], list[float]] = ([], [])
    for i, name in enumerate(activations):
        if name not in ONNX_NAMES:
            raise Decline(f"ONNX has no activation {name}")
        for j, given in enumerate((alphas, betas)[: ONNX_NAMES[name][1]]):
            own = None if given is None else given[i % len(given)]
            numbers[j].append(_DEFAULTS[name][j] if own is None else own)
    attrs["activations"] = [ONNX_NAMES[name][0] for name in activations]
    keys = ("activation_alpha", "activation_beta")
    return attrs | {k: v for k, v in zip(keys, numbers, strict=True) if v}


def _concat_bias(
    o: Any, bias: Any, recurrent: Any, order: tuple[int, ...], size: int
) -> Any:
    """The biases of inputs and state concatenated; an absent one is zeros."""
    if bias is None and recurrent is None:
        return None
    both = _split_source(bias, recurrent, len(order) * size)
    if both is not None:
        return _reorder_gates(o, both, order, size, 2)
    parts = [_reorder_gates(o, b, order, size) for b in (bias, recurrent)]
    known = next(p for p in parts if p is not None)
    zero = o.Sub(known, known) if None in parts else None
    return o.Concat(*(zero if p is None else p for p in parts), axis=1)


def _split_source(bias: Any, recurrent: Any, half: int) -> Any:
    """The value that a Split into both biases came from."""
    if bias is None or recurrent is None or bias.op is not recurrent.op:
        return None
    op = bias.op
    is_split = (bias.index, recurrent.index, len(op.outputs)) == (0, 1, 2)
    if op.type != "Split" or op.attrs.get("axis") != 1 or not is_split:
        return None
    sizes = {_static_dim(bias, 1), _static_dim(recurrent, 1)}
    return op.inputs[0] if sizes == {half} else None


def _int32_lengths(o: Any, lengths: Any) -> Any:
    if lengths is None:
        return None
    type = lengths.type
    if isinstance(type, TensorType) and str(type.dtype) == "int32":
        return lengths
    return o.Cast(lengths, to=6)


def _layer(
    o: Any, name: str, order: tuple[int, ...], x: Any, w: Any, r: Any, bias: Any,
    recurrent: Any, lengths: Any, states: Any, peepholes: Any, batch_first: bool,
    attrs: dict[str, Any],
) -> Any:  # fmt: skip
    """The op with time first, the layout of every opset."""
    expect_opset(o, 7, name)
    size = _static_dim(r, 2)
    data = o.Transpose(x, perm=[1, 0, 2]) if batch_first else x
    more = [] if peepholes is None else [_reorder_gates(o, peepholes, PEEPHOLES, size)]
    count = 3 if name == "LSTM" or more else 2
    y, *last = o.op(
        name, data, _reorder_gates(o, w, order, size),
        _reorder_gates(o, r, order, size),
        _concat_bias(o, bias, recurrent, order, size), _int32_lengths(o, lengths),
        *states, *more, hidden_size=size, outputs=count, **attrs,
    )  # fmt: skip
    return (o.Transpose(y, perm=[2, 0, 1, 3]) if batch_first else y, *last)


def write_rnn(
    o: Any, x: Any, w: Any, r: Any, bias: Any = None, recurrent: Any = None,
    lengths: Any = None, h0: Any = None, *, direction: str = "forward",
    batch_first: bool = False, activations: Any = None, alphas: Any = None,
    betas: Any = None, clip: Any = None,
) -> Any:  # fmt: skip
    attrs = _attributes(1, activations, alphas, betas, direction, clip)
    return _layer(o, "RNN", (0,), x, w, r, bias, recurrent, lengths, [h0], None,
                  batch_first, attrs)  # fmt: skip


def write_gru(
    o: Any, x: Any, w: Any, r: Any, bias: Any = None, recurrent: Any = None,
    lengths: Any = None, h0: Any = None, *, direction: str = "forward",
    batch_first: bool = False, activations: Any = None, alphas: Any = None,
    betas: Any = None, clip: Any = None, reset_after: bool = False,
) -> Any:  # fmt: skip
    attrs = _attributes(2, activations, alphas, betas, direction, clip)
    if reset_after:
        attrs["linear_before_reset"] = 1
    return _layer(o, "GRU", (0, 1, 2), x, w, r, bias, recurrent, lengths, [h0], None,
                  batch_first, attrs)  # fmt: skip


def write_lstm(
    o: Any, x: Any, w: Any, r: Any, bias: Any = None, recurrent: Any = None,
    lengths: Any = None, h0: Any = None, c0: Any = None, peepholes: Any = None,
    projection: Any = None, *, direction: str = "forward", batch_first: bool = False,
    activations: Any = None, alphas: Any = None, betas: Any = None, clip: Any = None,
    input_forget: bool = False,
) -> Any:  # fmt: skip
    if projection is not None:
        raise Decline("LSTM of ONNX has no output projection")
    attrs = _attributes(3, activations, alphas, betas, direction, clip)
    if input_forget:
        attrs["input_forget"] = 1
    return _layer(o, "LSTM", LSTM_GATES, x, w, r, bias, recurrent, lengths, [h0, c0],
                  peepholes, batch_first, attrs)  # fmt: skip


WRITE: dict[str, Any] = {"rnn": write_rnn, "gru": write_gru, "lstm": write_lstm}
