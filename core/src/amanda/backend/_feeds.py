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
from amanda.errors import AmandaError, UsageError
from amanda.types import (
    DType,
    MapType,
    SequenceType,
    Shape,
    TensorType,
    TupleType,
    Type,
)

__all__ = ["Feeds", "feed_faults", "feeds_by_key"]

_LISTS = (list, tuple)
_FORM = attrgetter("dtype", "shape")
_HOLDERS: tuple[tuple[type[Type], type, str], ...] = (
    (SequenceType, list, "a list"),
    (TupleType, tuple, "a tuple"),
    (MapType, dict, "a dict"),
)


class Feeds:
    """The inputs of a compiled graph. Thread-safe."""

    __slots__ = (
        "_by_key", "_count", "_forms", "_key_of", "_key_set", "_keys", "slots",
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
        self._by_key: Callable[[Any], tuple[Any, ...]] = (
            itemgetter(*self._keys)
            if self._count > 1
            else lambda feeds: tuple(feeds[key] for key in self._keys)
        )
        self._forms: list[tuple[Any, Any]] | None = None
        """Dtypes and shapes of the last valid feeds; None if unknown."""

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
        given = self._bind_in_order(feeds)
        problems = list(_unknown_feeds(given, self._keys))
        problems += [f"no feed for {key!r}" for key in self._keys if key not in given]
        in_order = len(given) == self._count and not problems
        values = [given[key] for key in self._keys] if in_order else []
        if in_order and self._are_as_before(values):
            return dict(zip(self._keys, values, strict=True))
        problems += _feed_fault(self.slots, given)
        if problems:
            raise self._feed_error(problems)
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
            raise self._feed_error([f"{number} fed"])
        return dict(zip(self._keys, feeds, strict=True))

    def _feed_error(self, problems: list[str]) -> UsageError:
        inputs = ", ".join(map(str, self.slots)) or "nothing"
        return UsageError(
            "the feeds do not match the graph", expected=inputs, problems=problems
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


def feed_faults(slots: Sequence[FeedSlot], given: Mapping[Any, Any]) -> list[str]:
    """The faults of feeds, some of which may be missing."""
    return [
        *_unknown_feeds(given, [slot.key for slot in slots]),
        *_feed_fault(slots, given),
    ]


def _describe_array(value: Any) -> tuple[Any, Any] | None:
    """Dtype and shape of an array; None for other values."""
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if dtype is None or not isinstance(shape, tuple):
        return None  # values that dtype and shape do not describe completely
    if dtype == object:  # noqa: E721  a dtype of numpy, which need not be imported
        return None  # the objects inside may differ
    return dtype, shape


def _unknown_feeds(given: Iterable[Any], keys: Sequence[Key]) -> Iterator[str]:
    for key in given:
        if key not in keys:
            names = [name for name in keys if isinstance(name, str)]
            near = get_close_matches(str(key), names, n=1)
            yield f"no input {key!r}" + (f"; did you mean {near[0]!r}?" if near else "")


def _feed_fault(slots: Iterable[FeedSlot], given: Mapping[Any, Any]) -> Iterator[str]:
    """Feeds whose shape or dtype differs from that of their input."""
    sizes: dict[object, tuple[int, Key]] = {}
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
            wrong = _wrong_type(slot.type, value) or _wrong_shape(slot, shape, sizes)
        if wrong:
            yield f"{slot.key!r} is {wrong}"


def _wrong_holder(wanted: Type | None, value: Any) -> str:
    for kind, holder, called in _HOLDERS:
        if isinstance(wanted, kind) and not isinstance(value, holder):
            return f"{type(value).__name__}, not {called}"
    return ""


def _wrong_type(wanted: Any, value: Any) -> str:
    try:
        got = DType.of(value)
    except (AmandaError, AttributeError, TypeError, ValueError):
        return ""  # for the backend to check
    known = isinstance(wanted.dtype, DType) and wanted.dtype.kind != "unknown"
    return f"{got}, not {wanted.dtype}" if known and got is not wanted.dtype else ""


def _wrong_shape(
    slot: FeedSlot, shape: Sequence[int], sizes: dict[object, tuple[int, Key]]
) -> str:
    wanted = slot.type.shape  # type: ignore[union-attr]
    if not wanted.has_rank:
        return ""
    if wanted.rank != len(shape):
        return _has_shape(shape, wanted)
    for dim, size in zip(wanted.dims, shape, strict=True):
        if isinstance(dim, int):
            if dim != size:
                return _has_shape(shape, wanted)
            continue
        before, key = sizes.setdefault(dim.key, (size, slot.key))
        if before != size:
            return f"{_has_shape(shape, wanted)} where {dim} is {before} by {key!r}"
    return ""


def _has_shape(shape: Sequence[int], wanted: Shape) -> str:
    return f"of shape {list(shape)}, not {wanted}"
