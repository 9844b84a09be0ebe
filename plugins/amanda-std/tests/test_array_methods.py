"""Values behave as numpy's arrays do, or say why not: one function, three readings."""

from __future__ import annotations

import numpy as np
import pytest

from amanda.errors import InvalidTypeError, Undecided, UsageError
from amanda.graph import Graph
from amanda.types import DType, TensorType, parse_type
from amanda_std import Value, ops, trace, tracing
from amanda_std.engine.literals import DEFAULT_DTYPES, NUMBER_KINDS
from amanda_std.engine.values import Typed

X = np.arange(24, dtype="float64").reshape(2, 3, 4) - 11.5
I = np.arange(12, dtype="int64").reshape(3, 4) - 5  # noqa: E741 - integers
B = np.array([[True, False, True], [False, False, True]])

OPERATORS = {
    "+": lambda x: 1.5 + x + x,
    "-": lambda x: 2 - x - 1,
    "*": lambda x: 3 * x * x,
    "/": lambda x: 1.0 / x / 4,
    "//": lambda x: 7 // x + x // 2,
    "%": lambda x: 7 % x + x % 2,
    "**": lambda x: abs(x) ** 1.5 + 2.0 ** (x / 8.0),
    "@": lambda x: x @ x.mT,
    "array @": lambda x: np.ones((3, 3)) @ x,
    "unary": lambda x: -x + +x + abs(x),
    "list": lambda x: [1, 2, 3, 4] + x * [1.5, 2, 3, 4],
    "comparisons": lambda x: (x < 1) | (x >= 3) & (x != 5.5) ^ (x <= 0),
    "equal": lambda x: (x == -0.5) | ~(x > 2),
    "itself": lambda x: x == x,
}
METHODS = {
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "astype": lambda x: x.astype("int32"),
    "reshape": lambda x: x.reshape(4, -1) + x.reshape((4, 6)),
    "transpose": lambda x: x.transpose(1, 0, 2) + x.transpose((1, 0, -1)),
    "reversed": lambda x: x.transpose(),
    "swapaxes": lambda x: x.swapaxes(0, -1),
    "flatten": lambda x: x.flatten(),
    "squeeze": lambda x: x[:1, :, :1].squeeze() - x[:1].squeeze(0)[:, 0],
    "sum": lambda x: x.sum() + x.sum(axis=0).sum(-1, keepdims=True),
    "mean": lambda x: x.mean(axis=(0, 2)),
    "var": lambda x: x.var(axis=1) + x.std(0)[0],
    "extremes": lambda x: x.max(axis=0) - x.min(axis=0),
    "prod": lambda x: x.prod(axis=-1),
    "argmax": lambda x: x.argmax(axis=1) + x.argmin(axis=1),
    "argmax of all": lambda x: x.argmax() + abs(x).argmin(),
    "argmax of all, kept": lambda x: x.argmax(keepdims=True) - x.argmin(keepdims=True),
    "truth": lambda x: (x > 0).any(axis=0) & (x > -20).all(axis=0),
    "clip": lambda x: x.clip(-2.0, 3.0),
}
AT = np.array([[1, 0], [-1, 1]])
SUBSCRIPTS = {
    "number": np.s_[1],
    "last": np.s_[-1],
    "numbers": np.s_[0, -1, 2],
    "numpy number": np.s_[np.int64(1)],
    "slices": np.s_[:, 1:, :-1],
    "steps": np.s_[::-1, ::2, 3:0:-2],
    "backwards to the end": np.s_[:, 2::-1],
    "dots": np.s_[..., 0],
    "dots between": np.s_[0, ..., 1:3],
    "new axes": np.s_[None, :, None, 1, ..., None],
    "nothing": np.s_[()],
    "empty": np.s_[2:, 1:1],
    "list": np.s_[[1, 0, 1]],
    "places": np.s_[:, AT],
    "places, sliced": np.s_[::-1, AT, 1:],
    "places and new axes": np.s_[None, :, AT, None],
    "places beside a number": np.s_[:, 1, AT],
    "number behind places": np.s_[AT, 1],
    "places of two axes": np.s_[AT, [0, 2]],
    "places of all axes": np.s_[AT, [0, 2], [[3], [1]]],
    "places of two axes, new behind": np.s_[AT, [0, 2], None, 1:],
    "no places": np.s_[[]],
    "choice": np.s_[:, np.array([True, False, True])],
    "choice among all": np.s_[X > 3],
}


