"""Results: copied where they share memory, row-major, written to `out`.

Only arrays of numpy are copied; those of other libraries are immutable.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from amanda.errors import UsageError
from amanda.tensors.loaded import loaded_class

__all__ = ["copy_if_shared", "copy_into_out", "expect_out"]


def copy_if_shared(values: Sequence[Any], fed: Collection[Any]) -> Sequence[Any]:
    """Copy arrays that share memory with a feed or with each other."""
    array: Any = loaded_class("numpy", "ndarray")
    if array is None:
        return values
    seen = {*map(id, fed)}
    for value in values:
        if value.__class__ is array:
            if (
                value.base is not None
                or id(value) in seen
                or not value.flags.c_contiguous
            ):
                break
            seen.add(id(value))
        elif isinstance(value, array | list | tuple | dict):
            break
    else:
        return values
    taken: set[int] = set()
    for each in fed:
        _remember_owner(each, taken, array)
    return [_copy_shared(value, taken, array) for value in values]


def _remember_owner(value: Any, taken: set[int], array: Any) -> None:
    if isinstance(value, array):
        taken.add(_owner(value, array))
    elif isinstance(value, list | tuple):
        for each in value:
            _remember_owner(each, taken, array)
    elif isinstance(value, dict):
        for each in value.values():
            _remember_owner(each, taken, array)


def _copy_shared(value: Any, taken: set[int], array: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)([_copy_shared(each, taken, array) for each in value])
    if isinstance(value, dict):
        return {key: _copy_shared(each, taken, array) for key, each in value.items()}
    if not isinstance(value, array):
        return value
    if _owner(value, array) in taken or not value.flags.c_contiguous:
        value = value.copy(order="C")
    taken.add(_owner(value, array))
    return value


def _owner(value: Any, array: Any) -> int:
    """The identity of the object that owns the memory of an array."""
    base = value.base
    while base is not None:
        value, base = base, base.base if isinstance(base, array) else None
    return id(value)


# -- arrays to write to --------------------------------------------------------------


def expect_out(out: Mapping[Any, Any], keys: Sequence[Any]) -> None:
    """Raise UsageError if `out` has unknown keys, or values that are not writable."""
    import numpy as np

    problems = []
    for key, array in out.items():
        if key not in keys:
            problems.append(f"no result {key!r}")
        elif not isinstance(array, np.ndarray) or not array.flags.writeable:
            kind = type(array).__name__
            problems.append(f"{key!r} is {kind}, not an array that can be written to")
    arrays = [(k, a) for k, a in out.items() if isinstance(a, np.ndarray)]
    problems += [
        f"{k!r} and {j!r} share memory"
        for i, (k, a) in enumerate(arrays)
        for j, b in arrays[:i]
        if np.may_share_memory(a, b)
    ]
    if problems:
        raise _misfit(problems, keys)


def copy_into_out(results: dict[Any, Any], out: Mapping[Any, Any]) -> dict[Any, Any]:
    """Write results to the arrays of `out`; returns all results."""
    import numpy as np

    rows = [(key, array, np.asarray(results[key])) for key, array in out.items()]
    problems = [
        f"{key!r} is {_describe_array(array)}, not {_describe_array(made)}"
        for key, array, made in rows
        if array.shape != made.shape or array.dtype != made.dtype
    ]
    if problems:
        raise _misfit(problems, list(results))
    for key, array, made in rows:
        if array is not made:
            np.copyto(array, made)
        results[key] = array
    return results


def _describe_array(array: Any) -> str:
    return f"{array.dtype}{list(array.shape)}"


def _misfit(problems: Iterable[str], keys: Sequence[Any]) -> UsageError:
    return UsageError(
        "the arrays of `out` do not match the results",
        expected=", ".join(map(str, keys)) or "no result",
        problems=tuple(problems),
    )
