"""How ops propagate padding: a rule for each primitive that keeps it apart.

A rule returns the state of each result, or raises `PaddingError`. An op without a rule
is refused where padding reaches it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from amanda.graph import OutputPort
from amanda.types import Dim, Sym, TensorType
from amanda_jax.shapes.padding import (
    UNPADDED,
    Axes,
    PaddedOp,
    PaddedState,
    PaddingError,
    PaddingRule,
    PaddingRules,
    expect_unpadded,
    expect_unpadded_axes,
    with_axes,
)
from amanda_jax.shapes.padding_gather import gather, gather_elements, gather_nd
from amanda_std.backends import product

__all__ = ["RULES"]


# -- pointwise -------------------------------------------------------------------------


def pointwise(node: PaddedOp) -> list[PaddedState]:
    return with_axes(node, _broadcast_axes(node, [(arg, 0) for arg in node.args]))


def _broadcast_axes(node: PaddedOp, rows: Sequence[tuple[Any, int]]) -> Axes:
    """The padded axes of operands that broadcast, but for some axes at the end."""
    operands = [(arg, node.dims(arg)[: len(node.dims(arg)) - cut]) for arg, cut in rows]
    rank = max(len(dims) for _, dims in operands)
    result_axes: Axes = {}
    for axis in range(rank):
        column = [
            (node.padded_axes(arg).get(own_axis), dims[own_axis])
            for arg, dims in operands
            if (own_axis := axis - rank + len(dims)) >= 0
        ]
        names = {name for name, _ in column if name is not None}
        if not names:
            continue
        if len(names) > 1:
            raise PaddingError(f"brings {' and '.join(sorted(names))} together")
        result_axes[axis] = names.pop()
        _expect_same_sizes(node, result_axes[axis], column)
    return result_axes


def _expect_same_sizes(
    node: PaddedOp, name: str, column: Sequence[tuple[str | None, Dim]]
) -> None:
    """Check that operands are padded alike along an axis, or have size 1 there."""
    sizes = [dim for own_axis, dim in column if own_axis == name]
    others = [dim for own_axis, dim in column if own_axis != name]
    if not all(map(_is_size_one, others)):
        raise PaddingError(f"brings the axis of {name!r} together with another one")
    if not all(node.padding.are_equal(sizes[0], dim) for dim in sizes[1:]):
        raise PaddingError(
            f"brings sizes together that depend on {name!r} in different ways"
        )


def _is_size_one(dim: Dim) -> bool:
    return isinstance(dim, int) and dim == 1


# -- along axes ------------------------------------------------------------------------


def _remove_axes(axes: Mapping[int, str], removed: Sequence[int]) -> Axes:
    return {a - sum(g < a for g in removed): name for a, name in axes.items()}


def reduction(node: PaddedOp) -> list[PaddedState]:
    x, axis_argument = node.args[:2]
    removed = node.axis_numbers(axis_argument, len(node.dims(x)))
    expect_unpadded_axes(node, x, removed, "goes over")
    axes = node.padded_axes(x)
    return with_axes(
        node, axes if node.attrs["keepdims"] else _remove_axes(axes, removed)
    )


def cumulative(node: PaddedOp) -> list[PaddedState]:
    """Padding comes last, so a scan from the front keeps it apart."""
    x, axis = node.args[:2]
    if node.attrs["reverse"]:
        expect_unpadded_axes(
            node, x, node.axis_numbers(axis, len(node.dims(x))), "goes back along"
        )
    return with_axes(node, node.padded_axes(x))


def _along_axis(verb: str) -> PaddingRule:
    def rule(node: PaddedOp) -> list[PaddedState]:
        x = node.args[0]
        axis_argument = node.attrs["axis"] if "axis" in node.attrs else node.args[1]
        expect_unpadded_axes(
            node, x, node.axis_numbers(axis_argument, len(node.dims(x))), verb
        )
        return with_axes(node, node.padded_axes(x))

    return rule


def fourier(node: PaddedOp) -> list[PaddedState]:
    x, sizes, axes = node.args
    node.static_integers(sizes)
    expect_unpadded_axes(
        node, x, node.axis_numbers(axes, len(node.dims(x))), "transforms along"
    )
    return with_axes(node, node.padded_axes(x))


def triangle(node: PaddedOp) -> list[PaddedState]:
    node.static_integers(node.args[1])
    return with_axes(node, node.padded_axes(node.args[0]))


def matrix_op(node: PaddedOp) -> list[PaddedState]:
    x = node.args[0]
    rank = len(node.dims(x))
    expect_unpadded_axes(node, x, [rank - 2, rank - 1], "takes matrices along")
    return with_axes(node, node.padded_axes(x))


def searchsorted(node: PaddedOp) -> list[PaddedState]:
    x, values = node.args
    expect_unpadded(node, x)
    if len(node.dims(x)) > 1:
        raise PaddingError("searches a separate row for each padded element")
    return with_axes(node, node.padded_axes(values))


# -- order and position of axes --------------------------------------------------------


def transpose(node: PaddedOp) -> list[PaddedState]:
    [x] = node.args
    rank = len(node.dims(x))
    perm = node.attrs["perm"] or tuple(range(rank))[::-1]
    axes = node.padded_axes(x)
    order = [p % rank for p in perm]
    return with_axes(node, {i: axes[p] for i, p in enumerate(order) if p in axes})


def expand_dims(node: PaddedOp) -> list[PaddedState]:
    x, axis_argument = node.args
    rank = len(node.dims(x)) + len(node.axis_numbers(axis_argument, 1))
    new = node.axis_numbers(axis_argument, rank)
    rest = [axis for axis in range(rank) if axis not in new]
    return with_axes(node, {rest[a]: name for a, name in node.padded_axes(x).items()})


def squeeze(node: PaddedOp) -> list[PaddedState]:
    x, axis_argument = node.args
    if node.static_integers(axis_argument) is None:
        raise PaddingError("drops the axes that have one element, whichever these are")
    removed = node.axis_numbers(axis_argument, len(node.dims(x)))
    expect_unpadded_axes(node, x, removed, "drops")
    return with_axes(node, _remove_axes(node.padded_axes(x), removed))


def _concatenated_axes(node: PaddedOp, axis: int) -> Axes:
    """The padded axes of operands, which are the same but for one axis."""
    first, *others = node.args
    for arg in node.args:
        expect_unpadded_axes(node, arg, [axis], "joins along")
    for arg in others:
        rows = zip(node.dims(first), node.dims(arg), strict=True)
        are_equal = all(
            node.padding.are_equal(a, b)
            for i, (a, b) in enumerate(rows)
            if i in node.padded_axes(first)
        )
        if node.padded_axes(arg) != node.padded_axes(first) or not are_equal:
            raise PaddingError("joins what is padded with what is not padded so")
    return dict(node.padded_axes(first))


def concat(node: PaddedOp) -> list[PaddedState]:
    axis = node.attrs["axis"] % len(node.dims(node.args[0]))
    return with_axes(node, _concatenated_axes(node, axis))


def stack(node: PaddedOp) -> list[PaddedState]:
    new = node.attrs["axis"] % (len(node.dims(node.args[0])) + 1)
    axes = _concatenated_axes(node, -1)
    return with_axes(node, {a + (a >= new): name for a, name in axes.items()})


def split(node: PaddedOp) -> list[PaddedState]:
    x, sizes = node.args
    node.static_integers(sizes)
    axis = node.attrs["axis"] % len(node.dims(x))
    expect_unpadded_axes(node, x, [axis], "splits")
    return with_axes(node, node.padded_axes(x))


def slice_(node: PaddedOp) -> list[PaddedState]:
    """Padded axes stay whole; others may be cut to their first elements."""
    x, starts, _, axes, steps = node.args
    before, after = node.dims(x), node.dims(node.op.output)
    result_axes: Axes = {}
    rank = len(before)
    count = len(_static_elements(node, starts))
    positions = list(range(count)) if axes is None else node.axis_numbers(axes, rank)
    firsts = dict(zip(positions, _static_elements(node, starts), strict=True))
    steady = dict(
        zip(positions, _static_elements(node, steps) or [1] * count, strict=True)
    )
    for axis in range(rank):
        [name] = node.padding.padded_names(after[axis]) or [None]
        padded = node.padded_axes(x).get(axis)
        if name is None and padded is None:
            continue
        is_kept = firsts.get(axis, 0) == 0 and steady.get(axis, 1) == 1
        if padded is not None:
            is_kept = is_kept and node.padding.are_equal(before[axis], after[axis])
        if not is_kept:
            raise PaddingError(f"takes a part of the axis of {padded or name!r}")
        result_axes[axis] = str(padded or name)
    return with_axes(node, result_axes)


def _static_elements(node: PaddedOp, arg: Any) -> list[Any]:
    """The elements of a shape argument; None for one known only at run time."""
    if arg is None:
        return []
    if not isinstance(arg, OutputPort):
        return list(arg)
    own = arg.type
    elements = own.elements if isinstance(own, TensorType) else None
    if elements is not None:
        return [None if isinstance(dim, Sym) else dim for dim in elements]
    [count] = node.dims(arg)
    if isinstance(count, Sym):
        raise PaddingError("slices axes that are known only at run time")
    return [None] * count


def pad(node: PaddedOp) -> list[PaddedState]:
    x, pads, value, axes = node.args
    expect_unpadded(node, value)
    rank = len(node.dims(x))
    positions = node.axis_numbers(axes, rank)
    for axis, (low, high) in zip(positions, node.static_integers(pads), strict=True):
        if low or high:
            expect_unpadded_axes(node, x, [axis], "puts elements around")
    return with_axes(node, node.padded_axes(x))


def tile(node: PaddedOp) -> list[PaddedState]:
    x, repeats = node.args
    times = list(node.static_integers(repeats))
    rank = max(len(times), len(node.dims(x)))
    times = [1] * (rank - len(times)) + times
    shift = rank - len(node.dims(x))
    expect_unpadded_axes(
        node, x, [i - shift for i, n in enumerate(times) if n != 1], "repeats"
    )
    return with_axes(node, {a + shift: name for a, name in node.padded_axes(x).items()})


def broadcast_to(node: PaddedOp) -> list[PaddedState]:
    x, shape = node.args
    before, after = node.dims(x), node.dims(node.op.output)
    sizes = node.padding.state(shape).sizes
    if sizes - {name for dim in after for name in node.padding.padded_names(dim)}:
        raise PaddingError("repeats along an axis whose size is given twice")
    shift = len(after) - len(before)
    result_axes = {a + shift: name for a, name in node.padded_axes(x).items()}
    for axis, dim in enumerate(after):
        [name] = node.padding.padded_names(dim) or [None]
        if name is None or axis in result_axes:
            continue
        if axis >= shift and not _is_size_one(before[axis - shift]):
            raise PaddingError(f"repeats an unknown size along the axis of {name!r}")
        result_axes[axis] = name
    for axis in node.padded_axes(x):
        if not node.padding.are_equal(before[axis], after[axis + shift]):
            raise PaddingError(
                f"repeats along the axis of {node.padded_axes(x)[axis]!r}"
            )
    return with_axes(node, result_axes)


def pad_by_position(node: PaddedOp) -> list[PaddedState]:
    """The result is the same at every position, or follows from the position alone."""
    axes = {}
    for axis, dim in enumerate(node.dims(node.op.output)):
        for name in node.padding.padded_names(dim):
            axes[axis] = name
    return with_axes(node, axes)


def full(node: PaddedOp) -> list[PaddedState]:
    expect_unpadded(node, node.args[1])
    return pad_by_position(node)


def arange(node: PaddedOp) -> list[PaddedState]:
    start, _, step = node.args
    if node.padding.state(start).sizes or node.padding.state(step).sizes:
        raise PaddingError("counts from a padded size")
    return pad_by_position(node)


# -- reshape ---------------------------------------------------------------------------


def reshape(node: PaddedOp) -> list[PaddedState]:
    """Axes in groups with the same elements before and after."""
    x = node.args[0]
    before, after = node.dims(x), node.dims(node.op.output)
    result_axes: Axes = {}
    for mine, theirs in _equal_groups(node, before, after):
        names = [i for i in mine if i in node.padded_axes(x)]
        if not names:
            continue
        name = node.padded_axes(x)[names[0]]
        real = [j for j in theirs if not _is_size_one(after[j])]
        first = next(i for i in mine if not _is_size_one(before[i]))
        if len(names) > 1 or names[0] != first or not real:
            raise PaddingError(f"puts the axis of {name!r} inside of another")
        if any(node.padding.padded_names(after[j]) for j in real[1:]):
            raise PaddingError(f"divides the axis of {name!r}")
        result_axes[real[0]] = name
    return with_axes(node, result_axes)


def _equal_groups(
    node: PaddedOp, before: Sequence[Dim], after: Sequence[Dim]
) -> list[tuple[range, range]]:
    """The shortest runs of axes that have as many elements before as after."""
    groups = []
    i = j = 0
    while i < len(before) or j < len(after):
        ends = (
            (p, q)
            for total in range(1, len(before) + len(after) - i - j + 1)
            for p in range(i, min(len(before), i + total) + 1)
            if j <= (q := j + total - (p - i)) <= len(after)
            if node.padding.are_equal(product(before[i:p]), product(after[j:q]))
        )
        end = next(ends, None)
        if end is None:
            raise PaddingError(
                "reorders elements in a way that the types do not express"
            )
        groups.append((range(i, end[0]), range(j, end[1])))
        i, j = end
    return groups


# -- products and windows --------------------------------------------------------------


def matmul(node: PaddedOp) -> list[PaddedState]:
    a, b = node.args
    left, right = len(node.dims(a)), len(node.dims(b))
    expect_unpadded_axes(node, a, [left - 1], "adds up along")
    expect_unpadded_axes(node, b, [max(right - 2, 0)], "adds up along")
    result_axes = _broadcast_axes(node, [(a, min(left, 2)), (b, min(right, 2))])
    rank = max(left, right, 2) - 2
    if left > 1 and left - 2 in node.padded_axes(a):
        result_axes[rank] = node.padded_axes(a)[left - 2]
    if right > 1 and right - 1 in node.padded_axes(b):
        result_axes[rank + (left > 1)] = node.padded_axes(b)[right - 1]
    return with_axes(node, result_axes)


def einsum(node: PaddedOp) -> list[PaddedState]:
    inside, _, outside = node.attrs["equation"].replace(" ", "").partition("->")
    rows: dict[str, list[tuple[str | None, Dim]]] = {}
    for arg, term in zip(node.args, inside.split(","), strict=True):
        letters = _axis_labels(term, len(node.dims(arg)))
        if len(set(letters)) < len(letters) and node.padded_axes(arg):
            raise PaddingError("takes a diagonal of what is padded")
        for i, (letter, dim) in enumerate(zip(letters, node.dims(arg), strict=True)):
            rows.setdefault(letter, []).append((node.padded_axes(arg).get(i), dim))
    result_axes: Axes = {}
    kept = _axis_labels(outside, len(node.dims(node.op.output)))
    for letter, column in rows.items():
        names = sorted({name for name, _ in column if name is not None})
        if not names:
            continue
        if letter not in kept:
            raise PaddingError(f"adds up along the axis of {names[0]!r}")
        if len(names) > 1:
            raise PaddingError(f"brings {' and '.join(names)} together")
        _expect_same_sizes(node, names[0], column)
        result_axes[kept.index(letter)] = names[0]
    return with_axes(node, result_axes)


def _axis_labels(term: str, rank: int) -> list[str]:
    """A label for each axis; those in place of dots are numbered from the end."""
    head, dots, tail = term.partition("...")
    many = rank - len(head) - len(tail) if dots else 0
    return [*head, *(f".{many - i}" for i in range(many)), *tail]


def convolution(node: PaddedOp) -> list[PaddedState]:
    """Each example is separate; windows would include padding."""
    x, *others = node.args
    expect_unpadded(node, *others)
    batch = node.attrs["layout"].index("N")
    rest = [axis for axis in range(len(node.dims(x))) if axis != batch]
    expect_unpadded_axes(node, x, rest, "slides windows over, or adds up along,")
    return with_axes(node, node.padded_axes(x))


# -- bodies ----------------------------------------------------------------------------


def _propagate_body(
    node: PaddedOp, body: Any, operands: Sequence[PaddedState]
) -> list[PaddedState]:
    """The states of the results of a body for these states of its parameters."""
    for port, state in zip(body.parameters, operands, strict=True):
        node.padding.states[port] = state
        node.padding.expect_consistent(port, state)
    before = len(node.padding.problems)
    node.padding.propagate(body)
    if len(node.padding.problems) > before:
        inner = node.padding.problems[before:]
        del node.padding.problems[before:]
        raise PaddingError(f"has a body in which {'; '.join(dict.fromkeys(inner))}")
    return [node.padding.state(value) for value in body.results]


def _expect_unchanged(
    before: Sequence[PaddedState], after: Sequence[PaddedState]
) -> None:
    if list(before) != list(after):
        raise PaddingError(
            "carries a value that is padded differently after an iteration"
        )


def conditional(node: PaddedOp) -> list[PaddedState]:
    condition, then, otherwise, *xs = node.args
    expect_unpadded(node, condition)
    operands = [node.padding.state(x) for x in xs]
    first, second = (
        _propagate_body(node, body, operands) for body in (then, otherwise)
    )
    if first != second:
        raise PaddingError("has branches whose results are padded differently")
    return first


def loop(node: PaddedOp) -> list[PaddedState]:
    trips, condition, body, *init = node.args
    expect_unpadded(node, trips, condition)
    operands = [node.padding.state(x) for x in init]
    condition_state, *results = _propagate_body(
        node, body, [UNPADDED, UNPADDED, *operands]
    )
    if condition_state:
        raise PaddingError("ends on a condition that is padded")
    _expect_unchanged(operands, results[: len(operands)])
    return [*operands, *(_add_axis(row, 0) for row in results[len(operands) :])]


def scan(node: PaddedOp) -> list[PaddedState]:
    body, length, *values = node.args
    node.static_integers(length)
    count = node.attrs["carried"]
    init, xs = values[:count], values[count:]
    positions = node.attrs["axes"] or (0,) * len(xs)
    rows = []
    for x, position in zip(xs, positions, strict=True):
        axis = position % len(node.dims(x))
        expect_unpadded_axes(node, x, [axis], "goes step by step along")
        rows.append(PaddedState(_remove_axes(node.padded_axes(x), [axis])))
    operands = [node.padding.state(x) for x in init]
    results = _propagate_body(node, body, [*operands, *rows])
    _expect_unchanged(operands, results[:count])
    outs = node.attrs["out_axes"] or (0,) * (len(results) - count)
    ranks = [len(node.dims(port)) for port in node.op.outputs[count:]]
    stacked = zip(results[count:], outs, ranks, strict=True)
    return [*operands, *(_add_axis(row, axis % rank) for row, axis, rank in stacked)]


def _add_axis(row: PaddedState, new: int) -> PaddedState:
    if row.sizes:
        raise PaddingError("stacks padded sizes")
    return PaddedState({a + (a >= new): name for a, name in row.axes.items()})


RULES: Final[PaddingRules] = {
    "pointwise": pointwise,
    **dict.fromkeys(("signbit", "complex", "real", "imag", "conj"), pointwise),
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
    "sort": _along_axis("sorts"),
    "argsort": _along_axis("sorts"),
    "topk": _along_axis("sorts"),
    "flip": _along_axis("turns round"),
    **dict.fromkeys(("fft", "ifft", "rfft", "irfft"), fourier),
    "tril": triangle,
    "triu": triangle,
    **dict.fromkeys(
        (
            "cholesky",
            "inverse",
            "det",
            "slogdet",
            "qr",
            "eig",
            "eigvals",
            "eigh",
            "svd",
            "lu",
        ),
        matrix_op,
    ),
    "searchsorted": searchsorted,
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
    "full": full,
    "arange": arange,
    "eye": pad_by_position,
    "reshape": reshape,
    "matmul": matmul,
    "einsum": einsum,
    **dict.fromkeys(("conv", "conv_transpose", "max_pool", "avg_pool"), convolution),
    "gather": gather,
    "gather_nd": gather_nd,
    "gather_elements": gather_elements,
    "if": conditional,
    "loop": loop,
    "scan": scan,
}
