"""A graph as one jitted function, for shapes and host arguments that are settled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun

from amanda.errors import AmandaError
from amanda.graph import Graph, OutputPort
from amanda.types import TensorType
from amanda_jax.kernels import JAX
from amanda_jax.notes import running, why_untraceable
from amanda_jax.preparing import is_weight
from amanda_jax.settings import Settings
from amanda_jax.weights import Weights
from amanda_jax.wide import has_wide, is_wide
from amanda_std.arrays import using
from amanda_std.execute import Program as Steps
from amanda_std.reading import is_constant

__all__ = ["MisfitError", "Program"]


class MisfitError(AmandaError):
    """A feed is no array, so it has to be made one."""


class WideError(AmandaError):
    """The program has 64-bit types, though no input has."""


class Program:
    """Called with arrays in the order of the inputs; gives arrays of JAX.

    It is jitted whole. What cannot be traced is run op by op instead, on the device
    still, but driven by the host; `reason` says why.
    """

    decided_by: tuple[str, ...] = ()

    def __init__(
        self,
        graph: Graph,
        on_host: frozenset[OutputPort],
        weights: Weights,
        settings: Settings,
    ) -> None:
        self._steps = Steps(graph, JAX)
        self._precision = settings.precision
        self.device = weights.device
        self.compilations = 0
        self.reason: str | None = None
        self.notes: dict[str, None] = {}
        self.copied: frozenset[int] = frozenset()
        """Results that are an input or another result as it is."""
        ops = [op for op in graph if is_constant(op)]
        tensors = [op.attrs["value"] for op in ops]
        self._fixed = {
            key: None if is_weight(op) and op.output not in on_host else tensor.numpy()
            for key, op, tensor in zip(self._steps.weights, ops, tensors, strict=True)
        }
        rows = zip(tensors, self._fixed.values(), strict=True)
        self._weights = weights.moved(t for t, fixed in rows if fixed is None)
        name = graph.name or "graph"
        self._wide = self._jit(name, self._trace)
        is_wide = any(map(_may_be_wide, graph.parameters)) or any(
            value is not None and _is_wide(value) for value in graph.results
        )
        self._narrow = None if is_wide else self._jit(name, self._trace_narrow)

    @property
    def quick(self) -> Any:
        """The function without anything around it, where it needs nothing around."""
        if self._narrow is None or not self._weights:
            return self._narrow
        return partial(self._narrow, *self._weights)

    def programs(self) -> list[Program]:
        return [self]

    def _jit(self, name: str, trace: Callable[..., Any]) -> Any:
        """The function, on its device wherever the feeds are."""
        count = len(self._weights)

        def function(*values: Any) -> Any:
            return trace(values[:count], values[count:])

        function.__name__ = function.__qualname__ = name
        place = jax.sharding.SingleDeviceSharding(self.device)
        return jax.jit(function, in_shardings=place, out_shardings=place)

    # -- tracing ---------------------------------------------------------------

    def _trace(self, weights: Sequence[Any], args: Sequence[Any]) -> Any:
        if not all(map(_is_array, args)):
            raise MisfitError("a feed is no array")
        with running(host_driven=False) as notes:
            results = self._run(weights, args)
        self.compilations += 1
        self.notes.update(notes)
        self.copied |= _copied(results, args)
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
        moved = iter(weights)
        held = {
            key: next(moved) if fixed is None else fixed
            for key, fixed in self._fixed.items()
        }
        with (
            using(JAX),
            jax.default_matmul_precision(self._precision),
            np.errstate(all="ignore"),
        ):
            return self._steps.run(args, weights=held)

    # -- calling ---------------------------------------------------------------

    def __call__(self, args: Iterable[Any]) -> Sequence[Any]:
        made: Sequence[Any]
        try:
            if self._narrow is not None:
                made = self._narrow(*self._weights, *args)
                return made
            if self.reason is None:
                with jax.enable_x64(True):
                    made = self._wide(*self._weights, *args)
                    return made
        except WideError:
            self._narrow = None
            return self(args)
        except MisfitError:
            raise
        except AmandaError as error:
            self.reason = why_untraceable(error)
            if self.reason is None:
                raise
            self._narrow = None
        return self._driven(args)

    def _driven(self, args: Iterable[Any]) -> Sequence[Any]:
        """Op by op: what decides is looked at when it is there."""
        with (
            jax.enable_x64(True),
            jax.default_device(self.device),
            running(host_driven=True),
        ):
            given = [jnp.asarray(a) for a in args]
            results = self._run(self._weights, given)
            self.copied |= _copied(results, given)
            return [None if r is None else jnp.asarray(r) for r in results]


def _copied(results: Sequence[Any], args: Sequence[Any]) -> frozenset[int]:
    seen = {id(a) for a in args}
    found = set()
    for i, result in enumerate(results):
        if id(result) in seen:
            found.add(i)
        seen.add(id(result))
    return frozenset(found)


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


def _is_array(value: Any) -> bool:
    return isinstance(value, jax.Array) and not jax.typeof(value).weak_type
