"""Copies of feeds, to detect changes."""

from __future__ import annotations

from typing import Any

from amanda.tensors.loaded import loaded_class

__all__ = ["FeedCopy", "copy_value"]


class FeedCopy:
    """A copy of a feed. `is_same` compares content bitwise.

    Writable arrays are copied, since the caller may write to them. Values that cannot
    be compared always count as changed.
    """

    __slots__ = ("given", "kept")

    def __init__(self, value: Any) -> None:
        self.given = value
        self.kept = copy_value(value)

    @classmethod
    def by_reference(cls, value: Any) -> FeedCopy:
        """The caller's own array or cell, which the graph reads and writes."""
        made = cls(None)
        made.given = made.kept = value
        return made

    def is_same(self, value: Any) -> bool:
        if value is self.given and _is_fixed(value):
            return True
        return _equal_values(self.kept, value)


def copy_value(value: Any) -> Any:
    """A copy of a value: of arrays of numpy, also in lists and dicts."""
    if isinstance(value, list | tuple):
        return type(value)([copy_value(each) for each in value])
    if isinstance(value, dict):
        return {key: copy_value(each) for key, each in value.items()}
    array: Any = loaded_class("numpy", "ndarray")
    if array is not None and isinstance(value, array):
        return value.copy()
    return value.clone() if callable(getattr(value, "clone", None)) else value


def _is_fixed(value: Any) -> bool:
    """Whether this value is immutable."""
    if isinstance(value, int | float | complex | str | bytes | bool | None):
        return True
    array = loaded_class("jax", "Array")
    return array is not None and isinstance(value, array)


def _equal_values(a: Any, b: Any) -> bool:
    if isinstance(a, list | tuple):
        if type(a) is not type(b) or len(a) != len(b):
            return False
        return all(_equal_values(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict):
        if type(a) is not type(b) or a.keys() != b.keys():
            return False
        return all(_equal_values(a[key], b[key]) for key in a)
    if _is_fixed(a):
        return a is b or (type(a) is type(b) and _is_plain(a) and bool(a == b))
    import numpy as np

    try:
        x, y = np.asarray(a), np.asarray(b)
    except (TypeError, ValueError, RuntimeError):
        return False  # of a library that numpy cannot read
    if type(a) is not type(b) or x.dtype != y.dtype or x.shape != y.shape:
        return False
    if x.dtype == object:
        return bool((x == y).all())
    x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
    return bool(np.array_equal(x.reshape(-1).view("u1"), y.reshape(-1).view("u1")))


def _is_plain(value: Any) -> bool:
    return isinstance(value, int | float | complex | str | bytes | bool | None)
