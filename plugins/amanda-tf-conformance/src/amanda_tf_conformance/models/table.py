"""Rows of the tables of models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Model", "floats", "integers", "of_function", "positive"]


class Model(NamedTuple):
    """A model: what makes its function, and the inputs of the call that is compared."""

    name: str
    make: Callable[[], Callable[..., Any]]
    """Returns a function of tensors; variables that it makes belong to the model."""
    inputs: tuple[Any, ...]
    any_batch: bool = False
    """Whether the first dim of the inputs is unknown to TensorFlow."""
    freezes: bool = True
    """Whether TensorFlow can replace its variables by constants."""
    calls: int = 1
    """How many calls, one after the other, are compared; variables change in them."""


def of_function(
    name: str, function: Callable[..., Any], *inputs: Any, any_batch: bool = False
) -> Model:
    """A model of a function without variables."""
    return Model(name, lambda: function, inputs, any_batch)


def floats(*shape: int, dtype: str = "float32") -> Any:
    """Numbers of a normal distribution, the same for a shape each time."""
    rng = np.random.default_rng([7, *shape])
    return rng.standard_normal(shape).astype(dtype)


def positive(*shape: int, dtype: str = "float32") -> Any:
    """Numbers from 0.1 to 2."""
    rng = np.random.default_rng([8, *shape])
    return rng.uniform(0.1, 2, shape).astype(dtype)


def integers(*shape: int, below: int = 10, dtype: str = "int32") -> Any:
    """Integers from 0."""
    rng = np.random.default_rng([9, *shape])
    return rng.integers(0, below, shape).astype(dtype)
