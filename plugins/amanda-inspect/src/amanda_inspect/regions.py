"""Which op of a region makes an error, where only its inputs and output correspond.

Two models may compute one value by different ops: attention as one op, or as products
and a softmax. Both regions run on the same inputs, the reference with its composites
decomposed. Values with the same elements, in any order, correspond. The error is made
by the first op whose output corresponds to nothing, nor does what is computed from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amanda.backend import extract_graph
from amanda.graph import Graph, Op, OutputPort
from amanda_inspect.lockstep import Lockstep
from amanda_inspect.windows import Values, reads_of, run_ops, run_part, with_constants
from amanda_std.backends import infer, is_not_composite, lower

__all__ = ["find_first_error"]


def find_first_error(run: Lockstep, op: Op) -> Op:
    """The op of the region that ends in `op` which makes its error."""
    region = run.segment(op)
    values = run_ops(
        run.matching.b,
        region,
        [port for each in region for port in each.outputs],
        run.forced_value,
        run.backend,
    )
    known = [run.reference.values[p] for p in _reference_reads(run, op)]
    theirs = [*_reference_values(run, op), *known]
    mine = {port: _has_equal(value, theirs) for port, value in values.items()}
    found = _without_equal_descendants(region, mine)
    return found[0] if found else op


def _reference_region(run: Lockstep, op: Op) -> list[Op]:
    """The ops of the reference that no op of the other graph corresponds to."""
    counterparts = set(run.matching.values.values())
    found: dict[Op, None] = {}
    waiting = [
        run.matching.values[p].op for p in op.outputs if p in run.matching.values
    ]
    while waiting:
        each = waiting.pop()
        if each in found or each.is_constant or isinstance(each, Graph):
            continue
        found[each] = None
        waiting += [p.op for p in reads_of(each) if p not in counterparts]
    return sorted(found, key=lambda each: each.index)


def _reference_reads(run: Lockstep, op: Op) -> list[OutputPort]:
    """The values that the region of the reference reads, as far as they are kept."""
    region = _reference_region(run, op)
    own = {port for each in region for port in each.outputs}
    reads = dict.fromkeys(p for each in region for p in reads_of(each) if p not in own)
    return [port for port in reads if port in run.reference.values]


def _reference_values(run: Lockstep, op: Op) -> list[Any]:
    """All values of the region of the reference, with its composites decomposed."""
    region = _reference_region(run, op)
    results = [port for each in region for port in each.outputs]
    part, reads = extract_graph(run.matching.a, with_constants(region), results)
    if not all(port in run.reference.values for port in reads):
        return []
    lower(part, is_not_composite)
    infer(part)
    for each in list(part):
        if not each.is_constant:
            for port in each.outputs:
                part.result(port)
    for i, port in enumerate(part.outputs):
        port.name = f"value {i}"
    feeds = [run.reference.values[port] for port in reads]
    return run_part(part, feeds, run.reference.backend)


def _has_equal(value: Any, others: Sequence[Any]) -> bool | None:
    """Whether one of the others has the same elements; None where that says nothing."""
    import numpy as np

    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind not in "fV" or value.size < 2:
        return None
    mine = np.sort(value, axis=None).astype("float64")
    if mine[0] == mine[-1]:
        return None
    bound = 1e-4 * float(np.abs(mine[np.isfinite(mine)]).max(initial=0.0))
    for other in others:
        if getattr(other, "size", 0) == mine.size and other.dtype.kind in "fV":
            theirs = np.sort(other, axis=None).astype("float64")
            if np.allclose(mine, theirs, rtol=0, atol=bound, equal_nan=True):
                return True
    return False


def _without_equal_descendants(region: Sequence[Op], equal: Values) -> list[Op]:
    """Ops whose outputs correspond to nothing, and all that is computed from them."""
    good: set[Op] = set()
    for op in reversed(region):
        users = {user for port in op.outputs for user in port.user_ops}
        if any(equal.get(port) for port in op.outputs) or users & good:
            good.add(op)
    return [
        op
        for op in region
        if op not in good and any(equal.get(p) is False for p in op.outputs)
    ]
