"""Values that XLA computes in its own way, and what it does not support."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.errors import BackendError
from amanda.graph import Graph
from amanda.types import parse_type
from amanda_std import ops, trace


class TestWhatXlaDoesItsOwnWay:
    """Plain loops and numpy say what is right; jax.nn.softmax fails the first, too."""

    @pytest.mark.parametrize("op", [ops.softmax, ops.log_softmax])
    def test_huge_elements_that_are_computed_just_before(self, op):
        scores = (1.3e10 * np.random.default_rng(0).random((13, 13))).astype("f")
        x = np.broadcast_to(scores, (1, 1000, 13, 13))  # all channels alike

        def network(x):
            return op(ops.mean(x, (2, 3)), axes=(1,))

        [got] = amanda.run(
            trace(network, [parse_type(str_of(x))]), [x], backend="jax"
        ).values()
        share = 1 / 1000
        expected = share if op is ops.softmax else np.log(share)
        np.testing.assert_allclose(got, np.full((1, 1000), expected), rtol=1e-4)

    @pytest.mark.parametrize(
        ("name", "bits"), [("int2", 2), ("uint2", 2), ("int4", 4), ("uint4", 4),
                           ("int8", 8), ("uint8", 8), ("int16", 16)]
    )  # fmt: skip
    def test_small_integers_go_on_from_the_least(self, name, bits):
        numbers = [-40000.0, -300.5, -9.0, -3.6, 0.0, 1.5, 3.0, 9.0, 200.0, 70000.25]
        low = 0 if name.startswith("u") else -(1 << bits - 1)
        expected = [(int(n) - low) % (1 << bits) + low for n in numbers]
        dtype = parse_type(f"{name}[]").dtype
        graph = trace(lambda x: ops.astype(x, dtype=dtype), [parse_type("float32[n]")])
        [got] = amanda.run(graph, [np.array(numbers, "f")], backend="jax").values()
        assert got.dtype == dtype.numpy
        assert got.astype("int64").tolist() == expected

    @pytest.mark.parametrize(
        ("type_", "why"),
        [
            ("sequence<string[n]>", "XLA has no element type string"),
            ("map<int64, float32[]>", "XLA does not support maps"),
        ],
    )
    def test_inputs_that_hold_no_numbers_are_refused(self, type_, why):
        graph = Graph("amanda/std/1")
        graph.result(graph.parameter(parse_type(type_), "x"), "y")
        with pytest.raises(BackendError, match=why):
            amanda.compile(graph, "jax")


def str_of(array: np.ndarray) -> str:
    return f"{array.dtype}{list(array.shape)}"
