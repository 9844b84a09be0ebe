"""From Keras: recurrent layers.

Without a mask, layers with the usual activations are the hub's `lstm`, `gru` and `rnn`;
all others are scans over their cells.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from amanda_keras.mapping.cells import Cell, cell_of
from amanda_keras.mapping.layer_calls import (
    Weights,
    cast_to,
    expect,
    layers,
    rank_of,
)
from amanda_keras.variables import class_of
from amanda_std import ops

__all__ = ["READ"]

_CELLS: Final = {
    "LSTM": "LSTMCell", "GRU": "GRUCell", "SimpleRNN": "SimpleRNNCell",
    "ConvLSTM1D": "ConvLSTMCell", "ConvLSTM2D": "ConvLSTMCell",
    "ConvLSTM3D": "ConvLSTMCell",
}  # fmt: skip
_WHOLE: Final = ("LSTM", "GRU", "SimpleRNN")
"""Layers that are ops of the hub."""
_NAMES: Final = {
    "tanh": ("tanh", None), "sigmoid": ("sigmoid", None), "relu": ("relu", None),
    "linear": ("linear", None), "softsign": ("softsign", None),
    "softplus": ("softplus", None), "hard_sigmoid_of_keras_2": ("hard_sigmoid", 0.2),
    "hard_sigmoid": ("hard_sigmoid", 1 / 6),
}  # fmt: skip
"""Activations by their names in the hub, with their slopes."""


def run_layer(
    kind: str, config: Mapping[str, Any], weights: Weights, x: Any, states: Any,
    mask: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """The output of a recurrent layer, and its last states."""
    expect(not config.get("stateful"), "stateful=True: states live between calls")
    states = _flat(states)
    inner = kind in _WHOLE and mask is None and _activations(kind, config) is not None
    if inner:
        outputs, last, final = _run_whole(
            kind, config, weights.below("cell"), x, states
        )
    else:
        cell = _cell(kind, config, weights)
        outputs, last, final = _run_scan(cell, config, x, states, mask)
    y = outputs if config.get("return_sequences") else last
    return (y, *final) if config.get("return_state") else (y,)


def _flat(states: Any) -> list[Any] | None:
    """Initial states as one list; None for zeros."""
    if states is None or states == []:
        return None
    if not isinstance(states, list | tuple):
        return [states]
    return [s for each in states for s in (_flat(each) or [])]


def _cell(kind: str, config: Mapping[str, Any], weights: Weights) -> Cell:
    if kind in _CELLS:
        return cell_of(_CELLS[kind], config, weights.below("cell"))
    entry = config.get("cell")
    expect(isinstance(entry, dict), "the cell is no layer of Keras")
    assert isinstance(entry, dict)
    return cell_of(class_of(entry), entry.get("config", {}), weights.below("cell"))


# -- as ops of the hub -----------------------------------------------------------------


def _activations(kind: str, config: Mapping[str, Any]) -> Any:
    """The names of activations in the hub, and their slopes; None if it lacks one."""
    outer = config.get("activation", "tanh")
    inner = config.get("recurrent_activation", "sigmoid")
    given = {
        "LSTM": (inner, outer, outer),
        "GRU": (inner, outer),
        "SimpleRNN": (outer,),
    }
    known = [_NAMES.get(n) if isinstance(n, str) else None for n in given[kind]]
    if not all(known):
        return None
    pairs = [pair for pair in known if pair is not None]
    return tuple(name for name, _ in pairs), tuple(slope for _, slope in pairs)


def _run_whole(
    kind: str, config: Mapping[str, Any], weights: Weights, x: Any,
    states: list[Any] | None,
) -> tuple[Any, Any, list[Any]]:  # fmt: skip
    """All outputs in the order of computation, the last output, and the last states."""
    names, slopes = _activations(kind, config)
    is_back = bool(config.get("go_backwards"))
    more: dict[str, Any] = {
        "batch_first": True, "activations": names,
        "direction": "reverse" if is_back else "forward",
    }  # fmt: skip
    if any(slopes):
        more["alphas"] = slopes
        more["betas"] = tuple(0.5 if s else None for s in slopes)
    bias, other = None, None
    if config.get("use_bias", True):
        bias = weights["bias"]
        if kind == "GRU" and config.get("reset_after", True):
            bias, other = ops.split(bias, axis=0, outputs=2)
        else:
            bias = ops.expand_dims(bias, [0])
    if kind == "GRU":
        more["reset_after"] = bool(config.get("reset_after", True))
    w, r = (
        ops.expand_dims(ops.swap_last(weights[name]), [0])
        for name in ("kernel", "recurrent_kernel")
    )
    first = [ops.expand_dims(state, [0]) for state in states or ()]
    function: Any = {"LSTM": ops.lstm, "GRU": ops.gru, "SimpleRNN": ops.rnn}[kind]
    outputs, *last = function(x, w, r, bias, other, None, *first, **more)
    outputs = ops.squeeze(outputs, [2])
    final = [ops.squeeze(state, [0]) for state in last]
    return (ops.flip(outputs, [1]) if is_back else outputs), final[0], final


# -- as scans --------------------------------------------------------------------------


def _run_scan(
    cell: Cell, config: Mapping[str, Any], x: Any, states: list[Any] | None, mask: Any
) -> tuple[Any, Any, list[Any]]:
    order = (1, 0, *range(2, rank_of(x)))
    steps = ops.transpose(x, perm=order)
    initial = cell.initial(steps) if states is None else states
    count = len(initial)
    is_back = bool(config.get("go_backwards"))
    zeros = bool(config.get("zero_output_for_mask"))

    def step(*values: Any) -> Any:
        carried, last, rows = values[:count], values[count], values[count + 1 :]
        y, new = cell.step(rows[0], carried)
        if len(rows) > 1:
            del last
            before = ops.zeros_like(y) if zeros else carried[cell.output]
            y = ops.where(_as_mask(rows[1], y), y, before)
            new = [
                ops.where(_as_mask(rows[1], a), a, b)
                for a, b in zip(new, carried, strict=True)
            ]
        return (*new, y, y)

    rows = [steps]
    if mask is not None:
        mask = cast_to(mask, "bool")
        rows.append(ops.transpose(mask, perm=(1, 0, *range(2, rank_of(mask)))))
    *final, last, outputs = ops.scan(
        step, None, *initial, initial[cell.output], *rows, carried=count + 1,
        reverse=(is_back,) * len(rows), out_reverse=(False,),
    )  # fmt: skip
    back = (1, 0, *range(2, rank_of(outputs)))
    return ops.transpose(outputs, perm=back), last, list(final)


def _as_mask(mask: Any, like: Any) -> Any:
    """A mask of a step with the rank of a value."""
    missing = rank_of(like) - rank_of(mask)
    return ops.expand_dims(mask, list(range(rank_of(mask), rank_of(mask) + missing)))


# -- layers ----------------------------------------------------------------------------


def _split_inputs(sequences: Any, states: Any) -> tuple[Any, Any]:
    """The sequence and the initial states, which Keras 2 gives as one list."""
    if isinstance(sequences, list | tuple):
        return sequences[0], list(sequences[1:]) or states
    return sequences, states


def _results(found: Sequence[Any], outputs: int) -> Any:
    return tuple(found[:outputs]) if len(found) > 1 else found[0]


def _recurrent(kind: str) -> Callable[..., Any]:
    def read_recurrent(
        sequences: Any, initial_state: Any = None, mask: Any = None, *,
        weights: Weights, outputs: int, units: int = 0, activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid", use_bias: bool = True,
        dropout: float = 0.0, recurrent_dropout: float = 0.0,
        return_sequences: bool = False, return_state: bool = False,
        go_backwards: bool = False, stateful: bool = False,
        zero_output_for_mask: bool = False, reset_after: Any = None,
    ) -> Any:  # fmt: skip
        del dropout, recurrent_dropout
        config = {
            "units": units, "activation": activation or "linear",
            "recurrent_activation": recurrent_activation or "linear",
            "use_bias": use_bias, "return_sequences": return_sequences,
            "return_state": return_state, "go_backwards": go_backwards,
            "stateful": stateful, "zero_output_for_mask": zero_output_for_mask,
            "reset_after": True if reset_after is None else reset_after,
        }  # fmt: skip
        x, states = _split_inputs(sequences, initial_state)
        return _results(run_layer(kind, config, weights, x, states, mask), outputs)

    return read_recurrent


def _conv_recurrent(kind: str) -> Callable[..., Any]:
    def read_conv_recurrent(
        sequences: Any, initial_state: Any = None, mask: Any = None, *,
        weights: Weights, outputs: int, filters: int, kernel_size: Any = None,
        strides: Any = 1, padding: str = "valid", data_format: Any = None,
        dilation_rate: Any = 1, activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid", use_bias: bool = True,
        dropout: float = 0.0, recurrent_dropout: float = 0.0,
        return_sequences: bool = False, return_state: bool = False,
        go_backwards: bool = False, stateful: bool = False,
        zero_output_for_mask: bool = False,
    ) -> Any:  # fmt: skip
        del dropout, recurrent_dropout, kernel_size
        config = {
            "filters": filters, "strides": strides, "padding": padding,
            "data_format": data_format, "dilation_rate": dilation_rate,
            "activation": activation or "linear",
            "recurrent_activation": recurrent_activation or "linear",
            "use_bias": use_bias, "return_sequences": return_sequences,
            "return_state": return_state, "go_backwards": go_backwards,
            "stateful": stateful, "zero_output_for_mask": zero_output_for_mask,
        }  # fmt: skip
        x, states = _split_inputs(sequences, initial_state)
        return _results(run_layer(kind, config, weights, x, states, mask), outputs)

    return read_conv_recurrent


def read_rnn(
    sequences: Any, initial_state: Any = None, mask: Any = None, *, weights: Weights,
    outputs: int, cell: Any, return_sequences: bool = False,
    return_state: bool = False, go_backwards: bool = False, stateful: bool = False,
    zero_output_for_mask: bool = False,
) -> Any:  # fmt: skip
    config = {
        "cell": cell, "return_sequences": return_sequences,
        "return_state": return_state, "go_backwards": go_backwards,
        "stateful": stateful, "zero_output_for_mask": zero_output_for_mask,
    }  # fmt: skip
    x, states = _split_inputs(sequences, initial_state)
    return _results(run_layer("RNN", config, weights, x, states, mask), outputs)


def read_bidirectional(
    sequences: Any, initial_state: Any = None, mask: Any = None, *, weights: Weights,
    outputs: int, layer: Any, backward_layer: Any = None, merge_mode: Any = None,
) -> Any:  # fmt: skip
    """A layer from both ends; `merge_mode` None gives both results."""
    x, states = _split_inputs(sequences, initial_state)
    flat = _flat(states) or []
    half = len(flat) // 2
    for entry in (layer, backward_layer or layer):
        fits = isinstance(entry, dict) and isinstance(entry.get("config"), dict)
        expect(fits, "its layer is no layer of Keras")
    config = layer["config"]
    back = backward_layer or {
        **layer, "config": {**config, "go_backwards": not config.get("go_backwards")}
    }  # fmt: skip
    found = []
    for entry, name, first in (
        (layer, "forward_layer", flat[:half]), (back, "backward_layer", flat[half:]),
    ):  # fmt: skip
        own = {k: v for k, v in entry["config"].items() if v is not None}
        own["zero_output_for_mask"] = own.get("return_sequences", False)
        part = weights.below(name)
        found.append(run_layer(class_of(entry), own, part, x, first or None, mask))
    (y, *final), (z, *last) = found
    if config.get("return_sequences"):
        z = ops.flip(z, [1])
    merges: Mapping[Any, Callable[[], tuple[Any, ...]]] = {
        "concat": lambda: (ops.concat(y, z, axis=rank_of(y) - 1),),
        "sum": lambda: (y + z,), "mul": lambda: (y * z,),
        "ave": lambda: ((y + z) / 2.0,),
        None: lambda: (y, z),
    }  # fmt: skip
    expect(merge_mode in merges, f"merge_mode={merge_mode} is not supported")
    return _results((*merges[merge_mode](), *final, *last), outputs)


READ: Final = layers(
    {kind: _recurrent(kind) for kind in _WHOLE}
    | {f"ConvLSTM{n}D": _conv_recurrent(f"ConvLSTM{n}D") for n in (1, 2, 3)}
    | {"RNN": read_rnn, "Bidirectional": read_bidirectional}
)
