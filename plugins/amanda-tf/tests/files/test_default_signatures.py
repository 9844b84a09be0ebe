"""Signatures whose inputs are no placeholders, and scalars as inputs."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda_std import trace

tf = pytest.importorskip("tensorflow", reason="makes the models")

X = np.float32([[1, -2, 3]])
INPUTS = {
    "with a default": lambda x, k, h: {"x": x, "k": k},
    "inner tensors": lambda x, k, h: {"h": h, "k": k},
    "one tensor by two names": lambda x, k, h: {"a": x, "b": x, "k": k},
}


@pytest.mark.parametrize("kind", INPUTS)
def test_its_inputs_and_results_are_those_of_the_graph(kind, tmp_path):
    v1 = tf.compat.v1
    with v1.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 3], "x")
        k = v1.placeholder_with_default(tf.constant(2.0), [], "k")
        h = tf.nn.relu(x)
        inputs = INPUTS[kind](x, k, h)
        v1.saved_model.simple_save(session, str(tmp_path / "m"), inputs, {"y": h * k})
    graph = amanda.load(tmp_path / "m")
    names = sorted({"b": "a"}.get(name, name) for name in inputs)
    assert [port.name for port in graph.parameters] == sorted(set(names))
    feeds = {name: np.float32(3) if name == "k" else X for name in names}
    [found] = amanda.run(graph, feeds, backend="numpy").values()
    wanted = X if "h" in inputs else np.maximum(X, 0)  # an inner tensor is fed
    np.testing.assert_array_equal(found, 3 * wanted)

    amanda.save(graph, tmp_path / "again")
    call = tf.saved_model.load(str(tmp_path / "again")).signatures["serving_default"]
    again = call(**{name: tf.constant(value) for name, value in feeds.items()})
    np.testing.assert_array_equal(again["y"], found)


def test_a_written_scalar_has_its_shape_in_tensorflow(tmp_path):
    graph = trace(lambda x: x * 2.0, [amanda.parse_type("float32[]")], names=["x"])
    amanda.save(amanda.convert(graph, "tensorflow"), tmp_path / "m")
    call = tf.saved_model.load(str(tmp_path / "m")).signatures["serving_default"]
    assert call.structured_input_signature[1]["x"].shape.as_list() == []
