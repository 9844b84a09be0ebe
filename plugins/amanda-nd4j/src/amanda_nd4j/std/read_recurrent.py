"""From nd4j: the cells and layers of recurrent networks that are one op."""

# ruff: noqa: N803 - arguments have the names that they have in nd4j

from __future__ import annotations

from typing import Any

from amanda_std.dataflow import gru_step, lstm_layer, lstm_step
from amanda_std.mappings import expect

__all__ = ["READ"]


def read_lstm_cell(
    x: Any, c: Any, h: Any, w: Any, wci: Any, wcf: Any, wco: Any, b: Any, *,
    forgetBias: float = 1.0, clippingCellValue: float = -1.0, peephole: Any = 0,
    outputs: int,
) -> Any:  # fmt: skip
    """lstmBlockCell to one step of an LSTM."""
    return lstm_step(
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
    return lstm_layer(
        steps, x, c, h, (w, wci, wcf, wco, b), forget_bias=forgetBias,
        clip=clippingCellValue, peephole=bool(peephole),
    )[:outputs]  # fmt: skip


READ: dict[str, Any] = {
    "lstmBlockCell": read_lstm_cell,
    "lstmBlock": read_lstm_layer,
    "gruCell": gru_step,
}
