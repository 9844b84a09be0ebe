"""A graph as a function of JAX: to differentiate, to jit, to vmap, to train."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from amanda.errors import BackendError, UsageError
from amanda.graph import Graph, Op
from amanda.types import TensorType
from amanda_jax.compile.partition import why_outside
from amanda_jax.compile.passes import plainly
from amanda_jax.kernels import JAX
from amanda_jax.shapes.static_values import followed
from amanda_std.backends import StepRunner as Steps
from amanda_std.backends import is_std, use_kernels

__all__ = ["as_function"]

_WIDE = ("float64", "complex128")


def as_function(graph: Graph) -> tuple[Callable[..., Any], dict[str, Any]]:
    """A function of JAX, and its parameters: `function(parameters, *inputs)`.

    Parameters are the weights of the graph by name, as arrays of JAX: every constant of
    floats that has an axis. Inputs come in order or by name. One result is returned as
    it is, several as a tuple. `jax.jit`, `jax.grad` and `jax.vmap` work on it as on any
    other function; shapes are followed while it is traced. Elements have 64 bits where
    JAX is told so, else integers have 32.
    """
    from amanda_jax.backend import JaxBackend

    if graph.namespace != JaxBackend.namespace:
        raise UsageError(
            "a graph becomes a function of JAX from the hub set",
            expected=JaxBackend.namespace,
            got=graph.namespace,
            hint=f"amanda.convert(graph, {JaxBackend.namespace!r})",
        )
    ready = plainly(graph)
    _expect_traceable(ready)
    steps = Steps(ready, JAX)
    kept = followed(ready).constants
    ops = [op for op in ready if op.is_constant]
    fixed: dict[Any, Any] = {}
    names: dict[Any, str] = {}
    for key, op in zip(steps.weights, ops, strict=True):
        if op.output in kept or not _is_parameter(op):
            fixed[key] = op.attrs["value"].numpy()
        else:
            names[key] = str(key) if op.name else f"weight{key}"
    inputs = [p.name or str(p.index) for p in ready.parameters]

    def function(parameters: Any, /, *args: Any, **named: Any) -> Any:
        given = _in_order(inputs, args, named)
        held = {key: parameters[name] for key, name in names.items()}
        with use_kernels(JAX), np.errstate(all="ignore"), _narrowly():
            values = jax.tree.map(jnp.asarray, given)
            made = steps.run(values, weights={**fixed, **held})
        return made[0] if len(made) == 1 else tuple(made)

    function.__name__ = function.__qualname__ = graph.name or "function"
    tensors = dict(zip(steps.weights, (op.attrs["value"] for op in ops), strict=True))
    with _narrowly():
        params = {
            name: jnp.asarray(tensors[key].numpy()) for key, name in names.items()
        }
    return function, params


def _is_parameter(op: Op) -> bool:
    found = op.output.type
    if not isinstance(found, TensorType) or found.dtype.kind not in (
        "float",
        "complex",
    ):
        return False
    return found.shape.rank > 0


def _expect_traceable(graph: Graph) -> None:
    """An error for what no function of JAX can be, with all reasons."""
    from amanda_jax.backend import JaxBackend

    takes = JaxBackend().takes
    problems = []
    wide = set()
    for op in graph.walk():
        answer = why_outside(op) or (takes(op) if is_std(op) else True)
        if answer is not True:
            problems.append(f"{op.label}: {answer}")
        for port in op.outputs:
            if isinstance(port.type, TensorType) and port.type.dtype.name in _WIDE:
                wide.add(op.label)
    if wide and not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        problems += [f"{label}: it is of 64 bits, which JAX is told not to have"
                     for label in sorted(wide)]  # fmt: skip
    for port in followed(graph).data:
        problems.append(f"{port}: a shape depends on it, which only a run tells")
    if problems:
        raise BackendError(
            "the graph cannot be one function of JAX",
            problems=problems,
            hint="amanda.compile(graph, 'jax') runs it in pieces, and with all types",
        )


def _in_order(inputs: list[str], args: Any, named: dict[str, Any]) -> list[Any]:
    given = dict(zip(inputs, args, strict=False))
    twice = given.keys() & named.keys()
    given.update(named)
    if len(args) > len(inputs) or twice or given.keys() != set(inputs):
        raise UsageError(
            "the arguments do not fit the inputs of the graph",
            expected=", ".join(inputs) or "nothing",
            got=", ".join([*map(str, range(len(args))), *named]) or "nothing",
        )
    return [given[name] for name in inputs]


@contextmanager
def _narrowly() -> Iterator[None]:
    """Integers of 64 bits are those of 32 where JAX is told so; no need to say it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Explicitly requested dtype", UserWarning)
        yield
