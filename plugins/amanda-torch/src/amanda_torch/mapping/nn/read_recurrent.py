"""From PyTorch: recurrent layers, several of them, in one or both directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from amanda_std import ops
from amanda_std.mappings import expect
from amanda_torch.mapping.calls import torch_functions
from amanda_torch.mapping.nn.read_normalization import read_dropout
from amanda_torch.mapping.shape_arguments import integer, shape_argument

__all__ = ["READ"]


def _reset_gates_second(weight: Any) -> Any:
    """The gates of a GRU in the order of the hub: update, reset, new."""
    reset, update, new = ops.split(weight, axis=0, outputs=3)
    return ops.concat(update, reset, new, axis=0)


def _as_it_is(weight: Any) -> Any:
    return weight


def _layer(
    op: Callable[..., Any], change: Callable[[Any], Any], x: Any,
    params: Sequence[Sequence[Any]], states: Sequence[Any], **options: Any,
) -> list[Any]:  # fmt: skip
    """One layer: its output with directions side by side, and its last states.

    A parameter after those of weights and biases is a projection of the state.
    """
    count = 4 if len(params[0]) >= 4 else 2
    if len(params[0]) > count:
        last_ones = [each[count] for each in params]
        options["projection"] = ops.stack(*last_ones, axis=0)
        params = [each[:count] for each in params]
    stacked = [
        ops.stack(*[change(v) for v in each], axis=0)
        for each in zip(*params, strict=True)
    ]
    weights = [*stacked, *([None] * (4 - len(stacked)))]
    both = "bidirectional" if len(params) == 2 else "forward"
    y, *last = op(x, *weights, None, *states, direction=both, **options)
    dims = [
        d if isinstance(d, int) else ops.dim(x, axis=i)
        for i, d in enumerate(x.type.shape.dims[:2])
    ]
    y = ops.reshape(ops.transpose(y, perm=(0, 2, 1, 3)), shape_argument([*dims, -1]))
    return [y, *last]


def _layers(
    op: Callable[..., Any], change: Callable[[Any], Any] = _as_it_is, **options: Any
) -> Callable[..., Any]:
    def read(
        x: Any, hx: Any, params: Sequence[Any], has_biases: bool, num_layers: int,
        dropout: float, train: bool, bidirectional: bool, batch_first: bool,
    ) -> Any:  # fmt: skip
        states = list(hx) if isinstance(hx, list | tuple) else [hx]
        count, size = 2 if bidirectional else 1, 4 if has_biases else 2
        if len(params) != num_layers * count * size:
            size += 1  # LSTM with projections
        expect(len(params) == num_layers * count * size, "the number of parameters")
        x = ops.transpose(x, perm=(1, 0, 2)) if batch_first else x
        found = []
        for layer in range(integer(num_layers, "num_layers")):
            first = layer * count
            rows = [list(params[(first + d) * size : (first + d + 1) * size])
                    for d in range(count)]  # fmt: skip
            own = [ops.slice_(s, [first], [first + count], [0]) for s in states]
            if layer:
                x = read_dropout(x, dropout, train)
            x, *last = _layer(op, change, x, rows, own, **options)
            found.append(last)
        x = ops.transpose(x, perm=(1, 0, 2)) if batch_first else x
        ends = [ops.concat(*each, axis=0) for each in zip(*found, strict=True)]
        return (x, *ends)

    return read


READ = torch_functions(
    {
        "lstm.input": _layers(ops.lstm),
        "gru.input": _layers(ops.gru, _reset_gates_second, reset_after=True),
        "rnn_tanh.input": _layers(ops.rnn),
        "rnn_relu.input": _layers(ops.rnn, activations=("relu",)),
    }
)
