"""A graph as one jitted function, for shapes and host arguments that are settled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import zip_longest
from threading import Lock
from typing import Any

import jax
import numpy as np
from jax.extend.core import jaxpr_as_fun

from amanda.errors import AmandaError
from amanda.graph import Graph, Op, OutputPort
from amanda.types import TensorType
from amanda_jax.compile.ahead_of_time import Ready
from amanda_jax.compile.code import Build, Code, Told, copied
from amanda_jax.compile.trace_context import running, why_untraceable
from amanda_jax.compile.x64 import has_wide, is_wide
from amanda_jax.kernels import JAX
from amanda_jax.weights.device_weights import Held
from amanda_jax.weights.memory import give_back
from amanda_std.backends import StepRunner as Steps
from amanda_std.backends import use_kernels

__all__ = ["FullError", "MisfitError", "Program", "UntraceableError", "is_array"]


class MisfitError(AmandaError):
    """A feed is no array, so it has to be made one."""


class WideError(AmandaError):
    """The program has 64-bit types, though no input has."""


class FullError(AmandaError):
    """There are as many programs as may be kept."""


class UntraceableError(AmandaError):
    """An op that cannot be traced; the message says why."""

    def __init__(self, message: str, step: int) -> None:
        super().__init__(message)
        self.step = step


class Program:
    """Called with arrays in the order of the inputs; gives arrays of JAX.

    It is jitted whole. Where an op turns out not to be traceable, the graph is cut
    around it, and runs in pieces from then on.
    """

    def __init__(
        self,
        graph: Graph,
        on_host: frozenset[OutputPort],
        build: Build,
        code_of: Callable[..., Code],
    ) -> None:
        self._graph = graph
        self._build = build
        self._code_of = code_of
        self._instead: Code | None = None
        self._steps = _Marked(graph)
        self.compilations = 0
        self._most = build.settings.programs
        self._notes: dict[str, None] = {}
        self._copied: frozenset[int] = frozenset()
        self._last: list[Any] = []
        """What was traced last, weights first."""
        self._places: list[Any] = []
        """Where these were, if it is not always the same."""
        self._settled = build.weights.settled
        self._held = Held(graph, self._steps, build.weights, on_host)
        kept = build.kept
        self._ready = None if kept is None else Ready(graph, on_host, build, kept)
        self._first = Lock()
        wanted = build.settings.donate
        names = enumerate(p.name or str(p.index) for p in graph.parameters)
        self.donated = [i for i, name in names if name in wanted]
        """Which inputs may be written over."""
        name = graph.name or "graph"
        self._wide = self._jit(name, self._trace)
        is_narrow = not (
            any(map(_may_be_wide, graph.parameters))
            or any(value is not None and _is_wide(value) for value in graph.results)
            or any(is_wide(form.dtype) for form in self._held.forms)
        )
        self._narrow = self._jit(name, self._trace_narrow) if is_narrow else None

    @property
    def copied(self) -> frozenset[int]:
        return self._copied if self._instead is None else self._instead.copied

    @property
    def quick(self) -> Any:
        if self._ready is not None:
            only = None if self._instead is not None else self._ready.only
            return only and partial(only, *self.weights)
        if self._narrow is None or self._instead is not None or not self._held:
            return None if self._instead is not None else self._narrow
        return partial(self._narrow, *self.weights)

    @property
    def pieces(self) -> int:
        return 1 if self._instead is None else self._instead.pieces

    @property
    def is_used(self) -> bool:
        """Whether it runs itself, and not in pieces."""
        return self._instead is None

    @property
    def told(self) -> Told:
        return Told(notes=self._notes)

    def parts(self) -> Iterator[Code]:
        yield self
        if self._instead is not None:
            yield from self._instead.parts()

    def again(self) -> tuple[Any, list[Any]] | None:
        """What was compiled last, to be looked at: a jitted function for where there
        are 64-bit types, and what it takes, weights first."""
        if self._instead is not None or not self._last:
            return None
        last = [
            each if place is None else each.update(sharding=place)
            for each, place in zip_longest(self._last, self._places)
        ]
        return self._jit(self._graph.name or "graph", self._plainly), last

    @property
    def weights(self) -> Sequence[Any]:
        return self._held.moved

    def _jit(self, name: str, trace: Callable[..., Any]) -> Any:
        """The function, on its device wherever the feeds are."""
        count = len(self._held)

        def function(*values: Any) -> Any:
            return trace(values[:count], values[count:])

        function.__name__ = function.__qualname__ = name
        arguments = count + len(self._graph.parameters)
        return jax.jit(
            function,
            **self._build.weights.shardings(arguments),
            donate_argnums=[count + i for i in self.donated],
            compiler_options=self._build.settings.switches or None,
        )

    # -- tracing ---------------------------------------------------------------

    def _trace(self, weights: Sequence[Any], args: Sequence[Any]) -> Any:
        if not all(map(is_array, jax.tree.leaves(args))):
            raise MisfitError("a feed is no array")
        if self.compilations >= self._most:
            raise FullError("another program would be one too many")
        results = self._plainly(weights, args)
        self.compilations += 1
        self._copied |= copied(results, args)
        form: Any = jax.ShapeDtypeStruct
        self._last = jax.tree.map(lambda a: form(a.shape, a.dtype), [*weights, *args])
        return results

    def _plainly(self, weights: Sequence[Any], args: Sequence[Any]) -> Any:
        without = self._build.settings.without
        with running(host_driven=False, without=without) as notes:
            results = self._run(weights, args)
        self._notes.update(notes)
        return results

    def _trace_narrow(self, weights: Sequence[Any], args: Sequence[Any]) -> Any:
        """Traced where there are 64-bit types, and played back where there are none:

        a call then needs no switch, which costs as much as a small program."""
        with jax.enable_x64(True):
            traced = jax.make_jaxpr(self._trace, return_shape=True)(weights, args)
        jaxpr, shape = traced
        if has_wide(jaxpr):
            self.compilations -= 1
            raise WideError("the program has 64-bit types inside")
        made = jaxpr_as_fun(jaxpr)(*jax.tree.leaves((weights, args)))
        return jax.tree.unflatten(jax.tree.structure(shape), made)

    def _run(self, weights: Sequence[Any], args: Sequence[Any]) -> list[Any]:
        with (
            use_kernels(JAX),
            jax.default_matmul_precision(self._build.settings.precision),
            np.errstate(all="ignore"),
        ):
            return self._steps.run(args, weights=self._held.among(weights))

    # -- calling ---------------------------------------------------------------

    def __call__(self, args: Iterable[Any]) -> Sequence[Any]:
        if self._instead is not None:
            return self._instead(args)
        args = [*args]
        try:
            return self.called(self._held, args)
        except UntraceableError as error:
            outside = {self._steps.ops[error.step]: error.message}
            self._narrow = None
            self._instead = self._code_of(self._graph, self._build, outside)
            return self._instead(args)

    def called(self, held: Held, args: Sequence[Any]) -> Sequence[Any]:
        """The same with other weights, of the same types."""
        if self._settled is not None:
            args = self._settled(args)
            given = (*held.moved, *args)
            self._places = [getattr(v, "sharding", None) for v in given]
        try:
            if self._ready is not None and self._ready.fits(args):
                return self._ready.called(self, held, args)
            jitted, types = self._way()
            with types:
                return self._through(jitted, held, args)
        except WideError:
            self._narrow = None
        except FullError:
            self._forget()
        return self.called(held, args)

    def _way(self) -> tuple[Any, AbstractContextManager[Any]]:
        """The jitted function to be called, and around it the types that it has."""
        narrow = self._narrow
        if narrow is not None:
            return narrow, nullcontext()
        return self._wide, jax.enable_x64(True)

    def _through(self, jitted: Any, held: Held, args: Sequence[Any]) -> Sequence[Any]:
        """A call of the jitted function, which compiles where that is new to it.

        The first time it does so before the weights are moved: XLA takes memory for it
        that is free again when they are."""
        if self._settled is None:
            with self._first:
                if not self.compilations:
                    jitted.lower(*held.forms, *args).compile()
                    give_back()
        before = self.compilations
        made: Sequence[Any] = jitted(*held.moved, *args)
        if self.compilations > before:
            give_back()
        return made

    def compiled(self, held: Held, args: Sequence[Any]) -> tuple[Any, bool]:
        """The program for these, not called; and whether it has 64-bit types."""
        weights = held.forms if self._settled is None else held.moved
        jitted, types = self._way()
        with types:
            made = jitted.lower(*weights, *args).compile()
        give_back()
        return made, jitted is self._wide

    def noted(
        self, given: Sequence[Any], copied: Iterable[int], notes: Iterable[str]
    ) -> None:
        """What tracing would have told, of a program that was compiled before."""
        self._copied |= frozenset(copied)
        self._notes.update(dict.fromkeys(notes))
        form: Any = jax.ShapeDtypeStruct
        self._last = jax.tree.map(lambda a: form(a.shape, a.dtype), [*given])

    def _forget(self) -> None:
        """What was compiled for shapes met before goes."""
        self._most = self.compilations + self._build.settings.programs
        if self._ready is not None:
            self._ready.forget()
        for jitted in (self._wide, self._narrow):
            if jitted is not None:
                jitted.clear_cache()


class _Marked(Steps):
    """Steps that tell which of them could not be traced."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph, JAX)
        self.ops: list[Op] = [op for op in graph if not op.is_constant]
        self.steps = [
            step._replace(call=partial(_marking, i, step.call))
            for i, step in enumerate(self.steps)
        ]


def _marking(step: int, call: Callable[..., Any], *args: Any) -> Any:
    try:
        return call(*args)
    except Exception as error:
        why = why_untraceable(error)
        if why is None:
            raise
        raise UntraceableError(why, step) from error


def _is_wide(port: OutputPort) -> bool:
    """Whether this is known to be of a 64-bit type."""
    found = port.type
    if not isinstance(found, TensorType) or found.dtype.kind == "unknown":
        return False
    return is_wide(found.dtype.numpy)


def _may_be_wide(port: OutputPort) -> bool:
    found = port.type
    known = isinstance(found, TensorType) and found.dtype.kind != "unknown"
    return not known or _is_wide(port)


def is_array(value: Any) -> bool:
    """Whether what is traced was an array that is fed, and no number of Python."""
    return isinstance(value, jax.Array) and not jax.typeof(value).weak_type
