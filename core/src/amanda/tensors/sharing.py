"""Deduplication of tensors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from amanda.tensors.tensor import Tensor

__all__ = ["dedup"]


def dedup(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Replace each tensor by the first one with equal content.

    Only tensors whose element type and shape occur more than once are hashed.

    >>> a, b, c = dedup([Tensor.of([1, 2]), Tensor.of([1, 2]), Tensor.of([3])])
    >>> a is b
    True
    """
    tensors = list(tensors)
    groups: defaultdict[object, dict[int, Tensor]] = defaultdict(dict)
    for tensor in tensors:
        groups[tensor.dtype, tensor.shape][id(tensor)] = tensor
    shared: dict[int, Tensor] = {}
    for group in groups.values():
        first: dict[str, Tensor] = {}
        for identity, tensor in group.items():
            found = tensor
            if len(group) > 1:
                found = first.setdefault(tensor.digest(), tensor)
            shared[identity] = found
    return [shared[id(tensor)] for tensor in tensors]
