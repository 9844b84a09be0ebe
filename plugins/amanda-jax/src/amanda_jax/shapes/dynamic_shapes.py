"""Bounded programs: ops whose result size depends on data, as one program of XLA.

An op such as `nonzero` returns its maximum size, given by the option `padded`, and the
count of valid elements. The ops after it run on that in the same program, as they do on
padding, with the same proof (see `padding`), and results are cut to the count. Where
there are more elements than the bound, the call runs again in pieces of the real size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
from amanda_jax.compile.code import BuildContext, CodeDetails, CompiledCode
from amanda_jax.compile.jitted_program import TooManyProgramsError, TracedProgram
from amanda_jax.compile.partition import why_not_xla
from amanda_jax.compile.specialize import describe
from amanda_jax.kernels import JAX
from amanda_jax.kernels.dynamic_shapes import MAXIMUM_KERNELS
from amanda_jax.shapes.bucketing import cut_result, propagate_padding
from amanda_jax.shapes.padding import Padding
from amanda_jax.shapes.padding_rules import RULES
from amanda_jax.shapes.static_values import analyze_static_values
from amanda_std.backends import StepRunner as StepProgram
from amanda_std.backends import infer, is_not_composite, is_std, lower, operation_of

__all__ = ["BoundedProgram"]


class _EmptyInputError(AmandaError):
    """An input of a bounded op is empty, so that the op is left to its definition."""


_counts: ContextVar[list[Any]] = ContextVar("amanda_jax_counts")
"""The counts of valid elements of the bounded ops, while a program is traced."""


class BoundedProgram(TracedProgram):
    """One program of XLA with bounds, and pieces where a bound was too small."""

    def __init__(self, graph: Graph, build: BuildContext) -> None:
        self._source = graph
        lowered = _lower(graph)
        self._bounds = _bounds_by_op(lowered, build.settings.bounds)
        _expect_whole(lowered, self._bounds)
        self._cuts = _result_cuts(lowered, self._bounds)
        self._names = [_label(op) for op in self._bounds]
        self._as_numpy = build.settings.results == "numpy"
        steps = _BoundedSteps(lowered, self._bounds)
        static = analyze_static_values(lowered).constants
        super().__init__(lowered, steps, static, build)
        self._exceeded = 0
        self._in_pieces: CompiledCode | None = None
        self._lock = Lock()

    def _run_steps(self, weights: Sequence[Any], args: Sequence[Any]) -> Any:
        token = _counts.set([])
        try:
            return super()._run_steps(weights, args), _counts.get()
        finally:
            _counts.reset(token)

    def __call__(self, args: Iterable[Any]) -> Sequence[Any]:
        feeds = [*args]
        try:
            with jax.enable_x64(True):
                results, counts = self._jitted(*self.weights, *feeds)
        except TooManyProgramsError:
            self._clear_programs()
            return self(feeds)
        except _EmptyInputError:
            return self._run_in_pieces(feeds)
        sizes = dict(zip(self._names, map(int, counts), strict=True))
        if any(not 0 <= sizes[_label(op)] <= n for op, n in self._bounds.items()):
            with self._lock:
                self._exceeded += 1
            return self._run_in_pieces(feeds)
        rows = zip(results, self._cuts, strict=True)
        return [cut_result(x, axes, sizes, self._as_numpy) for x, axes in rows]

    def _run_in_pieces(self, args: Sequence[Any]) -> Sequence[Any]:
        with self._lock:
            if self._in_pieces is None:
                self._in_pieces = self._build.compile(self._source)
        return self._in_pieces(args)

    @property
    def details(self) -> CodeDetails:
        bounds = [f"{_label(op)}: {n} at most" for op, n in self._bounds.items()]
        times = self._exceeded
        return CodeDetails(
            notes=[*bounds, *[f"there was more, {times} times"] * bool(times)]
        )

    @property
    def aliased_results(self) -> frozenset[int]:
        code = self._in_pieces
        return frozenset() if code is None else code.aliased_results

    def children(self) -> Sequence[CompiledCode]:
        return () if self._in_pieces is None else (self._in_pieces,)


class _BoundedSteps(StepProgram):
    """Steps in which some ops return their maximum size, and record the count."""

    def __init__(self, graph: Graph, bounds: Mapping[Op, int]) -> None:
        self._bounds = bounds
        super().__init__(graph, JAX)

    def body_runner(self, graph: Graph) -> StepProgram:
        return StepProgram(graph, JAX)

    def bind_kernel(self, op: Op) -> tuple[Callable[..., Any], list[int]]:
        call, ins = super().bind_kernel(op)
        if op not in self._bounds:
            return call, ins
        return partial(_call_bounded, op, self._bounds[op]), ins


def _call_bounded(op: Op, bound: int, *args: Any) -> Any:
    kernel, cut = MAXIMUM_KERNELS[op.type or ""]
    if any(np.size(arg) == 0 for arg in args if arg is not None):
        raise _EmptyInputError("an input is empty")
    attrs = _attributes(op)
    *results, count = kernel(*args, **attrs)
    _counts.get().append(count)
    resized = [
        x if axis is None else _resize(x, axis, bound)
        for x, axis in zip(results, cut(attrs), strict=True)
    ]
    return tuple(resized) if operation_of(op).form.many else resized[0]


def _attributes(op: Op) -> dict[str, Any]:
    """The attributes of an op, with its defaults."""
    own = op.attrs if op.has_attrs else {}
    return {**operation_of(op).form.attributes, **own}


def _resize(x: Any, axis: int, size: int) -> Any:
    if x.shape[axis] >= size:
        return jax.lax.slice_in_dim(x, 0, size, axis=axis)
    rows = [(0, size - n if i == axis else 0) for i, n in enumerate(x.shape)]
    return jnp.pad(x, rows)


# -- which ops are bounded -------------------------------------------------------------


def _lower(graph: Graph) -> Graph:
    copy = graph.clone()
    lower(copy, lambda op: op.type in MAXIMUM_KERNELS or is_not_composite(op))
    infer(copy)
    return copy


def _label(op: Op) -> str:
    return str(op.label)


def _bounds_by_op(graph: Graph, bounds: Mapping[str, int]) -> dict[Op, int]:
    """The bounds of ops, in order; BackendError for a name that no op has."""
    ops = [op for op in graph if is_std(op) and op.type in MAXIMUM_KERNELS]
    for name in bounds:
        if not any(name in (op.name, op.type) for op in ops):
            raise BackendError(
                f"no op {name!r} has a result size that depends on data",
                expected=", ".join(map(_label, ops)) or "one in the graph itself",
            )
    rows = ((op, bounds.get(op.name or "", bounds.get(op.type or ""))) for op in ops)
    return {op: bound for op, bound in rows if bound is not None}


def _expect_whole(graph: Graph, bounds: Mapping[Op, int]) -> None:
    problems = [
        f"{op.label}: {why}"
        for op in graph
        if op not in bounds and (why := why_not_xla(op)) is not None
    ]
    problems += [
        f"{describe(port)} decides a shape, and is known only at run time"
        for port in analyze_static_values(graph).data
    ]
    if problems:
        raise BackendError(
            "the graph is not one program with `padded` either",
            problems=problems,
            hint="bound these ops as well, or leave `padded` out",
        )


def _result_cuts(graph: Graph, bounds: Mapping[Op, int]) -> list[Mapping[int, Any]]:
    """How results are cut; BackendError where padding would reach them."""
    memo: dict[Any, Any] = {}
    copy = graph.clone(memo=memo)
    maximum: dict[str, int | None] = {}
    bounded_ops = []
    for op, bound in bounds.items():
        maximum[_label(op)] = bound
        bounded_ops.append(memo[op])
        _open_result_sizes(copy, memo[op], _label(op))
    infer(copy)
    padding = Padding(maximum, RULES)
    cuts = propagate_padding(copy, padding)
    for op in bounded_ops:
        if any(padding.states.get(v, True) is None or padding.state(v)
               for v in op.inputs if v is not None):  # fmt: skip
            padding.problems.append(f"{op.label} reads padded values itself")
    if padding.problems:
        raise BackendError(
            "sizes that depend on data cannot be padded here",
            problems=padding.problems,
            hint="leave it out of `padded`: the graph is then cut there, and goes on "
            "with the real size",
        )
    return cuts


def _open_result_sizes(graph: Graph, op: Op, name: str) -> None:
    """For the analysis: make the results of an op inputs with a symbolic dim `name`."""
    cuts = MAXIMUM_KERNELS[op.type or ""][1](_attributes(op))
    for port, axis in zip(op.outputs, cuts, strict=True):
        own = port.type
        if axis is None:
            continue
        if not isinstance(own, TensorType) or not own.shape.has_rank:
            raise BackendError(f"{op.label} returns a value of unknown rank")
        dims = list(own.shape)
        dims[axis] = Sym.named(name)
        parameter = graph.parameter(TensorType(own.dtype, dims))
        with graph.before(next(iter(graph), None)):  # a parameter cannot be a result
            value = graph.add("identity", [parameter]).output
        graph.replace_uses(port, value)
