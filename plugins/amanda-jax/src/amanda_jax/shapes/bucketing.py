"""Sizes that change from call to call, padded to a few: a program for each of those.

Inputs are filled up with zeros to the next size, and results are cut back to their own.
That this gives what the graph gives without it is proved first: see `padding`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any

import jax
import numpy as np

from amanda.errors import BackendError
from amanda.graph import Graph, OutputPort
from amanda.types import Dim, Sym, TensorType, evaluate
from amanda_jax.compile.code import Build, Code, Told
from amanda_jax.compile.partition import code_of
from amanda_jax.compile.specialize import called
from amanda_jax.settings import Sizes
from amanda_jax.shapes.padding import CLEAN, Padding, listed
from amanda_jax.shapes.padding_rules import RULES
from amanda_std.backends import infer, is_not_composite, lower

__all__ = ["Buckets", "coded", "cut_back", "followed_through", "padded_results"]


def coded(
    graph: Graph, build: Build, code_of: Callable[[Graph, Build], Code] = code_of
) -> Code:
    """What runs a graph that is `prepared`: in buckets, or with bounds of what data
    decides, where these are asked for."""
    if build.settings.padded:
        from amanda_jax.shapes.dynamic_shapes import Bounded

        return Bounded(graph, build)
    if build.settings.sizes:
        return Buckets(graph, build.settings.sizes, build, code_of)
    return code_of(graph, build)


class Buckets:
    """Called like a program; pads, calls one, and cuts."""

    quick = None
    compilations = 0

    def __init__(
        self, graph: Graph, sizes: Sizes, build: Build, code_of: Callable[..., Code]
    ) -> None:
        self._sizes = sizes
        self._dims = _dims(graph, sizes)
        most = {name: max(given) if given else None for name, given in sizes.items()}
        self._cuts = padded_results(graph, most)
        self._code = code_of(graph, build)
        self._as_numpy = build.settings.results == "numpy"
        self._met: Counter[tuple[tuple[str, int], ...]] = Counter()
        self._lock = Lock()

    def __call__(self, args: Iterable[Any]) -> Sequence[Any]:
        given = [*args]
        real = self._real(given)
        full = {name: _next(n, self._sizes.get(name)) for name, n in real.items()}
        with self._lock:
            self._met[tuple((name, full[name]) for name in self._sizes)] += 1
        if full == real:
            return self._code(given)
        rows = zip(given, self._dims, strict=True)
        made = self._code([_filled(x, dims, full) for x, dims in rows])
        return [
            cut_back(result, axes, real, self._as_numpy)
            for result, axes in zip(made, self._cuts, strict=True)
        ]

    def _real(self, args: Sequence[Any]) -> dict[str, int]:
        """The sizes that are fed, by their names; that inputs agree was seen to."""
        found: dict[str, int] = {}
        for x, dims in zip(args, self._dims, strict=True):
            shape = np.shape(x)
            if len(shape) != len(dims):
                continue
            for size, dim in zip(shape, dims, strict=True):
                name = dim.name if isinstance(dim, Sym) else None
                if name is not None:
                    found[name] = size
        return found

    @property
    def copied(self) -> frozenset[int]:
        return self._code.copied

    @property
    def pieces(self) -> int:
        return self._code.pieces

    @property
    def told(self) -> Told:
        with self._lock:
            met = sorted(self._met.items())
        rows = [
            (" and ".join(f"{size} of {name!r}" for name, size in sizes), n)
            for sizes, n in met
        ]
        return Told(buckets=dict(rows))

    def parts(self) -> Iterator[Code]:
        yield self
        yield from self._code.parts()


def cut_back(
    result: Any, axes: Mapping[int, Dim], real: Mapping[str, int], as_numpy: bool
) -> Any:
    """A result without what is behind its own sizes."""
    if not axes:
        return result
    found = np.asarray(result) if as_numpy else result
    ends = {axis: evaluate(dim, real) for axis, dim in axes.items()}
    return found[tuple(slice(ends.get(i)) for i in range(found.ndim))]


def _next(size: int, sizes: Sequence[int] | None) -> int:
    """The size to pad to: the next that is told, or power of two; its own beyond."""
    if sizes is None:
        return size
    if not sizes:
        return 1 << max(size - 1, 0).bit_length()
    return min((n for n in sizes if n >= size), default=size)


def _filled(x: Any, dims: Sequence[Dim], sizes: Mapping[str, int]) -> Any:
    """An input with zeros behind it, up to these sizes."""
    shape = np.shape(x)
    if len(shape) != len(dims):
        return x
    wanted = [
        max(n, evaluate(dim, sizes)) if _is_told(dim, sizes) else n
        for n, dim in zip(shape, dims, strict=True)
    ]
    if wanted == list(shape):
        return x
    rows = [(0, more - n) for more, n in zip(wanted, shape, strict=True)]
    if isinstance(x, jax.Array) and not _is_near(x):
        with jax.enable_x64(True):
            return jax.numpy.pad(x, rows)
    own = np.asarray(x)
    filled = np.zeros(wanted, own.dtype)
    filled[tuple(map(slice, shape))] = own
    return filled


def _is_near(x: jax.Array) -> bool:
    """Whether the host can read an array where it is."""
    cpu = all(device.platform == "cpu" for device in x.devices())
    return cpu and x.is_fully_addressable


def _is_told(dim: Dim, sizes: Mapping[str, int]) -> bool:
    return isinstance(dim, Sym) and all(s.name in sizes for s in dim.free)


def _dims(graph: Graph, sizes: Sizes) -> list[Sequence[Dim]]:
    """The dims of each input; UsageError for a size that none of them has."""
    found: list[Sequence[Dim]] = []
    names: dict[str, None] = {}
    for port in graph.parameters:
        dims = _sizes(port)
        found.append(dims)
        names |= dict.fromkeys(d.name for d in dims if isinstance(d, Sym) and d.name)
    for name in sizes:
        if name not in names:
            types = ", ".join(f"{called(p)}: {p.type}" for p in graph.parameters)
            raise BackendError(
                f"no input has a size {name!r} that could be padded",
                expected=f"one of {', '.join(names)}" if names else "sizes with names",
                got=types,
            )
    return found


# -- the proof -------------------------------------------------------------------------


def padded_results(
    graph: Graph, most: Mapping[str, int | None]
) -> list[Mapping[int, Dim]]:
    """The axes that padding makes longer, of each result, and how long they are.

    `most` tells the largest size that each is padded to, if there is one. All ops that
    padding must not reach are told in one error."""
    copy = graph.clone()
    lower(copy, is_not_composite)
    infer(copy)
    padding = Padding(most, RULES)
    found = followed_through(copy, padding)
    if padding.problems:
        raise BackendError(
            f"inputs cannot be padded along {listed(most)} to the sizes in `buckets`",
            problems=padding.problems,
            hint="leave such a size out of `buckets`: a program is then compiled for "
            "each that is met",
        )
    return found


def followed_through(graph: Graph, padding: Padding) -> list[Mapping[int, Dim]]:
    """What padding of the inputs makes of the results; problems are noted there."""
    for port in graph.parameters:
        padding.feed(port)
    padding.follow(graph)
    known = {s for port in graph.parameters for d in _sizes(port) for s in _free(d)}
    found: list[Mapping[int, Dim]] = []
    for i, value in enumerate(graph.results):
        state = CLEAN if value is None else padding.state(value)
        if state.sizes:
            told = f"result {i} tells the size of {listed(state.sizes)}"
            padding.problems.append(told)
        cuts = {} if value is None else {a: _sizes(value)[a] for a in state.axes}
        if any(not _free(dim) <= known for dim in cuts.values()):
            padding.problems.append(f"the size of result {i} is not told by the inputs")
        found.append(cuts)
    return found


def _sizes(port: OutputPort) -> Sequence[Dim]:
    found = port.type
    ranked = isinstance(found, TensorType) and found.shape.has_rank
    return found.shape.dims if isinstance(found, TensorType) and ranked else ()


def _free(dim: Dim) -> frozenset[Sym]:
    return dim.free if isinstance(dim, Sym) else frozenset()
