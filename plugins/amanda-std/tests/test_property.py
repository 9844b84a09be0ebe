"""Random typed programs: types fit, and no pass or lowering changes results."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amanda.types import Sym, TensorType, accepts
from amanda_std import lower, ops, trace
from amanda_std.engine.arrays import array_type
from amanda_std.hub.expansion import is_not_composite
from amanda_std.passes import (
    branches,
    canonical,
    channels_last,
    drop,
    fold,
    fold_norms,
    fuse,
    infer,
    share,
    simplify,
    sink,
    stable,
)

pytestmark = pytest.mark.install_independent

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
            TensorType(
                str(x.dtype), [Sym.named(f"s{d}") if d > 1 else d for d in x.shape]
            )
            for x in self.inputs
        ]


@st.composite
def programs(draw):
    shape = st.lists(st.integers(1, 4), min_size=0, max_size=3)
    random = np.random.default_rng(draw(st.integers(0, 99)))
    shapes = draw(st.lists(shape, min_size=1, max_size=3))
    dtypes = [
        "float64",
        *draw(st.lists(st.sampled_from(DTYPES), min_size=2, max_size=2)),
    ]
    program = Program(
        [numbers(random, s, d) for s, d in zip(shapes, dtypes, strict=False)]
    )
    values = list(program.inputs)
    for _ in range(draw(st.integers(1, 8))):
        step = draw(st.sampled_from(STEPS))(draw, values)
        if step is not None:
            program.steps.append(step)
            values.append(np.asarray(step(values)))
    return program


DTYPES = ["float64", "float64", "int64", "int32", "bool"]


def numbers(random, shape, dtype):
    """Floats, small integers or truths."""
    if dtype == "bool":
        return random.random(shape) > 0.5
    if dtype.startswith("int"):
        return random.integers(-5, 6, shape).astype(dtype)
    return np.asarray(random.standard_normal(shape))


def unary(draw, values):
    name, i = draw(st.sampled_from(UNARY)), chosen(draw, values)
    return lambda made: ops.OPS[name](made[i])


def binary(draw, values):
    name, i = draw(st.sampled_from(BINARY)), chosen(draw, values)
    fitting = [j for j, v in enumerate(values) if fits(values[i], v)]
    j = draw(st.sampled_from(fitting))
    return lambda made: ops.OPS[name](made[i], made[j])


def broadcasts(a, b):
    """A symbol may be 1 or not: only what is surely equal, or 1, is broadcast."""
    return all(
        m == n or 1 in (m, n)
        for m, n in zip(a.shape[::-1], b.shape[::-1], strict=False)
    )


def fits(a, b):
    return a.dtype == b.dtype and broadcasts(a, b)


def chosen(draw, values, least=0, kinds="f"):
    """One of the values of these kinds with enough axes; the first, where none is."""
    rows = enumerate(values)
    found = [i for i, v in rows if v.ndim >= least and v.dtype.kind in kinds]
    return draw(st.sampled_from(found or [0]))


def has(values, i, kinds):
    return values[i].dtype.kind in kinds


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


# -- other element types ---------------------------------------------------------------


def of_integers(draw, values):
    i = chosen(draw, values, kinds="i")
    name = draw(st.sampled_from([*BINARY, "bitwise_and", "bitwise_xor"]))
    fitting = [j for j, v in enumerate(values) if fits(values[i], v)]
    j = draw(st.sampled_from(fitting))
    if not has(values, i, "i"):
        return None
    return lambda made: ops.OPS[name](made[i], made[j])


def divided(draw, values):
    i = chosen(draw, values, kinds="i")
    name = draw(st.sampled_from(["floor_divide", "remainder", "divide", "multiply"]))
    by = np.array(draw(st.sampled_from([1, 2, -3])), values[i].dtype)
    return (lambda made: ops.OPS[name](made[i], by)) if has(values, i, "i") else None


def folded(draw, values):
    """Reductions of integers and of truths."""
    i = chosen(draw, values, 1, "ib")
    if not has(values, i, "ib") or not values[i].ndim:
        return None
    told = ["all", "any"] if has(values, i, "b") else ["sum", "max", "min", "prod"]
    axes = tuple(draw(st.sets(st.integers(0, values[i].ndim - 1))))
    name, keep = draw(st.sampled_from(told)), draw(st.booleans())
    return lambda made: ops.OPS[name](made[i], axes, keepdims=keep)


def compared(draw, values):
    """With what is not there, so that no rounding decides."""
    i = chosen(draw, values, kinds="fi")
    name = draw(st.sampled_from(["less", "greater_equal", "equal", "not_equal"]))
    number = np.array(draw(st.sampled_from([-7, 11])), values[i].dtype)
    return lambda made: ops.OPS[name](made[i], number)


def both_true(draw, values):
    i = chosen(draw, values, kinds="b")
    if not has(values, i, "b"):
        return None
    name = draw(st.sampled_from(["logical_and", "logical_or", "logical_xor"]))
    j = draw(st.sampled_from([j for j, v in enumerate(values) if fits(values[i], v)]))
    return lambda made: ops.logical_not(ops.OPS[name](made[i], made[j]))


def selected(draw, values):
    i = chosen(draw, values, kinds="b")
    j = draw(
        st.sampled_from([j for j, v in enumerate(values) if broadcasts(values[i], v)])
    )
    if not has(values, i, "b"):
        return None
    return lambda made: ops.where(made[i], made[j], made[j])


def cast(draw, values):
    i = chosen(draw, values, kinds="ib")
    dtype = draw(st.sampled_from(["float64", "int64", "int32", "bool"]))
    return (lambda made: ops.astype(made[i], dtype=dtype)) if i else None


def found(draw, values):
    """Places of integers: what is largest, where they would go, what is true."""
    i = chosen(draw, values, 1, "i")
    if not has(values, i, "i") or not values[i].ndim or not values[i].size:
        return None
    axis = draw(st.integers(0, values[i].ndim - 1))
    name = draw(st.sampled_from(["argmax", "argmin", "argsort"]))
    return lambda made: ops.OPS[name](made[i], axis=axis)


# -- windows, places, bodies -----------------------------------------------------------


def gathered(draw, values):
    i = chosen(draw, values, 1, "fib")
    if not values[i].ndim:
        return None
    axis = draw(st.integers(0, values[i].ndim - 1))
    most = values[i].shape[axis]
    if not most:
        return None
    at = np.array(draw(st.lists(st.integers(-most, most - 1), max_size=3)), "int64")
    return lambda made: ops.gather(made[i], at, axis)


def pooled(draw, values):
    i = chosen(draw, values, 3)
    name, window = (
        draw(st.sampled_from(["max_pool", "avg_pool"])),
        draw(st.integers(1, 2)),
    )
    if values[i].ndim != 3 or values[i].shape[2] < window:
        return None
    return lambda made: ops.OPS[name](made[i], window=(window,))


def scanned(draw, values):
    i, back = chosen(draw, values, 1), draw(st.booleans())
    if not values[i].ndim:
        return None

    def body(total, row):
        return ops.tanh(total + row), total * row

    def step(made):
        start = ops.mean(made[i], (0,))
        return ops.scan(body, None, start, made[i], carried=1, reverse=(back,))[1]

    return step


def cased(draw, values):
    i, at = chosen(draw, values), draw(st.integers(-1, 3))

    def step(made):
        index = ops.astype(ops.all(ops.less(made[i], 1e9)), dtype="int64")
        index = index * np.int64(at)  # told when it runs
        return ops.case(index, [ops.tanh, ops.negative, lambda x: x * x], made[i])[0]

    return step


def repeated(draw, values):
    i, rounds = chosen(draw, values), draw(st.integers(0, 2))

    def step(made):
        def goes_on(n, _):
            return ops.less(n, np.int64(rounds))

        return ops.while_(
            goes_on, lambda n, x: (n + np.int64(1), ops.sin(x)), np.int64(0), made[i]
        )[1]

    return step


def attended(draw, values):
    i, causal = chosen(draw, values, 2), draw(st.booleans())
    if values[i].ndim != 2 or not values[i].shape[1]:
        return None

    def step(made):
        x = ops.expand_dims(made[i], (0, 1))
        return ops.attention(x, x, x, causal=causal)

    return step


def kept(draw, values):
    """A variable that is written between two reads."""
    i, key = chosen(draw, values), f"v{len(values)}"

    def step(made):
        v = ops.variable(made[i], key=key)
        before = ops.read(v)
        ops.assign_add(v, ops.tanh(made[i]))
        return before + ops.read(v)

    return step


def in_a_sequence(draw, values):
    i, j = chosen(draw, values, kinds="fib"), chosen(draw, values, kinds="fib")
    if values[i].dtype != values[j].dtype or values[i].shape != values[j].shape:
        return None

    def step(made):
        held = ops.sequence_construct(made[i], made[j])
        return ops.sequence_at(ops.sequence_insert(held, made[i]), np.int64(2))

    return step


STEPS = [unary, unary, binary, binary, reduced, softmaxed, transposed, flattened,
         joined, sliced, grown, padded, multiplied, decided, looped,
         beside_a_number, undone, normed, convolved, of_integers, divided, folded,
         compared, both_true, selected, cast, found, gathered, pooled, scanned, cased,
         repeated, attended, kept, in_a_sequence]  # fmt: skip


def decompose(graph):
    assert lower(graph, is_not_composite) == []


ALL = [
    branches,
    canonical,
    channels_last,
    decompose,
    drop,
    fold,
    fold_norms,
    fuse,
    infer,
    share,
    simplify,
    sink,
    stable,
]
ROUNDS = int(os.environ.get("AMANDA_FUZZ_ROUNDS", "100")) * 2
UNHURRIED = settings(
    max_examples=ROUNDS,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.mark.fuzz
@UNHURRIED
@given(program=programs(), changes=st.lists(st.sampled_from(ALL), max_size=8))
def test_any_passes_in_any_order(program, changes, run):
    expect_the_same(program, changes, run)


@pytest.mark.most_cases(6)
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
        assert value.dtype == want.dtype
        shape = result.type.shape
        if shape.has_rank:
            shape = shape.map(at_run_time)
        known = TensorType(result.type.dtype, shape)
        assert accepts(known, array_type(value)) is True


def at_run_time(dim):
    """The number that a dim stands for; what was not known may be any."""
    found = dim.substitute({f"s{n}": n for n in range(2, 5)})
    return Sym.unknown() if isinstance(found, Sym) else found
