"""Bucketing: inputs are padded to a few sizes, with one program for each of them.

Inputs are padded with zeros to the next size, and results are cut back to their own.
That results are the same as without padding is proved first: see `padding`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock
from typing import Any

import jax
import numpy as np

from amanda.errors import BackendError
from amanda.graph import Graph, OutputPort
from amanda.types import Dim, Sym, TensorType, evaluate
from amanda_jax.compile.code import BuildContext, CodeDetails, CompiledCode
from amanda_jax.compile.specialize import describe
from amanda_jax.settings import Sizes
from amanda_jax.shapes.padding import UNPADDED, Padding, join_names
from amanda_jax.shapes.padding_rules import RULES
from amanda_std.backends import infer, is_not_composite, lower

__all__ = ["compile_padded", "cut_result", "padded_results", "propagate_padding"]


def compile_padded(
    graph: Graph,
    build: BuildContext,
    compile_graph: Callable[[Graph, BuildContext], CompiledCode],
) -> CompiledCode:
    """Compile a graph that the passes have prepared: with buckets, or with bounds for
    sizes that depend on data, where the settings ask for them."""
    if build.settings.padded:
        from amanda_jax.shapes.dynamic_shapes import BoundedProgram

        return BoundedProgram(graph, build)
    if build.settings.sizes:
        return BucketedCode(graph, compile_graph(graph, build), build)
    return compile_graph(graph, build)


class BucketedCode(CompiledCode):
    """Pads the feeds, runs other code, and cuts the results."""

    def __init__(self, graph: Graph, code: CompiledCode, build: BuildContext) -> None:
        self._port_dims = sizes = build.settings.sizes
        self._input_dims = _input_dims(graph, sizes)
        largest = {name: max(given, default=None) for name, given in sizes.items()}
        self._cuts = padded_results(graph, largest)
        self._code = code
        self._as_numpy = build.settings.results == "numpy"
        self._calls: Counter[tuple[tuple[str, int], ...]] = Counter()
        self._lock = Lock()

    def __call__(self, args: Iterable[Any]) -> Sequence[Any]:
        feeds = [*args]
        real = self._real_sizes(feeds)
        padded = {
            name: _next_size(n, self._port_dims.get(name)) for name, n in real.items()
        }
        with self._lock:
            self._calls[tuple((name, padded[name]) for name in self._port_dims)] += 1
        if padded == real:
            return self._code(feeds)
        rows = zip(feeds, self._input_dims, strict=True)
        results = self._code([_pad_feed(x, dims, padded) for x, dims in rows])
        return [
            cut_result(result, axes, real, self._as_numpy)
            for result, axes in zip(results, self._cuts, strict=True)
        ]

    def _real_sizes(self, args: Sequence[Any]) -> dict[str, int]:
        """The sizes of the feeds by name; the feeds are known to agree on them."""
        sizes: dict[str, int] = {}
        for x, dims in zip(args, self._input_dims, strict=True):
            shape = np.shape(x)
            if len(shape) != len(dims):
                continue
            for size, dim in zip(shape, dims, strict=True):
                name = dim.name if isinstance(dim, Sym) else None
                if name is not None:
                    sizes[name] = size
        return sizes

    @property
    def aliased_results(self) -> frozenset[int]:
        return self._code.aliased_results

    @property
    def details(self) -> CodeDetails:
        with self._lock:
            calls = sorted(self._calls.items())
        buckets = {
            " and ".join(f"{size} of {name!r}" for name, size in sizes): n
            for sizes, n in calls
        }
        return CodeDetails(buckets=buckets)

    def children(self) -> Sequence[CompiledCode]:
        return (self._code,)


def cut_result(
    result: Any, axes: Mapping[int, Dim], real: Mapping[str, int], as_numpy: bool
) -> Any:
    """A result without the elements beyond its real sizes."""
    if not axes:
        return result
    array = np.asarray(result) if as_numpy else result
    ends = {axis: evaluate(dim, real) for axis, dim in axes.items()}
    return array[tuple(slice(ends.get(i)) for i in range(array.ndim))]


def _next_size(size: int, sizes: Sequence[int] | None) -> int:
    """The next bucket or power of two; the size itself beyond all buckets."""
    if sizes is None:
        return size
    if not sizes:
        return 1 << max(size - 1, 0).bit_length()
    return min((n for n in sizes if n >= size), default=size)


def _pad_feed(x: Any, dims: Sequence[Dim], sizes: Mapping[str, int]) -> Any:
    """A feed, padded with zeros at the end to these sizes."""
    shape = np.shape(x)
    if len(shape) != len(dims):
        return x
    target = [
        max(n, evaluate(dim, sizes)) if _is_known(dim, sizes) else n
        for n, dim in zip(shape, dims, strict=True)
    ]
    if target == list(shape):
        return x
    rows = [(0, more - n) for more, n in zip(target, shape, strict=True)]
    if isinstance(x, jax.Array) and not _is_readable(x):
        with jax.enable_x64(True):
            return jax.numpy.pad(x, rows)
    own = np.asarray(x)
    padded = np.zeros(target, own.dtype)
    padded[tuple(map(slice, shape))] = own
    return padded


def _is_readable(x: jax.Array) -> bool:
    """Whether the CPU can read an array where it is."""
    cpu = all(device.platform == "cpu" for device in x.devices())
    return cpu and x.is_fully_addressable


def _is_known(dim: Dim, sizes: Mapping[str, int]) -> bool:
    return isinstance(dim, Sym) and all(s.name in sizes for s in dim.free)


def _input_dims(graph: Graph, sizes: Sizes) -> list[Sequence[Dim]]:
    """The dims of each input; BackendError for a size that none of them has."""
    inputs: list[Sequence[Dim]] = []
    names: dict[str, None] = {}
    for port in graph.parameters:
        dims = _port_dims(port)
        inputs.append(dims)
        names |= dict.fromkeys(d.name for d in dims if isinstance(d, Sym) and d.name)
    for name in sizes:
        if name not in names:
            types = ", ".join(f"{describe(p)}: {p.type}" for p in graph.parameters)
            raise BackendError(
                f"no input has a dim {name!r} that could be padded",
                expected=f"one of {', '.join(names)}" if names else "sizes with names",
                got=types,
            )
    return inputs


# -- the proof -------------------------------------------------------------------------


def padded_results(
    graph: Graph, largest: Mapping[str, int | None]
) -> list[Mapping[int, Dim]]:
    """The axes of each result that padding makes longer, with their real sizes.

    `largest`: the largest size that each is padded to, if there is one. All ops that
    padding must not reach are reported in one error."""
    copy = graph.clone()
    lower(copy, is_not_composite)
    infer(copy)
    padding = Padding(largest, RULES)
    cuts = propagate_padding(copy, padding)
    if padding.problems:
        raise BackendError(
            f"inputs cannot be padded along {join_names(largest)} to the sizes in "
            "`buckets`",
            problems=padding.problems,
            hint="leave such a size out of `buckets`: a program is then compiled for "
            "each of its values",
        )
    return cuts


def propagate_padding(graph: Graph, padding: Padding) -> list[Mapping[int, Dim]]:
    """The padded axes of the results; problems are recorded in `padding`."""
    for port in graph.parameters:
        padding.add_input(port)
    padding.propagate(graph)
    known = {
        s
        for port in graph.parameters
        for d in _port_dims(port)
        for s in _free_symbols(d)
    }
    result_cuts: list[Mapping[int, Dim]] = []
    for i, value in enumerate(graph.results):
        state = UNPADDED if value is None else padding.state(value)
        if state.sizes:
            names = join_names(state.sizes)
            padding.problems.append(f"result {i} depends on the size of {names}")
        cuts = {} if value is None else {a: _port_dims(value)[a] for a in state.axes}
        if any(not _free_symbols(dim) <= known for dim in cuts.values()):
            padding.problems.append(
                f"the size of result {i} does not follow from those of the inputs"
            )
        result_cuts.append(cuts)
    return result_cuts


def _port_dims(port: OutputPort) -> Sequence[Dim]:
    own = port.type
    is_ranked = isinstance(own, TensorType) and own.shape.has_rank
    return own.shape.dims if isinstance(own, TensorType) and is_ranked else ()


def _free_symbols(dim: Dim) -> frozenset[Sym]:
    return dim.free if isinstance(dim, Sym) else frozenset()
