"""Attribute values: what is allowed, sameness, and the hash."""

import enum
import hashlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import examples

from amanda.errors import InvalidTypeError, LimitError
from amanda.tensors import (
    FunctionRef,
    Tensor,
    check_attr,
    contiguous_array,
    same_value,
    value_digest,
)
from amanda.types import (
    DType,
    OpaqueType,
    Quantized,
    Shape,
    Sym,
    Symbols,
    TensorType,
    TokenType,
)

pytestmark = pytest.mark.install_independent

n, unknown = Sym.named("n"), Sym.unknown()

DIFFERENT: list[Any] = [
    *(None, True, False, 1, 0, -1, 2**200, 1.0, 0.0, -0.0, float("nan"), float("inf")),
    *("", "1", "n", "float32", b"", b"1", [], {}, [[]], [[], []], [1, [2]], [[1], 2]),
    *([1, 2], [2, 1], [12], ["1", "2"], {"a": 1}, {"a": [1]}, {"b": 1}, {"a": 1.0}),
    *({"a": 1, "b": 2}, {"a": 2, "b": 1}, [{"a": 1}, {"b": 2}], ["a", 1]),
    *(DType("float32"), DType("int4"), Quantized("int8", scale=0.5)),
    *(Shape([1, 2]), Shape([n, 2]), Shape([]), Shape(None), Shape([unknown])),
    *(n, n + 1, unknown, Sym.named("float32")),
    *(TensorType("float32"), TensorType("float32", [n]), TokenType(), OpaqueType("n")),
    *(Tensor.of([1, 2]), Tensor.of([1, 3]), Tensor.of([1.0, 2.0]), Tensor.of([[1, 2]])),
    *(FunctionRef("n"), FunctionRef("")),
    *(1j, 1 + 0j, complex(0.0, -1.0), complex(0.0, float("nan")), complex(-0.0, 1.0)),
]


def fed(value: object, **options: Any) -> str:
    state = hashlib.sha256()
    value_digest(value, state.update, **options)
    return state.hexdigest()


def test_each_is_the_same_as_itself_only() -> None:
    for i, a in enumerate(DIFFERENT):
        check_attr(a, "here")
        for j, b in enumerate(DIFFERENT):
            assert same_value(a, b) == (i == j), (a, b)
            assert (fed([a]) == fed([b])) == (i == j), (a, b)


def test_what_counts_as_the_same() -> None:
    nan = np.frombuffer(b"\x01\x00\x00\x00\x00\x00\xf8\xff").item()
    pairs: list[tuple[Any, Any]] = [
        ([1, [2]], (1, (2,))),
        (float("nan"), -float("nan")),
        ({"a": 1, "b": [2]}, {"b": (2,), "a": 1}),
        (Tensor.of([1, 1]), Tensor.splat("int64", (2,), 1)),
        (n + 1, 1 + n),
        (TensorType("float32", [2]), TensorType("float32", (2,))),
    ]
    assert isinstance(nan, int | float)
    for a, b in pairs:
        assert same_value(a, b)
        assert fed(a) == fed(b)


def test_tensors_by_type_alone() -> None:
    a, b = Tensor.of([1, 2]), Tensor.lazy(lambda: 1 / 0, "int64", (2,))
    assert same_value([a], [b], content=False)
    assert fed(a, content=False) == fed(b, content=False)
    assert not same_value(a, Tensor.of([1]), content=False)
    assert fed(a, content=False) != fed(Tensor.of([1]), content=False)


def test_dims_without_a_name_across_documents() -> None:
    x, y, u, v = (Sym.unknown() for _ in range(4))
    first, second = [Shape([x, y]), x], [Shape([u, v]), u]
    assert not same_value(first, second)
    assert same_value(first, second, symbols=(Symbols(), Symbols()))
    assert not same_value(first, [Shape([u, v]), v], symbols=(Symbols(), Symbols()))
    assert fed(first) == fed(second) != fed([Shape([u, v]), v])
    scope = Symbols()
    assert fed(y, symbols=scope) == fed(x) != fed(x, symbols=scope)


class Colour(enum.IntEnum):
    RED = 1


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "bad",
    [
        {1, 2},
        object(),
        np.float64(1),
        np.int64(1),
        np.ones(2),
        Colour.RED,
        Text("a"),
        np.complex64(1j),
        {1: 2},
        {"a": {None: 1}},
        "\ud800",
        2**300,
        bytearray(b"x"),
        len,
    ],
)
def test_anything_else_is_refused(bad: object) -> None:
    for value in (bad, [bad], {"a": (bad,)}):
        with pytest.raises(InvalidTypeError) as caught:
            check_attr(value, "attribute 'x'")
        assert caught.value.where == "attribute 'x'"


def test_the_refusal_says_what_to_do() -> None:
    with pytest.raises(InvalidTypeError) as caught:
        check_attr(np.float64(1.5), "attribute 'alpha'")
    assert str(caught.value).splitlines()[0] == "an attribute cannot hold a float64"
    assert "make it a plain Python value" in str(caught.value)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def cyclic() -> list[Any]:
    value: list[Any] = []
    value += [value, value]
    return value


def shared() -> list[Any]:
    value: list[Any] = []
    for _ in range(40):
        value = [value, value]
    return value


@pytest.mark.parametrize("make", [lambda: nested(100_000), cyclic, shared])
def test_absurd_ones_are_refused(make: Any) -> None:
    value = make()
    with pytest.raises(LimitError):
        check_attr(value, "here")
    with pytest.raises(LimitError):
        fed(value)
    with pytest.raises(LimitError):
        same_value(value, make())
    while value:  # freed from the outside: freeing a deep list may recurse
        value = value.pop()


def test_a_hundred_levels_are_fine() -> None:
    check_attr(nested(100), "here")
    assert same_value(nested(100), nested(100))
    assert not same_value(nested(100), nested(99))


leaves = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.floats(), st.text(max_size=3)
)
values = st.recursive(
    leaves | st.binary(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=examples(300), derandomize=True, deadline=None)
@given(values, values)
def test_hash_and_sameness_agree(a: Any, b: Any) -> None:
    assert same_value(a, a)
    assert same_value(a, b) == (fed(a) == fed(b))


@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((300, 200), (1, 0)),
        ((3, 5, 70, 90), (3, 2, 0, 1)),
        ((33, 65, 40), (2, 0, 1)),
        ((2, 300, 1, 130), (0, 3, 2, 1)),
        ((40000,), (0,)),
        ((3, 2), (1, 0)),
    ],
)
def test_contiguous_arrays_are_as_numpy_makes_them(shape, order):
    array = np.arange(np.prod(shape), dtype="float32").reshape(shape).transpose(order)
    found = contiguous_array(array)
    assert found.flags.c_contiguous
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)
