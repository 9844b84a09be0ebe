"""Conditionals, loops, containers and what graphs show. Python drives them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from amanda.errors import InvalidTypeError, UsageError
from amanda.types import TensorType
from amanda_std.backends import Trait, per_tensor, run_branch
from amanda_std.ops import OPS
from amanda_torch.backend.arrays import to_numpy, torch_dtype

__all__ = ["KERNELS"]


def _is_true(condition: Any) -> bool:
    if isinstance(condition, torch.Tensor):
        return bool(condition if condition.ndim == 0 else condition.all())
    return bool(condition)


def if_(condition: Any, then: Any, otherwise: Any, *xs: Any) -> Any:
    return tuple((then if _is_true(condition) else otherwise)(*xs))


def case(index: Any, branches: Sequence[Any], *xs: Any) -> Any:
    return run_branch(int(index), branches, *xs)


def loop(trips: Any, condition: Any, body: Any, *init: Any) -> Any:
    limit = None if trips is None else int(trips)
    running = condition is None or _is_true(condition)
    now: tuple[Any, ...] = init
    rows: list[tuple[Any, ...]] = []
    done = 0
    while running and (limit is None or done < limit):
        flag, *rest = body(torch.tensor(done), torch.tensor(running), *now)
        now, row = tuple(rest[: len(init)]), tuple(rest[len(init) :])
        rows.append(row)
        running = _is_true(flag)
        done += 1
    if rows:
        return (*now, *(_stack(column, 0) for column in zip(*rows, strict=True)))
    start = (torch.tensor(0), torch.tensor(True), *init)
    return (*now, *_empty_rows(body, len(init) + 1, start))


def _stack(column: Sequence[Any], axis: int) -> Any:
    shapes = sorted({tuple(row.shape) for row in column})
    if len(shapes) > 1:
        raise InvalidTypeError(
            "rows of different shapes cannot be stacked",
            expected=f"{list(column[0].shape)} in every iteration",
            got=", ".join(str(list(shape)) for shape in shapes),
        )
    return torch.stack(list(column), axis)


def _empty_rows(body: Any, skip: int, start: Sequence[Any]) -> list[Any]:
    """The stacked results of no iterations, of the types of the body's results.

    A dim that they do not have is that of one run of the body."""
    known = list(getattr(body, "result_types", ()))[skip:]
    if known and all(isinstance(t, TensorType) and t.shape.is_static for t in known):
        rows = [((0, *map(int, t.shape)), torch_dtype(t.dtype)) for t in known]
    else:
        results = body(*start)[skip:]
        rows = [((0, *y.shape), y.dtype) for y in results]
    return [torch.zeros(shape, dtype=dtype) for shape, dtype in rows]


def scan(
    body: Any, length: Any, *values: Any, carried: int, axes: Any, reverse: Any,
    out_axes: Any, out_reverse: Any,
) -> Any:  # fmt: skip
    now, xs = values[:carried], values[carried:]
    at = per_tensor(axes, len(xs), 0)
    back = per_tensor(reverse, len(xs), False)
    sizes = {x.shape[a] for x, a in zip(xs, at, strict=True)}
    sizes |= set() if length is None else {length}
    if len(sizes) != 1:
        raise InvalidTypeError(
            "the scanned values have different lengths",
            expected=length,
            got=sorted(sizes),
        )
    (count,) = sizes
    rows = []
    for i in range(count):
        row = [
            x.select(a, count - 1 - i if r else i)
            for x, a, r in zip(xs, at, back, strict=True)
        ]
        results = tuple(body(*now, *row))
        now = results[:carried]
        rows.append(results[carried:])
    if not rows:
        blank = [x.new_zeros(_without(x.shape, a)) for x, a in zip(xs, at, strict=True)]
        columns = _empty_rows(body, carried, (*now, *blank))
        to = per_tensor(out_axes, len(columns), 0)
        return (*now, *(y.movedim(0, a) for y, a in zip(columns, to, strict=True)))
    outputs = len(rows[0])
    options = zip(
        zip(*rows, strict=True),
        per_tensor(out_axes, outputs, 0),
        per_tensor(out_reverse, outputs, False),
        strict=True,
    )
    return (*now, *(_stack(c[::-1] if r else c, a) for c, a, r in options))


def _without(shape: Sequence[int], axis: int) -> list[int]:
    axis %= len(shape)
    return [*shape[:axis], *shape[axis + 1 :]]


def split_to_sequence(
    x: Any, sizes: Any = None, *, axis: int = 0, keepdims: bool = True
) -> Any:
    total = x.shape[axis]
    if sizes is None:
        return list(x.split(1, axis) if keepdims else x.unbind(axis)) if total else []
    if isinstance(sizes, int):
        if sizes <= 0:
            raise UsageError("a part of a split has no size", got=sizes)
        return list(x.split(sizes, axis)) if total else []
    if sum(sizes) != total or min(sizes, default=0) < 0:
        raise UsageError(
            "the sizes of the parts do not add up to the dim", expected=total, got=sizes
        )
    return list(x.split(list(sizes), axis)) if sizes else []


def concat_from_sequence(xs: Any, *, axis: int = 0, new_axis: bool = False) -> Any:
    if not xs:
        raise UsageError("cannot concatenate an empty sequence")
    return (torch.stack if new_axis else torch.cat)(list(xs), axis)


def _showing(name: str) -> Callable[..., Any]:
    """A kernel that shows its arguments as arrays and returns the first of them."""
    function = OPS[name].function

    def show(x: Any, *more: Any, **attrs: Any) -> Any:
        function(*map(to_numpy, (x, *more)), **attrs)
        return x

    return show


KERNELS: Final[dict[str, Callable[..., Any]]] = {
    **{
        name: operation.function
        for name, operation in OPS.items()
        if Trait.CONTAINER in operation.traits
    },
    **{name: _showing(name) for name in ("print", "probe", "assert")},
    "if": if_,
    "loop": loop,
    "scan": scan,
    "split_to_sequence": split_to_sequence,
    "concat_from_sequence": concat_from_sequence,
}
