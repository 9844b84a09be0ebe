"""The checks of arguments of a function that is called often."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, Literal

import pytest

from amanda.argument_checks import check_member
from amanda.errors import UsageError

CALLS = 150  # more than it takes until the checks are compiled
NOTHING: Any = object()


@check_member
def combine(
    first: int, /, second: str, third: float = 0.5,
    *, mode: Literal["a", "b"] = "a", items: list[int] = NOTHING, function: Any = None,
) -> tuple[Any, ...]:  # fmt: skip
    if items is not NOTHING:
        sum(items)
    return first, second, third, mode, function


@check_member
class Counter:
    def __init__(self, start: int = 0) -> None:
        self.count = start

    def add(self, step: int, *more: int, times: int = 1) -> int:
        self.count += (step + sum(more)) * times
        return self.count

    def numbers(self, end: int) -> Iterator[int]:
        yield from range(self.count, end)


@pytest.fixture(scope="module", autouse=True, params=["first calls", "later calls"])
def calls(request: pytest.FixtureRequest) -> None:
    if request.param == "later calls":
        for _ in range(CALLS):
            combine(1, "x")
            counter = Counter(1)
            counter.add(1, 2, times=3)
            list(counter.numbers(2))


def test_the_code_is_compiled_for_the_parameters() -> None:
    checked: Any = check_member(lambda first, *, second=0: (first, second))
    names = [checked.__code__.co_varnames[:2]]
    for _ in range(CALLS):
        assert checked(1) == (1, 0)
    names.append(checked.__code__.co_varnames[:2])
    assert names == [("args", "kwargs"), ("first", "second")]
    assert list(inspect.signature(checked).parameters) == ["first", "second"]


def test_arguments_and_defaults() -> None:
    assert combine(1, "x") == (1, "x", 0.5, "a", None)
    assert combine(1, second="x", third=2) == (1, "x", 2, "a", None)
    assert combine(1, "x", 1.5, mode="b", function=7) == (1, "x", 1.5, "b", 7)
    assert Counter().count == 0
    assert Counter(start=4).add(1, 2, times=3) == 13
    assert list(Counter(2).numbers(4)) == [2, 3]


@pytest.mark.parametrize(
    ("given", "named", "parameter"),
    [
        (("1", "x"), {}, "first"),
        ((1, 2), {}, "second"),
        ((1, "x", "y"), {}, "third"),
        ((1, "x"), {"mode": "c"}, "mode"),
        ((1, "x"), {"items": 3}, "items"),
        ((1, "x"), {"items": ["a"]}, "items"),
    ],
)
def test_wrong_kinds(given: Any, named: Any, parameter: str) -> None:
    with pytest.raises(UsageError, match=f"combine.*\n.*argument '{parameter}'"):
        combine(*given, **named)


def test_wrong_kinds_of_methods() -> None:
    with pytest.raises(UsageError, match="argument 'start'"):
        Counter("a")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="argument 'more'"):
        Counter().add(1, "b")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="argument 'end'"):
        Counter().numbers("b")  # type: ignore[arg-type]


def test_missing_and_unknown_arguments() -> None:
    with pytest.raises(TypeError, match="second"):
        combine(1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="color"):
        combine(1, "x", color=1)  # type: ignore[call-arg]


@check_member
def fail(x: int, y: int = NOTHING) -> None:
    del x, y
    raise ValueError("for another reason")


def test_a_default_of_another_kind_explains_no_error() -> None:
    for _ in range(CALLS):
        with pytest.raises(ValueError, match="for another reason"):
            fail(1)
