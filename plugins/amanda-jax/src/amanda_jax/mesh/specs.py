"""What is divided along which axes of a mesh: told by names, patterns and rules.

Nothing here asks JAX: a mesh is its axes with their sizes, and what comes out says for
each input, weight and result by which of them each of its axes is divided.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from math import prod
from typing import Any, Final, NamedTuple

from amanda.errors import BackendError
from amanda_jax.mesh.policies import RULES

__all__ = [
    "WHOLE",
    "Asked",
    "Sizes",
    "Spec",
    "asked",
    "axes_of",
    "first",
    "misfit",
    "shares",
    "unused",
]

Part = str | tuple[str, ...] | None
Spec = tuple[Part, ...]
"""By which axes of the mesh each axis of an array is divided; the rest is whole."""
Sizes = Mapping[str, int]
Rule = tuple[str, str]
"""The name of a rule, and the axis of the mesh over which it divides."""
WHOLE: Final[Spec] = ()
_NONE: Final = "-"
"""In texts: an axis that is whole."""


class Asked(NamedTuple):
    """One line of `shardings`: for which names, and what."""

    pattern: str
    spec: Spec | None
    rules: tuple[Rule, ...] = ()

    def fits(self, name: str) -> bool:
        return name == self.pattern or fnmatchcase(name, self.pattern)


# -- reading -------------------------------------------------------------------------


def axes_of(given: Any) -> dict[str, int]:
    """The axes of a mesh with their sizes: a mapping, or `data=4, model=2`.

    >>> axes_of("data=4, model=2")
    {'data': 4, 'model': 2}
    """
    found: dict[Any, Any]
    if isinstance(given, str):
        pairs = [pair.partition("=") for pair in given.split(",") if pair.strip()]
        found = {
            name.strip(): int(size) if size.strip().isdecimal() else size
            for name, _, size in pairs
        }
    else:
        found = dict(given) if isinstance(given, Mapping) else {}
    right = (isinstance(k, str) and k and type(n) is int and n > 0
             for k, n in found.items())  # fmt: skip
    if not found or not all(right):
        raise BackendError(
            "the option 'mesh' of backend 'jax' cannot be read",
            expected="axes with their sizes, such as {'data': 4, 'model': 2} or "
            "data=4,model=2, or a jax.sharding.Mesh",
            got=repr(given),
        )
    return found


def asked(given: Any, sizes: Sizes) -> list[Asked]:
    """The lines of `shardings`, in order; the default ones where nothing is told."""
    if given is None:
        named = [(name, axis) for name, axis in _DEFAULT.items() if axis in sizes]
        return [Asked("*", None, tuple(named))]
    if isinstance(given, str):
        return list(_from_text(given, sizes))
    if not isinstance(given, Mapping):
        raise _unreadable(given)
    return [_line(str(pattern), value, sizes) for pattern, value in given.items()]


_DEFAULT: Final = {"batch": "data", "megatron": "model"}


def _from_text(given: str, sizes: Sizes) -> Iterator[Asked]:
    """`batch, fsdp` or `x=data; encoder.*.weight=-,model`."""
    for entry in filter(None, map(str.strip, given.split(";"))):
        pattern, equals, told = entry.rpartition("=")
        parts = [part.strip() for part in told.split(",")]
        if equals and all(p == _NONE or set(p.split("+")) <= {*sizes} for p in parts):
            spec = [None if p == _NONE else tuple(p.split("+")) for p in parts]
            yield _line(pattern.strip(), spec, sizes)
        else:
            yield _line(pattern.strip() if equals else "*", told, sizes)


def _line(pattern: str, value: Any, sizes: Sizes) -> Asked:
    if isinstance(value, str):
        names = [name.strip() for name in value.split(",")]
        return Asked(pattern, None, tuple(_rule(n, pattern, sizes) for n in names))
    try:
        spec = tuple(_part(part) for part in value or ())
    except TypeError:
        raise _unreadable({pattern: value}) from None
    used = [axis for part in spec for axis in shares(part)]
    for axis in used:
        _expect_axis(axis, pattern, sizes)
        if used.count(axis) > 1:
            raise BackendError(
                f"an array cannot be divided by the mesh axis {axis!r} twice",
                where=f"shardings[{pattern!r}]",
                got=str(spec),
            )
    return Asked(pattern, spec)


def _rule(text: str, pattern: str, sizes: Sizes) -> Rule:
    name, _, axis = text.partition(":")
    if name not in RULES:
        near = get_close_matches(name, [*RULES, *sizes], n=1)
        raise BackendError(
            f"there is no rule {name!r} by which arrays are divided",
            where=f"shardings[{pattern!r}]",
            expected=f"one of {', '.join(RULES)}, or a tuple with an axis of the mesh "
            f"or None for each axis of the array",
            hint=f"did you mean {near[0]!r}?" if near else None,
        )
    axis = axis or RULES[name].axis
    _expect_axis(axis, pattern, sizes, f"; {name}:AXIS divides over another one")
    return name, axis


def _part(part: Any) -> Part:
    if part is None or isinstance(part, str):
        return part
    names = tuple(part)
    if not all(isinstance(name, str) for name in names):
        raise TypeError
    return (names[0] if len(names) == 1 else names) if names else None


def _expect_axis(axis: str, pattern: str, sizes: Sizes, more: str = "") -> None:
    if axis not in sizes:
        near = get_close_matches(axis, sizes, n=1)
        raise BackendError(
            f"the mesh has no axis {axis!r}",
            where=f"shardings[{pattern!r}]",
            expected=f"one of {', '.join(sizes)}{more}",
            hint=f"did you mean {near[0]!r}?" if near else None,
        )


def _unreadable(given: Any) -> BackendError:
    return BackendError(
        "the option 'shardings' of backend 'jax' cannot be read",
        expected="{'x': ('data',), 'encoder.*.weight': (None, 'model')}, or rules: "
        + ", ".join(RULES),
        got=repr(given),
    )


# -- using ---------------------------------------------------------------------------


def shares(part: Part) -> tuple[str, ...]:
    """The axes of the mesh by which one axis is divided."""
    if part is None:
        return ()
    return (part,) if isinstance(part, str) else part


def misfit(spec: Spec, shape: Sequence[Any], sizes: Sizes) -> str:
    """Why an array of this shape cannot be divided so; nothing where it can.

    >>> misfit(("data",), (6, 8), {"data": 4})
    "its axis 0 has 6 elements, which the 4 devices along 'data' do not divide"
    """
    if len(spec) > len(shape):
        return f"it has {_axes(len(shape))}, and {spec} is for {len(spec)}"
    for i, (part, size) in enumerate(zip(spec, shape, strict=False)):
        parts = prod(sizes[axis] for axis in shares(part))
        if isinstance(size, int) and size % parts:
            along = " and ".join(map(repr, shares(part)))
            return (
                f"its axis {i} has {size} elements, which the {parts} devices along "
                f"{along} do not divide"
            )
    return ""


def _axes(count: int) -> str:
    return "1 axis" if count == 1 else f"{count} axes"


def unused(lines: Iterable[Asked], names: Sequence[str]) -> list[str]:
    """Patterns that name nothing, each with the name that may have been meant."""
    found = []
    for line in lines:
        if line.pattern == "*" or any(map(line.fits, names)):
            continue
        near = get_close_matches(line.pattern, names, n=1)
        meant = f"; did you mean {near[0]!r}?" if near else ""
        found.append(
            f"no input, weight or result is called {line.pattern!r}, as `shardings` "
            f"has it{meant}"
        )
    return found


def first(lines: Iterable[Asked], name: str) -> Asked | None:
    """The line that decides for a name."""
    return next((line for line in lines if line.fits(name)), None)
