"""From nd4j: the cells and layers of recurrent networks that are one op."""

# ruff: noqa: N803 - arguments have the names that they have in nd4j

from __future__ import annotations

from typing import Any

from amanda_std import ops
from amanda_std.mappings import expect, known_scalar

__all__ = ["READ"]


def _lstm_step(
    x: Any, c: Any, h: Any, weights: tuple[Any, ...], *, forget_bias: float,
    clip: float, peephole: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """Gates and states of one step: i, c, f, o, new, activated c, h.

    The columns of the weights are those of the gates: input, new, forget, output.
    """
    w, wci, wcf, wco, b = weights
    gates = ops.matmul(ops.concat(x, h, axis=1), w) + b
    i, new, f, o = ops.split(gates, axis=1, outputs=4)
    f = f + ops.number_like(f, value=forget_bias)
    if peephole:
        i, f = i + c * wci, f + c * wcf
    i, f, new = ops.sigmoid(i), ops.sigmoid(f), ops.tanh(new)
    c = new * i + c * f
    if clip > 0:
        c = ops.clip(c, *(ops.number_like(c, value=v) for v in (-clip, clip)))
    if peephole:
        o = o + c * wco
    o, active = ops.sigmoid(o), ops.tanh(c)
    return i, c, f, o, new, active, active * o


def read_lstm_cell(
    x: Any, c: Any, h: Any, w: Any, wci: Any, wcf: Any, wco: Any, b: Any, *,
    forgetBias: float = 1.0, clippingCellValue: float = -1.0, peephole: Any = 0,
    outputs: int,
) -> Any:  # fmt: skip
    """lstmBlockCell to one step of an LSTM."""
    return _lstm_step(
        x, c, h, (w, wci, wcf, wco, b), forget_bias=forgetBias, clip=clippingCellValue,
        peephole=bool(peephole),
    )[:outputs]  # fmt: skip


def read_lstm_layer(
    steps: Any, x: Any, c: Any, h: Any, w: Any, wci: Any, wcf: Any, wco: Any, b: Any, *,
    forgetBias: float = 1.0, clippingCellValue: float = -1.0, peephole: Any = 0,
    dataFormat: Any = 0, outputs: int,
) -> Any:  # fmt: skip
    """lstmBlock to a scan over [time, batch, features]."""
    expect(not dataFormat, "data in the order [time, batch, features]")
    weights = (w, wci, wcf, wco, b)

    def step(c: Any, h: Any, row: Any) -> tuple[Any, ...]:
        gates = _lstm_step(
            row, c, h, weights, forget_bias=forgetBias, clip=clippingCellValue,
            peephole=bool(peephole),
        )  # fmt: skip
        return gates[1], gates[6], *gates

    found = ops.scan(step, None, c, h, x, carried=2)[2:]
    return _mask_rows(found, steps, x)[:outputs]


def _mask_rows(rows: Any, steps: Any, x: Any) -> tuple[Any, ...]:
    """Zeros after the last step, where that is not the length of the input."""
    length = x.shape[0]
    if known_scalar(steps) == length:
        return tuple(rows)
    at = ops.arange(0, length)
    valid = ops.reshape(ops.less(at, ops.astype(steps, dtype="int64")), [-1, 1, 1])
    return tuple(ops.where(valid, r, ops.zeros_like(r)) for r in rows)


def read_gru_cell(x: Any, h: Any, w_ru: Any, w_c: Any, b_ru: Any, b_c: Any) -> Any:
    """Gates and states: reset, update, new, h."""
    gates = ops.sigmoid(ops.matmul(ops.concat(x, h, axis=1), w_ru) + b_ru)
    r, u = ops.split(gates, axis=1, outputs=2)
    new = ops.tanh(ops.matmul(ops.concat(x, h * r, axis=1), w_c) + b_c)
    one = ops.number_like(u, value=1)
    return r, u, new, (one - u) * new + u * h


READ: dict[str, Any] = {
    "lstmBlockCell": read_lstm_cell,
    "lstmBlock": read_lstm_layer,
    "gruCell": read_gru_cell,
}
