"""The single-layer network of the published specification, of TensorFlow 1.13.1."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import amanda
from amanda.errors import AmandaWarning

FILE = Path(__file__).parents[3] / "tests" / "dictionary" / "published" / "example.yaml"
RNG = np.random.default_rng(1)
KERNEL = RNG.standard_normal((784, 10)).astype("float32")
X = RNG.standard_normal((1, 784)).astype("float32")
EXPECTED = np.maximum(X @ KERNEL, 0)


@pytest.fixture
def network():
    """The graph of the file, with a value of its variable."""
    graph = amanda.load(FILE)
    graph.ops["dense/kernel"].attrs["x-value"] = amanda.Tensor.of(KERNEL)
    return graph


def test_it_is_valid(network):
    assert network.namespace == "amanda/tensorflow/1.13.1"
    assert amanda.namespace(network.namespace).validate(network) == []


@pytest.mark.parametrize("backend", ["numpy", "jax", "onnxruntime", "tensorflow"])
def test_it_runs_on_every_backend(network, backend):
    module = {"numpy": "numpy"}.get(backend, backend)
    pytest.importorskip(module)
    if backend != "numpy":
        pytest.importorskip(
            {"tensorflow": "amanda_tf"}.get(backend, f"amanda_{backend}")
        )
    hub = amanda.convert(network, "std")
    [y] = amanda.compile(hub, backend)({"Placeholder": X}).values()
    np.testing.assert_allclose(y, EXPECTED, rtol=1e-4, atol=1e-4)


def test_tensorflow_runs_its_graph_def(network, tmp_path):
    tf = pytest.importorskip("tensorflow")
    with pytest.warns(AmandaWarning, match="no values of variables"):
        amanda.save(network, tmp_path / "dnn.pb")
    definition = tf.compat.v1.GraphDef()
    definition.ParseFromString((tmp_path / "dnn.pb").read_bytes())
    [product] = [node for node in definition.node if node.op == "MatMul"]
    [shape] = product.attr["_output_shapes"].list.shape
    assert [dim.size for dim in shape.dim] == [1, 10]
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(definition, name="")
        kernel = graph.get_tensor_by_name("dense/kernel:0")
        with tf.compat.v1.Session(graph=graph) as session:
            session.run(tf.raw_ops.Assign(ref=kernel, value=tf.constant(KERNEL)))
            y = session.run("dense/Relu:0", {"Placeholder:0": X})
    np.testing.assert_allclose(y, EXPECTED, rtol=1e-4, atol=1e-4)
