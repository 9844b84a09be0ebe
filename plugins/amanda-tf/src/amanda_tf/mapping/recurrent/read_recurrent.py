"""From TensorFlow: the cells and layers of recurrent networks that are one op."""

from __future__ import annotations

from typing import Any

from amanda_std.dataflow import gru_step, lstm_layer, lstm_step

__all__ = ["READ"]

_SECOND = ("input", "forget", "new", "output")
"""The order of the gates in the weights of the second version."""


def read_lstm_cell(
    x: Any, c: Any, h: Any, w: Any, wci: Any, wcf: Any, wco: Any, b: Any, *,
    forget_bias: float = 1.0, cell_clip: float = 3.0, use_peephole: bool = False,
) -> Any:  # fmt: skip
    """LSTMBlockCell to one step of an LSTM."""
    return lstm_step(
        x, c, h, (w, wci, wcf, wco, b), forget_bias=forget_bias, clip=cell_clip,
        peephole=use_peephole,
    )  # fmt: skip


def read_lstm_layer(
    steps: Any, x: Any, c: Any, h: Any, w: Any, wci: Any, wcf: Any, wco: Any, b: Any, *,
    forget_bias: float = 1.0, cell_clip: float = 3.0, use_peephole: bool = False,
    **order: Any,
) -> Any:  # fmt: skip
    """BlockLSTM to a scan over [time, batch, features]."""
    return lstm_layer(
        steps, x, c, h, (w, wci, wcf, wco, b), forget_bias=forget_bias, clip=cell_clip,
        peephole=use_peephole, **order,
    )  # fmt: skip


def read_lstm_layer_v2(*xs: Any, **settings: Any) -> Any:
    """BlockLSTMV2, which has no bias of the forget gate, and another order of gates."""
    return read_lstm_layer(*xs, **settings, forget_bias=0.0, order=_SECOND)


READ: dict[str, Any] = {
    "LSTMBlockCell": read_lstm_cell,
    "BlockLSTM": read_lstm_layer,
    "BlockLSTMV2": read_lstm_layer_v2,
    "GRUBlockCell": gru_step,
}
