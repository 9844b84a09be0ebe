"""Lenses: partial bijections between two representations of one argument.

`do` converts a variable to the value on the side where the lens is written, `undo`
converts it back. Either may decline a value, with a reason. A test checks these laws
for every lens, on values from its `draw`:

    do(undo(do(v))) == do(v)        and the other way round
    undo(do(v)) == v                for an `exact` lens

A lens that is not exact may change how a value is written, not its meaning: axis -1 of
three comes back as axis 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from amanda.errors import AmandaError, UsageError
from amanda.mapping.side import Decline

__all__ = ["Draw", "Lens", "find_broken_law", "make_table", "equivalent_values"]

Draw = Callable[[Random], tuple[Any, ...]]
"""Draws a value for `do`, with the context that belongs to it."""

# Errors of a function that is called with unsupported values.
_FAILURES = (AmandaError, ArithmeticError, AttributeError, LookupError, TypeError,
             ValueError)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Lens:
    """One lens. `do` and `undo` are called with the value, then the context."""

    name: str
    do: Callable[..., Any]
    undo: Callable[..., Any]
    draw: Draw
    doc: str
    partial: str = ""
    """What it declines; empty where it supports all meaningful values."""
    exact: bool = True
    takes_none: bool = False
    """Whether it is called for None; otherwise None is passed through."""
    rows: tuple[tuple[Any, Any], ...] | None = None
    """The rows of a lens that is a table."""

    def forth(self, value: Any, context: Iterable[Any] = ()) -> Any:
        """`do`, with every failure as a Decline."""
        return self._run(self.do, value, context)

    def back(self, value: Any, context: Iterable[Any] = ()) -> Any:
        """`undo`, with every failure as a Decline."""
        return self._run(self.undo, value, context)

    def _run(
        self, function: Callable[..., Any], value: Any, context: Iterable[Any]
    ) -> Any:
        if value is None and not self.takes_none:
            return None
        try:
            return function(value, *context)
        except Decline:
            raise
        except _FAILURES as error:
            cause = error.message if isinstance(error, AmandaError) else str(error)
            what = f"{self.name} does not support {_shorten(value)}"
            raise Decline(what, got=f"{type(error).__name__}: {cause}") from error

    def __str__(self) -> str:
        return self.name


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def find_broken_law(lens: Lens, random: Random) -> str:
    """The law that a lens breaks on drawn values; empty if it keeps them all.

    Values that it declines, in either direction, break none.
    """
    value, *context = lens.draw(random)
    try:
        there = lens.forth(value, context)
        back = lens.back(there, context)
    except Decline:
        return ""
    if not equivalent_values(lens.forth(back, context), there):
        return f"{_shorten(value)} becomes {_shorten(there)}, but not the second time"
    if lens.exact and not equivalent_values(back, value):
        return f"{_shorten(value)} comes back as {_shorten(back)}"
    return ""


def make_table(
    name: str,
    rows: Mapping[Any, Any] | Iterable[tuple[Any, Any]],
    doc: str = "",
) -> Lens:
    """A lens that is a table: left the values of variables, right those of this side.

    Where a value is in several rows the first counts, so that several spellings may
    have one meaning.

    >>> mode = make_table("mode", {"constant": "fill", "edge": "copy"})
    >>> mode.forth("edge"), mode.back("fill")
    ('copy', 'constant')
    """
    pairs = list(rows.items()) if isinstance(rows, Mapping) else list(rows)
    if not pairs:
        raise UsageError(f"the table {name!r} is empty")
    forth: dict[Any, Any] = {}
    back: dict[Any, Any] = {}
    for left, right in pairs:
        forth.setdefault(_key(left), right)
        back.setdefault(_key(right), left)

    def look(table: dict[Any, Any], value: Any) -> Any:
        if (key := _key(value)) not in table:
            known = ", ".join(repr(k[1]) for k in table)
            raise Decline(f"{_shorten(value)} is not in the table {name}: {known}")
        return table[key]

    return Lens(
        name,
        lambda value: look(forth, value),
        lambda value: look(back, value),
        lambda random: (random.choice(pairs)[0],),
        doc or f"the table {name}",
        partial="what is not in the table",
        exact=len(forth) == len(back) == len(pairs),
        takes_none=any(left is None or right is None for left, right in pairs),
        rows=tuple(pairs),
    )


def _key(value: Any) -> Any:
    """A dict key under which True, 1 and 1.0 differ; lists may be keys too."""
    if isinstance(value, list | tuple):
        return ("list", tuple(map(_key, value)))
    return (type(value).__name__, value)


def equivalent_values(a: Any, b: Any) -> bool:
    """Whether two plain values are equal for rules.

    Lists equal tuples, and a number equals its float32 form, since formats store
    attributes as float32 while dictionaries and rules have decimal numbers.

    >>> equivalent_values([1, 2], (1, 2))
    True
    >>> equivalent_values(1e-05, 9.999999747378752e-06)
    True
    >>> equivalent_values("1", 1)
    False
    """
    if isinstance(a, list | tuple):
        if not isinstance(b, list | tuple) or len(a) != len(b):
            return False
        return all(map(equivalent_values, a, b))
    if a is b:
        return True
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (a != a and b != b) or _narrow(a) == b or a == _narrow(b)
    compare = getattr(a, "same_content", None)
    if compare is not None:
        return hasattr(b, "same_content") and bool(compare(b))
    return (type(a) is type(b) and bool(a == b)) or _same_number(a, b)


def _same_number(a: Any, b: Any) -> bool:
    return isinstance(a, int | float) and isinstance(b, int | float) and a == b


def _narrow(value: float) -> float:
    """The nearest float32."""
    from struct import pack, unpack

    try:
        return unpack("<f", pack("<f", value))[0]  # type: ignore[no-any-return]
    except OverflowError:
        return value
