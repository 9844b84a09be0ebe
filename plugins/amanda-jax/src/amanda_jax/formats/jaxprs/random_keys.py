"""Typed keys of `jax.random` as their data: two words, along a last axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from amanda.errors import FormatError
from amanda.graph import Graph, OutputPort
from amanda.types import DType, TensorType
from amanda_jax.formats.jaxprs.dims import dim_of

__all__ = ["has_keys", "is_key", "type_of_data", "with_words"]

_WORDS: Final = 2
_THREEFRY: Final = "key<fry>"
_OUTSIDE: Final = "draw the numbers outside of the function, and pass them to it"
_UINT32: Final = DType("uint32")


def is_key(value: Any) -> bool:
    """Whether an array, or its abstract value, has typed keys."""
    dtype = getattr(value, "dtype", None)
    return dtype is not None and bool(jnp.issubdtype(dtype, jax.dtypes.prng_key))


def type_of_data(aval: Any) -> TensorType:
    """The type of the data of keys; FormatError where they are not of Threefry."""
    if aval.dtype.name != _THREEFRY:
        raise FormatError(
            "random keys of this generator cannot be read",
            expected="keys of Threefry, the default of jax.random",
            got=str(aval),
            hint=_OUTSIDE,
        )
    return TensorType(_UINT32, [*map(dim_of, aval.shape), _WORDS])


def has_keys(equation: Any) -> bool:
    """Whether an operand or a result of an equation has typed keys."""
    return any(is_key(v.aval) for v in (*equation.invars, *equation.outvars))


def _is_partitionable() -> bool:
    """Whether JAX draws numbers as it does by default, each by its position alone."""
    settings: Any = jax.config
    return bool(settings.jax_threefry_partitionable)


def with_words(
    graph: Graph, equation: Any, inputs: list[OutputPort]
) -> tuple[list[OutputPort], Mapping[str, Any]]:
    """The inputs and parameters of an equation of keys, for their data."""
    name = equation.primitive.name
    if name in _DRAWING and not _is_partitionable():
        raise FormatError(
            "random numbers are read as JAX draws them by default",
            expected="jax_threefry_partitionable is True",
            got=False,
        )
    if name in _SAME_PARAMETERS:
        return inputs, equation.params
    if name in _ADAPTED:
        rank = len(equation.outvars[0].aval.shape)
        return inputs, {**equation.params, **_ADAPTED[name](equation, rank)}
    if name == "dynamic_slice":
        sizes = (*equation.params["slice_sizes"], _WORDS)
        start = graph.constant(np.int32(0)).output
        return [*inputs, start], {**equation.params, "slice_sizes": sizes}
    if name == "select_n":
        return [_with_words_axis(graph, inputs[0]), *inputs[1:]], equation.params
    is_draw = name.startswith("random_")
    raise FormatError(
        f"{name} of random keys cannot be read",
        got=", ".join(str(v.aval) for v in equation.invars),
        hint=_OUTSIDE if is_draw else "apply it to their data: jax.random.key_data",
    )


def _with_words_axis(graph: Graph, condition: OutputPort) -> OutputPort:
    """A condition for each key, repeated for its words."""
    type: Any = condition.type
    if not type.shape.rank:
        return condition
    shape = [*type.shape, _WORDS]
    axes = list(range(type.shape.rank))
    attrs = {"shape": shape, "broadcast_dimensions": axes, "sharding": None}
    result = graph.add("broadcast_in_dim", [condition], attrs).output
    result.type = TensorType(type.dtype, shape)
    return result


def _slice(equation: Any, _rank: int) -> dict[str, Any]:
    given = equation.params
    strides = given["strides"]
    return {
        "start_indices": (*given["start_indices"], 0),
        "limit_indices": (*given["limit_indices"], _WORDS),
        "strides": strides and (*strides, 1),
    }


def _broadcast_in_dim(equation: Any, rank: int) -> dict[str, Any]:
    given = equation.params
    return {
        "shape": (*given["shape"], _WORDS),
        "broadcast_dimensions": (*given["broadcast_dimensions"], rank),
    }


def _gather(equation: Any, rank: int) -> dict[str, Any]:
    numbers = equation.params["dimension_numbers"]
    return {
        "dimension_numbers": numbers._replace(offset_dims=(*numbers.offset_dims, rank)),
        "slice_sizes": (*equation.params["slice_sizes"], _WORDS),
    }


_DRAWING: Final = ("random_bits", "random_split")
_SAME_PARAMETERS: Final[Sequence[str]] = (
    "concatenate", "cond", "copy", "random_bits", "random_clone", "random_fold_in",
    "random_seed", "random_split", "random_unwrap", "random_wrap", "rev", "scan",
    "split", "squeeze", "stack", "unstack", "while",
)  # fmt: skip
"""Primitives whose parameters are the same for keys and for their data."""
_ADAPTED: Final[dict[str, Callable[[Any, int], dict[str, Any]]]] = {
    "broadcast_in_dim": _broadcast_in_dim,
    "gather": _gather,
    "reshape": lambda equation, _: {
        "new_sizes": (*equation.params["new_sizes"], _WORDS)
    },
    "slice": _slice,
    "transpose": lambda equation, rank: {
        "permutation": (*equation.params["permutation"], rank)
    },
}
"""The parameters that differ for the data, by primitive."""
