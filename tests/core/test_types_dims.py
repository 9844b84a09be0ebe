"""The algebra of dims, against plain integers."""

import copy
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import examples

from amanda.errors import InvalidTypeError, LimitError, Undecided
from amanda.types import (
    Dim,
    Sym,
    Symbols,
    evaluate,
    maximum,
    minimum,
    parse_dim,
)
from amanda.types.lattice import dims_equal

pytestmark = pytest.mark.install_independent

n, m, k = (Sym.named(name) for name in "nmk")

# An expression is a name, an int, or (function, left, right).
Tree = Any

FUNCTIONS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "+": (operator.add, operator.add),
    "-": (operator.sub, operator.sub),
    "*": (operator.mul, operator.mul),
    "//": (operator.floordiv, operator.floordiv),
    "%": (operator.mod, operator.mod),
    "min": (min, minimum),
    "max": (max, maximum),
}

trees = st.recursive(
    st.sampled_from(["a", "b", "c"]) | st.integers(-6, 6),
    lambda inner: st.tuples(st.sampled_from(sorted(FUNCTIONS)), inner, inner),
    max_leaves=10,
)
sizes = st.fixed_dictionaries({name: st.integers(0, 9) for name in "abc"})


def number(tree: Tree, values: dict[str, int]) -> int:
    if isinstance(tree, tuple):
        plain, _ = FUNCTIONS[tree[0]]
        result: int = plain(number(tree[1], values), number(tree[2], values))
        return result
    return values[tree] if isinstance(tree, str) else tree


def dim(tree: Tree, symbols: dict[str, Sym]) -> Dim:
    if isinstance(tree, tuple):
        _, ours = FUNCTIONS[tree[0]]
        result: Dim = ours(dim(tree[1], symbols), dim(tree[2], symbols))
        return result
    return symbols[tree] if isinstance(tree, str) else tree


def built(tree: Tree, anonymous: bool = False) -> Dim:
    symbols = {name: Sym.unknown() if anonymous else Sym.named(name) for name in "abc"}
    try:
        return dim(tree, symbols)
    except (ZeroDivisionError, InvalidTypeError):
        assume(False)
        raise


def numbers(tree: Tree, values: dict[str, int]) -> int:
    try:
        return number(tree, values)
    except ZeroDivisionError:
        assume(False)
        raise


@settings(max_examples=examples(500), derandomize=True, deadline=None)
@given(trees, sizes)
def test_the_normal_form_has_the_value_of_the_expression(
    tree: Tree, values: dict[str, int]
) -> None:
    expected = numbers(tree, values)
    assert evaluate(built(tree), values) == expected


@settings(max_examples=examples(300), derandomize=True, deadline=None)
@given(trees, trees, sizes)
def test_what_a_comparison_answers_holds_for_all_sizes(
    left: Tree, right: Tree, values: dict[str, int]
) -> None:
    x, y = numbers(left, values), numbers(right, values)
    for compare in (operator.eq, operator.ne, operator.lt, operator.le, operator.gt):
        try:
            answer = compare(built(left), built(right))
        except Undecided:
            continue
        assert answer == compare(x, y), compare


@settings(max_examples=examples(300), derandomize=True, deadline=None)
@given(trees)
def test_the_text_is_read_back(tree: Tree) -> None:
    found = built(tree)
    again = parse_dim(str(found))
    assert str(again) == str(found)
    assert dims_equal(again, found) is True
    assert getattr(again, "key", again) == getattr(found, "key", found)


@settings(max_examples=examples(300), derandomize=True, deadline=None)
@given(st.lists(trees, min_size=1, max_size=3), st.randoms(use_true_random=False))
def test_a_document_with_anonymous_dims_is_written_the_same_again(
    expressions: list[Tree], random: Any
) -> None:
    symbols = [Sym.unknown() for _ in "abc"]
    random.shuffle(symbols)
    dims = []
    for tree in expressions:
        try:
            dims.append(dim(tree, dict(zip("abc", symbols, strict=True))))
        except (ZeroDivisionError, InvalidTypeError):
            assume(False)
    first, reading, second = Symbols(), Symbols(), Symbols()
    texts = [d.text(first) if isinstance(d, Sym) else str(d) for d in dims]
    again = [parse_dim(text, reading) for text in texts]
    assert [d.text(second) if isinstance(d, Sym) else str(d) for d in again] == texts


@settings(max_examples=examples(200), derandomize=True, deadline=None)
@given(trees, trees, trees)
def test_laws_hold_in_the_written_form(x: Tree, y: Tree, z: Tree) -> None:
    a, b, c = (built(tree) for tree in (x, y, z))

    def key(value: Dim) -> object:
        return value.key if isinstance(value, Sym) else value

    assert key(a + b) == key(b + a)
    assert key(a * b) == key(b * a)
    assert key((a + b) + c) == key(a + (b + c))
    assert key((a * b) * c) == key(a * (b * c))
    assert key(a * (b + c)) == key(a * b + a * c)
    assert key(a - b) == key(-(b - a))
    assert key(minimum(minimum(a, b), c)) == key(minimum(a, minimum(c, b)))
    assert key(maximum(a, b, c)) == key(maximum(c, maximum(b, a)))


