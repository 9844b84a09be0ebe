"""Ops between programs: what XLA has not, and what data decides the size of.

Bodies of control flow that the host drives are programs of their own. Of what only the
size is to be told, XLA makes the most there can be, and the host reads the size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Final

import jax
import numpy as np

from amanda.backend import extract_graph
from amanda.graph import Graph, OutputPort, Parameter
from amanda.types import Type
from amanda_jax.compile.code import Build, Code, Told
from amanda_jax.compile.trace_context import running
from amanda_jax.kernels import JAX, dynamic_shapes
from amanda_jax.kernels.dynamic_shapes import by_numpy
from amanda_jax.weights.device_weights import Held
from amanda_std.backends import StepRunner as Steps
from amanda_std.backends import run_context, use_kernels
from amanda_std.ops import OPS

__all__ = ["DECIDED_BY_DATA", "Outside"]

DECIDED_BY_DATA: Final = dict.fromkeys(
    ("nonzero", "nms", "unique", "compress", "soft_nms"),
    "data decides the shape of its result",
)
"""Ops around which a graph is cut, with the reason."""


KERNELS: Final = JAX.also(
    {
        name: by_numpy(name)
        for name, operation in OPS.items()
        if name in DECIDED_BY_DATA or operation.effect is not None
    }
).also(dynamic_shapes.ROWS)
"""What runs an op between programs: there, data decides, and there is state."""


class Outside:
    """Called like a program; counts what it runs op by op."""

    quick = None
    pieces = 0
    compilations = 0
    copied: frozenset[int] = frozenset()

    def __init__(
        self,
        graph: Graph,
        build: Build,
        reasons: Sequence[str],
        code_of: Callable[[Graph, Build], Code],
    ) -> None:
        self._around = build.around
        self._device, self._near = build.weights.device, build.weights.near
        self._precision = build.settings.precision
        self._steps = _HostSteps(graph, build, code_of)
        self._held = Held(graph, self._steps, build.weights)
        self._counts: Counter[str] = Counter()
        self._sized: Counter[str] = Counter()
        self._driven: list[str] = []
        ops = [op for op in graph if not op.is_constant]
        why = iter(reasons)
        for i, op in enumerate(ops):
            step = self._steps.steps[i]
            if op.bodies or isinstance(op, Graph):
                self._driven.append(f"{step.label}: {next(why, '')}")
            else:
                counts = self._sized if op.type in dynamic_shapes.ROWS else self._counts
                counts[step.label] = 0
                call = partial(_counted, counts, step.label, step.call)
                self._steps.steps[i] = step._replace(call=call)

    def __call__(self, args: Iterable[Any]) -> Sequence[Any]:
        with ExitStack() as stack:
            enter = stack.enter_context
            enter(jax.enable_x64(True))
            enter(jax.default_device(self._device))
            enter(jax.default_matmul_precision(self._precision))
            enter(running(host_driven=True))
            enter(use_kernels(KERNELS))
            enter(run_context(self._around))
            enter(np.errstate(all="ignore"))
            held = self._held.among(self._near(self._held.moved))
            return self._steps.run(self._near([*args]), weights=held)

    @property
    def told(self) -> Told:
        return Told(driven=self._driven, outside=self._counts, sized=self._sized)

    def parts(self) -> Iterator[Code]:
        yield self
        for body in self._steps.bodies:
            yield from body.code.parts()


def _counted(
    counts: Counter[str], label: str, call: Callable[..., Any], *args: Any
) -> Any:
    counts[label] += 1
    return call(*args)


class _HostSteps(Steps):
    """Steps whose bodies are code of their own."""

    def __init__(
        self, graph: Graph, build: Build, code_of: Callable[[Graph, Build], Code]
    ) -> None:
        self.bodies: list[_Body] = []
        self._new_body = partial(_Body, build=build, code_of=code_of)
        super().__init__(graph, KERNELS)

    def _inside(self, graph: Graph) -> Any:
        body = self._new_body(graph)
        self.bodies.append(body)
        return body


class _Body:
    """A body as code, called by the op that holds it. Constants around it are its."""

    def __init__(
        self, graph: Graph, build: Build, code_of: Callable[[Graph, Build], Code]
    ) -> None:
        self.captures = graph.captures
        self.result_types: tuple[Type | None, ...] = tuple(
            None if v is None else v.type for v in graph.results
        )
        root, reads = extract_graph(graph, list(graph), graph.results)
        fed = _with_constants(root, reads)
        given = {v: i for i, v in enumerate((*graph.parameters, *self.captures))}
        self._places = [given[value] for value in fed]
        self.code = code_of(root, build)
        self._near = build.weights.near

    def run(self, args: Sequence[Any], captured: Sequence[Any] = ()) -> list[Any]:
        given = (*args, *captured)
        return list(self._near(self.code([given[place] for place in self._places])))


def _with_constants(root: Graph, reads: Sequence[OutputPort]) -> list[OutputPort]:
    """Constants among what a part reads stand in it; what it is still fed."""
    fed = list(reads)
    for i in reversed(range(len(reads))):
        value = reads[i]
        if type(value) is Parameter or not value.op.is_constant:
            continue
        with root.before(next(iter(root), None)):
            inner = root.constant(value.op.attrs["value"]).output
        inner.type = value.type
        root.replace_uses(root.parameters[i], inner)
        root.remove_parameter(i)
        del fed[i]
    return fed
