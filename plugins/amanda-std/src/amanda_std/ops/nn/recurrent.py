"""Recurrent layers (RNN, GRU, LSTM): a scan over time steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from amanda.errors import InvalidTypeError
from amanda_std.engine.annotations import Index, Other, RealFloating
from amanda_std.engine.operation import composite
from amanda_std.engine.traits import Trait
from amanda_std.ops._oracles.recurrent import (
    gru_samples,
    lstm_samples,
    quantized_lstm_samples,
    rnn_samples,
)
from amanda_std.ops.control.scan import scan
from amanda_std.ops.linalg.matmul import matmul
from amanda_std.ops.math.arithmetic import add, maximum, minimum, where
from amanda_std.ops.math.comparison import less
from amanda_std.ops.math.elementary import sigmoid, tanh
from amanda_std.ops.nn.activation import (
    elu,
    hardsigmoid,
    leaky_relu,
    relu,
    softplus,
    softsign,
    threshold,
)
from amanda_std.ops.quantization.integer_matmul import matmul_integer
from amanda_std.ops.quantization.quantize import dynamic_quantize
from amanda_std.ops.tensor.creation import arange, zeros
from amanda_std.ops.tensor.manipulation import split, stack
from amanda_std.ops.tensor.shape import astype, expand_dims, squeeze, transpose

DIRECTIONS = {
    "forward": (False,),
    "reverse": (True,),
    "bidirectional": (False, True),
}


# -- activations -------------------------------------------------------------------


ACTIVATIONS: dict[str, tuple[Callable[..., Any], float, float]] = {
    # the function of (x, alpha, beta), and the defaults of both
    "sigmoid": (lambda x, _a, _b: sigmoid(x), 0.0, 0.0),
    "tanh": (lambda x, _a, _b: tanh(x), 0.0, 0.0),
    "relu": (lambda x, _a, _b: relu(x), 0.0, 0.0),
    "linear": (lambda x, _a, _b: x, 0.0, 0.0),
    "affine": (lambda x, a, b: x * a + b, 1.0, 0.0),
    "leaky_relu": (lambda x, a, _b: leaky_relu(x, slope=a), 0.01, 0.0),
    "thresholded_relu": (lambda x, a, _b: threshold(x, theta=a), 1.0, 0.0),
    "scaled_tanh": (lambda x, a, b: tanh(x * b) * a, 1.0, 1.0),
    "hard_sigmoid": (
        lambda x, a, b: hardsigmoid(x, alpha=a, beta=b),
        0.2,
        0.5,
    ),
    "elu": (lambda x, a, _b: elu(x, alpha=a), 1.0, 0.0),
    "softsign": (lambda x, _a, _b: softsign(x), 0.0, 0.0),
    "softplus": (lambda x, _a, _b: softplus(x), 0.0, 0.0),
}

Functions = Sequence[Callable[[Any], Any]]


def _select_activations(
    names: Any, alphas: Any, betas: Any, default: tuple[str, ...], count: int
) -> list[Functions]:
    """Activations of each direction; those of one direction apply to all."""
    given = default if names is None else tuple(names)
    if len(given) == len(default):
        given = given * count
    if len(given) != len(default) * count:
        raise InvalidTypeError(
            "activations must be given for one direction, or for each",
            expected=f"{len(default)} or {len(default) * count}", got=given,
        )  # fmt: skip
    outputs = []
    for i, name in enumerate(given):
        if name not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise InvalidTypeError("unknown activation", expected=known, got=name)
        function, *own = ACTIVATIONS[name]
        pair = [
            own[j] if values is None or values[i % len(values)] is None
            else values[i % len(values)]
            for j, values in enumerate((alphas, betas))
        ]  # fmt: skip
        outputs.append(_bind_parameters(function, *pair))
    size = len(default)
    return [outputs[i * size : (i + 1) * size] for i in range(count)]


def _bind_parameters(function: Callable[..., Any], alpha: float, beta: float) -> Any:
    return lambda x: function(x, alpha, beta)


# -- shared by all layers -------------------------------------------------------------


@dataclass(frozen=True)
class _RecurrentLayer:
    """Layout and direction of a recurrent layer."""

    x: Any
    lengths: Any
    direction: str
    batch_first: bool

    @property
    def reversals(self) -> tuple[bool, ...]:
        """For each direction, whether it runs backwards."""
        if self.direction not in DIRECTIONS:
            raise InvalidTypeError(
                "unknown direction", expected=", ".join(DIRECTIONS), got=self.direction
            )
        return DIRECTIONS[self.direction]

    @property
    def direction_count(self) -> int:
        return len(self.reversals)

    @property
    def time_major(self) -> Any:
        """The data with time as first axis."""
        return transpose(self.x, perm=(1, 0, 2)) if self.batch_first else self.x

    @property
    def batch(self) -> Any:
        return self.x.shape[0 if self.batch_first else 1]

    def split_by_direction(self, value: Any) -> list[Any]:
        """A weight or state split by direction."""
        if value is None:
            return [None] * self.direction_count
        if self.direction_count == 1:
            return [squeeze(value, (0,))]
        pieces = split(value, axis=0, outputs=self.direction_count)
        return [squeeze(piece, (0,)) for piece in pieces]

    def initial_states(self, state: Any, size: Any) -> list[Any]:
        """Initial states of each direction, zeros by default."""
        if state is not None:
            return self.split_by_direction(state)
        return [zeros([self.batch, size], dtype=self.x.dtype)] * self.direction_count

    def run_direction(
        self, cell: Any, initial: Sequence[Any], rows: Any, is_reversed: bool
    ) -> Any:
        """Final states of one direction, and its outputs."""
        count = len(initial)
        if self.lengths is None:
            *last, y = scan(
                lambda *v: _with_output(cell(v[-1], *v[:count])),
                None, *initial, rows, carried=count,
                reverse=(is_reversed,), out_reverse=(is_reversed,),
            )  # fmt: skip
            return last, y
        ends = expand_dims(astype(self.lengths, dtype="int64"), (1,))
        positions = arange(0, rows.shape[0])

        def step(*v: Any) -> Any:
            *states, row, position = v
            inside = less(position, ends)
            outputs = cell(row, *states)
            valid = [where(inside, a, b) for a, b in zip(outputs, states, strict=True)]
            return (*valid, where(inside, outputs[0], 0.0))

        *last, y = scan(
            step, None, *initial, rows, positions, carried=count,
            reverse=(is_reversed, is_reversed), out_reverse=(is_reversed,),
        )  # fmt: skip
        return last, y

    def join_outputs(self, per_direction: Sequence[tuple[Any, Any]]) -> tuple[Any, ...]:
        """Outputs of all directions, and the final states."""
        y = stack(*(y for _, y in per_direction), axis=1)
        if self.batch_first:
            y = transpose(y, perm=(2, 0, 1, 3))
        columns = zip(*(last for last, _ in per_direction), strict=True)
        return (y, *(stack(*column, axis=0) for column in columns))


def _with_output(states: Sequence[Any]) -> Any:
    return (*states, states[0])


def _transpose(w: Any) -> Any:
    return transpose(w, perm=(1, 0))


def _add_optional(a: Any, b: Any) -> Any:
    return a if b is None else b if a is None else add(a, b)


def _clip(x: Any, clip: float | None) -> Any:
    return x if clip is None else minimum(maximum(x, -clip), clip)


# -- the layers ----------------------------------------------------------------------


@composite
def rnn(
    x: RealFloating, w: RealFloating, r: RealFloating,
    bias: RealFloating | None = None, recurrent_bias: RealFloating | None = None,
    lengths: Index | None = None, h0: RealFloating | None = None, *,
    direction: str = "forward", batch_first: bool = False,
    activations: tuple[str, ...] | None = None,
    alphas: tuple[float | None, ...] | None = None,
    betas: tuple[float | None, ...] | None = None, clip: float | None = None,
) -> tuple[RealFloating, RealFloating]:  # fmt: skip
    """Elman RNN: h = f(x w' + h r' + biases); returns all outputs and the last state

    x: [time, batch, in], or batch first; w: [directions, hidden, in]; r: [directions,
    hidden, hidden]; lengths: [batch]; h0: [directions, batch, hidden]. Outputs are
    [time, directions, batch, hidden], or [batch, time, directions, hidden]; they are 0
    after the end of a sequence, and the last state is that of its last valid step."""
    layer = _RecurrentLayer(x, lengths, direction, batch_first)
    functions = _select_activations(
        activations, alphas, betas, ("tanh",), layer.direction_count
    )
    steps, size = layer.time_major, r.shape[2]
    outputs = []
    for back, (f,), w1, r1, b1, b2, h in zip(
        layer.reversals, functions,
        *map(layer.split_by_direction, (w, r, bias, recurrent_bias)),
        layer.initial_states(h0, size), strict=True,
    ):  # fmt: skip
        rows = _add_optional(matmul(steps, _transpose(w1)), _add_optional(b1, b2))
        outputs.append(
            layer.run_direction(_rnn_cell(_transpose(r1), f, clip), [h], rows, back)
        )
    return layer.join_outputs(outputs)


def _rnn_cell(r: Any, f: Any, clip: float | None) -> Any:
    def cell(row: Any, h: Any) -> Any:
        return [f(_clip(row + matmul(h, r), clip))]

    return cell


@composite
def gru(
    x: RealFloating, w: RealFloating, r: RealFloating,
    bias: RealFloating | None = None, recurrent_bias: RealFloating | None = None,
    lengths: Index | None = None, h0: RealFloating | None = None, *,
    direction: str = "forward", batch_first: bool = False,
    activations: tuple[str, ...] | None = None,
    alphas: tuple[float | None, ...] | None = None,
    betas: tuple[float | None, ...] | None = None, clip: float | None = None,
    reset_after: bool = False,
) -> tuple[RealFloating, RealFloating]:  # fmt: skip
    """Gated recurrent unit (GRU); gate order: update, reset, new

    As `rnn`, with three gates: w is [directions, 3 * hidden, in] and so on.
    `reset_after`: reset after the product with r, not before."""
    layer = _RecurrentLayer(x, lengths, direction, batch_first)
    names = ("sigmoid", "tanh")
    functions = _select_activations(
        activations, alphas, betas, names, layer.direction_count
    )
    steps, size = layer.time_major, r.shape[2]
    outputs = []
    for back, fs, w1, r1, b1, b2, h in zip(
        layer.reversals, functions,
        *map(layer.split_by_direction, (w, r, bias, recurrent_bias)),
        layer.initial_states(h0, size), strict=True,
    ):  # fmt: skip
        inner = b1 if reset_after else _add_optional(b1, b2)
        rows = _add_optional(matmul(steps, _transpose(w1)), inner)
        make = _gru_after if reset_after else _gru_before
        cell = make(r1, b2, fs, size, clip)
        outputs.append(layer.run_direction(cell, [h], rows, back))
    return layer.join_outputs(outputs)


def _gru_after(r: Any, bias: Any, fs: Functions, size: Any, clip: float | None) -> Any:
    f, g = fs
    transposed = _transpose(r)

    def cell(row: Any, h: Any) -> Any:
        own = _add_optional(matmul(h, transposed), bias)
        (xz, xr, xn), (hz, hr, hn) = (_split_gates(v, size, 3) for v in (row, own))
        z, reset = f(_clip(xz + hz, clip)), f(_clip(xr + hr, clip))
        return _interpolate(z, g(_clip(xn + reset * hn, clip)), h)

    return cell


def _gru_before(r: Any, _bias: Any, fs: Functions, size: Any, clip: Any) -> Any:
    f, g = fs
    gates, new = (
        _transpose(part)
        for part in split(r, [size * 2, size], axis=0, outputs=2)
    )  # fmt: skip

    def cell(row: Any, h: Any) -> Any:
        xz, xr, xn = _split_gates(row, size, 3)
        hz, hr = _split_gates(matmul(h, gates), size, 2)
        z, reset = f(_clip(xz + hz, clip)), f(_clip(xr + hr, clip))
        return _interpolate(z, g(_clip(xn + matmul(reset * h, new), clip)), h)

    return cell


def _interpolate(z: Any, new: Any, h: Any) -> Any:
    return [(1.0 - z) * new + z * h]


def _split_gates(value: Any, size: Any, count: int) -> Any:
    return split(value, [size] * count, axis=-1, outputs=count)


@composite
def lstm(
    x: RealFloating, w: RealFloating, r: RealFloating,
    bias: RealFloating | None = None, recurrent_bias: RealFloating | None = None,
    lengths: Index | None = None, h0: RealFloating | None = None,
    c0: RealFloating | None = None, peepholes: RealFloating | None = None,
    projection: RealFloating | None = None, *,
    direction: str = "forward", batch_first: bool = False,
    activations: tuple[str, ...] | None = None,
    alphas: tuple[float | None, ...] | None = None,
    betas: tuple[float | None, ...] | None = None, clip: float | None = None,
    input_forget: bool = False,
) -> tuple[RealFloating, RealFloating, RealFloating]:  # fmt: skip
    """Long short-term memory (LSTM); gate order: input, forget, cell, output

    As `rnn`, with four gates and a cell state, which is the third result. peepholes:
    [directions, 3 * hidden], for input, forget, output; projection: [directions, out,
    hidden], of the output; `input_forget`: the forget gate is 1 - the input gate."""
    layer = _RecurrentLayer(x, lengths, direction, batch_first)
    names = ("sigmoid", "tanh", "tanh")
    functions = _select_activations(
        activations, alphas, betas, names, layer.direction_count
    )
    steps, out = layer.time_major, r.shape[2]
    size = out if projection is None else projection.shape[2]
    outputs = []
    for back, fs, w1, r1, b1, b2, p, out1, h, c in zip(
        layer.reversals, functions,
        *map(layer.split_by_direction,
             (w, r, bias, recurrent_bias, peepholes, projection)),
        layer.initial_states(h0, out), layer.initial_states(c0, size), strict=True,
    ):  # fmt: skip
        rows = _add_optional(matmul(steps, _transpose(w1)), _add_optional(b1, b2))
        product = partial(_matmul_with, _transpose(r1))
        cell = _lstm_cell(product, p, out1, fs, size, clip, input_forget)
        outputs.append(layer.run_direction(cell, [h, c], rows, back))
    return layer.join_outputs(outputs)


def _matmul_with(r: Any, h: Any) -> Any:
    return matmul(h, r)


def _lstm_cell(
    product: Callable[[Any], Any], peepholes: Any, projection: Any, fs: Functions,
    size: Any, clip: float | None, input_forget: bool,
) -> Any:  # fmt: skip
    """A step of an LSTM; `product` multiplies the state with the recurrent weights."""
    f, g, last = fs
    seen = [None] * 3 if peepholes is None else _split_gates(peepholes, size, 3)
    to_out = None if projection is None else _transpose(projection)

    def gate(value: Any, peephole: Any, c: Any) -> Any:
        return f(_clip(value if peephole is None else value + peephole * c, clip))

    def cell(row: Any, h: Any, c: Any) -> Any:
        i, forget, new, o = _split_gates(row + product(h), size, 4)
        i = gate(i, seen[0], c)
        forget = 1.0 - i if input_forget else gate(forget, seen[1], c)
        c = forget * c + i * g(_clip(new, clip))
        h = gate(o, seen[2], c) * last(c)
        return [h if to_out is None else matmul(h, to_out), c]

    return cell


@composite
def dynamic_quantized_lstm(
    x: RealFloating, w: Other, r: Other, w_scale: RealFloating, r_scale: RealFloating,
    w_zero: Other | None = None, r_zero: Other | None = None,
    bias: RealFloating | None = None, lengths: Index | None = None,
    h0: RealFloating | None = None, c0: RealFloating | None = None,
    peepholes: RealFloating | None = None, *,
    direction: str = "forward", activations: tuple[str, ...] | None = None,
    alphas: tuple[float | None, ...] | None = None,
    betas: tuple[float | None, ...] | None = None, clip: float | None = None,
    input_forget: bool = False,
) -> tuple[RealFloating, RealFloating, RealFloating]:  # fmt: skip
    """LSTM with 8-bit weights: x, and the state of each step, are quantized to uint8

    As `lstm`, but w is [directions, in, 4 * hidden] and r [directions, hidden, 4 *
    hidden], as integers; scales and zero points are [directions] or [directions, 4 *
    hidden]. x is quantized as a whole, the state of a step over the batch."""
    layer = _RecurrentLayer(x, lengths, direction, False)
    names = ("sigmoid", "tanh", "tanh")
    functions = _select_activations(
        activations, alphas, betas, names, layer.direction_count
    )
    size = r.shape[1]
    outputs = []
    for back, fs, w1, ws, wz, r1, rs, rz, b1, p, h, c in zip(
        layer.reversals, functions,
        *map(layer.split_by_direction,
             (w, w_scale, w_zero, r, r_scale, r_zero, bias, peepholes)),
        layer.initial_states(h0, size), layer.initial_states(c0, size), strict=True,
    ):  # fmt: skip
        rows = _add_optional(_quantized_product(w1, ws, wz, x), b1)
        product = partial(_quantized_product, r1, rs, rz)
        cell = _lstm_cell(product, p, None, fs, size, clip, input_forget)
        outputs.append(layer.run_direction(cell, [h, c], rows, back))
    return layer.join_outputs(outputs)


def _quantized_product(w: Any, scale: Any, zero: Any, x: Any) -> Any:
    """x @ w, with x quantized to its range, and w quantized before."""
    quantized, own_scale, own_zero = dynamic_quantize(x)
    total = matmul_integer(quantized, w, own_zero, zero)
    return astype(total, dtype=x.dtype) * (own_scale * scale)


dynamic_quantized_lstm.trait(Trait.EXACT_DTYPES)
dynamic_quantized_lstm.not_differentiable("it is piecewise constant")

rnn.samples(rnn_samples)
dynamic_quantized_lstm.samples(quantized_lstm_samples)
gru.samples(gru_samples)
lstm.samples(lstm_samples)
