"""What data decides the size of, made in XLA with a bound, and cut on the host.

An op such as `nonzero` gives as much as it is told at most, and the count of what is
there. What follows runs on that, in the same program, as it does on padding; the proof
is the same (see `padding`), and results are cut to the count. Where there is more than
the bound, the call runs again in pieces, with the real size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from threading import Lock
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from amanda.errors import AmandaError, BackendError
from amanda.graph import Graph, Op
from amanda.types import Sym, TensorType
from amanda_jax.compile.code import Build, Code, Told
from amanda_jax.compile.jitted_program import FullError, MisfitError, is_array
from amanda_jax.compile.partition import code_of, why_outside
from amanda_jax.compile.specialize import called
from amanda_jax.compile.trace_context import running
from amanda_jax.kernels import JAX
from amanda_jax.kernels.dynamic_shapes import MOST
from amanda_jax.shapes.bucketing import cut_back, followed_through
from amanda_jax.shapes.padding import Padding
from amanda_jax.shapes.padding_rules import RULES
from amanda_jax.shapes.static_values import followed
from amanda_jax.weights.device_weights import Held
from amanda_std.backends import StepRunner as Steps
from amanda_std.backends import (
    infer,
    is_not_composite,
    is_std,
    lower,
    operation_of,
    use_kernels,
)

__all__ = ["Bounded"]


class _EmptyError(AmandaError):
    """There is nothing to look at, so the op is left to its definition."""


_counts: ContextVar[list[Any]] = ContextVar("amanda_jax_counts")


class Bounded:
    """Called like a program: one of XLA, and what runs where a bound was too small."""

    quick = None
    is_used = True
    copied: frozenset[int] = frozenset()

    def __init__(self, graph: Graph, build: Build) -> None:
        self._graph, self._build = graph, build
        whole = _expanded(graph)
        self._bounds = _bounds(whole, build.settings.bounds)
        _expect_whole(whole, self._bounds)
        self._cuts = _cuts(whole, self._bounds)
        self._names = [_label(op) for op in self._bounds]
        self._as_numpy = build.settings.results == "numpy"
        self._steps = _Steps(whole, self._bounds)
        constants = followed(whole).constants
        self._held = Held(whole, self._steps, build.weights, constants)
        self.weights: Sequence[Any] = self._held.moved
        self._jitted = self._jit(self._trace)
        self.compilations = 0
        self._most = build.settings.programs
        self._last: list[Any] = []
        """What was traced last, weights first."""
        self._more = 0
        self._instead: Code | None = None
        self._lock = Lock()

    def _jit(self, function: Callable[..., Any]) -> Any:
        place = jax.sharding.SingleDeviceSharding(self._build.weights.device)
        return jax.jit(
            function,
            in_shardings=place,
            out_shardings=place,
            compiler_options=self._build.settings.switches or None,
        )

    def _trace(self, *values: Any) -> Any:
        if not all(map(is_array, jax.tree.leaves(values))):
            raise MisfitError("a feed is no array")
        if self.compilations >= self._most:
            raise FullError("another program would be one too many")
        made, counts = self._plainly(*values)
        self.compilations += 1
        form: Any = jax.ShapeDtypeStruct
        self._last = jax.tree.map(lambda a: form(a.shape, a.dtype), [*values])
        return made, counts

    def _plainly(self, *values: Any) -> Any:
        count = len(self.weights)
        options = self._build.settings
        token = _counts.set([])
        try:
            with (
                running(host_driven=False, without=options.without),
                use_kernels(JAX),
                jax.default_matmul_precision(options.precision),
                np.errstate(all="ignore"),
            ):
                weights = self._held.among(values[:count])
                made = self._steps.run(values[count:], weights=weights)
            return made, _counts.get()
        finally:
            _counts.reset(token)

    def again(self) -> tuple[Any, list[Any]] | None:
        """What was compiled last, to be looked at, and what it takes: see `Program`."""
        return (self._jit(self._plainly), self._last) if self._last else None

    def _forget(self) -> None:
        """What was compiled for shapes met before goes."""
        self._most = self.compilations + self._build.settings.programs
        self._jitted.clear_cache()

    def __call__(self, args: Iterable[Any]) -> Sequence[Any]:
        given = [*args]
        try:
            with jax.enable_x64(True):
                made, counts = self._jitted(*self.weights, *given)
        except FullError:
            self._forget()
            return self(given)
        except _EmptyError:
            return self._in_pieces(given)
        real = dict(zip(self._names, map(int, counts), strict=True))
        if any(not 0 <= real[_label(op)] <= most for op, most in self._bounds.items()):
            with self._lock:
                self._more += 1
            return self._in_pieces(given)
        rows = zip(made, self._cuts, strict=True)
        return [cut_back(x, axes, real, self._as_numpy) for x, axes in rows]

    def _in_pieces(self, args: Sequence[Any]) -> Sequence[Any]:
        with self._lock:
            if self._instead is None:
                self._instead = code_of(self._graph, self._build)
        return self._instead(args)

    @property
    def pieces(self) -> int:
        return 1

    @property
    def told(self) -> Told:
        rows = [f"{_label(op)}: {n} at most" for op, n in self._bounds.items()]
        more = [f"there was more, {self._more} times"] if self._more else []
        return Told(notes=[*rows, *more])

    def parts(self) -> Iterator[Code]:
        yield self
        if self._instead is not None:
            yield from self._instead.parts()


class _Steps(Steps):
    """Steps in which some ops give as much as they may, and note the count."""

    def __init__(self, graph: Graph, bounds: Mapping[Op, int]) -> None:
        self._bounds = bounds
        super().__init__(graph, JAX)

    def _inside(self, graph: Graph) -> Steps:
        return Steps(graph, JAX)

    def _call(self, op: Op) -> tuple[Callable[..., Any], list[int]]:
        call, ins = super()._call(op)
        if op not in self._bounds:
            return call, ins
        return partial(_bounded, op, self._bounds[op]), ins


def _bounded(op: Op, bound: int, *args: Any) -> Any:
    most, cut = MOST[op.type or ""]
    if any(np.size(arg) == 0 for arg in args if arg is not None):
        raise _EmptyError("there is nothing to look at")
    attrs = {**operation_of(op).form.attributes, **(op.attrs if op.has_attrs else {})}
    *found, count = most(*args, **attrs)
    _counts.get().append(count)
    made = [
        x if axis is None else _resized(x, axis, bound)
        for x, axis in zip(found, cut(attrs), strict=True)
    ]
    return tuple(made) if operation_of(op).form.many else made[0]


def _resized(x: Any, axis: int, size: int) -> Any:
    if x.shape[axis] >= size:
        return jax.lax.slice_in_dim(x, 0, size, axis=axis)
    rows = [(0, size - n if i == axis else 0) for i, n in enumerate(x.shape)]
    return jnp.pad(x, rows)


# -- what is bounded -------------------------------------------------------------------


def _expanded(graph: Graph) -> Graph:
    copy = graph.clone()
    lower(copy, lambda op: op.type in MOST or is_not_composite(op))
    infer(copy)
    return copy


def _label(op: Op) -> str:
    return str(op.label)


def _bounds(graph: Graph, told: Mapping[str, int]) -> dict[Op, int]:
    """The ops that are bounded, in order; BackendError for what names none."""
    ops = [op for op in graph if is_std(op) and op.type in MOST]
    for name in told:
        if not any(name in (op.name, op.type) for op in ops):
            raise BackendError(
                f"there is no op {name!r} of which data decides the size",
                expected=", ".join(map(_label, ops)) or "one in the graph itself",
            )
    rows = ((op, told.get(op.name or "", told.get(op.type or ""))) for op in ops)
    return {op: most for op, most in rows if most is not None}


def _expect_whole(graph: Graph, bounds: Mapping[Op, int]) -> None:
    problems = [
        f"{op.label}: {why}"
        for op in graph
        if op not in bounds and (why := why_outside(op)) is not None
    ]
    problems += [
        f"{called(port)} decides a shape, and only a run tells it"
        for port in followed(graph).data
    ]
    if problems:
        raise BackendError(
            "the graph is not one program with `padded` either",
            problems=problems,
            hint="bound these ops as well, or leave `padded` out",
        )


def _cuts(graph: Graph, bounds: Mapping[Op, int]) -> list[Mapping[int, Any]]:
    """How results are cut; BackendError where what is behind would come in."""
    memo: dict[Any, Any] = {}
    copy = graph.clone(memo=memo)
    most: dict[str, int | None] = {}
    givers = []
    for op, bound in bounds.items():
        most[_label(op)] = bound
        givers.append(memo[op])
        _opened(copy, memo[op], _label(op))
    infer(copy)
    padding = Padding(most, RULES)
    found = followed_through(copy, padding)
    for giver in givers:
        if any(padding.states.get(v, True) is None or padding.state(v)
               for v in giver.inputs if v is not None):  # fmt: skip
            padding.problems.append(f"{giver.label} looks at what is padded itself")
    if padding.problems:
        raise BackendError(
            "what data decides the size of cannot be padded here",
            problems=padding.problems,
            hint="leave it out of `padded`: the graph is then cut there, and goes on "
            "with the real size",
        )
    return found


def _opened(graph: Graph, op: Op, name: str) -> None:
    """The results of an op in the analysis: inputs whose size is open, by this name."""
    attrs = {**operation_of(op).form.attributes, **(op.attrs if op.has_attrs else {})}
    for port, axis in zip(op.outputs, MOST[op.type or ""][1](attrs), strict=True):
        own = port.type
        if axis is None:
            continue
        if not isinstance(own, TensorType) or not own.shape.has_rank:
            raise BackendError(f"{op.label} gives a value of which no rank is known")
        dims = list(own.shape)
        dims[axis] = Sym.named(name)
        given = graph.parameter(TensorType(own.dtype, dims))
        with graph.before(next(iter(graph), None)):  # a parameter gives no result
            made = graph.add("identity", [given]).output
        graph.replace_uses(port, made)
