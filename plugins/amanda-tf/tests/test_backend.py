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

DECLINED = {
    "allocate_0": "memory of a device is not a value of TensorFlow's graphs",
    "assign_0": "its input is a variable, which a graph has inside",
    "assign_add_0": "as assign",
    "assign_subtract_0": "as assign",
    "host_callback_0": "a GraphDef has no functions of Python",
    "map_get_0": "maps are values of ONNX",
    "map_keys_0": "as map_get",
    "map_values_0": "as map_get",
    "map_vectorize_0": "as map_get",
    "optional_0": "its result is an optional",
    "read_0": "as assign",
    "sequence_at_0": "sequences of tensors of several shapes",
    "transfer_0": "devices are those of the executable",
    "tuple_get_0": "tuples are values of the hub",
}
"""Samples of ops that TensorFlow lacks, with the reason."""


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
    assert set(declined) == set(DECLINED)
    assert passed >= 335


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("sizes", [None, [4, 5], [2, 8]])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
def test_fourier_transforms(name, sizes, norm):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4, 3, 5))
    if name != "rfft":
        x = x + 1j * rng.normal(size=x.shape)
    kind = amanda.parse_type(f"{x.dtype}[4, 3, 5]")

    def transform(x):
        return getattr(ops, name)(x, sizes, axes=[0, 2], norm=norm)

    graph = trace(transform, [kind])
    (got,) = _as_list(
        amanda.compile(graph, backend="tensorflow")({graph.parameters[0]: x})
    )
    expected = getattr(np.fft, f"{name}n")(x, sizes, (0, 2), norm)
    np.testing.assert_allclose(got, expected, atol=1e-12)


def test_graphs_with_bodies_of_the_same_name_share_a_process():
    for factor in (2.0, 3.0):

        def model(x, factor=factor):
            return ops.while_(
                lambda x: ops.less(ops.sum(x), 50.0), lambda x: [x * factor], x
            )

        graph = trace(model, [amanda.parse_type("float32[2]")])
        run = amanda.compile(graph, backend="tensorflow")
        (got,) = _as_list(run({graph.parameters[0]: np.ones(2, "f")}))
        expected = np.ones(2)
        while expected.sum() < 50:
            expected = expected * factor
        np.testing.assert_allclose(got, expected)


def _as_list(results):
    if isinstance(results, dict):
        return list(results.values())
    return list(results) if isinstance(results, list | tuple) else [results]
