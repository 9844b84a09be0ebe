"""The error tree: as drawn, with its exit codes, and the text that people see."""

from __future__ import annotations

import pickle
import re

import pytest

from amanda import errors
from amanda.errors import AmandaError

DRAWN = re.compile(
    r"^(?P<bars>[ |`-]*)(?P<name>[A-Z]\w+) +(?P<code>\d+)?", re.MULTILINE
)


# without the class of warnings
ERRORS = [n for n in errors.__all__ if issubclass(getattr(errors, n), AmandaError)]


def drawn() -> dict[str, tuple[str | None, int | None]]:
    """Name -> parent and exit code, as the docstring of the module draws them."""
    assert errors.__doc__ is not None
    tree: dict[str, tuple[str | None, int | None]] = {}
    path: list[tuple[int, str]] = []
    for line in errors.__doc__.splitlines()[2:]:
        found = DRAWN.match(line)
        if found is None:
            break
        depth = len(found["bars"])
        while path and path[-1][0] >= depth:
            path.pop()
        code = None if found["code"] is None else int(found["code"])
        tree[found["name"]] = (path[-1][1] if path else None, code)
        path.append((depth, found["name"]))
    return tree


def test_the_tree_is_as_drawn() -> None:
    tree = drawn()
    assert sorted(tree) == sorted(ERRORS)
    for name, (parent, code) in tree.items():
        kind = getattr(errors, name)
        base = kind.__mro__[1]
        assert base.__name__ == (parent or "Exception"), name
        if code is not None and name != "AmandaError":
            assert kind.exit_code == code, name
        assert kind.__doc__


FULL = """\
the model cannot be read
  who:      model.onnx
  where:    node 3
  expected: a name
  got:      ''
  to do:    name it
  - first
  - second"""


def test_the_text_tells_who_where_expected_got_and_what_to_do() -> None:
    error = errors.FormatError(
        "the model cannot be read",
        who="model.onnx",
        where="node 3",
        expected="a name",
        got="''",
        hint="name it",
        problems=["first", "second"],
    )
    assert str(error) == FULL
    assert error.parts()["to do"] == "name it"
    assert error.problems == ("first", "second")
    assert error.exit_code == 1


def test_parts_that_are_not_known_are_left_out() -> None:
    assert str(errors.UsageError("no")) == "no"
    assert errors.UsageError("no").parts() == {}


def test_many_problems_are_counted() -> None:
    error = errors.ConversionError("gaps", problems=map(str, range(25)))
    assert str(error).splitlines()[-2:] == ["  - 19", "  ... and 5 more"]
    assert len(error.problems) == 25


@pytest.mark.parametrize("name", ERRORS)
def test_errors_travel_between_processes(name: str) -> None:
    error = getattr(errors, name)("m", who="w", problems=["p"])
    twin = pickle.loads(pickle.dumps(error))
    assert type(twin) is type(error)
    assert isinstance(twin, AmandaError)
    assert str(twin) == str(error)
    assert twin.problems == ("p",)
