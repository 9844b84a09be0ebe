"""The options `mesh` and `shardings`: how arrays are sharded, by name, pattern or
policy.

Nothing here uses JAX: a mesh is its axes with their sizes, and a spec names for each
axis of an input, weight or result the axes of the mesh that it is sharded over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from math import prod
from typing import Any, Final, NamedTuple

from amanda.errors import BackendError
from amanda_jax.mesh.policies import POLICIES

__all__ = [
    "WHOLE",
    "ShardingLine",
    "Sizes",
    "Spec",
    "parse_shardings",
    "parse_mesh_axes",
    "matching_line",
    "why_not_divisible",
    "mesh_axes_of",
    "unused_patterns",
]

Part = str | tuple[str, ...] | None
Spec = tuple[Part, ...]
"""The mesh axes that each axis of an array is sharded over; the rest is whole."""
Sizes = Mapping[str, int]
PolicyUse = tuple[str, str]
"""The name of a policy, and the axis of the mesh that it shards over."""
WHOLE: Final[Spec] = ()
_WHOLE_AXIS: Final = "-"
"""In strings: an axis that is whole."""


class ShardingLine(NamedTuple):
    """One line of `shardings`: a pattern of names, and a spec or policies."""

    pattern: str
    spec: Spec | None
    policies: tuple[PolicyUse, ...] = ()

    def matches(self, name: str) -> bool:
        return name == self.pattern or fnmatchcase(name, self.pattern)


# -- reading -------------------------------------------------------------------------


def parse_mesh_axes(value: Any) -> dict[str, int]:
    """The axes of a mesh with their sizes: a mapping, or `data=4, model=2`.

    >>> parse_mesh_axes("data=4, model=2")
    {'data': 4, 'model': 2}
    """
    result: dict[Any, Any]
    if isinstance(value, str):
        pairs = [pair.partition("=") for pair in value.split(",") if pair.strip()]
        result = {
            name.strip(): int(size) if size.strip().isdecimal() else size
            for name, _, size in pairs
        }
    else:
        result = dict(value) if isinstance(value, Mapping) else {}
    are_valid = (isinstance(k, str) and k and type(n) is int and n > 0
             for k, n in result.items())  # fmt: skip
    if not result or not all(are_valid):
        raise BackendError(
            "the option 'mesh' of backend 'jax' cannot be read",
            expected="axes with their sizes, such as {'data': 4, 'model': 2} or "
            "data=4,model=2, or a jax.sharding.Mesh",
            got=repr(value),
        )
    return result


def parse_shardings(value: Any, sizes: Sizes) -> list[ShardingLine]:
    """The lines of `shardings`, in order; the default ones for None."""
    if value is None:
        named = [(name, axis) for name, axis in _DEFAULT.items() if axis in sizes]
        return [ShardingLine("*", None, tuple(named))]
    if isinstance(value, str):
        return list(_parse_text(value, sizes))
    if not isinstance(value, Mapping):
        raise _unreadable_error(value)
    return [_parse_line(str(pattern), value, sizes) for pattern, value in value.items()]


_DEFAULT: Final = {"batch": "data", "megatron": "model"}


def _parse_text(value: str, sizes: Sizes) -> Iterator[ShardingLine]:
    """`batch, fsdp` or `x=data; encoder.*.weight=-,model`."""
    for entry in filter(None, map(str.strip, value.split(";"))):
        pattern, equals, specification = entry.rpartition("=")
        parts = [part.strip() for part in specification.split(",")]
        if equals and all(
            p == _WHOLE_AXIS or set(p.split("+")) <= {*sizes} for p in parts
        ):
            spec = [None if p == _WHOLE_AXIS else tuple(p.split("+")) for p in parts]
            yield _parse_line(pattern.strip(), spec, sizes)
        else:
            yield _parse_line(pattern.strip() if equals else "*", specification, sizes)


def _parse_line(pattern: str, value: Any, sizes: Sizes) -> ShardingLine:
    if isinstance(value, str):
        names = [name.strip() for name in value.split(",")]
        return ShardingLine(
            pattern, None, tuple(_policy_use(n, pattern, sizes) for n in names)
        )
    try:
        spec = tuple(_axis_part(part) for part in value or ())
    except TypeError:
        raise _unreadable_error({pattern: value}) from None
    used = [axis for part in spec for axis in mesh_axes_of(part)]
    for axis in used:
        _expect_mesh_axis(axis, pattern, sizes)
        if used.count(axis) > 1:
            raise BackendError(
                f"an array cannot be sharded over the mesh axis {axis!r} twice",
                where=f"shardings[{pattern!r}]",
                got=str(spec),
            )
    return ShardingLine(pattern, spec)


def _policy_use(text: str, pattern: str, sizes: Sizes) -> PolicyUse:
    name, _, axis = text.partition(":")
    if name not in POLICIES:
        similar = get_close_matches(name, [*POLICIES, *sizes], n=1)
        raise BackendError(
            f"there is no sharding policy {name!r}",
            where=f"shardings[{pattern!r}]",
            expected=f"one of {', '.join(POLICIES)}, or a tuple with an axis of the "
            f"mesh or None for each axis of the array",
            hint=f"did you mean {similar[0]!r}?" if similar else None,
        )
    axis = axis or POLICIES[name].axis
    _expect_mesh_axis(axis, pattern, sizes, f"; {name}:AXIS shards over another one")
    return name, axis


def _axis_part(part: Any) -> Part:
    if part is None or isinstance(part, str):
        return part
    names = tuple(part)
    if not all(isinstance(name, str) for name in names):
        raise TypeError
    return (names[0] if len(names) == 1 else names) if names else None


def _expect_mesh_axis(axis: str, pattern: str, sizes: Sizes, note: str = "") -> None:
    if axis not in sizes:
        similar = get_close_matches(axis, sizes, n=1)
        raise BackendError(
            f"the mesh has no axis {axis!r}",
            where=f"shardings[{pattern!r}]",
            expected=f"one of {', '.join(sizes)}{note}",
            hint=f"did you mean {similar[0]!r}?" if similar else None,
        )


def _unreadable_error(value: Any) -> BackendError:
    return BackendError(
        "the option 'shardings' of backend 'jax' cannot be read",
        expected="{'x': ('data',), 'encoder.*.weight': (None, 'model')}, or policies: "
        + ", ".join(POLICIES),
        got=repr(value),
    )


# -- using ---------------------------------------------------------------------------


def mesh_axes_of(part: Part) -> tuple[str, ...]:
    """The axes of the mesh that one axis is sharded over."""
    if part is None:
        return ()
    return (part,) if isinstance(part, str) else part


def why_not_divisible(spec: Spec, shape: Sequence[Any], sizes: Sizes) -> str:
    """Why an array of this shape cannot be sharded so; an empty string where it can.

    >>> why_not_divisible(("data",), (6, 8), {"data": 4})
    "its axis 0 has 6 elements, which the 4 devices along 'data' do not divide"
    """
    if len(spec) > len(shape):
        return f"it has {_axes(len(shape))}, and {spec} is for {len(spec)}"
    for i, (part, size) in enumerate(zip(spec, shape, strict=False)):
        parts = prod(sizes[axis] for axis in mesh_axes_of(part))
        if isinstance(size, int) and size % parts:
            along = " and ".join(map(repr, mesh_axes_of(part)))
            return (
                f"its axis {i} has {size} elements, which the {parts} devices along "
                f"{along} do not divide"
            )
    return ""


def _axes(count: int) -> str:
    return "1 axis" if count == 1 else f"{count} axes"


def unused_patterns(lines: Iterable[ShardingLine], names: Sequence[str]) -> list[str]:
    """A warning for each pattern that matches no name, with a similar name."""
    result = []
    for line in lines:
        if line.pattern == "*" or any(map(line.matches, names)):
            continue
        similar = get_close_matches(line.pattern, names, n=1)
        meant = f"; did you mean {similar[0]!r}?" if similar else ""
        result.append(
            f"no input, weight or result is called {line.pattern!r}, as "
            f"`shardings` names it{meant}"
        )
    return result


def matching_line(lines: Iterable[ShardingLine], name: str) -> ShardingLine | None:
    """The first line that matches a name."""
    return next((line for line in lines if line.matches(name)), None)
