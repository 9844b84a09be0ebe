"""Blocks of many tensors, lazy ones computed while those before them are written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextvars import copy_context
from itertools import chain
from typing import TYPE_CHECKING

from amanda.tensors.tensor import Tensor

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

__all__ = ["blocks_ahead"]

_LARGE = 1 << 20  # bytes from which on a thread of its own is worth it

Blocks = Iterator[memoryview]


def blocks_ahead(tensors: Iterable[Tensor]) -> Iterator[Blocks]:
    """The packed bytes of each tensor, as of `Tensor.chunks`.

    While those of one are used, the next large lazy tensor is computed in another
    thread, so that it is in memory together with the one before.

    >>> sevens = Tensor.splat("uint8", [2], 7)
    >>> weights = Tensor.lazy(lambda: [1, 2], "uint8", [2])
    >>> [b"".join(blocks) for blocks in blocks_ahead([sevens, weights])]
    [b'\\x07\\x07', b'\\x01\\x02']
    """
    listed = list(tensors)
    large = iter([t for t in listed if t.is_lazy and t.nbytes >= _LARGE])
    coming = next(large, None)
    if coming is None:
        yield from (tensor.chunks() for tensor in listed)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1, "amanda-compute-ahead") as worker:
        waiting = _start(worker, coming)
        for tensor in listed:
            if tensor is not coming:
                yield tensor.chunks()
                continue
            blocks = tensor.chunks() if waiting is None else waiting.result()
            coming = next(large, None)
            waiting = None if coming is None else _start(worker, coming)
            yield blocks


def _start(worker: Executor, tensor: Tensor) -> Future[Blocks] | None:
    """Compute a tensor in another thread; None at the end of the process, where no
    thread can be started."""
    try:
        return worker.submit(copy_context().run, _begin, tensor)
    except RuntimeError:
        return None


def _begin(tensor: Tensor) -> Blocks:
    """The blocks, after the first was computed."""
    blocks = tensor.chunks()
    return chain([next(blocks)], blocks)