def check(function, array, run):
    """The same from numpy, from a graph of exact types, and of symbolic ones."""
    want = np.asarray(function(array))
    exact = TensorType(DType.of(array), array.shape)
    dims = ", ".join("abcde"[: array.ndim])
    for given in (exact, parse_type(f"{exact.dtype}[{dims}]")):
        (got,) = run(trace(function, [given]), array)
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-12)
    inferred = function(Typed(exact)).type
    assert inferred.dtype is DType.of(want)
    assert len(inferred.shape.dims) == want.ndim


@pytest.mark.parametrize("name", OPERATORS)
def test_operator(name, run):
    check(OPERATORS[name], X, run)


@pytest.mark.parametrize("name", METHODS)
def test_method(name, run):
    check(METHODS[name], X, run)


@pytest.mark.parametrize("name", SUBSCRIPTS)
def test_subscript(name, run):
    key = SUBSCRIPTS[name]
    want = X[key]
    graph = trace(lambda x: x[key], [TensorType("float64", X.shape)])
    (got,) = run(graph, X)
    np.testing.assert_array_equal(got, want)
    inferred = graph.results[0].type.shape
    known = zip(inferred, want.shape, strict=True)
    assert all(not isinstance(d, int) or d == n for d, n in known)
    symbolic = trace(lambda x: x[key], [parse_type("float64[a, b, c]")])
    np.testing.assert_array_equal(run(symbolic, X)[0], want)


BITS = {
    "&": lambda x: x & 3,
    "|": lambda x: 3 | x,
    "^": lambda x: x ^ x,
    "~": lambda x: ~x,
    "<<": lambda x: x << 2,
    ">>": lambda x: x >> 1,
    "//": lambda x: x // 3 + 17 // (x * 2 + 1),
    "%": lambda x: x % 3,
    "**": lambda x: x**2,
}


@pytest.mark.parametrize("name", BITS)
def test_operator_of_integers(name, run):
    check(BITS[name], I, run)


def test_operators_of_truth_values(run):
    check(lambda x: (x & ~x) | (x ^ True), B, run)


def test_computed_subscripts(run):
    """Starts, stops and places that are known when the graph runs."""

    def part(x, i):
        return x[i:], x[: x.shape[0] - i], x[i], x[-1, i]

    x = np.arange(12.0).reshape(4, 3)
    graph = trace(part, [parse_type("float64[n, m]"), parse_type("int64[]")])
    got = run(graph, x, np.int64(1))
    for a, b in zip(got, (x[1:], x[:3], x[1], x[-1, 1]), strict=True):
        np.testing.assert_array_equal(a, b)


def test_subscripts_ask_for_no_dims():
    types = [parse_type("float64[n, m]"), parse_type("int64[k]")]
    graph = trace(lambda x, at: x[None, at, 1:], types)
    kinds = [op.type for op in graph if op.type != "constant"]
    assert kinds == ["slice", "gather", "expand_dims"]


def test_power_is_the_op_pow(run):
    graph = trace(lambda x: x**3, [parse_type("float64[2]")])
    assert [op.type for op in graph if op.type != "constant"] == ["pow"]
    np.testing.assert_array_equal(run(graph, np.array([2.0, -1.5]))[0], [8.0, -3.375])


# -- what is decided in Python ---------------------------------------------------------


