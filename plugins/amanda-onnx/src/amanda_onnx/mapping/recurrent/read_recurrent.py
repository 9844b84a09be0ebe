"""From ONNX: recurrent layers, and scans over rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda.graph import Graph
from amanda_onnx.mapping.static_values import expect
from amanda_std import ops
from amanda_std.mappings import inline_body

__all__ = ["ACTIVATIONS", "LSTM_GATES", "PEEPHOLES", "READ", "reordered"]

LSTM_GATES = (0, 2, 3, 1)
"""Where std finds its gates (input, forget, cell, output) among those of ONNX."""
PEEPHOLES = (0, 2, 1)

ACTIVATIONS = {
    # ONNX's names in small letters: std's, and how many numbers they take
    "sigmoid": ("sigmoid", 0),
    "tanh": ("tanh", 0),
    "relu": ("relu", 0),
    "affine": ("affine", 2),
    "leakyrelu": ("leaky_relu", 1),
    "thresholdedrelu": ("thresholded_relu", 1),
    "scaledtanh": ("scaled_tanh", 2),
    "hardsigmoid": ("hard_sigmoid", 2),
    "elu": ("elu", 1),
    "softsign": ("softsign", 0),
    "softplus": ("softplus", 0),
}


def reordered(size: int, order: tuple[int, ...]) -> list[int]:
    """The places of rows whose groups, of `size` each, come in another order."""
    return [i * size + j for i in order for j in range(size)]


def _gates(value: Any, order: tuple[int, ...], halves: int = 1) -> Any:
    """A weight with its gates in std's order; ONNX has them along axis 1."""
    if value is None or order == tuple(sorted(order)):
        return value
    rows = value.type.shape.dims[1]
    expect(isinstance(rows, int), "how many gates there are is not known")
    size = rows // len(order) // halves
    one = reordered(size, order)
    at = [half * len(one) + i for half in range(halves) for i in one]
    return ops.gather(value, np.asarray(at, "int64"), 1)


def _settings(
    each: int, names: Any, alphas: Any, betas: Any, direction: str, clip: Any
) -> dict[str, Any]:
    """The attributes that all layers share, as std has them.

    `each`: how many functions a direction has; the standard's defaults are for two."""
    found: dict[str, Any] = {"direction": direction, "clip": clip}
    if names is None:
        return found
    names = names[: each * (2 if direction == "bidirectional" else 1)]
    waiting = [list(alphas or ()), list(betas or ())]
    made, numbers = [], ([], [])  # type: tuple[list[str], tuple[list[Any], list[Any]]]
    for name in names:
        expect(name.lower() in ACTIVATIONS, f"there is no activation {name}")
        own, count = ACTIVATIONS[name.lower()]
        made.append(own)
        for i in (0, 1):
            told = i < count and waiting[i]
            numbers[i].append(waiting[i].pop(0) if told else None)
    found["activations"] = tuple(made)
    for key, values in zip(("alphas", "betas"), numbers, strict=True):
        if any(v is not None for v in values):
            found[key] = tuple(values)
    return found


def _biases(b: Any, order: tuple[int, ...]) -> tuple[Any, Any]:
    """The bias of the data and that of the state, which ONNX has in one."""
    if b is None:
        return None, None
    halves = ops.split(_gates(b, order, 2), None, axis=1, outputs=2)
    return halves[0], halves[1]


def _turned(value: Any, layout: int) -> Any:
    """States: batch first or directions first."""
    if value is None or not layout:
        return value
    return ops.transpose(value, perm=(1, 0, 2))


def _layer(
    op: Any, order: tuple[int, ...], x: Any, w: Any, r: Any, b: Any, lengths: Any,
    states: Any, more: dict[str, Any], layout: int, outputs: int, **rest: Any,
) -> Any:  # fmt: skip
    bias, recurrent = _biases(b, order)
    made = op(
        x, _gates(w, order), _gates(r, order), bias, recurrent, lengths,
        *(_turned(s, layout) for s in states), **rest, **more, batch_first=bool(layout),
    )  # fmt: skip
    y, *last = made
    return (y, *(_turned(s, layout) for s in last))[:outputs]


