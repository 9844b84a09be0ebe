"""From ONNX: the recurrent layers RNN, GRU and LSTM."""

from __future__ import annotations

from typing import Any

import numpy as np

from amanda_onnx.mapping.recurrent.gates import (
    ACTIVATIONS,
    LSTM_GATES,
    PEEPHOLES,
    reorder_rows,
)
from amanda_onnx.mapping.static_values import dim_at
from amanda_std import ops
from amanda_std.mappings import expect

__all__ = ["READ", "activation_attributes", "reorder_gates"]


def reorder_gates(
    value: Any, order: tuple[int, ...], halves: int = 1, axis: int = 1
) -> Any:
    """A weight with its gates, along an axis, in std's order."""
    if value is None or order == tuple(sorted(order)):
        return value
    rows = dim_at(value, axis, "a weight")
    expect(isinstance(rows, int), "the number of gates is dynamic")
    size = rows // len(order) // halves
    half = reorder_rows(size, order)
    at = [i * len(half) + row for i in range(halves) for row in half]
    return ops.gather(value, np.asarray(at, "int64"), axis)


def activation_attributes(
    per_direction: int, names: Any, alphas: Any, betas: Any, direction: str, clip: Any
) -> dict[str, Any]:
    """The attributes that all layers share.

    `per_direction`: the number of activations; ONNX's default lists may be longer. Of
    `alphas` and `betas`, each activation takes as many as it has parameters.
    """
    attrs: dict[str, Any] = {"direction": direction, "clip": clip}
    if names is None:
        return attrs
    names = names[: per_direction * (2 if direction == "bidirectional" else 1)]
    for name in names:
        expect(name.lower() in ACTIVATIONS, f"unknown activation {name}")
    found = [ACTIVATIONS[name.lower()] for name in names]
    attrs["activations"] = tuple(std for std, _ in found)
    for i, (key, given) in enumerate((("alphas", alphas), ("betas", betas))):
        rest = iter(given or ())
        values = tuple(next(rest, None) if i < count else None for _, count in found)
        if any(v is not None for v in values):
            attrs[key] = values
    return attrs


def _split_bias(b: Any, order: tuple[int, ...]) -> tuple[Any, Any]:
    """The bias of the inputs and that of the state, which ONNX concatenates."""
    if b is None:
        return None, None
    halves = ops.split(reorder_gates(b, order, 2), None, axis=1, outputs=2)
    return halves[0], halves[1]


def _swap_batch(value: Any, layout: int) -> Any:
    """Swap batch and directions, the first axes of a state, where layout is 1."""
    if value is None or not layout:
        return value
    return ops.transpose(value, perm=(1, 0, 2))


def _layer(
    op: Any, order: tuple[int, ...], x: Any, w: Any, r: Any, b: Any, lengths: Any,
    states: Any, attrs: dict[str, Any], layout: int, outputs: int, **rest: Any,
) -> Any:  # fmt: skip
    bias, recurrent = _split_bias(b, order)
    y, *last = op(
        x, reorder_gates(w, order), reorder_gates(r, order), bias, recurrent, lengths,
        *(_swap_batch(s, layout) for s in states), **rest, **attrs,
        batch_first=bool(layout),
    )  # fmt: skip
    return (y, *(_swap_batch(s, layout) for s in last))[:outputs]


def read_rnn(
    x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h0: Any = None, *,
    activation_alpha: Any = None, activation_beta: Any = None, activations: Any = None,
    clip: float | None = None, direction: str = "forward",
    hidden_size: int = 0,  # noqa: ARG001
    layout: int = 0, output_sequence: int = 0,  # noqa: ARG001
    outputs: int,
) -> Any:  # fmt: skip
    attrs = activation_attributes(
        1, activations, activation_alpha, activation_beta, direction, clip
    )
    return _layer(ops.rnn, (0,), x, w, r, b, lengths, [h0], attrs, layout, outputs)


def read_gru(
    x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h0: Any = None, *,
    activation_alpha: Any = None, activation_beta: Any = None, activations: Any = None,
    clip: float | None = None, direction: str = "forward",
    hidden_size: int = 0,  # noqa: ARG001
    layout: int = 0, linear_before_reset: int = 0,
    output_sequence: int = 0,  # noqa: ARG001
    outputs: int,
) -> Any:  # fmt: skip
    attrs = activation_attributes(
        2, activations, activation_alpha, activation_beta, direction, clip
    )
    attrs["reset_after"] = bool(linear_before_reset)
    order = (0, 1, 2)
    return _layer(ops.gru, order, x, w, r, b, lengths, [h0], attrs, layout, outputs)


def read_lstm(
    x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h0: Any = None,
    c0: Any = None, p: Any = None, *, activation_alpha: Any = None,
    activation_beta: Any = None, activations: Any = None, clip: float | None = None,
    direction: str = "forward", hidden_size: int = 0,  # noqa: ARG001
    input_forget: int = 0, layout: int = 0, output_sequence: int = 0,  # noqa: ARG001
    outputs: int,
) -> Any:  # fmt: skip
    attrs = activation_attributes(
        3, activations, activation_alpha, activation_beta, direction, clip
    )
    attrs["input_forget"] = bool(input_forget)
    return _layer(
        ops.lstm, LSTM_GATES, x, w, r, b, lengths, [h0, c0], attrs, layout, outputs,
        peepholes=reorder_gates(p, PEEPHOLES),
    )  # fmt: skip


READ: dict[str, Any] = {"RNN": read_rnn, "GRU": read_gru, "LSTM": read_lstm}
