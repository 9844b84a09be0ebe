"""Live objects of TensorFlow: functions, modules, layers and graphs."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.errors import AmandaWarning, FormatError, UsageError

tf = pytest.importorskip("tensorflow", reason="needs TensorFlow")


def ports(graph):
    return [p.name for p in graph.parameters], [p.name for p in graph.outputs]


def run(graph, *feeds):
    return amanda.compile(amanda.convert(graph, "std"), "numpy")(list(feeds))


class Scale(tf.Module):
    def __init__(self):
        super().__init__()
        self.factor = tf.Variable([2.0, 3.0], name="factor")

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32)])
    def __call__(self, x):
        return {"y": x * self.factor}


X = np.ones((3, 2), "f")


def test_a_module_with_a_call_method():
    graph = amanda.load(Scale())
    assert ports(graph) == (["x"], ["y"])
    handle = graph.ops["factor"]
    assert handle.type == "VarHandleOp"
    assert handle.attrs["x-value"].numpy().tolist() == [2.0, 3.0]
    np.testing.assert_array_equal(run(graph, X)["y"], X * [2, 3])


@pytest.mark.parametrize("change", ["assign", "assign_add", "scatter"])
def test_values_of_variables_are_those_when_the_graph_is_read(change):
    module = Scale()
    value = amanda.load(module).ops["factor"].attrs["x-value"]
    assert value.is_lazy
    if change == "scatter":
        module.factor.scatter_update(tf.IndexedSlices([9.0], [0]))
    else:
        getattr(module.factor, change)([5.0, 6.0])
    assert value.numpy().tolist() == [2.0, 3.0]


def test_arguments_and_results_keep_their_structure():
    @tf.function
    def model(x, state, *, mask):
        return {"y": x * mask, "state": (state["h"] + 1.0, state["c"])}

    spec = tf.TensorSpec([2], tf.float32)
    args = spec, {"h": spec, "c": spec}
    graph = amanda.load(model, args=args, kwargs={"mask": spec})
    assert ports(graph) == (
        ["x", "state.c", "state.h", "mask"],
        ["state.0", "state.1", "y"],
    )
    concrete = model.get_concrete_function(*args, mask=spec)
    assert ports(amanda.load(concrete)) == ports(graph)


def test_functions_with_one_trace_or_a_signature_need_no_arguments():
    @tf.function
    def twice(x):
        return x * 2.0

    with pytest.raises(UsageError, match="pass its arguments"):
        amanda.load(twice)
    twice(tf.constant(X))
    graph = amanda.load(twice)
    assert ports(graph) == (["x"], ["output_0"])
    assert graph.name == "twice"
    twice(tf.constant([1.0]))
    with pytest.raises(UsageError, match="2 concrete functions"):
        amanda.load(twice)


def test_functions_that_cannot_be_traced():
    @tf.function
    def broken(x):
        return x @ x

    with pytest.raises(FormatError, match="cannot be traced"):
        amanda.load(broken, args=(tf.TensorSpec([2, 3], tf.float32),))


def test_captured_constants_and_the_library_are_kept():
    table = tf.constant(np.arange(400, dtype="f").reshape(200, 2))

    @tf.function
    def inner(x):
        return x + 1.0

    @tf.function
    def outer(x):
        return inner(x) * table[3]

    graph = amanda.load(outer, args=(X,))
    assert len(graph.functions) == 1
    np.testing.assert_array_equal(run(graph, X)["output_0"], (X + 1) * [6, 7])


def test_a_layer_without_a_plugin_for_keras():
    model = tf.keras.Sequential(
        [tf.keras.layers.Input((2,), name="features"), tf.keras.layers.Dense(4)]
    )
    graph = amanda.load(model, "tensorflow")
    assert len(graph.parameters) == 1
    got = next(iter(run(graph, X).values()))
    np.testing.assert_allclose(got, model(X).numpy(), rtol=1e-5)


def test_a_graph():
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder("float32", [None], "x")
        tf.identity(x * 2.0, "y")
    read = amanda.load(graph)
    assert {op.name for op in read} >= {"x", "y"}


def test_a_graph_is_written_without_the_values_of_variables(tmp_path):
    with pytest.warns(AmandaWarning, match="no values of variables: those of .*factor"):
        amanda.save(amanda.load(Scale()), tmp_path / "model.pb")
    read = amanda.load(tmp_path / "model.pb")
    assert [op.type for op in read if op.name == "factor"] == ["VarHandleOp"]
    assert "x-value" not in read.ops["factor"].attrs
