"""To ONNX: recurrent layers, and scans over rows."""

from __future__ import annotations

from typing import Any

from amanda.mapping import Decline, constant_of
from amanda.types import TensorType
from amanda_onnx.mapping.recurrent.read_recurrent import (
    ACTIVATIONS,
    LSTM_GATES,
    PEEPHOLES,
    reordered,
)
from amanda_onnx.mapping.shapes.write_shapes import opset, whole

__all__ = ["WRITE"]

_NAMES = {
    "sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu", "affine": "Affine",
    "leaky_relu": "LeakyRelu", "thresholded_relu": "ThresholdedRelu",
    "scaled_tanh": "ScaledTanh", "hard_sigmoid": "HardSigmoid", "elu": "Elu",
    "softsign": "Softsign", "softplus": "Softplus",
}  # fmt: skip
_DEFAULTS = {
    "affine": (1.0, 0.0), "leaky_relu": (0.01,), "thresholded_relu": (1.0,),
    "scaled_tanh": (1.0, 1.0), "hard_sigmoid": (0.2, 0.5), "elu": (1.0,),
}  # fmt: skip


def _size(value: Any, axis: int) -> int:
    found = value.type
    if isinstance(found, TensorType) and found.shape.has_rank:
        dim = found.shape.dims[axis]
        if isinstance(dim, int):
            return dim
    raise Decline("how large a layer is, is not known")


def _gates(
    o: Any, value: Any, order: tuple[int, ...], size: int, halves: int = 1
) -> Any:
    """A weight with its gates in ONNX's order: as it was, if it came from there."""
    if value is None or order == tuple(sorted(order)):
        return value
    there = _in_halves(reordered(size, order), halves)
    op = value.op
    if op.type == "Gather" and op.attrs.get("axis") == 1:
        told = constant_of(op.inputs[1])
        if told is not None and told.tolist() == there:
            return op.inputs[0]
    back = reordered(size, tuple(order.index(i) for i in range(len(order))))
    return o.Gather(value, whole(_in_halves(back, halves)), axis=1)


def _in_halves(places: list[int], halves: int) -> list[int]:
    """The places in each half, one after the other."""
    return [half * len(places) + i for half in range(halves) for i in places]


def _settings(
    each: int, activations: Any, alphas: Any, betas: Any, direction: str, clip: Any
) -> dict[str, Any]:
    """The attributes that all layers share; numbers for the functions that take any.

    `each`: how many functions a direction has; told once, they are those of both."""
    found: dict[str, Any] = {}
    if direction != "forward":
        found["direction"] = direction
    if clip is not None:
        found["clip"] = clip
    if activations is None:
        return found
    if direction == "bidirectional" and len(activations) == each:
        activations = (*activations, *activations)
    numbers: tuple[list[float], list[float]] = ([], [])
    for i, name in enumerate(activations):
        if name not in _NAMES:
            raise Decline(f"there is no activation {name}")
        count = ACTIVATIONS[_NAMES[name].lower()][1]
        for j, told in enumerate((alphas, betas)):
            if j < count:
                own = None if told is None else told[i % len(told)]
                numbers[j].append(_DEFAULTS[name][j] if own is None else own)
    found["activations"] = [_NAMES[name] for name in activations]
    keys = ("activation_alpha", "activation_beta")
    told_numbers = {k: v for k, v in zip(keys, numbers, strict=True) if v}
    return {**found, **told_numbers}


def _bias(o: Any, bias: Any, recurrent: Any, order: tuple[int, ...], size: int) -> Any:
    """Both biases in one; the missing one is zeros."""
    if bias is None and recurrent is None:
        return None
    both = _parted(bias, recurrent, len(order) * size)
    if both is not None:
        return _gates(o, both, order, size, 2)
    parts = [_gates(o, b, order, size) for b in (bias, recurrent)]
    known = next(p for p in parts if p is not None)
    zero = o.Sub(known, known) if None in parts else None
    return o.Concat(*(zero if p is None else p for p in parts), axis=1)


def _parted(bias: Any, recurrent: Any, half: int) -> Any:
    """What both are the halves of, where a Split made them."""
    if bias is None or recurrent is None or bias.op is not recurrent.op:
        return None
    op = bias.op
    is_whole = (bias.index, recurrent.index, len(op.outputs)) == (0, 1, 2)
    if op.type != "Split" or op.attrs.get("axis") != 1 or not is_whole:
        return None
    return op.inputs[0] if _size(bias, 1) == _size(recurrent, 1) == half else None


