"""A graph as a function of JAX: to differentiate, to jit, to vmap, to train."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from amanda.errors import BackendError, UsageError
from amanda.graph import Graph, Op
from amanda.types import TensorType
from amanda_jax.compile.partition import why_not_xla
from amanda_jax.compile.passes import prepare_unoptimized
from amanda_jax.kernels import JAX
from amanda_jax.shapes.static_values import analyze_static_values
from amanda_std.backends import StepRunner as StepProgram
from amanda_std.backends import is_std, use_kernels

__all__ = ["as_function"]

_WIDE = ("float64", "complex128")


def as_function(graph: Graph) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Return a function of JAX, and its parameters: `function(parameters, *inputs)`.

    Parameters are the weights of the graph by name, as arrays of JAX: every constant of
    floats that has an axis. Inputs are passed in order or by name. One result is
    returned as it is, several as a tuple. `jax.jit`, `jax.grad` and `jax.vmap` work on
    it as on any other function; shapes are computed while it is traced. It has 64-bit
    types if JAX is configured for them, else 32-bit integers."""
    from amanda_jax.backend import JaxBackend

    if graph.namespace != JaxBackend.namespace:
        raise UsageError(
            "only graphs of the hub op set can be functions of JAX",
            expected=JaxBackend.namespace,
            got=graph.namespace,
            hint=f"amanda.convert(graph, {JaxBackend.namespace!r})",
        )
    prepared = prepare_unoptimized(graph)
    _expect_traceable(prepared)
    steps = StepProgram(prepared, JAX)
    static = analyze_static_values(prepared).constants
    ops = [op for op in prepared if op.is_constant]
    literals: dict[Any, Any] = {}
    names: dict[Any, str] = {}
    for key, op in zip(steps.weights, ops, strict=True):
        if op.output in static or not _is_parameter(op):
            literals[key] = op.attrs["value"].numpy()
        else:
            names[key] = str(key) if op.name else f"weight{key}"
    inputs = [p.name or str(p.index) for p in prepared.parameters]

    def function(parameters: Any, /, *args: Any, **named: Any) -> Any:
        feeds = _ordered_arguments(inputs, args, named)
        weights = _select_weights(parameters, names)
        with use_kernels(JAX), np.errstate(all="ignore"), _without_x64_warnings():
            values = jax.tree.map(jnp.asarray, feeds)
            results = steps.run(values, weights={**literals, **weights})
        return results[0] if len(results) == 1 else tuple(results)

    function.__name__ = function.__qualname__ = graph.name or "function"
    tensors = dict(zip(steps.weights, (op.attrs["value"] for op in ops), strict=True))
    with _without_x64_warnings():
        params = {
            name: jnp.asarray(tensors[key].numpy()) for key, name in names.items()
        }
    return function, params


def _select_weights(parameters: Any, names: Mapping[Any, str]) -> dict[Any, Any]:
    """The weight of each constant, from the parameters by name."""
    is_mapping = isinstance(parameters, Mapping)
    missing = [n for n in names.values() if not is_mapping or n not in parameters]
    if missing:
        raise UsageError(
            f"the first argument of the function has no parameter {missing[0]!r}"
            + (f", and {len(missing) - 1} more are missing" if missing[1:] else ""),
            expected="a dict of the parameters by name, as `as_function` returns it",
            got=", ".join(map(repr, parameters)) or "an empty dict"
            if is_mapping
            else type(parameters).__name__,
        )
    return {key: parameters[name] for key, name in names.items()}


def _is_parameter(op: Op) -> bool:
    own = op.output.type
    if not isinstance(own, TensorType) or own.dtype.kind not in (
        "float",
        "complex",
    ):
        return False
    return own.shape.rank > 0


def _expect_traceable(graph: Graph) -> None:
    """Raise an error for a graph that cannot be a function of JAX."""
    from amanda_jax.backend import JaxBackend

    takes = JaxBackend().takes
    problems = []
    wide_ops = set()
    for op in graph.walk():
        reason = why_not_xla(op) or (takes(op) if is_std(op) else True)
        if reason is not True:
            problems.append(f"{op.label}: {reason}")
        for port in op.outputs:
            if isinstance(port.type, TensorType) and port.type.dtype.name in _WIDE:
                wide_ops.add(op.label)
    if wide_ops and not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        problems += [f"{label}: it has a 64-bit type, for which JAX is not configured"
                     for label in sorted(wide_ops)]  # fmt: skip
    for port in analyze_static_values(graph).data:
        problems.append(
            f"{port}: a shape depends on it, and it is known only at run time"
        )
    if problems:
        raise BackendError(
            "the graph cannot be one function of JAX",
            problems=problems,
            hint="amanda.compile(graph, 'jax') runs it in pieces, and with all types",
        )


def _ordered_arguments(
    inputs: list[str], args: Any, named: dict[str, Any]
) -> list[Any]:
    feeds = dict(zip(inputs, args, strict=False))
    repeated = feeds.keys() & named.keys()
    feeds.update(named)
    if len(args) > len(inputs) or repeated or feeds.keys() != set(inputs):
        raise UsageError(
            "the arguments do not fit the inputs of the graph",
            expected=", ".join(inputs) or "nothing",
            got=", ".join([*map(str, range(len(args))), *named]) or "nothing",
        )
    return [feeds[name] for name in inputs]


@contextmanager
def _without_x64_warnings() -> Iterator[None]:
    """Without JAX's warnings that 64-bit integers become 32-bit ones."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Explicitly requested dtype", UserWarning)
        yield