def test_known_numbers_are_compared_at_once():
    graph = Graph("amanda/std/1")
    x = Value(graph.parameter(parse_type("float32[2, n]")))
    with tracing(graph):
        two = ops.dim(x, axis=0)
        assert (two == 2, two != 2, two < 3, two <= 1, two >= 2) == (
            True, False, True, False, True,
        )  # fmt: skip
        n = ops.dim(x, axis=1)
        assert (n == n) is True
        assert (n >= 0) is True
        with pytest.raises(Undecided):
            bool(n == 2)
    assert (x == "same") is False
    assert x != None  # noqa: E711 - the question is the test
    assert [x, 1].index(x) == 0


def test_what_is_not_known_is_an_op():
    graph = Graph("amanda/std/1")
    x = Value(graph.parameter(parse_type("float32[2]")))
    assert (x == x).type == parse_type("bool[2]")
    with pytest.raises(Undecided, match="the content of a value decides"):
        assert x < 1.0


# -- numbers, lists and arrays ---------------------------------------------------------

NUMBERS = {bool: True, int: 3, float: 2.5, complex: 1j}
TYPES = ("bool", "int8", "uint8", "float16", "bfloat16", "float32", "complex64")


@pytest.mark.parametrize("kind", NUMBER_KINDS, ids=lambda k: k.__name__)
@pytest.mark.parametrize("dtype", TYPES)
def test_the_table_of_numbers(kind, dtype):
    """A number becomes the element type beside it, as the table says, or is refused."""
    number = NUMBERS[kind]
    x = parse_type(f"{dtype}[2]")
    both = (lambda v: ops.equal(v, number), lambda v: ops.equal(v, [number, number]))
    for call in both:
        if DType(dtype).kind in NUMBER_KINDS[kind]:
            graph = trace(call, [x])
            constant = next(op for op in graph if op.type == "constant")
            assert constant.output.type.dtype is DType(dtype)
            assert constant.attrs["value"].numpy().reshape(-1)[0] == number
        else:
            with pytest.raises(InvalidTypeError, match=f"is none of {dtype}"):
                trace(call, [x])


@pytest.mark.parametrize("kind", DEFAULT_DTYPES, ids=lambda k: k.__name__)
def test_numbers_alone(kind):
    graph = trace(lambda: ops.identity([NUMBERS[kind]]), [])
    assert graph.results[0].type.dtype is DType(DEFAULT_DTYPES[kind])


LOST = [
    ("float32", 2**24 + 1, "16777217 would be another one as float32"),
    ("float16", 1e6, "1000000.0 would be another one as float16"),
    ("float16", [1.0, -1e6], "-1000000.0 would be another one as float16"),
    ("int8", 300, "a value cannot be converted to int8"),
    ("uint8", -1, "a value cannot be converted to uint8"),
]


@pytest.mark.parametrize(("dtype", "number", "told"), LOST)
def test_what_would_be_another_number_is_refused(dtype, number, told):
    with pytest.raises(InvalidTypeError, match=told) as caught:
        trace(lambda x: x + number, [parse_type(f"{dtype}[2]")])
    assert caught.value.who == f"add({dtype}[2], {number!r})".replace(
        f"{number!r}", f"[{', '.join(map(repr, number))}]"
        if isinstance(number, list) else repr(number),
    )  # fmt: skip


def test_floats_that_round_and_those_that_are_infinite_are_taken(run):
    graph = trace(lambda x: x + 0.1 + float("inf"), [parse_type("float16[1]")])
    assert run(graph, np.float16([1]))[0].tolist() == [float("inf")]


# -- mistakes --------------------------------------------------------------------------


def fault(function, *types, error=InvalidTypeError):
    graph = Graph("amanda/std/1")
    values = [
        Value(graph.parameter(parse_type(t), n))
        for n, t in zip("xyz", types, strict=False)
    ]
    with pytest.raises(error) as caught, tracing(graph):
        function(*values)
    assert [op.type for op in graph] == []  # nothing is left of it
    return caught.value