def rnn(x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h0: Any = None, *,
        activation_alpha: Any = None, activation_beta: Any = None,
        activations: Any = None, clip: float | None = None, direction: str = "forward",
        hidden_size: int = 0,  # noqa: ARG001
        layout: int = 0, output_sequence: int = 0,  # noqa: ARG001
        outputs: int) -> Any:  # fmt: skip
    more = _settings(1, activations, activation_alpha, activation_beta, direction, clip)
    return _layer(ops.rnn, (0,), x, w, r, b, lengths, [h0], more, layout, outputs)


def gru(x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h0: Any = None, *,
        activation_alpha: Any = None, activation_beta: Any = None,
        activations: Any = None, clip: float | None = None, direction: str = "forward",
        hidden_size: int = 0,  # noqa: ARG001
        layout: int = 0, linear_before_reset: int = 0,
        output_sequence: int = 0,  # noqa: ARG001
        outputs: int) -> Any:  # fmt: skip
    more = _settings(2, activations, activation_alpha, activation_beta, direction, clip)
    more["reset_after"] = bool(linear_before_reset)
    order = (0, 1, 2)
    return _layer(ops.gru, order, x, w, r, b, lengths, [h0], more, layout, outputs)


def lstm(x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h0: Any = None,
         c0: Any = None, p: Any = None, *, activation_alpha: Any = None,
         activation_beta: Any = None, activations: Any = None,
         clip: float | None = None, direction: str = "forward", hidden_size: int = 0,  # noqa: ARG001
         input_forget: int = 0, layout: int = 0, output_sequence: int = 0,  # noqa: ARG001
         outputs: int) -> Any:  # fmt: skip
    more = _settings(3, activations, activation_alpha, activation_beta, direction, clip)
    more["input_forget"] = bool(input_forget)
    return _layer(
        ops.lstm, LSTM_GATES, x, w, r, b, lengths, [h0, c0], more, layout, outputs,
        peepholes=_gates(p, PEEPHOLES),
    )  # fmt: skip


def scan(*values: Any, body: Graph, num_scan_inputs: int, scan_input_axes: Any = None,
         scan_input_directions: Any = None, scan_output_axes: Any = None,
         scan_output_directions: Any = None) -> Any:  # fmt: skip
    """From opset 9 on; before, a scan had a batch of sequences."""
    return ops.scan(
        body, None, *values, carried=len(values) - num_scan_inputs,
        axes=_tuple(scan_input_axes, int), reverse=_tuple(scan_input_directions, bool),
        out_axes=_tuple(scan_output_axes, int),
        out_reverse=_tuple(scan_output_directions, bool),
    )  # fmt: skip


def batched_scan(lengths: Any, *values: Any, body: Graph, num_scan_inputs: int,
                 directions: Any = None) -> Any:  # fmt: skip
    """Of opset 8: a scan for each sequence of a batch."""
    expect(lengths is None, "sequences of several lengths")
    carried = len(values) - num_scan_inputs
    back = _tuple(directions, bool)

    def one(*rows: Any) -> Any:
        return ops.scan(
            lambda *v: inline_body(body, v), None, *rows, carried=carried, reverse=back
        )

    return ops.scan(one, None, *values, carried=0)


def _tuple(values: Any, kind: type) -> Any:
    """Settings of tensors; None where all are as they are by themselves."""
    if not values or not any(values):
        return None
    return tuple(map(kind, values))


READ: dict[str, Any] = {
    "RNN": rnn,
    "GRU": gru,
    "LSTM": lstm,
    "Scan[:9]": batched_scan,
    "Scan[9:]": scan,
}
