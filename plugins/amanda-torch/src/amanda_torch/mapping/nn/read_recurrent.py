"""From PyTorch: recurrent layers, several of them, in one or both directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from amanda_std import ops
from amanda_std.mappings import cast_to, expect
from amanda_torch.mapping.calls import torch_functions
from amanda_torch.mapping.nn.read_normalization import read_dropout
from amanda_torch.mapping.shape_arguments import integer, shape_argument
from amanda_torch.mapping.type_promotion import INT

__all__ = ["READ"]


def _reset_gates_second(weight: Any) -> Any:
    """The gates of a GRU in the order of the hub: update, reset, new."""
    reset, update, new = ops.split(weight, axis=0, outputs=3)
    return ops.concat(update, reset, new, axis=0)


def _as_it_is(weight: Any) -> Any:
    return weight


def _layer(
    op: Callable[..., Any], change: Callable[[Any], Any], x: Any, lengths: Any,
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
    y, *last = op(x, *weights, lengths, *states, direction=both, **options)
    dims = [_size(x, axis) for axis in range(2)]
    y = ops.reshape(ops.transpose(y, perm=(0, 2, 1, 3)), shape_argument([*dims, -1]))
    return [y, *last]


def _size(x: Any, axis: int) -> Any:
    dim = x.type.shape.dims[axis]
    return dim if isinstance(dim, int) else ops.dim(x, axis=axis)


def _layers(
    op: Callable[..., Any], change: Callable[[Any], Any] = _as_it_is, **options: Any
) -> Callable[..., Any]:
    """The function of a kind of layers, of a padded tensor."""

    def read(
        x: Any, hx: Any, params: Sequence[Any], has_biases: bool, num_layers: int,
        dropout: float, train: bool, bidirectional: bool, batch_first: bool,
        *, lengths: Any = None,
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
            x, *last = _layer(op, change, x, lengths, rows, own, **options)
            found.append(last)
        x = ops.transpose(x, perm=(1, 0, 2)) if batch_first else x
        ends = [ops.concat(*each, axis=0) for each in zip(*found, strict=True)]
        return (x, *ends)

    return read


# -- packed sequences ------------------------------------------------------------------


def _for_packed(layers: Callable[..., Any]) -> Callable[..., Any]:
    """The function of a kind of layers, of a packed sequence."""

    def read(data: Any, batch_sizes: Any, hx: Any, *arguments: Any) -> Any:
        states = hx if isinstance(hx, list | tuple) else [hx]
        steps, batch = _size(batch_sizes, 0), _size(states[0], 1)
        sizes = cast_to(batch_sizes, INT)
        starts = ops.cumulative_sum(sizes, 0) - sizes
        member = ops.expand_dims(ops.arange(0, batch), [0])
        is_valid = ops.less(member, ops.expand_dims(sizes, [1]))
        places = ops.where(is_valid, ops.expand_dims(starts, [1]) + member, 0)
        rows = ops.gather(data, places, axis=0)
        x = ops.where(ops.expand_dims(is_valid, [2]), rows, 0)
        lengths = ops.sum(cast_to(is_valid, INT), [0])
        y, *last = layers(x, hx, *arguments, False, lengths=lengths)
        return _pack(y, data, starts, sizes, steps, batch), *last

    return read


def _pack(y: Any, data: Any, starts: Any, sizes: Any, steps: Any, batch: Any) -> Any:
    """The rows of a padded tensor that a packed one has, in its order."""
    row = ops.arange(0, _size(data, 0))
    ended = ops.greater_equal(ops.expand_dims(row, [1]), starts + sizes)
    step = ops.sum(cast_to(ended, INT), [1])
    place = step * batch + (row - ops.gather(starts, step, axis=0))
    flat = ops.reshape(y, shape_argument([steps * batch, -1]))
    return ops.gather(flat, place, axis=0)


def _cell(
    op: Callable[..., Any], change: Callable[[Any], Any] = _as_it_is, **options: Any
) -> Callable[..., Any]:
    """One step of a layer: a sequence of length 1."""

    def read(x: Any, hx: Any, *params: Any) -> Any:
        states = list(hx) if isinstance(hx, list | tuple) else [hx]
        row = [v for v in params if v is not None]
        first = [ops.expand_dims(v, [0]) for v in (x, *states)]
        _, *last = _layer(op, change, first[0], None, [row], first[1:], **options)
        found = tuple(ops.squeeze(v, [0]) for v in last)
        return found if len(found) > 1 else found[0]

    return read


_KINDS = {
    "lstm": _layers(ops.lstm),
    "gru": _layers(ops.gru, _reset_gates_second, reset_after=True),
    "rnn_tanh": _layers(ops.rnn),
    "rnn_relu": _layers(ops.rnn, activations=("relu",)),
}

READ = torch_functions(
    {f"{name}.input": read for name, read in _KINDS.items()}
    | {f"{name}.data": _for_packed(read) for name, read in _KINDS.items()}
    | {
        "lstm_cell": _cell(ops.lstm),
        "gru_cell": _cell(ops.gru, _reset_gates_second, reset_after=True),
        "rnn_tanh_cell": _cell(ops.rnn),
        "rnn_relu_cell": _cell(ops.rnn, activations=("relu",)),
    }
)
