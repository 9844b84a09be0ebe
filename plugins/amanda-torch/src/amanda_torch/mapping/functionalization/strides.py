"""How tensors lie in memory, by the strides in the file, and which ops copy them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

from amanda.graph import Op, OutputPort
from amanda.types import TensorType
from amanda_torch.records import INPUT_RECORDS, NODE_RECORDS

__all__ = ["Memory", "memory_of", "offset_of", "shares_memory", "viewable"]


class Memory(NamedTuple):
    """How the elements of a dense tensor lie in memory."""

    axes: tuple[int, ...]
    """The axes from the outermost one to that of neighbours."""
    offset: int
    """The place of the first element in the storage."""

    @property
    def is_in_rows(self) -> bool:
        """Whether the axes are in their usual order."""
        return self.axes == tuple(range(len(self.axes)))


def memory_of(port: OutputPort) -> Memory | None:
    """How a tensor lies in memory; None where it is not dense, or not known."""
    recorded = _entry_of(port)
    rank = port.type.shape.rank if isinstance(port.type, TensorType) else None
    if recorded is None:
        return None if rank is None else Memory(tuple(range(rank)), 0)
    sizes = _numbers(recorded.get("sizes"))
    strides = _numbers(recorded.get("strides"))
    offset = offset_of(port)
    if sizes is None or strides is None or offset is None:
        return None
    axes = dense_order(sizes, strides)
    return None if axes is None else Memory(axes, offset)


def dense_order(sizes: Sequence[int], strides: Sequence[int]) -> tuple[int, ...] | None:
    """The axes from the outermost one; None where elements are apart, or overlap.

    >>> dense_order([2, 3], [1, 2]), dense_order([2, 3], [6, 2])
    ((1, 0), None)
    """
    axes = tuple(range(len(sizes)))
    if _is_contiguous(sizes, strides):
        return axes
    order = tuple(sorted(axes, key=lambda axis: -strides[axis]))
    turned = [sizes[i] for i in order], [strides[i] for i in order]
    return order if _is_contiguous(*turned) else None


def offset_of(port: OutputPort) -> int | None:
    """The place of the first element of a tensor in its storage; None if not known."""
    recorded = _entry_of(port)
    found = [0] if recorded is None else _numbers([recorded.get("storage_offset", {})])
    return None if found is None else found[0]


def shares_memory(op: Op, source: OutputPort) -> bool:
    """Whether the result of `reshape`, `contiguous` and the like is a view.

    Values whose strides the file does not record are contiguous.
    """
    recorded = _entry_of(source)
    format = op.attrs.get("memory_format")
    if format not in (None, "contiguous_format", "preserve_format"):
        return recorded is not None and recorded == _entry_of(op.outputs[0])
    if recorded is None:
        return True
    sizes = _numbers(recorded.get("sizes"))
    strides = _numbers(recorded.get("strides"))
    if sizes is None or strides is None:
        return True
    if op.type in ("aten.contiguous.default", "aten.ravel.default"):
        return _is_contiguous(sizes, strides)
    new = _sizes_of(op.outputs[0])
    return new is None or viewable(sizes, strides, new)


def _is_contiguous(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """
    >>> _is_contiguous([1, 2], [7, 1]), _is_contiguous([1, 2], [4, 2])
    (True, False)
    """
    usual = [prod(sizes[i + 1 :]) for i in range(len(sizes))]
    rows = zip(sizes, strides, usual, strict=True)
    return 0 in sizes or all(n == 1 or have == want for n, have, want in rows)


def viewable(sizes: Sequence[int], strides: Sequence[int], new: Sequence[int]) -> bool:
    """Whether a tensor can be seen with other sizes without a copy.

    >>> viewable([2, 3], [3, 1], [6]), viewable([2, 3], [1, 2], [6])
    (True, False)
    """
    if 0 in sizes or not sizes:
        return True
    rest, taken, whole = list(new), 1, 1
    step = strides[-1]
    for d in reversed(range(len(sizes))):
        whole *= sizes[d]
        joined = d > 0 and (sizes[d - 1] == 1 or strides[d - 1] == whole * step)
        if joined:
            continue
        while rest and (taken < whole or rest[-1] == 1):
            taken *= rest.pop()
        if taken != whole:
            return False
        step, taken, whole = strides[d - 1], 1, 1
    return not rest


def _entry_of(port: OutputPort) -> Mapping[str, Any] | None:
    """What the file records of a tensor; None for what is usual."""
    if not port.op.outputs or port.op.is_graph:
        found: Any = INPUT_RECORDS.of(port).get("value")
        return found if isinstance(found, dict) else None
    values = NODE_RECORDS.of(port.op).get("values") or ()
    return values[port.index] if port.index < len(values) else None


def _sizes_of(port: OutputPort) -> list[int] | None:
    recorded = _entry_of(port)
    if recorded is not None:
        return _numbers(recorded.get("sizes"))
    dims = port.type.shape.dims if isinstance(port.type, TensorType) else ()
    known = [d for d in dims if isinstance(d, int)]
    return known if len(known) == len(dims) else None


def _numbers(entries: Any) -> list[int] | None:
    """Sizes or strides; of symbolic ones the values that the program was traced with.

    >>> _numbers([{"as_int": 2}, {"as_expr": {"hint": {"as_int": 5}}}])
    [2, 5]
    """
    found = []
    for entry in entries or ():
        number = entry.get("as_int")
        if number is None:
            number = ((entry.get("as_expr") or {}).get("hint") or {}).get("as_int")
        if number is None:
            return None
        found.append(number)
    return found