def _lengths(o: Any, lengths: Any) -> Any:
    if lengths is None:
        return None
    found = lengths.type
    if isinstance(found, TensorType) and str(found.dtype) == "int32":
        return lengths
    return o.Cast(lengths, to=6)


def _layer(
    o: Any, name: str, order: tuple[int, ...], x: Any, w: Any, r: Any, bias: Any,
    recurrent: Any, lengths: Any, states: Any, peepholes: Any, batch_first: bool,
    attrs: dict[str, Any],
) -> Any:  # fmt: skip
    """The op, time first: that is how every opset has it."""
    if opset(o) < 7:
        raise Decline(f"{name} of opset 7 and later")
    size = _size(r, 2)
    data = o.Transpose(x, perm=[1, 0, 2]) if batch_first else x
    count = 2 if peepholes is None else 3
    more = [] if peepholes is None else [_gates(o, peepholes, PEEPHOLES, size)]
    made = o.op(
        name, data, _gates(o, w, order, size), _gates(o, r, order, size),
        _bias(o, bias, recurrent, order, size), _lengths(o, lengths), *states, *more,
        hidden_size=size, outputs=3 if name == "LSTM" else count, **attrs,
    )  # fmt: skip
    y, *last = made
    return (o.Transpose(y, perm=[2, 0, 1, 3]) if batch_first else y, *last)


def rnn(o: Any, x: Any, w: Any, r: Any, bias: Any = None, recurrent: Any = None,
        lengths: Any = None, h0: Any = None, *, direction: str = "forward",
        batch_first: bool = False, activations: Any = None, alphas: Any = None,
        betas: Any = None, clip: Any = None) -> Any:  # fmt: skip
    attrs = _settings(1, activations, alphas, betas, direction, clip)
    return _layer(o, "RNN", (0,), x, w, r, bias, recurrent, lengths, [h0], None,
                  batch_first, attrs)  # fmt: skip


def gru(o: Any, x: Any, w: Any, r: Any, bias: Any = None, recurrent: Any = None,
        lengths: Any = None, h0: Any = None, *, direction: str = "forward",
        batch_first: bool = False, activations: Any = None, alphas: Any = None,
        betas: Any = None, clip: Any = None,
        reset_after: bool = False) -> Any:  # fmt: skip
    attrs = _settings(2, activations, alphas, betas, direction, clip)
    if reset_after:
        attrs["linear_before_reset"] = 1
    return _layer(o, "GRU", (0, 1, 2), x, w, r, bias, recurrent, lengths, [h0], None,
                  batch_first, attrs)  # fmt: skip


def lstm(o: Any, x: Any, w: Any, r: Any, bias: Any = None, recurrent: Any = None,
         lengths: Any = None, h0: Any = None, c0: Any = None, peepholes: Any = None,
         projection: Any = None, *, direction: str = "forward",
         batch_first: bool = False, activations: Any = None, alphas: Any = None,
         betas: Any = None, clip: Any = None,
         input_forget: bool = False) -> Any:  # fmt: skip
    if projection is not None:
        raise Decline("ONNX has no projection of outputs")
    attrs = _settings(3, activations, alphas, betas, direction, clip)
    if input_forget:
        attrs["input_forget"] = 1
    return _layer(o, "LSTM", LSTM_GATES, x, w, r, bias, recurrent, lengths, [h0, c0],
                  peepholes, batch_first, attrs)  # fmt: skip


def scan(o: Any, length: Any = None, *values: Any, body: Any, carried: int,
         axes: Any = None, reverse: Any = None, out_axes: Any = None,
         out_reverse: Any = None) -> Any:  # fmt: skip
    """A scan of ONNX scans something: its length is that of what it scans."""
    count = len(values) - carried
    if opset(o) < 9 or not count:
        raise Decline("Scan of opset 9 and later scans a tensor or more")
    del length
    attrs = {
        "scan_input_axes": axes,
        "scan_input_directions": None if reverse is None else [*map(int, reverse)],
        "scan_output_axes": out_axes,
        "scan_output_directions": (
            None if out_reverse is None else [*map(int, out_reverse)]
        ),
    }
    told = {key: list(value) for key, value in attrs.items() if value is not None}
    return o.Scan(*values, body=body, num_scan_inputs=count, **told,
                  outputs=len(o.source.outputs))  # fmt: skip


WRITE: dict[str, Any] = {"rnn": rnn, "gru": gru, "lstm": lstm, "scan": scan}