def test_element_types_differ():
    error = fault(lambda x, y: x + y, "float32[2]", "int32[2]")
    assert str(error) == (
        "add takes tensors of one element type\n"
        "  who:      add(x: float32[2], y: int32[2])\n"
        "  where:    argument 'b'\n"
        "  expected: float32, as 'a' is\n"
        "  got:      int32\n"
        "  to do:    convert one of them first: ops.astype(x, dtype=...)"
    )


def test_arrays_are_never_converted():
    error = fault(lambda x: x * np.ones(2), "float32[2]")
    assert error.who == "multiply(x: float32[2], float64[2])"
    assert error.hint == "convert one of them first: ops.astype(x, dtype=...)"


def test_shapes_do_not_broadcast():
    error = fault(lambda x, y: x * y, "float32[2, 3]", "float32[2]")
    assert error.who == "multiply(x: float32[2, 3], y: float32[2])"
    assert (error.expected, error.got) == ("equal dims, or 1", "[2, 3] and [2]")


def test_integers_have_no_quotient():
    error = fault(lambda x: x / 2, "int32[2]")
    assert error.who == "int32[2] / 2"
    assert "x // y rounds down" in error.hint


def test_values_do_not_change():
    def put(x):
        x[0] = 1.0

    error = fault(put, "float32[2]", error=UsageError)
    assert "ops.where" in error.hint


WRONG = [
    (lambda x: x[3], InvalidTypeError, "no place 3 along axis 0", "-2 to 1"),
    (lambda x: x[:, [0, -4]], InvalidTypeError, "no place -4 along axis 1", "-3 to 2"),
    (lambda x: x[0, 0, 0], InvalidTypeError, "3 subscripts for 2 axes", "at most 2"),
    (lambda x: x[..., 0, ...], UsageError, "one ... at most", None),
    (lambda x: x[True], UsageError, "no subscript", None),
    (lambda x: x[x], InvalidTypeError, "holds integers, or bools", None),
    (lambda x: x[[0], :, None, [1]], InvalidTypeError, "3 subscripts", "at most 2"),
    (lambda x: x[[0], None, [1]], UsageError, "together", None),
    (lambda x: x[x[0] > 0, 0], UsageError, "together", None),
    (lambda x: x[(x > 0)[None]], InvalidTypeError, "subscripts for 2 axes", None),
]


@pytest.mark.parametrize(("wrong", "kind", "told", "expected"), WRONG)
def test_wrong_subscripts(wrong, kind, told, expected):
    with pytest.raises(kind, match=told) as caught:
        trace(wrong, [parse_type("float32[2, 3]")])
    assert expected is None or caught.value.expected == expected


def test_a_value_is_found_after_its_op_was_replaced(run):
    """Gradients take composites apart; what was held before is still there."""

    def function(x):
        hidden = ops.silu(x)
        return hidden, (hidden * hidden).sum().grad(x), hidden + 1.0

    x = np.array([0.5, -2.0])
    hidden, slope, more = run(trace(function, [parse_type("float64[2]")]), x)
    s = 1 / (1 + np.exp(-x))
    np.testing.assert_allclose(hidden, x * s)
    np.testing.assert_allclose(slope, 2 * x * s * (s + x * s * (1 - s)))
    np.testing.assert_allclose(more, x * s + 1)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_the_place_among_all_elements(name, run):
    """Without an axis, as in numpy: of a number, and where the rank is not known."""
    graph = trace(lambda x: getattr(x, name)(), [parse_type("float64[...]")])
    assert str(graph.results[0].type) == "int64[]"
    for array in (X, np.array(2.5), np.array([1.0, 3.0, -2.0, 3.0, -2.0])):
        (got,) = run(graph, array)
        np.testing.assert_array_equal(got, getattr(array, name)())
