"""Weights that a compiled graph has as constants, and whether they changed since."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

import torch

from amanda.graph import Graph
from amanda.tensors import Tensor
from amanda_torch.backend.arrays import to_numpy

__all__ = ["FrozenWeights", "are_writes_counted", "freeze"]

_write_count = attrgetter("_version")
"""How often a tensor was written, as autograd counts it."""
_SAMPLES: Final = 16
_SAMPLE_SIZE: Final = 32
"""Bytes of a sample: within a cache line they cost as much as one element of it, and
those of 200 weights are too few for PyTorch to start threads that compare them."""
_BITS: Final = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


class FrozenWeights:
    """The weights of an executable, by their places in the arguments of a graph.

    A weight has changed if its memory is elsewhere or was written to. Writes that
    PyTorch does not count, as through `weight.data`, show in a few elements."""

    def __init__(self, args: Sequence[Any], places: Iterable[int]) -> None:
        self._places = tuple(places)
        weights = [args[i] for i in self._places]
        self._state = self._read_state(args)
        self._memory = [each.detach() for each in weights]
        """Keeps the memory, so that no other weight gets its address."""
        self._samples: list[list[Any]] = []
        self._sampled: list[Any] = []

    def take_samples(self) -> None:
        """Record elements, with which `are_current` compares later ones."""
        self._samples = _sample_views(self._memory)
        self._sampled = [torch.cat(views) for views in self._samples]

    def _read_state(self, args: Sequence[Any]) -> list[Any]:
        weights = [args[i] for i in self._places]
        return [
            (w.data_ptr(), 0 if w.is_inference() else _write_count(w)) for w in weights
        ]

    def are_current(self, args: Sequence[Any]) -> bool:
        """Whether the weights among the arguments are still these, unwritten."""
        return self._read_state(args) == self._state and all(
            torch.equal(torch.cat(views), known)
            for views, known in zip(self._samples, self._sampled, strict=True)
        )

    def on_release(self, args: Sequence[Any], call: Callable[[], None]) -> Any:
        """A reference that calls a function when the model frees its first weight."""
        return weakref.ref(args[self._places[0]], lambda _: call())


def are_writes_counted(weights: Iterable[Any]) -> bool:
    """Whether PyTorch counts the writes to all these tensors, in host memory."""
    return all(
        isinstance(each, torch.Tensor)
        and each.device.type == "cpu"
        and not each.is_inference()
        for each in weights
    )


def _sample_views(weights: Iterable[Any]) -> list[list[Any]]:
    """Views of a few rows of elements of each tensor, as integers, by dtype and width;
    of a small tensor, all of it."""
    found: dict[Any, list[Any]] = {}
    for weight in weights:
        axes = zip(weight.shape, weight.stride(), strict=True)
        span = 1 + sum((size - 1) * stride for size, stride in axes)
        if not weight.numel():
            continue
        width = max(1, _SAMPLE_SIZE // weight.itemsize)
        size, step = (_SAMPLES, width), (span - width) // (_SAMPLES - 1)
        if span <= _SAMPLES * width:
            width, size, step = 1, (span, 1), 1
        rows = weight.as_strided(size, (step, 1))
        rows = rows.view(_BITS.get(rows.itemsize, rows.dtype))
        found.setdefault((rows.dtype, width), []).append(rows)
    return [*found.values()]


def freeze(graph: Graph, values: Mapping[Any, Any]) -> None:
    """Replace parameters of a graph by constants that share the memory of tensors."""
    with graph.before(next(iter(graph), None)):
        for port, value in values.items():
            constant = graph.constant(Tensor.of(to_numpy(value)), port.name)
            graph.replace_uses(port, constant.output)
    for port in reversed([*values]):
        graph.remove_parameter(port.index)
