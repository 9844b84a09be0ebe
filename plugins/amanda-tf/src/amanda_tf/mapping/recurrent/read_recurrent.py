"""From TensorFlow: the cells and layers of recurrent networks that are one op."""

from __future__ import annotations

from typing import Any

from amanda_std import ops
from amanda_std.mappings import known_scalar

__all__ = ["READ"]

_FIRST = ("input", "new", "forget", "output")
"""The order of the gates in the columns of weights; of the second version, below."""
_SECOND = ("input", "forget", "new", "output")


def _lstm_step(
    x: Any, c: Any, h: Any, weights: tuple[Any, ...], *, forget_bias: float,
    cell_clip: float, use_peephole: bool, order: tuple[str, ...],
) -> tuple[Any, ...]:  # fmt: skip
    """Gates and states of one step: i, c, f, o, new, activated c, h.

    `order` has the gates in the columns of the weights: input, new, forget, output.
    """
    w, wci, wcf, wco, b = weights
    gates = ops.matmul(ops.concat(x, h, axis=1), w) + b
    parts = dict(zip(order, ops.split(gates, axis=1, outputs=4), strict=True))
    i, new, f, o = (parts[name] for name in _FIRST)
    if forget_bias:
        f = f + ops.number_like(f, value=forget_bias)
    if use_peephole:
        i, f = i + c * wci, f + c * wcf
    i, f, new = ops.sigmoid(i), ops.sigmoid(f), ops.tanh(new)
    c = new * i + c * f
    if cell_clip > 0:
        limits = [ops.number_like(c, value=v) for v in (-cell_clip, cell_clip)]
        c = ops.clip(c, *limits)
    if use_peephole:
        o = o + c * wco
    o, active = ops.sigmoid(o), ops.tanh(c)
    return i, c, f, o, new, active, active * o


def read_lstm_cell(
    x: Any, c: Any, h: Any, w: Any, wci: Any, wcf: Any, wco: Any, b: Any, *,
    forget_bias: float = 1.0, cell_clip: float = 3.0, use_peephole: bool = False,
) -> Any:  # fmt: skip
    """LSTMBlockCell to one step of an LSTM."""
    return _lstm_step(
        x, c, h, (w, wci, wcf, wco, b), forget_bias=forget_bias, cell_clip=cell_clip,
        use_peephole=use_peephole, order=_FIRST,
    )  # fmt: skip


def _lstm_layer(order: tuple[str, ...]) -> Any:
    def read(
        steps: Any, x: Any, c: Any, h: Any, w: Any, wci: Any, wcf: Any, wco: Any,
        b: Any, *, forget_bias: float = 1.0, cell_clip: float = 3.0,
        use_peephole: bool = False,
    ) -> Any:  # fmt: skip
        if order == _SECOND:  # the second version has no bias of the forget gate
            forget_bias = 0.0
        weights = (w, wci, wcf, wco, b)

        def step(c: Any, h: Any, row: Any) -> tuple[Any, ...]:
            gates = _lstm_step(
                row, c, h, weights, forget_bias=forget_bias, cell_clip=cell_clip,
                use_peephole=use_peephole, order=order,
            )  # fmt: skip
            return gates[1], gates[6], *gates

        found = ops.scan(step, None, c, h, x, carried=2)[2:]
        return _mask_rows(found, steps, x)

    return read


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
    "LSTMBlockCell": read_lstm_cell,
    "BlockLSTM": _lstm_layer(_FIRST),
    "BlockLSTMV2": _lstm_layer(_SECOND),
    "GRUBlockCell": read_gru_cell,
}
