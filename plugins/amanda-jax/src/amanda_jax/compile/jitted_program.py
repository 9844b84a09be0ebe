"""A graph as one jitted function, whose shape arguments are all static."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import zip_longest
from threading import Lock
from typing import Any

import jax
import numpy as np
from jax.extend.core import jaxpr_as_fun

from amanda.backend import Implementation
from amanda.errors import AmandaError
from amanda.graph import Graph, OutputPort
from amanda_jax.compile.ahead_of_time import CachedPrograms
from amanda_jax.compile.code import (
    BuildContext,
    CodeDetails,
    ReplaceableCode,
    find_aliases,
)
from amanda_jax.compile.compilation_counter import CompilationCounter
from amanda_jax.compile.fused_steps import FusedSteps
from amanda_jax.compile.trace_context import trace_context, why_untraceable
from amanda_jax.compile.x64 import has_64_bit_values, is_64_bit, may_be_64_bit
from amanda_jax.kernels import JAX
from amanda_jax.weights.device_weights import ProgramConstants
from amanda_jax.weights.memory import return_freed_memory
from amanda_std.backends import StepRunner as StepProgram
from amanda_std.backends import use_kernels

__all__ = [
    "JittedProgram",
    "NewShapesError",
    "NoArrayError",
    "TooManyProgramsError",
    "TracedProgram",
    "UntraceableError",
]


class NoArrayError(AmandaError):
    """A feed is no array, and has to be converted to one."""


class NewShapesError(AmandaError):
    """Feeds have other shapes or types than those of calls before."""


class X64Error(AmandaError):
    """The program has 64-bit types inside, though no input has."""


class TooManyProgramsError(AmandaError):
    """As many programs are compiled as may be kept."""


class UntraceableError(AmandaError):
    """An op cannot be traced; the message gives the reason."""

    def __init__(self, message: str, step: int) -> None:
        super().__init__(message)
        self.step = step


class TracedProgram(ReplaceableCode):
    """A graph that is traced and jitted, once for each set of feed shapes."""

    def __init__(
        self,
        graph: Graph,
        steps: StepProgram,
        static: Collection[OutputPort],
        build: BuildContext,
    ) -> None:
        self._graph, self._build = graph, build
        self._steps = steps
        self._constants = ProgramConstants(graph, steps, build.weights, static)
        self._limit = build.settings.programs
        self._notes: dict[str, None] = {}
        self._last_arguments: list[Any] = []
        """Shapes and types of the last traced call, weights first."""
        self._last_shardings: list[Any] = []
        """The shardings of that call, where arguments may have different ones."""
        donated = build.settings.donate
        names = enumerate(p.name or str(p.index) for p in graph.parameters)
        self.donated = [i for i, name in names if name in donated]
        """Indices of the inputs that may be overwritten."""
        self._jitted = self._jit(self._trace)

    @property
    def is_in_use(self) -> bool:
        """Whether this program runs itself, and is not replaced by pieces."""
        return self._replacement is None

    @property
    def weights(self) -> Sequence[Any]:
        return self._constants.arrays

    def last_call(self) -> tuple[Any, list[Any]] | None:
        """The jitted function, to be called with x64 types enabled, and the shapes of
        the last call, weights first; None where nothing was compiled yet."""
        if not self.is_in_use or not self._last_arguments:
            return None
        arguments = [
            value if sharding is None else value.update(sharding=sharding)
            for value, sharding in zip_longest(
                self._last_arguments, self._last_shardings
            )
        ]
        return self._jit(self._run_steps), arguments

    def implementations(self) -> Iterable[Implementation]:
        return self._steps.implementations() if self.is_in_use else ()

    def _jit(self, trace: Callable[..., Any]) -> Any:
        """Jit a function of weights and feeds, on its device wherever the feeds are."""
        count = len(self._constants)

        def function(*values: Any) -> Any:
            return trace(values[:count], values[count:])

        function.__name__ = function.__qualname__ = self._graph.name or "graph"
        arguments = count + len(self._graph.parameters)
        return jax.jit(
            function,
            **self._build.weights.shardings(arguments),
            donate_argnums=[count + i for i in self.donated],
            compiler_options=self._build.settings.compiler_options or None,
        )

    def _trace(self, weights: Sequence[Any], args: Sequence[Any]) -> Any:
        if not all(map(is_array, jax.tree.leaves(args))):
            raise NoArrayError("a feed is no array")
        if self.compilations >= self._limit:
            raise TooManyProgramsError("as many programs are compiled as may be kept")
        results = self._run_steps(weights, args)
        self.compilations += 1
        self._record_arguments([*weights, *args])
        return results

    def _record_arguments(self, arguments: Sequence[Any]) -> None:
        struct: Any = jax.ShapeDtypeStruct
        self._last_arguments = jax.tree.map(
            lambda a: struct(a.shape, a.dtype), [*arguments]
        )

    def _run_steps(self, weights: Sequence[Any], args: Sequence[Any]) -> Any:
        settings = self._build.settings
        with (
            trace_context(python_driven=False, without=settings.without) as notes,
            use_kernels(JAX),
            jax.default_matmul_precision(settings.precision),
            np.errstate(all="ignore"),
        ):
            values = self._constants.with_arrays(weights)
            results = self._steps.run(args, weights=values)
        self._notes.update(notes)
        return results

    def _clear_programs(self) -> None:
        """Drop what was compiled for earlier shapes."""
        self._limit = self.compilations + self._build.settings.programs
        self._jitted.clear_cache()


class JittedProgram(TracedProgram):
    """Called with arrays in the order of the inputs; returns arrays of JAX.

    Where an op turns out not to be traceable, the graph is partitioned around it, and
    runs in pieces from then on.
    """

    def __init__(
        self, graph: Graph, static: frozenset[OutputPort], build: BuildContext
    ) -> None:
        steps = _LabeledSteps(graph)
        super().__init__(graph, steps, static, build)
        self._ops = steps.step_ops
        self._prepare_arguments = build.weights.prepare_arguments
        cache = build.cache
        self._cached = (
            None if cache is None else CachedPrograms(graph, static, build, cache)
        )
        self._first_call = Lock()
        dtypes = [value.dtype for value in self._constants.abstract_values]
        is_32_bit = not (
            any(map(may_be_64_bit, graph.parameters))
            or any(value is not None and is_64_bit(value) for value in graph.results)
            or any(map(is_64_bit, dtypes))
        )
        self._jitted_32_bit = self._jit(self._trace_32_bit) if is_32_bit else None

    @property
    def direct_call(self) -> Any:
        if self._replacement is not None or self._prepare_arguments is not None:
            return None
        if self._cached is not None:
            only = self._cached.only_program
            return only and partial(only, *self.weights)
        if self._jitted_32_bit is None:
            return partial(_call_with_64_bits, self._jitted, *self.weights)
        if not self._constants:
            return self._jitted_32_bit
        return partial(self._jitted_32_bit, *self.weights)

    @property
    def details(self) -> CodeDetails:
        return CodeDetails(notes=self._notes)

    # -- tracing ---------------------------------------------------------------

    def _trace(self, weights: Sequence[Any], args: Sequence[Any]) -> Any:
        if not CompilationCounter.is_counting():
            raise NewShapesError("feeds of such shapes and types were not checked")
        results = super()._trace(weights, args)
        self._aliases |= find_aliases(results, args)
        return results

    def _trace_32_bit(self, weights: Sequence[Any], args: Sequence[Any]) -> Any:
        """Trace with x64 types enabled, and replay the jaxpr with them disabled.

        A call then needs no switch, which costs as much as a small program."""
        with jax.enable_x64(True):
            traced = jax.make_jaxpr(self._trace, return_shape=True)(weights, args)
        jaxpr, shape = traced
        if has_64_bit_values(jaxpr):
            self.compilations -= 1
            raise X64Error("the program has 64-bit types inside")
        results = jaxpr_as_fun(jaxpr)(*jax.tree.leaves((weights, args)))
        return jax.tree.unflatten(jax.tree.structure(shape), results)

    # -- calling ---------------------------------------------------------------

    def __call__(self, args: Iterable[Any]) -> Sequence[Any]:
        if self._replacement is not None:
            return self._replacement(args)
        args = [*args]
        try:
            return self.call_with(self._constants, args)
        except UntraceableError as error:
            outside = {self._ops[error.step]: error.message}
            self._jitted_32_bit = None
            self._replacement = self._build.compile(self._graph, outside)
            return self._replacement(args)

    def call_with(
        self, constants: ProgramConstants, args: Sequence[Any]
    ) -> Sequence[Any]:
        """Run with other weights of the same types."""
        if self._prepare_arguments is not None:
            args = self._prepare_arguments(args)
            arguments = (*constants.arrays, *args)
            self._last_shardings = [getattr(v, "sharding", None) for v in arguments]
        try:
            if self._cached is not None and self._cached.supports(args):
                return self._cached.run(self, constants, args)
            jitted, types = self._jitted_and_types()
            with types:
                return self._call_jitted(jitted, constants, args)
        except X64Error:
            self._jitted_32_bit = None
        except TooManyProgramsError:
            self._clear_programs()
        return self.call_with(constants, args)

    def _jitted_and_types(self) -> tuple[Any, AbstractContextManager[Any]]:
        """The jitted function to call, and the context that enables its types."""
        if self._jitted_32_bit is not None:
            return self._jitted_32_bit, nullcontext()
        return self._jitted, jax.enable_x64(True)

    def _call_jitted(
        self, jitted: Any, constants: ProgramConstants, args: Sequence[Any]
    ) -> Sequence[Any]:
        """Call the jitted function, which compiles for new shapes.

        The first call compiles before the weights are transferred: XLA needs memory to
        compile, which is free again when they arrive."""
        if self._prepare_arguments is None:
            with self._first_call:
                if not self.compilations:
                    jitted.lower(*constants.abstract_values, *args).compile()
                    return_freed_memory()
        before = self.compilations
        results: Sequence[Any] = jitted(*constants.arrays, *args)
        if self.compilations > before:
            return_freed_memory()
        return results

    def compile_for(
        self, constants: ProgramConstants, args: Sequence[Any]
    ) -> tuple[Any, bool]:
        """The compiled program for these arguments, and whether it has 64-bit types."""
        is_settled = self._prepare_arguments is not None
        weights = constants.arrays if is_settled else constants.abstract_values
        jitted, types = self._jitted_and_types()
        with types:
            compiled = jitted.lower(*weights, *args).compile()
        return_freed_memory()
        return compiled, jitted is self._jitted

    def record_loaded(
        self, arguments: Sequence[Any], aliases: Iterable[int], notes: Iterable[str]
    ) -> None:
        """Record what tracing would have found, for a program that was loaded."""
        self._aliases |= frozenset(aliases)
        self._notes.update(dict.fromkeys(notes))
        self._record_arguments(arguments)

    def _clear_programs(self) -> None:
        super()._clear_programs()
        if self._cached is not None:
            self._cached.clear()
        if self._jitted_32_bit is not None:
            self._jitted_32_bit.clear_cache()


def _call_with_64_bits(jitted: Any, *values: Any) -> Any:
    with jax.enable_x64(True):
        return jitted(*values)


class _LabeledSteps(FusedSteps):
    """Steps that raise `UntraceableError` with their number if tracing fails."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.steps = [
            step._replace(call=partial(_call_step, i, step.call))
            for i, step in enumerate(self.steps)
        ]


def _call_step(step: int, call: Callable[..., Any], *args: Any) -> Any:
    try:
        return call(*args)
    except Exception as error:
        why = why_untraceable(error)
        if why is None:
            raise
        raise UntraceableError(why, step) from error


def is_array(value: Any) -> bool:
    """Whether a traced value was fed as an array, and not as a Python number."""
    return isinstance(value, jax.Array) and not jax.typeof(value).weak_type