def test_exact_division() -> None:
    assert ((n * m) // n).key == m.key
    assert ((2 * n) // 2).key == n.key
    assert (((n + 1) * (m + 2)) // (n + 1)).key == (m + 2).key
    assert (((n + 1) * (n + 1)) // (n + 1)).key == (n + 1).key
    assert (n // n, n % 1, (2 * n) % 2, n % n, 0 // n) == (1, 0, 0, 0, 0)
    assert ((n * m + k) // n).key == (m + k // n).key
    assert ((n // 2) // 3).key == (n // 6).key
    assert (((n - 1) // 2 + 1) // 2).key == ((n + 1) // 4).key
    assert n // (n + 1) == 0
    assert (n + (-n) % 8) % 8 == 0


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("n", "n"),
        ("1+n*2", "2*n+1"),
        ("n*m+n*n-1", "m*n+n*n-1"),
        ("(n+1)//2", "(n+1)//2"),
        ("-(n//2)", "-(n//2)"),
        ("3*(n//2)", "3*(n//2)"),
        ("m//n//k", "m//(k*n)"),
        ("n%2", "n-2*(n//2)"),
        ("min(n, 3, m)", "min(3, m, n)"),
        ("max(n, 0)", "n"),
        ("min(max(n,2),1)", "1"),
        ('"a b" + 1', '"a b"+1'),
        ('"min"*2', '2*"min"'),
        ("--3", "3"),
        ("past.seq_len", "past.seq_len"),
        (" ( n ) ", "n"),
    ],
)
def test_forms(text: str, form: str) -> None:
    assert str(parse_dim(text)) == form
    assert str(parse_dim(form)) == form


def test_proofs() -> None:
    assert n + 1 > 0
    assert n >= 0
    assert n + 1 != 0
    assert n + 1 != n
    assert not n < 0
    assert 2 * n + 1 != 2 * m
    assert maximum(n, m) >= n
    assert minimum(n, m) <= m
    assert maximum(n, m) <= n + m
    assert n % 4 < 4
    assert n % 4 >= 0
    assert n % m < m
    assert (n + 7) // 8 * 8 >= n
    assert (n + 7) // 8 * 8 < n + 8
    assert n // 2 <= n
    assert bool(n + 1)
    assert n == +n
    assert minimum(n, 2) < 3


@pytest.mark.parametrize(
    "question",
    [
        lambda: n == 4,
        lambda: n != m,
        lambda: n < m,
        lambda: n > 0,
        lambda: bool(n),
        lambda: int(n),
        lambda: range(n),
        lambda: evaluate(n + m, {"n": 1}),
        lambda: Sym.unknown() == Sym.unknown(),
    ],
)
def test_what_cannot_be_proved_is_undecided(question: Callable[[], object]) -> None:
    with pytest.raises(Undecided):
        question()


def test_undecided_names_both_sides() -> None:
    with pytest.raises(Undecided, match=r"cannot tell whether n\+1 <= m"):
        assert n + 1 <= m
    with pytest.raises(Undecided, match=r"cannot tell whether n >= 4"):
        assert n >= 4


def test_other_things_are_not_equal_to_a_dim() -> None:
    assert n != "n"
    assert n != None  # noqa: E711
    with pytest.raises(TypeError):
        n + "n"  # type: ignore[operator]


def test_numpy_integers_take_part() -> None:
    assert (np.int64(2) * n).key == (2 * n).key
    assert (n + np.int32(1)).key == (n + 1).key


def test_substitute() -> None:
    unknown = Sym.unknown()
    found = (n * m + unknown // 2).substitute({"n": 3, "m": k, unknown: 9})
    assert isinstance(found, Sym)
    assert str(found) == "3*k+4"
    assert maximum(n, m).substitute({"n": 2, "m": 5}) == 5
    assert n.free == {n}
    assert {str(symbol) for symbol in (n // m + 1).free} == {"n", "m"}
    with pytest.raises(InvalidTypeError, match="plain symbol"):
        n.substitute({n + 1: 2})  # type: ignore[dict-item]


def test_identity() -> None:
    assert hash(n + n) == hash(2 * n)
    assert Sym.named("n").key == n.key
    unknown = Sym.unknown()
    assert unknown == unknown
    assert unknown.key != Sym.unknown().key
    for value in (unknown, n // 2 + unknown):
        assert isinstance(value, Sym)
        assert pickle.loads(pickle.dumps(value)).key == value.key
        assert copy.deepcopy(value).key == value.key
    assert n.name == "n"
    assert (n + 1).name is None  # type: ignore[union-attr]
    assert unknown.is_anonymous
    with pytest.raises(AttributeError):
        n.terms = ()


def test_zero_division() -> None:
    with pytest.raises(InvalidTypeError, match="divided by zero"):
        n // 0
    with pytest.raises(InvalidTypeError, match="divided by zero"):
        parse_dim("3 // (n - n)")
    with pytest.raises(InvalidTypeError, match="divided by zero"):
        (k // n).substitute({"n": 0})  # type: ignore[union-attr]


def _grown(step: Callable[[Any], Any]) -> Dim:
    value: Any = n
    for _ in range(2000):
        value = step(value)
    return value  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    "step",
    [
        lambda x: x * x,
        lambda x: (x * x + 1) // 3,
        lambda x: x * (Sym.unknown() + 1),
        lambda x: x + Sym.unknown(),
        lambda x: maximum(x // 3, Sym.unknown() // 5, 1) // 7 * k,
        lambda x: x * 12345678901234567890,
        lambda x: minimum(x, Sym.unknown()),
        lambda x: (x + m) % (x + k),
    ],
)
def test_absurd_expressions_are_refused_soon(step: Callable[[Any], Any]) -> None:
    with pytest.raises(LimitError, match="absurd"):
        _grown(step)
