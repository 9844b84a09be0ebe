"""Cases of single ops: inputs and attributes, run by TensorFlow and by the hub.

Arrays among the inputs are fed, lists and numbers are constants of the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

_seeds = count(1)


@dataclass
class OpCase:
    """A small graph, by the function that builds it."""

    name: str
    build: Callable[..., Any]
    feeds: list[Any]
    renamed: dict[str, str] = field(default_factory=dict)
    """Ops of TensorFlow that stand for older ones of the same meaning."""
    jit: bool = False
    """Whether only XLA has a kernel."""
    agrees: Callable[[Any, Any], bool] | None = None
    """A comparison of results, where several are right."""
    results: int | None = None
    """The number of results that are compared, where the others have no meaning."""
    tolerance: float = 2e-4
    dynamic: bool = False
    """Whether no size of the inputs is declared."""


def r(*shape: int, low: float = -2, high: float = 2, dtype: str = "float32") -> Any:
    """Random numbers, the same in every run."""
    rng = np.random.default_rng(next(_seeds))
    if dtype.startswith("complex"):
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(int(low), int(high) + 1, shape).astype(dtype)
    return rng.uniform(low, high, shape).astype(dtype)


def positive(*shape: int, dtype: str = "float32") -> Any:
    """Random numbers from 0.5 to 2."""
    return r(*shape, low=0.5, high=2, dtype=dtype)


def i(*values: Any, dtype: str = "int32") -> Any:
    """Integers that are fed."""
    return np.array(values if len(values) != 1 else values[0], dtype)


def case(
    op: str, *inputs: Any, instead_of: str = "", jit: bool = False,
    agrees: Any = None, results: int | None = None, tolerance: float = 2e-4,
    **attrs: Any,
) -> OpCase:  # fmt: skip
    """One op; `instead_of` names an older op of the same meaning, which is read."""
    feeds = [v for v in _flat(inputs) if isinstance(v, np.ndarray)]

    def build(*fed: Any) -> Any:
        values = iter(fed)
        return apply(op, [_fill(value, values) for value in inputs], attrs)

    name = f"{instead_of or op}-{next(_seeds)}"
    renamed = {op: instead_of} if instead_of else {}
    return OpCase(name, build, feeds, renamed, jit, agrees, results, tolerance)


def program(name: str, build: Callable[..., Any], *feeds: Any, **more: Any) -> OpCase:
    """A graph of several ops; `build` receives `apply` and the inputs."""
    return OpCase(name, lambda *xs: build(run_op, *xs), list(feeds), **more)


def run_op(op: str, *inputs: Any, **attrs: Any) -> Any:
    """The result of an op of TensorFlow, by its registered name."""
    return apply(op, list(inputs), attrs)


def apply(op: str, inputs: list[Any], attrs: dict[str, Any]) -> Any:
    """The result of an op of TensorFlow, inputs by position."""
    from tensorflow.python.framework import op_def_library, op_def_registry

    definition = op_def_registry.get(op)
    given = dict(zip((a.name for a in definition.input_arg), inputs, strict=True))
    args = definition.input_arg
    inferred = {n for a in args for n in (a.type_attr, a.number_attr, a.type_list_attr)}
    for attr in definition.attr:
        if attr.name in attrs:
            given[attr.name] = _as_attribute(attrs[attr.name], attr.type)
        elif attr.HasField("default_value") and attr.name not in inferred:
            given[attr.name] = _plain(attr.default_value)
    return op_def_library.apply_op(op, name=op.strip("_"), **given)


def _as_attribute(value: Any, kind: str) -> Any:
    """An attribute, with element types given by name."""
    import tensorflow as tf

    if kind == "type":
        return tf.as_dtype(value)
    return [tf.as_dtype(v) for v in value] if kind == "list(type)" else value


def _plain(value: Any) -> Any:
    """The default of an attribute as Python has it."""
    kind = value.WhichOneof("value")
    found = getattr(value, kind)
    if kind != "list":
        return found
    rows = [list(each) for _, each in found.ListFields()]
    return rows[0] if rows else []


def _flat(values: Any) -> list[Any]:
    found = []
    for value in values:
        found += value if isinstance(value, tuple) else [value]
    return found


def _fill(value: Any, fed: Any) -> Any:
    if isinstance(value, tuple):  # a variadic input
        return [_fill(each, fed) for each in value]
    return next(fed) if isinstance(value, np.ndarray) else value
