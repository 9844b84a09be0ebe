"""What ops make of padding: a rule for each primitive that hands it on.

A rule gives the state of each result, or raises `MixesError`. What has no rule is
refused where padding reaches it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from amanda.graph import OutputPort
from amanda.types import Dim, Sym, TensorType
from amanda_jax.shapes.padding import (
    UNPADDED,
    At,
    Axes,
    MixesError,
    Padded,
    Rule,
    Rules,
    alike,
    expect_clean,
    expect_whole,
)
from amanda_jax.shapes.padding_gather import gather, gather_elements, gather_nd
from amanda_std.backends import product

__all__ = ["RULES"]


# -- each place by itself --------------------------------------------------------------


def elementwise(at: At) -> list[Padded]:
    return alike(at, _together(at, [(arg, 0) for arg in at.args]))


def _together(at: At, rows: Sequence[tuple[Any, int]]) -> Axes:
    """Axes of operands that broadcast, each but for so many axes at its end."""
    given = [(arg, at.dims(arg)[: len(at.dims(arg)) - cut]) for arg, cut in rows]
    rank = max(len(dims) for _, dims in given)
    found: Axes = {}
    for axis in range(rank):
        column = [
            (at.axes(arg).get(own), dims[own])
            for arg, dims in given
            if (own := axis - rank + len(dims)) >= 0
        ]
        named = {name for name, _ in column if name is not None}
        if not named:
            continue
        if len(named) > 1:
            raise MixesError(f"brings {' and '.join(sorted(named))} together")
        found[axis] = named.pop()
        _expect_fit(at, found[axis], column)
    return found


def _expect_fit(at: At, name: str, column: Sequence[tuple[str | None, Dim]]) -> None:
    """Operands are padded alike along an axis, or have one element there."""
    sizes = [dim for own, dim in column if own == name]
    others = [dim for own, dim in column if own != name]
    if not all(map(_is_one, others)):
        raise MixesError(f"brings the axis of {name!r} together with another one")
    if not all(at.padding.are_same(sizes[0], dim) for dim in sizes[1:]):
        raise MixesError(f"brings sizes together that are made of {name!r} differently")


def _is_one(dim: Dim) -> bool:
    return isinstance(dim, int) and dim == 1


# -- along axes ------------------------------------------------------------------------


def _without(axes: Mapping[int, str], gone: Sequence[int]) -> Axes:
    return {a - sum(g < a for g in gone): name for a, name in axes.items()}


def reduction(at: At) -> list[Padded]:
    x, told = at.args[:2]
    gone = at.places(told, len(at.dims(x)))
    expect_whole(at, x, gone, "goes over")
    axes = at.axes(x)
    return alike(at, axes if at.attrs["keepdims"] else _without(axes, gone))


def cumulative(at: At) -> list[Padded]:
    """From the front on, padding comes last."""
    x, axis = at.args[:2]
    if at.attrs["reverse"]:
        expect_whole(at, x, at.places(axis, len(at.dims(x))), "goes back along")
    return alike(at, at.axes(x))


def _along(does: str) -> Rule:
    def rule(at: At) -> list[Padded]:
        x = at.args[0]
        told = at.attrs["axis"] if "axis" in at.attrs else at.args[1]
        expect_whole(at, x, at.places(told, len(at.dims(x))), does)
        return alike(at, at.axes(x))

    return rule


def fourier(at: At) -> list[Padded]:
    x, sizes, axes = at.args
    at.numbers(sizes)
    expect_whole(at, x, at.places(axes, len(at.dims(x))), "transforms along")
    return alike(at, at.axes(x))


def triangle(at: At) -> list[Padded]:
    at.numbers(at.args[1])
    return alike(at, at.axes(at.args[0]))


def of_matrices(at: At) -> list[Padded]:
    x = at.args[0]
    rank = len(at.dims(x))
    expect_whole(at, x, [rank - 2, rank - 1], "takes matrices along")
    return alike(at, at.axes(x))


def look_up_sorted(at: At) -> list[Padded]:
    x, values = at.args
    expect_clean(at, x)
    if len(at.dims(x)) > 1:
        raise MixesError("looks in a row of its own for each that is padded")
    return alike(at, at.axes(values))


# -- order and place of axes -----------------------------------------------------------


def transpose(at: At) -> list[Padded]:
    [x] = at.args
    rank = len(at.dims(x))
    perm = at.attrs["perm"] or tuple(range(rank))[::-1]
    axes = at.axes(x)
    order = [p % rank for p in perm]
    return alike(at, {i: axes[p] for i, p in enumerate(order) if p in axes})


def expand_dims(at: At) -> list[Padded]:
    x, told = at.args
    rank = len(at.dims(x)) + len(at.places(told, 1))
    new = at.places(told, rank)
    rest = [axis for axis in range(rank) if axis not in new]
    return alike(at, {rest[a]: name for a, name in at.axes(x).items()})


def squeeze(at: At) -> list[Padded]:
    x, told = at.args
    if at.numbers(told) is None:
        raise MixesError("drops the axes that have one element, whichever these are")
    gone = at.places(told, len(at.dims(x)))
    expect_whole(at, x, gone, "drops")
    return alike(at, _without(at.axes(x), gone))


def _joined(at: At, axis: int) -> Axes:
    """What operands are padded along, all of them alike but for one axis."""
    first, *others = at.args
    for arg in at.args:
        expect_whole(at, arg, [axis], "joins along")
    for arg in others:
        rows = zip(at.dims(first), at.dims(arg), strict=True)
        fine = all(
            at.padding.are_same(a, b)
            for i, (a, b) in enumerate(rows)
            if i in at.axes(first)
        )
        if at.axes(arg) != at.axes(first) or not fine:
            raise MixesError("joins what is padded with what is not padded so")
    return dict(at.axes(first))


def concat(at: At) -> list[Padded]:
    axis = at.attrs["axis"] % len(at.dims(at.args[0]))
    return alike(at, _joined(at, axis))


def stack(at: At) -> list[Padded]:
    new = at.attrs["axis"] % (len(at.dims(at.args[0])) + 1)
    axes = _joined(at, -1)
    return alike(at, {a + (a >= new): name for a, name in axes.items()})


def split(at: At) -> list[Padded]:
    x, sizes = at.args
    at.numbers(sizes)
    axis = at.attrs["axis"] % len(at.dims(x))
    expect_whole(at, x, [axis], "splits")
    return alike(at, at.axes(x))


def slice_(at: At) -> list[Padded]:
    """What is padded stays whole; of what is not, the first of a padded number."""
    x, starts, _, axes, steps = at.args
    before, after = at.dims(x), at.dims(at.op.output)
    found: Axes = {}
    rank = len(before)
    count = len(_listed(at, starts))
    places = list(range(count)) if axes is None else at.places(axes, rank)
    firsts = dict(zip(places, _listed(at, starts), strict=True))
    steady = dict(zip(places, _listed(at, steps) or [1] * count, strict=True))
    for axis in range(rank):
        [name] = at.padding.padded_in(after[axis]) or [None]
        told = at.axes(x).get(axis)
        if name is None and told is None:
            continue
        fine = firsts.get(axis, 0) == 0 and steady.get(axis, 1) == 1
        if told is not None:
            fine = fine and at.padding.are_same(before[axis], after[axis])
        if not fine:
            raise MixesError(f"takes a part of the axis of {told or name!r}")
        found[axis] = str(told or name)
    return alike(at, found)


def _listed(at: At, arg: Any) -> list[Any]:
    """Elements of a host argument: numbers, or None for one that a run tells."""
    if arg is None:
        return []
    if not isinstance(arg, OutputPort):
        return list(arg)
    found = arg.type
    told = found.elements if isinstance(found, TensorType) else None
    if told is not None:
        return [None if isinstance(dim, Sym) else dim for dim in told]
    [count] = at.dims(arg)
    if isinstance(count, Sym):
        raise MixesError("takes parts along axes that only a run tells")
    return [None] * count


def pad(at: At) -> list[Padded]:
    x, pads, value, axes = at.args
    expect_clean(at, value)
    rank = len(at.dims(x))
    places = at.places(axes, rank)
    for axis, (low, high) in zip(places, at.numbers(pads), strict=True):
        if low or high:
            expect_whole(at, x, [axis], "puts elements around")
    return alike(at, at.axes(x))


def tile(at: At) -> list[Padded]:
    x, repeats = at.args
    times = list(at.numbers(repeats))
    rank = max(len(times), len(at.dims(x)))
    times = [1] * (rank - len(times)) + times
    shift = rank - len(at.dims(x))
    expect_whole(at, x, [i - shift for i, n in enumerate(times) if n != 1], "repeats")
    return alike(at, {a + shift: name for a, name in at.axes(x).items()})


def broadcast_to(at: At) -> list[Padded]:
    x, shape = at.args
    before, after = at.dims(x), at.dims(at.op.output)
    told = at.padding.state(shape).sizes
    if told - {name for dim in after for name in at.padding.padded_in(dim)}:
        raise MixesError("repeats along an axis whose size is told twice")
    shift = len(after) - len(before)
    found = {a + shift: name for a, name in at.axes(x).items()}
    for axis, dim in enumerate(after):
        [name] = at.padding.padded_in(dim) or [None]
        if name is None or axis in found:
            continue
        if axis >= shift and not _is_one(before[axis - shift]):
            raise MixesError(f"repeats an unknown size along the axis of {name!r}")
        found[axis] = name
    for axis in at.axes(x):
        if not at.padding.are_same(before[axis], after[axis + shift]):
            raise MixesError(f"repeats along the axis of {at.axes(x)[axis]!r}")
    return alike(at, found)


def of_sizes(at: At) -> list[Padded]:
    """What is the same at every place, or follows from the place alone."""
    if at.op.type == "full":
        expect_clean(at, at.args[1])
    if at.op.type == "arange":
        start, _, step = at.args
        if at.padding.state(start).sizes or at.padding.state(step).sizes:
            raise MixesError("counts from a padded size")
    axes = {}
    for axis, dim in enumerate(at.dims(at.op.output)):
        for name in at.padding.padded_in(dim):
            axes[axis] = name
    return alike(at, axes)


# -- reshape ---------------------------------------------------------------------------


def reshape(at: At) -> list[Padded]:
    """Axes in groups that hold the same elements before and after."""
    x = at.args[0]
    before, after = at.dims(x), at.dims(at.op.output)
    found: Axes = {}
    for mine, theirs in _groups(at, before, after):
        named = [i for i in mine if i in at.axes(x)]
        if not named:
            continue
        name = at.axes(x)[named[0]]
        real = [j for j in theirs if not _is_one(after[j])]
        first = next(i for i in mine if not _is_one(before[i]))
        if len(named) > 1 or named[0] != first or not real:
            raise MixesError(f"puts the axis of {name!r} inside of another")
        if any(at.padding.padded_in(after[j]) for j in real[1:]):
            raise MixesError(f"divides the axis of {name!r}")
        found[real[0]] = name
    return alike(at, found)


def _groups(
    at: At, before: Sequence[Dim], after: Sequence[Dim]
) -> list[tuple[range, range]]:
    """The shortest runs of axes that have as many elements before as after."""
    found = []
    i = j = 0
    while i < len(before) or j < len(after):
        ends = (
            (p, q)
            for total in range(1, len(before) + len(after) - i - j + 1)
            for p in range(i, min(len(before), i + total) + 1)
            if j <= (q := j + total - (p - i)) <= len(after)
            if at.padding.are_same(product(before[i:p]), product(after[j:q]))
        )
        end = next(ends, None)
        if end is None:
            raise MixesError("lays out elements anew, and the types do not tell how")
        found.append((range(i, end[0]), range(j, end[1])))
        i, j = end
    return found


# -- products, windows, places ---------------------------------------------------------


def matmul(at: At) -> list[Padded]:
    a, b = at.args
    left, right = len(at.dims(a)), len(at.dims(b))
    expect_whole(at, a, [left - 1], "adds up along")
    expect_whole(at, b, [max(right - 2, 0)], "adds up along")
    found = _together(at, [(a, min(left, 2)), (b, min(right, 2))])
    rank = max(left, right, 2) - 2
    if left > 1 and left - 2 in at.axes(a):
        found[rank] = at.axes(a)[left - 2]
    if right > 1 and right - 1 in at.axes(b):
        found[rank + (left > 1)] = at.axes(b)[right - 1]
    return alike(at, found)


def einsum(at: At) -> list[Padded]:
    inside, _, outside = at.attrs["equation"].replace(" ", "").partition("->")
    rows: dict[str, list[tuple[str | None, Dim]]] = {}
    for arg, term in zip(at.args, inside.split(","), strict=True):
        letters = _letters(term, len(at.dims(arg)))
        if len(set(letters)) < len(letters) and at.axes(arg):
            raise MixesError("takes a diagonal of what is padded")
        for i, (letter, dim) in enumerate(zip(letters, at.dims(arg), strict=True)):
            rows.setdefault(letter, []).append((at.axes(arg).get(i), dim))
    found: Axes = {}
    kept = _letters(outside, len(at.dims(at.op.output)))
    for letter, column in rows.items():
        named = sorted({name for name, _ in column if name is not None})
        if not named:
            continue
        if letter not in kept:
            raise MixesError(f"adds up along the axis of {named[0]!r}")
        if len(named) > 1:
            raise MixesError(f"brings {' and '.join(named)} together")
        _expect_fit(at, named[0], column)
        found[kept.index(letter)] = named[0]
    return alike(at, found)


def _letters(term: str, rank: int) -> list[str]:
    """A name for each axis; those in place of dots are numbered from the end."""
    head, dots, tail = term.partition("...")
    many = rank - len(head) - len(tail) if dots else 0
    return [*head, *(f".{many - i}" for i in range(many)), *tail]


def of_images(at: At) -> list[Padded]:
    """Each example by itself; windows would bring padding in."""
    x, *others = at.args
    expect_clean(at, *others)
    batch = at.attrs["layout"].index("N")
    rest = [axis for axis in range(len(at.dims(x))) if axis != batch]
    expect_whole(at, x, rest, "slides windows over, or adds up along,")
    return alike(at, at.axes(x))


# -- bodies ----------------------------------------------------------------------------


def _body(at: At, body: Any, given: Sequence[Padded]) -> list[Padded]:
    """What a body gives where its parameters are these."""
    for port, state in zip(body.parameters, given, strict=True):
        at.padding.states[port] = state
        at.padding.expect_told(port, state)
    before = len(at.padding.problems)
    at.padding.follow(body)
    if len(at.padding.problems) > before:
        inner = at.padding.problems[before:]
        del at.padding.problems[before:]
        raise MixesError(f"has a body in which {'; '.join(dict.fromkeys(inner))}")
    return [at.padding.state(value) for value in body.results]


def _expect_kept(before: Sequence[Padded], after: Sequence[Padded]) -> None:
    if list(before) != list(after):
        raise MixesError("carries on what is padded otherwise after a round")


def choice(at: At) -> list[Padded]:
    condition, then, otherwise, *xs = at.args
    expect_clean(at, condition)
    given = [at.padding.state(x) for x in xs]
    first, second = (_body(at, body, given) for body in (then, otherwise))
    if first != second:
        raise MixesError("has branches whose results are padded differently")
    return first


def loop(at: At) -> list[Padded]:
    trips, condition, body, *init = at.args
    expect_clean(at, trips, condition)
    given = [at.padding.state(x) for x in init]
    goes_on, *made = _body(at, body, [UNPADDED, UNPADDED, *given])
    if goes_on:
        raise MixesError("ends when what is padded says so")
    _expect_kept(given, made[: len(given)])
    return [*given, *(_stacked(row, 0) for row in made[len(given) :])]


def scan(at: At) -> list[Padded]:
    body, length, *values = at.args
    at.numbers(length)
    count = at.attrs["carried"]
    init, xs = values[:count], values[count:]
    places = at.attrs["axes"] or (0,) * len(xs)
    rows = []
    for x, place in zip(xs, places, strict=True):
        axis = place % len(at.dims(x))
        expect_whole(at, x, [axis], "goes step by step along")
        rows.append(Padded(_without(at.axes(x), [axis])))
    given = [at.padding.state(x) for x in init]
    made = _body(at, body, [*given, *rows])
    _expect_kept(given, made[:count])
    outs = at.attrs["out_axes"] or (0,) * (len(made) - count)
    ranks = [len(at.dims(port)) for port in at.op.outputs[count:]]
    stacked = zip(made[count:], outs, ranks, strict=True)
    return [*given, *(_stacked(row, axis % rank) for row, axis, rank in stacked)]


def _stacked(row: Padded, new: int) -> Padded:
    if row.sizes:
        raise MixesError("stacks padded sizes")
    return Padded({a + (a >= new): name for a, name in row.axes.items()})


RULES: Final[Rules] = {
    "elementwise": elementwise,
    **dict.fromkeys(("signbit", "complex", "real", "imag", "conj"), elementwise),
    **dict.fromkeys(
        ("sum", "prod", "max", "min", "all", "any", "argmin", "argmax"), reduction
    ),
    **dict.fromkeys(
        (
            "cumulative_sum",
            "cumulative_prod",
            "cumulative_max",
            "cumulative_min",
            "cumulative_logsumexp",
        ),
        cumulative,
    ),
    "sort": _along("sorts"),
    "argsort": _along("sorts"),
    "topk": _along("sorts"),
    "flip": _along("turns round"),
    **dict.fromkeys(("fft", "ifft", "rfft", "irfft"), fourier),
    "tril": triangle,
    "triu": triangle,
    **dict.fromkeys(
        ("cholesky", "inverse", "det", "slogdet", "qr", "eigh", "svd", "lu"),
        of_matrices,
    ),
    "searchsorted": look_up_sorted,
    "transpose": transpose,
    "expand_dims": expand_dims,
    "squeeze": squeeze,
    "concat": concat,
    "stack": stack,
    "split": split,
    "slice": slice_,
    "pad": pad,
    "tile": tile,
    "broadcast_to": broadcast_to,
    "full": of_sizes,
    "arange": of_sizes,
    "eye": of_sizes,
    "reshape": reshape,
    "matmul": matmul,
    "einsum": einsum,
    **dict.fromkeys(("conv", "conv_transpose", "max_pool", "avg_pool"), of_images),
    "gather": gather,
    "gather_nd": gather_nd,
    "gather_elements": gather_elements,
    "if": choice,
    "loop": loop,
    "scan": scan,
}
