"""The cells of recurrent networks that frameworks have as one op, step by step."""

from __future__ import annotations

from typing import Any, Final

from amanda_std import ops
from amanda_std.mappings import known_scalar

__all__ = ["gru_step", "lstm_layer", "lstm_step"]

_GATES: Final = ("input", "new", "forget", "output")


def lstm_step(
    x: Any, c: Any, h: Any, weights: tuple[Any, ...], *, forget_bias: float,
    clip: float, peephole: bool, order: tuple[str, ...] = _GATES,
) -> tuple[Any, ...]:  # fmt: skip
    """Gates and states of one step: i, c, f, o, new, activated c, h.

    `weights` are those of [x, h], three of peepholes, and biases. `order` has the gates
    in the columns of the weights.
    """
    w, wci, wcf, wco, b = weights
    gates = ops.matmul(ops.concat(x, h, axis=1), w) + b
    parts = dict(zip(order, ops.split(gates, axis=1, outputs=4), strict=True))
    i, new, f, o = (parts[name] for name in _GATES)
    if forget_bias:
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


def lstm_layer(
    steps: Any, x: Any, c: Any, h: Any, weights: tuple[Any, ...], **settings: Any
) -> tuple[Any, ...]:
    """The gates and states of all steps of [time, batch, features], stacked.

    They are 0 from step `steps` on. `settings` are those of `lstm_step`.
    """

    def step(c: Any, h: Any, row: Any) -> tuple[Any, ...]:
        gates = lstm_step(row, c, h, weights, **settings)
        return gates[1], gates[6], *gates

    found = ops.scan(step, None, c, h, x, carried=2)[2:]
    return _mask_rows(found, steps, x)


def _mask_rows(rows: Any, steps: Any, x: Any) -> tuple[Any, ...]:
    """Zeros after the last step, where that is not the length of the input."""
    length = x.shape[0]
    if known_scalar(steps) == length:
        return tuple(rows)
    at = ops.arange(0, length)
    valid = ops.reshape(ops.less(at, ops.astype(steps, dtype="int64")), [-1, 1, 1])
    return tuple(ops.where(valid, r, ops.zeros_like(r)) for r in rows)


def gru_step(x: Any, h: Any, w_ru: Any, w_c: Any, b_ru: Any, b_c: Any) -> Any:
    """Gates and states: reset, update, new, h."""
    gates = ops.sigmoid(ops.matmul(ops.concat(x, h, axis=1), w_ru) + b_ru)
    r, u = ops.split(gates, axis=1, outputs=2)
    new = ops.tanh(ops.matmul(ops.concat(x, h * r, axis=1), w_c) + b_c)
    one = ops.number_like(u, value=1)
    return r, u, new, (one - u) * new + u * h
