"""Random typed programs: types fit, and no pass or lowering changes results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amanda.types import Sym, TensorType, accepts
from amanda_std import lower, ops, trace
from amanda_std.arrays import array_type
from amanda_std.lowering import primitives
from amanda_std.passes import (
    branches,
    canonical,
    channels_last,
    drop,
    fold,
    fold_norms,
    infer,
    share,
    simplify,
    sink,
    stable,
)

UNARY = [
    "tanh",
    "abs",
    "relu",
    "sigmoid",
    "gelu",
    "silu",
    "negative",
    "sin",
    "softplus",
]
BINARY = ["add", "subtract", "multiply", "maximum", "minimum"]
REDUCED = ["sum", "mean", "max", "min", "var", "logsumexp"]


@dataclass
class Program:
    """Steps, each a function of the values so far; and what the inputs are."""

    inputs: list[np.ndarray]
    steps: list[Any] = field(default_factory=list)

    def __call__(self, *values):
        made = list(values)
        for step in self.steps:
            made.append(step(made))
        return tuple(made[len(values) :]) or tuple(made)

    @property
    def types(self):
        """Symbols for dims over 1, one for each size."""
        return [
            TensorType("float64", [Sym.named(f"s{d}") if d > 1 else d for d in x.shape])
            for x in self.inputs
        ]


@st.composite
def programs(draw):
    shape = st.lists(st.integers(1, 4), min_size=0, max_size=3)
    random = np.random.default_rng(draw(st.integers(0, 99)))
    shapes = draw(st.lists(shape, min_size=1, max_size=3))
    program = Program([random.standard_normal(s) for s in shapes])
    values = list(program.inputs)
    for _ in range(draw(st.integers(1, 8))):
        step = draw(st.sampled_from(STEPS))(draw, values)
        if step is not None:
            program.steps.append(step)
            values.append(np.asarray(step(values)))
    return program


def unary(draw, values):
    name, i = draw(st.sampled_from(UNARY)), chosen(draw, values)
    return lambda made: ops.OPS[name](made[i])


def binary(draw, values):
    name, i = draw(st.sampled_from(BINARY)), chosen(draw, values)
    fitting = [j for j, v in enumerate(values) if broadcasts(values[i], v)]
    j = draw(st.sampled_from(fitting))
    return lambda made: ops.OPS[name](made[i], made[j])


def broadcasts(a, b):
    """A symbol may be 1 or not: only what is surely equal, or 1, is broadcast."""
    return all(
        m == n or 1 in (m, n)
        for m, n in zip(a.shape[::-1], b.shape[::-1], strict=False)
    )


def chosen(draw, values, least=0):
    return draw(
        st.sampled_from([i for i, v in enumerate(values) if v.ndim >= least] or [0])
    )


def reduced(draw, values):
    i = chosen(draw, values, 1)
    if not values[i].ndim:
        return None
    axes = draw(st.sets(st.integers(0, values[i].ndim - 1)))
    name, keep = draw(st.sampled_from(REDUCED)), draw(st.booleans())
    return lambda made: ops.OPS[name](made[i], tuple(axes), keepdims=keep)


def softmaxed(draw, values):
    i = chosen(draw, values, 1)
    return (lambda made: ops.softmax(made[i])) if values[i].ndim else None


def transposed(draw, values):
    i = chosen(draw, values)
    perm = tuple(draw(st.permutations(range(values[i].ndim))))
    return lambda made: ops.transpose(made[i], perm=perm)


def flattened(draw, values):
    i = chosen(draw, values)
    return lambda made: ops.reshape(made[i], [product(made[i].shape)])


def product(dims):
    found = 1
    for dim in dims:
        found = dim * found
    return found


def joined(draw, values):
    i = chosen(draw, values, 1)
    if not values[i].ndim:
        return None
    axis = draw(st.integers(0, values[i].ndim - 1))
    return lambda made: ops.concat(made[i], made[i], axis=axis)


def sliced(draw, values):
    i = chosen(draw, values, 1)
    if not values[i].ndim:
        return None
    axis = draw(st.integers(0, values[i].ndim - 1))
    start, stop = draw(st.integers(-3, 3)), draw(st.integers(-3, 5))
    step = draw(st.sampled_from([1, 1, 2]))
    if not len(range(values[i].shape[axis])[start:stop:step]):
        return None
    return lambda made: ops.slice(made[i], [start], [stop], [axis], [step])


def grown(draw, values):
    i = chosen(draw, values)
    axis = draw(st.integers(0, values[i].ndim))
    return lambda made: ops.expand_dims(made[i], (axis,))


def padded(draw, values):
    i = chosen(draw, values, 1)
    pads = [(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in values[i].shape]
    return lambda made: ops.pad(made[i], pads)


def multiplied(draw, values):
    i = chosen(draw, values, 2)
    if values[i].ndim < 2:
        return None
    return lambda made: ops.matmul(made[i], ops.swap_last(made[i]))


def decided(draw, values):
    i = chosen(draw, values)
    least = draw(st.floats(-1, 1))

    def step(made):
        positive = ops.all(ops.less(ops.sum(made[i]), np.float64(least)))
        return ops.if_(positive, ops.tanh, lambda x: x + x, made[i])[0]

    return step


def looped(draw, values):
    i, rounds = chosen(draw, values), draw(st.integers(0, 3))

    def body(_, go, x, y):
        return go, ops.tanh(x + y), y

    def step(made):
        return ops.loop(np.int64(rounds), None, body, made[i], made[i])[0]

    return step


def beside_a_number(draw, values):
    name = draw(st.sampled_from([*BINARY, "divide"]))
    i, number = chosen(draw, values), draw(st.sampled_from([1.0, -1.0, 0.0, 0.5]))
    if number and draw(st.booleans()):
        return lambda made: ops.OPS[name](np.float64(number), made[i])
    number = number or float(name == "divide")
    return lambda made: ops.OPS[name](made[i], np.float64(number))


def undone(draw, values):
    i = chosen(draw, values)
    perm = tuple(draw(st.permutations(range(values[i].ndim))))
    back = tuple(sorted(range(len(perm)), key=perm.__getitem__))

    def step(made):
        y = ops.transpose(ops.negative(made[i]), perm=perm)
        return ops.negative(ops.transpose(ops.tanh(y), perm=back))

    return step


def normed(draw, values):
    """A product with constant weights, and the norm of its channels."""
    i = chosen(draw, values, 1)
    if not values[i].ndim:
        return None
    random = np.random.default_rng(draw(st.integers(0, 9)))
    w = random.standard_normal((values[i].shape[-1], 3))
    scale, bias, mean, var = random.uniform(0.5, 2.0, (4, 3))
    rank = values[i].ndim

    def step(made):
        y = ops.matmul(made[i], w)
        return ops.batch_norm(y, scale, bias, mean, var, axis=rank - 1)

    return step


def convolved(draw, values):
    i = chosen(draw, values, 3)
    if values[i].ndim != 3:
        return None
    random = np.random.default_rng(draw(st.integers(0, 9)))
    w = random.standard_normal((2, values[i].shape[1], 1))
    return lambda made: ops.conv(made[i], w) * np.array([[2.0], [0.5]])


STEPS = [unary, unary, binary, binary, reduced, softmaxed, transposed, flattened,
         joined, sliced, grown, padded, multiplied, decided, looped,
         beside_a_number, undone, normed, convolved]  # fmt: skip


def decompose(graph):
    assert lower(graph, primitives) == []


ALL = [
    branches,
    canonical,
    channels_last,
    decompose,
    drop,
    fold,
    fold_norms,
    infer,
    share,
    simplify,
    sink,
    stable,
]
UNHURRIED = settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@UNHURRIED
@given(program=programs(), changes=st.lists(st.sampled_from(ALL), max_size=8))
def test_any_passes_in_any_order(program, changes, run):
    expect_the_same(program, changes, run)


@pytest.mark.parametrize("change", ALL, ids=lambda change: change.__name__)
@UNHURRIED
@given(program=programs())
def test_each_pass(program, change, run):
    expect_the_same(program, [change], run)


def expect_the_same(program, changes, run):
    expected = [np.asarray(v) for v in program(*program.inputs)]
    graph = trace(program, program.types)
    for change in changes:
        change(graph)
    got = run(graph, *program.inputs)
    for value, want, result in zip(got, expected, graph.results, strict=True):
        np.testing.assert_allclose(value, want, rtol=1e-8, atol=1e-8)
        shape = result.type.shape.map(at_run_time)
        assert accepts(TensorType("float64", shape), array_type(value)) is True


def at_run_time(dim):
    """The number that a dim stands for; what was not known may be any."""
    found = dim.substitute({f"s{n}": n for n in range(2, 5)})
    return Sym.unknown() if isinstance(found, Sym) else found
