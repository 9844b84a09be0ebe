"""Feeds: bound to the inputs, and checked.

Checks depend only on dtypes and shapes, so feeds with the dtypes and shapes of the last
call are not checked again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from operator import attrgetter, itemgetter
from typing import Any

from amanda.backend._protocols import FeedSlot, Key
from amanda.errors import AmandaError, InvalidTypeError, UsageError
from amanda.tensors.loaded import loaded_class
from amanda.types import (
    DType,
    MapType,
    RefType,
    SequenceType,
    Shape,
    Sym,
    TensorType,
    TupleType,
    Type,
    evaluate,
)

__all__ = ["Feeds", "SharedDimError", "feed_error", "feed_faults", "feeds_by_key"]

_LISTS = (list, tuple)
_FORM = attrgetter("__class__", "dtype", "shape")
_HOLDERS: tuple[tuple[type[Type], type, str], ...] = (
    (SequenceType, list, "a list"),
    (TupleType, tuple, "a tuple"),
    (MapType, dict, "a dict"),
)


class SharedDimError(UsageError):
    """Feeds that have several sizes for one symbolic dim, and are otherwise valid."""


class Feeds:
    """The inputs of a compiled graph. Thread-safe."""

    __slots__ = (
        "_by_key", "_count", "_defaults", "_forms", "_key_of", "_key_set", "_keys",
        "slots",
    )  # fmt: skip

    def __init__(
        self, slots: Sequence[FeedSlot], key_of: Callable[[Any], Any] | None = None
    ) -> None:
        self.slots = tuple(slots)
        self._key_of = key_of
        """Converts a handle of an input to its key."""
        self._keys = tuple(slot.key for slot in slots)
        self._key_set = frozenset(self._keys)
        self._count = len(self._keys)
        self._defaults = {
            slot.key: slot.default.numpy()
            for slot in self.slots
            if slot.default is not None
        }
        self._by_key: Callable[[Any], tuple[Any, ...]] = (
            itemgetter(*self._keys)
            if self._count > 1
            else lambda feeds: tuple(feeds[key] for key in self._keys)
        )
        self._forms: list[tuple[Any, Any, Any]] | None = None
        """Classes, dtypes and shapes of the last valid feeds; None if unknown."""

    def bind(self, feeds: Mapping[Any, Any] | Sequence[Any]) -> dict[Key, Any]:
        """The feed of each input, by key; an error lists all that do not match."""
        if feeds.__class__ is dict:
            if feeds.keys() == self._key_set:  # by hash: handles are never compared
                values = [feeds[key] for key in self._keys]
                if self._are_as_before(values):
                    return dict(zip(self._keys, values, strict=False))
        elif (
            feeds.__class__ in _LISTS
            and len(feeds) == self._count
            and self._are_as_before(feeds)
        ):
            return dict(zip(self._keys, feeds, strict=False))
        return self._looked_at(feeds)

    def values_in_order(
        self, feeds: Mapping[Any, Any] | Sequence[Any]
    ) -> tuple[Any, ...] | None:
        """The values of feeds in the order of the inputs, unchecked; None where feeds
        are neither a dict nor a list, or not as many as the inputs.

        KeyError: a feed is missing."""
        if len(feeds) == self._count:
            if feeds.__class__ is dict:
                return self._by_key(feeds)
            if feeds.__class__ in _LISTS:
                return (*feeds,)
        return None

    def _are_as_before(self, values: Iterable[Any]) -> bool:
        try:
            return list(map(_FORM, values)) == self._forms
        except (AttributeError, TypeError):  # not arrays of numpy
            return False

    def _looked_at(self, feeds: Mapping[Any, Any] | Sequence[Any]) -> dict[Key, Any]:
        given = {**self._defaults, **self._bind_in_order(feeds)}
        problems = list(_unknown_feeds(given, self._keys))
        problems += [f"no feed for {key!r}" for key in self._keys if key not in given]
        in_order = len(given) == self._count and not problems
        values = [given[key] for key in self._keys] if in_order else []
        if in_order and self._are_as_before(values):
            return dict(zip(self._keys, values, strict=True))
        problems += _feed_fault(self.slots, given)
        conflicts = shared_dim_faults(self.slots, given)
        if problems or conflicts:
            raise feed_error(self.slots, problems, conflicts)
        values = [
            value if isinstance(slot.type, RefType) else _plain_array(value)
            for slot, value in zip(self.slots, values, strict=False)
        ]
        forms = [_describe_array(value) for value in values]
        self._forms = None if None in forms else forms  # type: ignore[assignment]
        return dict(zip(self._keys, values, strict=True))

    def _bind_in_order(
        self, feeds: Mapping[Any, Any] | Sequence[Any]
    ) -> dict[Any, Any]:
        if isinstance(feeds, Mapping):
            return feeds_by_key(feeds, self._key_of) if self._key_of else dict(feeds)
        if not isinstance(feeds, list | tuple):
            raise UsageError(
                "feeds are a dict by name, or a list in the order of the inputs",
                got=type(feeds).__name__,
            )
        if len(feeds) != self._count:
            number = "1 value is" if len(feeds) == 1 else f"{len(feeds)} values are"
            raise feed_error(self.slots, [f"{number} fed"])
        return dict(zip(self._keys, feeds, strict=True))


def feed_error(
    slots: Iterable[FeedSlot], problems: Sequence[str], conflicts: Sequence[str] = ()
) -> UsageError:
    """The error for feeds; `conflicts` are different sizes of shared dims."""
    inputs = ", ".join(map(str, slots)) or "nothing"
    kind = UsageError if problems else SharedDimError
    return kind(
        "the feeds do not match the graph",
        expected=inputs,
        problems=[*problems, *conflicts],
    )


def feeds_by_key(
    feeds: Mapping[Any, Any], key_of: Callable[[Any], Any]
) -> dict[Any, Any]:
    """Feeds with the keys of inputs in the place of handles."""
    given: dict[Any, Any] = {}
    for key, value in feeds.items():
        place = key_of(key)
        if place in given:
            raise UsageError(f"the input {place!r} is fed twice")
        given[place] = value
    return given


def feed_faults(
    slots: Sequence[FeedSlot], given: Mapping[Any, Any]
) -> tuple[list[str], list[str]]:
    """The faults of feeds, some of which may be missing: of each, and shared dims."""
    unknown = _unknown_feeds(given, [slot.key for slot in slots])
    faults = [*unknown, *_feed_fault(slots, given)]
    return faults, shared_dim_faults(slots, given)


def _describe_array(value: Any) -> tuple[Any, Any, Any] | None:
    """Class, dtype and shape of an array; None for other values."""
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if dtype is None or not isinstance(shape, tuple):
        return None  # values that dtype and shape do not describe completely
    if dtype == object:  # noqa: E721  a dtype of numpy, which need not be imported
        return None  # the objects inside may differ
    return value.__class__, dtype, shape


def _unknown_feeds(given: Iterable[Any], keys: Sequence[Key]) -> Iterator[str]:
    for key in given:
        if key not in keys:
            names = [name for name in keys if isinstance(name, str)]
            near = get_close_matches(str(key), names, n=1)
            yield f"no input {key!r}" + (f"; did you mean {near[0]!r}?" if near else "")


def _feed_fault(slots: Iterable[FeedSlot], given: Mapping[Any, Any]) -> Iterator[str]:
    """Feeds whose shape or dtype differs from that of their input."""
    for slot in slots:
        if slot.key not in given:
            continue
        value = given[slot.key]
        shape = getattr(value, "shape", None)
        if not isinstance(slot.type, TensorType):
            wrong = _wrong_holder(slot.type, value)
        elif not isinstance(shape, tuple):
            continue
        else:
            wrong = _wrong_type(slot.type, value) or _wrong_shape(slot.type, shape)
        if wrong:
            yield f"{slot.key!r} is {wrong}"


def shared_dim_faults(slots: Iterable[FeedSlot], given: Mapping[Any, Any]) -> list[str]:
    """Feeds with another size of a symbolic dim than those before them, one by one.

    An expression is compared with its value where all its symbols have sizes."""
    rows = [row for slot in slots for row in _symbolic_dims(slot, given)]
    sizes: dict[object, tuple[int, Key]] = {}
    for slot, _, dim, size in rows:
        sizes.setdefault(dim.key, (size, slot.key))
    faults: dict[Key, str] = {}
    for slot, shape, dim, size in rows:
        symbols = sorted(dim.free, key=str)
        are_known = all(symbol.key in sizes for symbol in symbols)
        known = {each: sizes[each.key] for each in (symbols if are_known else [dim])}
        wanted = _value_of(dim, known) if are_known else sizes[dim.key][0]
        if wanted not in (size, None):
            where = ", ".join(f"{d} is {n} by {key!r}" for d, (n, key) in known.items())
            has = _has_shape(shape, slot.type.shape)  # type: ignore[union-attr]
            faults.setdefault(slot.key, f"{slot.key!r} is {has} where {where}")
    return list(faults.values())


def _value_of(dim: Sym, known: Mapping[Sym, tuple[int, Key]]) -> int | None:
    """The value of an expression; None where its symbols cannot have these values."""
    try:
        return evaluate(dim, {symbol: size for symbol, (size, _) in known.items()})
    except AmandaError:
        return None


def _symbolic_dims(
    slot: FeedSlot, given: Mapping[Any, Any]
) -> Iterator[tuple[FeedSlot, tuple[int, ...], Sym, int]]:
    """The symbolic dims of an input, with the shape and the sizes of its feed."""
    shape = getattr(given.get(slot.key), "shape", None)
    wanted = slot.type.shape if isinstance(slot.type, TensorType) else Shape(None)
    if wanted.has_rank and isinstance(shape, tuple) and len(shape) == wanted.rank:
        for dim, size in zip(wanted, shape, strict=True):
            if isinstance(dim, Sym):
                yield slot, shape, dim, size


def _wrong_holder(wanted: Type | None, value: Any) -> str:
    for kind, holder, called in _HOLDERS:
        if isinstance(wanted, kind) and not isinstance(value, holder):
            return f"{type(value).__name__}, not {called}"
    return ""


def _wrong_type(wanted: Any, value: Any) -> str:
    if not isinstance(wanted.dtype, DType) or wanted.dtype.kind == "unknown":
        return ""
    try:
        got: Any = DType.of(value)
    except InvalidTypeError:
        got = getattr(value, "dtype", None)  # which Amanda does not have
    except (AmandaError, AttributeError, TypeError, ValueError):
        got = None
    if got is None:
        return ""  # for the backend to check
    return f"{got}, not {wanted.dtype}" if got is not wanted.dtype else ""


def _plain_array(value: Any) -> Any:
    """An array of numpy as backends expect it: of no subclass, whose methods do other
    things, such as `matrix`, and in the byte order of this machine."""
    array_class: Any = loaded_class("numpy", "ndarray")
    if array_class is None or not isinstance(value, array_class):
        return value
    plain: Any = value
    if value.__class__ is not array_class:
        if getattr(value, "mask", False) is not False and value.mask.any():
            raise UsageError(
                "a masked array with masked elements cannot be fed",
                hint="array.filled(value) gives these elements a value",
            )
        plain = value.view(array_class)
    if plain.dtype.isnative:
        return plain
    return plain.astype(plain.dtype.newbyteorder("="))


def _wrong_shape(type_: TensorType, shape: Sequence[int]) -> str:
    wanted = type_.shape
    if not wanted.has_rank:
        return ""
    fits = wanted.rank == len(shape) and all(
        isinstance(dim, Sym) or dim == size
        for dim, size in zip(wanted.dims, shape, strict=True)
    )
    return "" if fits else _has_shape(shape, wanted)


def _has_shape(shape: Sequence[int], wanted: Shape) -> str:
    return f"of shape {list(shape)}, not {wanted}"
