"""The backend `tensorflow`: samples of the hub's ops, run by TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.errors import AmandaError
from amanda.testing import BackendSample, BackendSuite
from amanda_std import ops, trace
from amanda_std.backends import op_samples

pytest.importorskip("tensorflow", reason="needs TensorFlow, which is the backend")


def softmax():
    graph = trace(ops.softmax, [amanda.parse_type("float32[n, 2]")])
    return BackendSample(graph, [np.ones((1, 2), "f")], [np.full((1, 2), 0.5, "f")])


class TestBackend(BackendSuite):
    backend = "tensorflow"
    late = ("numpy", "tensorflow")

    def samples(self):
        return {"softmax": softmax}


NOT_UNIQUE = ("qr_", "eigh_")
"""Samples with several right results: signs of rows of R, and of eigenvectors."""

MOST_DECLINED = 110
"""Samples of ops that TensorFlow lacks, such as maps, sequences and optionals."""


def test_samples_of_the_hub_pass_or_are_declined():
    declined, wrong, passed = [], [], 0
    for name, make in op_samples(ops.OPS, 1).items():
        try:
            sample = make()
            feeds = dict(zip(sample.graph.parameters, sample.feeds, strict=True))
            results = amanda.compile(sample.graph, backend="tensorflow")(feeds)
        except AmandaError:
            declined.append(name)
            continue
        for got, expected in zip(_as_list(results), sample.expected, strict=True):
            wide = np.asarray(got, np.result_type(np.asarray(expected)))
            if wide.shape != np.shape(expected) or not np.allclose(
                wide, expected, rtol=2e-3, atol=1e-5, equal_nan=True
            ):
                wrong.append(name)
        passed += 1
    assert {name for name in wrong if not name.startswith(NOT_UNIQUE)} == set()
    assert len(declined) <= MOST_DECLINED, declined
    assert passed >= 250


def _as_list(results):
    if isinstance(results, dict):
        return list(results.values())
    return list(results) if isinstance(results, list | tuple) else [results]
