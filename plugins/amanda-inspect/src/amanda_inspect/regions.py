"""Which op of a region makes an error, where only its inputs and output correspond.

Two models may compute one value by different ops: attention as one op, or as products
and a softmax. Both regions run on the same inputs, the reference with its composites
decomposed. Values with the same elements, in any order, correspond. The error is made
by the first op whose output corresponds to nothing, nor does what is computed from it.

A fault may make an op one that optimization removes, such as a transposition that keeps
the order of axes. So regions are searched as they were before it as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, Final, NamedTuple

from amanda.backend import extract_graph
from amanda.graph import Op, OutputPort
from amanda_inspect.common import Unoptimized
from amanda_inspect.lockstep import Lockstep, Reference
from amanda_inspect.rounding import rounding_bound
from amanda_inspect.windows import Backend, Values, reads_of, with_constants
from amanda_std.backends import infer, is_not_composite, lower

__all__ = [
    "Print",
    "equal_in_order",
    "find_first_error",
    "find_removed_op",
    "prints_of_values",
]

SAMPLE: Final = 4096
"""Elements by which large values are compared, in order and sorted."""


class Print(NamedTuple):
    """A sample of the elements of a value; None where they say nothing."""

    shape: tuple[int, ...]
    bound: float
    ordered: Any
    sorted: Any


def find_first_error(run: Lockstep, op: Op, limit: int) -> Op | None:
    """The op of the region that ends in `op` which makes its error, if one does."""
    region = run.segment(op)
    theirs = list(_reference_prints(run, op, limit))
    mine = _prints_of(region, run.forced_value, run.backend, limit)
    equal = _find_equal(list(mine), theirs, _same_elements)
    return _first_without_equal(region, equal)


def find_removed_op(
    run: Lockstep, op: Op, sides: tuple[Unoptimized, Unoptimized], limit: int
) -> Op | None:
    """An op that optimization removed, whose output no value of the reference is."""
    values = run.matching.values
    ports = [port for port in op.outputs if port in values]
    mine = sides[1].region(ports, values)
    theirs = sides[0].region([values[p] for p in ports], set(values.values()))
    if len(mine) < 2 or not theirs:
        return None

    def read(i: int, value: Callable[[OutputPort], Any]) -> Callable[..., Any]:
        return lambda port: value(sides[i].values[port])

    given = read(0, run.reference.value)
    prints = list(prints_of_values(theirs, given, run.reference.backend, limit))
    own = list(_prints_of(mine, read(1, run.forced_value), run.backend, limit))
    if _first_without_equal(mine, _find_equal(own, prints, _same_elements)):
        return None
    equal = _find_equal(own, prints, _same_order)
    kept = {each.type for each in theirs if not sides[0].is_removed(each)}
    for each in mine:
        if sides[1].is_removed(each):  # what it returns is what it reads
            equal[each.output] = False if each.type in kept else None
    return _first_without_equal(mine, equal)


def prints_of_values(
    region: Sequence[Op],
    value: Callable[[OutputPort], Any],
    backend: Backend,
    limit: int,
) -> Iterator[Print]:
    """Prints of what some ops of a graph compute."""
    for _, found in _prints_of(region, value, backend, limit) if region else ():
        if found is not None:
            yield found


def equal_in_order(value: Any, other: Print) -> bool:
    """Whether a value has the shape and the elements of another."""
    mine = _print(value)
    return mine is not None and _same_order(mine, other)


def _find_equal(
    own: Sequence[tuple[OutputPort, Print | None]],
    others: Sequence[Print],
    same: Callable[[Print, Print], bool],
) -> dict[OutputPort, bool | None]:
    """Whether each value has an equal one."""
    return {
        port: None if each is None else any(same(each, other) for other in others)
        for port, each in own
    }


def _reference_prints(run: Lockstep, op: Op, limit: int) -> Iterator[Print]:
    """Prints of what the reference computes, with composites decomposed, and reads."""
    region = run.reference_segment(op)
    own = {port for each in region for port in each.outputs}
    reads = dict.fromkeys(p for each in region for p in reads_of(each) if p not in own)
    for port in reads:
        known = _print(run.reference.value(port))
        if known is not None:
            yield known
    value, backend = run.reference.value, run.reference.backend
    for is_lowered in (False, True):
        for _, found in _prints_of(region, value, backend, limit, is_lowered):
            if found is not None:
                yield found


def _prints_of(
    region: Sequence[Op],
    value: Callable[[OutputPort], Any],
    backend: Backend,
    limit: int,
    is_lowered: bool = False,
) -> Iterator[tuple[OutputPort, Print | None]]:
    """Prints of all values of some ops of a graph, window by window."""
    graph = region[0].graph
    assert graph is not None
    results = [port for each in region for port in each.outputs]
    part, reads = extract_graph(graph, with_constants(region), results)
    feeds: Values = dict(zip(part.parameters, map(value, reads), strict=True))
    if is_lowered:
        lower(part, is_not_composite)
        infer(part)
        pairs = [(p, p) for op in part if not op.is_constant for p in op.outputs]
    else:
        both = zip(results, part.results, strict=True)
        pairs = [(port, copy) for port, copy in both if copy is not None]
    needs = Counter(copy for _, copy in pairs)
    while part.result_ports:
        part.remove_result(len(part.result_ports) - 1)
    run = Reference(part, feeds, needs, backend, limit)
    for port, copy in pairs:
        yield port, _print(run.value(copy))
        run.need_less(copy)


def _print(value: Any) -> Print | None:
    import numpy as np

    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind not in "fV" or value.size < 2:
        return None
    flat = np.nan_to_num(np.asarray(value).reshape(-1).astype("float64"))
    ranks = np.linspace(0, flat.size - 1, min(flat.size, SAMPLE)).astype("int64")
    in_order = np.sort(flat)
    if in_order[0] == in_order[-1]:
        return None
    bound = rounding_bound(value) * float(np.abs(flat).max())
    return Print(value.shape, bound, flat[ranks], in_order[ranks])


def _same_elements(mine: Print, theirs: Print) -> bool:
    return prod(mine.shape) == prod(theirs.shape) and _are_close(
        mine.sorted, theirs.sorted, mine.bound
    )


def _same_order(mine: Print, theirs: Print) -> bool:
    same = mine.shape == theirs.shape
    return same and _are_close(mine.ordered, theirs.ordered, mine.bound)


def _are_close(a: Any, b: Any, bound: float) -> bool:
    import numpy as np

    return bool(np.abs(a - b).max() <= bound)


def _first_without_equal(
    region: Sequence[Op], equal: Mapping[OutputPort, bool | None]
) -> Op | None:
    """The first op whose outputs equal nothing, nor does what is computed from it."""
    good: set[Op] = set()
    for op in reversed(region):
        users = {user for port in op.outputs for user in port.user_ops}
        if any(equal.get(port) for port in op.outputs) or users & good:
            good.add(op)
    bad = (
        op
        for op in region
        if op not in good and any(equal.get(p) is False for p in op.outputs)
    )
    return next(bad, None)
