"""Elements put at places, of which some are met twice, against numpy one by one."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from amanda.types import DType
from amanda_jax.kernels import scatter

JOINED: dict[str, Any] = {
    "add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum
}  # fmt: skip
TYPES = ["float32", "float64", "int32", "uint8", "bfloat16"]


def numbers(*shape: int, dtype: str = "float64", seed: int = 0) -> np.ndarray:
    drawn = np.random.default_rng(seed).integers(1, 4, shape)
    return drawn.astype(DType(dtype).numpy)


def put(x: np.ndarray, at: Any, updates: np.ndarray, reduction: str) -> np.ndarray:
    """One by one: the last one stays, or all are joined."""
    made = x.copy()
    if reduction == "none":
        made[at] = updates
    else:
        JOINED[reduction].at(made, at, updates)
    return made


def expect(got: Any, wanted: np.ndarray) -> None:
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(np.asarray(got), wanted)


class TestElements:
    @pytest.mark.parametrize("dtype", TYPES)
    @pytest.mark.parametrize("reduction", JOINED)
    @pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
    def test_places_that_are_met_twice(self, axis, reduction, dtype):
        x, updates = numbers(3, 4, 2, dtype=dtype), numbers(2, 3, 2, dtype=dtype)
        rows = np.random.default_rng(1).integers(0, x.shape[axis], updates.shape)
        at = list(np.indices(rows.shape))
        at[axis] = rows
        wanted = put(x, tuple(at), updates, reduction)
        with jax.enable_x64(True):
            got = scatter.scatter_elements(
                jnp.asarray(x), rows, updates, axis=axis, reduction=reduction
            )
        expect(got, wanted)

    @pytest.mark.parametrize("axis", [0, 1])
    def test_places_from_the_end(self, axis):
        x, updates = numbers(3, 3), numbers(2, 2, seed=1)
        rows = np.array([[-1, -2], [0, -1]]) if axis else np.array([[-1, -2], [0, 1]])
        at = list(np.indices(rows.shape))
        at[axis] = rows
        wanted = put(x, tuple(at), updates, "none")
        with jax.enable_x64(True):
            got = scatter.scatter_elements(
                x, jnp.asarray(rows), updates, axis=axis, reduction="none"
            )
        expect(got, wanted)

    def test_nothing_is_put(self):
        x = numbers(3, 2)
        with jax.enable_x64(True):
            got = scatter.scatter_elements(
                jnp.asarray(x), np.zeros((0, 2), int), np.zeros((0, 2)), axis=0,
                reduction="add",
            )  # fmt: skip
        expect(got, x)


class TestParts:
    @pytest.mark.parametrize("dtype", TYPES)
    @pytest.mark.parametrize("reduction", JOINED)
    @pytest.mark.parametrize("depth", [1, 2, 3])
    @pytest.mark.parametrize("rows", [(4,), (2, 3), ()])
    def test_parts_that_are_met_twice(self, rows, depth, reduction, dtype):
        x = numbers(2, 3, 2, dtype=dtype)
        draw = np.random.default_rng(2)
        at = np.stack(
            [draw.integers(-n, n, rows) for n in x.shape[:depth]], -1, dtype="int64"
        )
        updates = numbers(*rows, *x.shape[depth:], dtype=dtype, seed=1)
        places_of = tuple(at[..., i] for i in range(depth))
        wanted = put(x, places_of, updates, reduction)
        with jax.enable_x64(True):
            got = scatter.scatter_nd(
                jnp.asarray(x), jnp.asarray(at), updates, reduction=reduction
            )
        expect(got, wanted)

    def test_parts_that_stay_apart(self):
        x, updates = numbers(4, 2), numbers(2, 2, seed=1)
        at = np.array([[3], [0]])
        with jax.enable_x64(True):
            got = scatter.scatter_nd(x, jnp.asarray(at), updates, reduction="none")
        expect(got, put(x, (at[:, 0],), updates, "none"))

    @pytest.mark.parametrize(("reduction", "sign"), [("none", 0), ("add", 1)])
    def test_a_place_of_no_axes_is_all(self, reduction, sign):
        x, updates = numbers(4, 2), numbers(4, 2, seed=1)
        with jax.enable_x64(True):
            at = jnp.zeros(0, "int64")
            got = scatter.scatter_nd(x, at, updates, reduction=reduction)
        expect(got, sign * x + updates)
