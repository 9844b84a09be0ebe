"""Cells of recurrent layers: what one time step computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from amanda_keras.mapping.activations import apply_activation
from amanda_keras.mapping.layer_calls import Weights, expect
from amanda_keras.mapping.layouts import layout_of
from amanda_keras.mapping.read_conv import convolve
from amanda_keras.variables import class_of, unique_names
from amanda_std import ops

__all__ = ["Cell", "cell_of"]

Step: TypeAlias = Callable[[Any, Sequence[Any]], "tuple[Any, list[Any]]"]


@dataclass(frozen=True)
class Cell:
    """One step, the initial states for a sequence, and where the output is a state."""

    step: Step
    initial: Callable[[Any], list[Any]]
    """The states before the first of the given steps [time, batch, ...]."""
    output: int
    """The number of the state that is the output of the step before."""


def cell_of(kind: str, config: Mapping[str, Any], weights: Weights) -> Cell:
    """The cell of a class."""
    expect(kind in _CELLS, f"cells of class {kind} are not supported")
    expect(isinstance(config, Mapping), f"the config of a {kind} is no JSON object")
    return _CELLS[kind](config, weights)


def _units(config: Mapping[str, Any]) -> int:
    units = config.get("units")
    is_count = isinstance(units, int) and not isinstance(units, bool)
    expect(is_count, f"the number of units is {units!r:.60}, no integer")
    return int(units or 0)


def _zeros(config: Mapping[str, Any], count: int) -> Callable[[Any], list[Any]]:
    def initial(steps: Any) -> list[Any]:
        zero = ops.zeros([steps.shape[1], _units(config)], dtype=steps.dtype)
        return [zero] * count

    return initial


def _with_bias(y: Any, weights: Weights, config: Mapping[str, Any]) -> Any:
    return y + weights["bias"] if config.get("use_bias", True) else y


def _simple_cell(config: Mapping[str, Any], weights: Weights) -> Cell:
    def step(x: Any, states: Sequence[Any]) -> tuple[Any, list[Any]]:
        y = _with_bias(ops.matmul(x, weights["kernel"]), weights, config)
        y = y + ops.matmul(states[0], weights["recurrent_kernel"])
        y = apply_activation(y, config.get("activation", "tanh"))
        return y, [y]

    return Cell(step, _zeros(config, 1), 0)


def _lstm_cell(config: Mapping[str, Any], weights: Weights) -> Cell:
    def step(x: Any, states: Sequence[Any]) -> tuple[Any, list[Any]]:
        z = ops.matmul(x, weights["kernel"])
        z = z + ops.matmul(states[0], weights["recurrent_kernel"])
        h, c = _lstm_gates(_with_bias(z, weights, config), states[1], config, -1)
        return h, [h, c]

    return Cell(step, _zeros(config, 2), 0)


def _lstm_gates(
    z: Any, c: Any, config: Mapping[str, Any], axis: int
) -> tuple[Any, Any]:
    """The output and the new state, from the gates: input, forget, cell, output."""
    inner = config.get("recurrent_activation", "sigmoid")
    outer = config.get("activation", "tanh")
    i, f, new, o = ops.split(z, axis=axis, outputs=4)
    forgotten = apply_activation(f, inner) * c
    c = forgotten + apply_activation(i, inner) * apply_activation(new, outer)
    return apply_activation(o, inner) * apply_activation(c, outer), c


def _gru_cell(config: Mapping[str, Any], weights: Weights) -> Cell:
    inner = config.get("recurrent_activation", "sigmoid")
    units, has_bias = _units(config), config.get("use_bias", True)
    is_after = config.get("reset_after", True)

    def step(x: Any, states: Sequence[Any]) -> tuple[Any, list[Any]]:
        h, kernel, recurrent = states[0], weights["kernel"], weights["recurrent_kernel"]
        own, other = None, None
        if has_bias and is_after:
            own, other = (
                ops.squeeze(b, [0]) for b in ops.split(weights["bias"], outputs=2)
            )
        elif has_bias:
            own = weights["bias"]
        z = ops.matmul(x, kernel)
        xz, xr, xn = ops.split(z if own is None else z + own, axis=-1, outputs=3)
        if is_after:
            y = ops.matmul(h, recurrent)
            hz, hr, hn = ops.split(
                y if other is None else y + other, axis=-1, outputs=3
            )
        else:
            gates, new = ops.split(recurrent, [2 * units, units], axis=-1, outputs=2)
            hz, hr = ops.split(ops.matmul(h, gates), axis=-1, outputs=2)
        update = apply_activation(xz + hz, inner)
        reset = apply_activation(xr + hr, inner)
        hn = reset * hn if is_after else ops.matmul(reset * h, new)
        candidate = apply_activation(xn + hn, config.get("activation", "tanh"))
        y = update * h + (1.0 - update) * candidate
        return y, [y]

    return Cell(step, _zeros(config, 1), 0)


def _conv_lstm_cell(config: Mapping[str, Any], weights: Weights) -> Cell:
    data_format = config.get("data_format")
    is_first = layout_of(data_format) == "NC*"
    rank = len(weights["kernel"].shape) - 2
    filters = int(config["filters"])

    def project(x: Any) -> Any:
        y = convolve(
            x, weights["kernel"], rank, strides=config.get("strides", 1),
            padding=config.get("padding", "valid"), data_format=data_format,
            dilation_rate=config.get("dilation_rate", 1),
        )  # fmt: skip
        if not config.get("use_bias", True):
            return y
        tail = (1,) * rank if is_first else ()
        return y + ops.reshape(weights["bias"], [-1, *tail])

    def step(x: Any, states: Sequence[Any]) -> tuple[Any, list[Any]]:
        y = project(x) + convolve(
            states[0], weights["recurrent_kernel"], rank, padding="same",
            data_format=data_format,
        )  # fmt: skip
        h, c = _lstm_gates(y, states[1], config, 1 if is_first else -1)
        return h, [h, c]

    def initial(steps: Any) -> list[Any]:
        shape = list(project(ops.squeeze(ops.slice(steps, [0], [1], [0]), [0])).shape)
        shape[1 if is_first else -1] = filters
        return [ops.zeros(shape, dtype=steps.dtype)] * 2

    return Cell(step, initial, 0)


def _stacked_cells(config: Mapping[str, Any], weights: Weights) -> Cell:
    """Cells of which each reads the output of the one before."""
    entries = list(config.get("cells", ()))
    names = unique_names(map(class_of, entries))
    cells = [
        cell_of(class_of(e), e["config"], weights.below(f"cells/{name}"))
        for e, name in zip(entries, names, strict=True)
    ]
    expect(cells, "a stack without cells")
    counts = [_STATES[class_of(e)] for e in entries]

    def step(x: Any, states: Sequence[Any]) -> tuple[Any, list[Any]]:
        found: list[Any] = []
        for cell, count in zip(cells, counts, strict=True):
            x, new = cell.step(x, states[len(found) : len(found) + count])
            found += new
        return x, found

    def initial(steps: Any) -> list[Any]:
        return [state for cell in cells for state in cell.initial(steps)]

    return Cell(step, initial, sum(counts[:-1]))


_STATES: Final = {"SimpleRNNCell": 1, "LSTMCell": 2, "GRUCell": 1}
_CELLS: Final[Mapping[str, Callable[[Mapping[str, Any], Weights], Cell]]] = {
    "SimpleRNNCell": _simple_cell, "LSTMCell": _lstm_cell, "GRUCell": _gru_cell,
    "ConvLSTMCell": _conv_lstm_cell, "StackedRNNCells": _stacked_cells,
}  # fmt: skip
