"""Control flow of TensorFlow 1 and 2, and functions, against TensorFlow itself."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.errors import FormatError, LimitError
from amanda.tensors import FunctionRef
from amanda.types import DType

tf = pytest.importorskip("tensorflow", reason="needs TensorFlow, to compare with")
v1 = tf.compat.v1


def check(build, *feeds, v2=False):
    """Build a graph with TensorFlow, run it there and through the hub by numpy."""
    toggle = v1.enable_control_flow_v2 if v2 else v1.disable_control_flow_v2
    toggle()
    with tf.Graph().as_default() as graph:
        inputs = [
            v1.placeholder(np.asarray(feed).dtype, np.shape(feed), f"x{i}")
            for i, feed in enumerate(feeds)
        ]
        results = build(*inputs)
        results = results if isinstance(results, list | tuple) else [results]
        named = [tf.identity(r, f"result{i}") for i, r in enumerate(results)]
        with v1.Session(graph=graph) as session:
            expected = session.run(named, dict(zip(inputs, feeds, strict=True)))
        data = graph.as_graph_def().SerializeToString()
    read = amanda.load(data, format="tensorflow")
    for i in range(len(results)):
        read.result(read.ops[f"result{i}"].output, f"r{i}")
    hub = amanda.convert(read, "std")
    given = {f"x{i}": np.asarray(feed) for i, feed in enumerate(feeds)}
    run = amanda.compile(hub, backend="numpy")
    got = run({name: given[name] for name in (p.name for p in hub.parameters)})
    got = got.values() if isinstance(got, dict) else got
    for value, wanted in zip(list(got), expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-5)
    return hub


def types(hub):
    return {op.type for part in hub.graphs() for op in part}


@pytest.fixture(params=[False, True], ids=["v1", "v2"])
def is_v2(request):
    return request.param


def test_a_conditional(is_v2):
    def build(x):
        return tf.cond(tf.reduce_sum(x) > 1.0, lambda: x * 2.0, lambda: x - 1.0)

    for feed in (np.ones(3, "f"), -np.ones(3, "f")):
        assert "if" in types(check(build, feed, v2=is_v2))


def test_conditionals_within_conditionals(is_v2):
    def build(x, y):
        def inner():
            return tf.cond(y > 2.0, lambda: x + y, lambda: x - y)

        return tf.cond(x > 1.0, inner, lambda: tf.constant(7.0) * y)

    for x, y in ((2, 3), (2, 1), (0, 3)):
        check(build, np.float32(x), np.float32(y), v2=is_v2)


def test_several_results_of_one_conditional(is_v2):
    def build(x):
        return tf.cond(x[0] > 0, lambda: (x, x * 3.0), lambda: (x + 1.0, -x))

    for feed in (np.ones(2, "f"), -np.ones(2, "f")):
        hub = check(build, feed, v2=is_v2)
        assert sum(op.type == "if" for op in hub) == 1


def test_a_loop(is_v2):
    def build(n, x):
        again = tf.while_loop(
            lambda i, _: i < n, lambda i, a: (i + 1, a * 1.5 + x), (0, x)
        )
        return again[1]

    for n in (0, 1, 5):
        hub = check(build, np.int32(n), np.ones((2, 2), "f"), v2=is_v2)
        assert "while" in types(hub)


def test_loops_within_loops_and_conditionals(is_v2):
    def build(n, x):
        def inner(a):
            return tf.while_loop(
                lambda j, _: j < 3,
                lambda j, b: (j + 1, b + tf.cast(j, "float32")),
                (0, a),
            )[1]

        def body(i, a):
            a = tf.cond(tf.equal(i % 2, 0), lambda: inner(a), lambda: a * 2.0)
            return i + 1, a

        return tf.while_loop(lambda i, _: i < n, body, (0, x))[1]

    for n in (1, 4):
        check(build, np.int32(n), np.ones(2, "f"), v2=is_v2)


def test_arrays_in_loops(is_v2):
    def build(x):
        size = tf.shape(x)[0]
        rows = tf.TensorArray(tf.float32, size).unstack(x)
        written = tf.TensorArray(tf.float32, size)

        def body(i, total, array):
            total = total + rows.read(i)
            return i + 1, total, array.write(i, total)

        start = (0, tf.zeros_like(x[0]), written)
        last = tf.while_loop(lambda i, *_: i < size, body, start)
        return last[1], last[2].stack()

    check(build, np.arange(12, dtype="f").reshape(4, 3), v2=is_v2)


def test_ops_that_wait_for_a_conditional(is_v2):
    def build(x):
        check = v1.Assert(x[0] > 0, ["negative"])
        guard = tf.cond(x[0] > 0, lambda: tf.constant(True), lambda: tf.no_op() is None)
        with tf.control_dependencies([check, guard]):
            return x * 2.0

    hub = check(build, np.ones(2, "f"), v2=is_v2)
    assert "assert" in types(hub)


def test_calls_of_functions():
    @tf.function
    def twice(x):
        return x * 2.0

    @tf.function
    def model(x):
        return twice(x) + twice(x + 1.0)

    hub = check(model, np.arange(3, dtype="f"), v2=True)
    assert "call" not in types(hub)
    assert not hub.functions


def test_a_loop_whose_variable_grows(is_v2):
    def build(x):
        return tf.while_loop(
            lambda a: tf.size(a) < 9, lambda a: tf.concat([a, a], 0), [x],
            shape_invariants=[tf.TensorShape([None])],
        )  # fmt: skip

    check(build, np.ones(2, "f"), v2=is_v2)


def test_arrays_that_grow_in_nested_loops(is_v2):
    def build(n, x):
        def inner(j, array):
            array = array.write(array.size(), x[0] * tf.cast(j, "float32"))
            return j + 1, array

        def outer(i, array):
            return i + 1, tf.while_loop(lambda j, _: j < i, inner, (0, array))[1]

        start = tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=(3,))
        array = tf.while_loop(lambda i, _: i < n, outer, (0, start))[1]
        return array.stack(), array.size()

    for n in (1, 4):
        check(build, np.int32(n), np.arange(6, dtype="f").reshape(2, 3), v2=is_v2)


def test_arrays_of_elements_of_several_shapes(is_v2):
    def build(x):
        array = tf.TensorArray(tf.float32, 2, infer_shape=False, clear_after_read=False)
        array = array.write(0, x[:1]).write(1, x)
        return array.concat(), array.read(1) * 2.0

    check(build, np.arange(6, dtype="f").reshape(3, 2), v2=is_v2)


def test_lowered_control_flow():
    """Case as TensorFlow's optimizer lowers it, in a function of two branches more."""
    from tensorflow.python.framework import convert_to_constants

    def call(i, x):
        def loop():
            step = lambda j, a: (j + 1, a * 2.0)  # noqa: E731
            return tf.while_loop(lambda j, _: j < i, step, (0, x))[1]

        def choose():
            return tf.switch_case(i, [lambda: x + 1.0, lambda: -x, loop])

        return tf.cond(i < 8, lambda: (choose(), x), lambda: (x, -x))

    v1.enable_control_flow_v2()
    specs = [tf.TensorSpec([], tf.int32, "i"), tf.TensorSpec([3], name="x")]
    function = tf.function(call, autograph=False, input_signature=specs)
    frozen = convert_to_constants.convert_variables_to_constants_v2(
        function.get_concrete_function(), lower_control_flow=True
    )
    data = frozen.graph.as_graph_def()
    assert {"_SwitchN", "Switch", "Enter"} <= {node.op for node in data.node}
    hub = amanda.convert(amanda.load(data.SerializeToString(), "tensorflow"), "std")
    assert {"if", "case", "while"} <= types(hub)
    run, x = amanda.compile(hub, "numpy"), np.arange(3, dtype="f")
    for i in (-1, 0, 1, 2, 5, 9):
        found = list(run({"i": np.int32(i), "x": x}).values())
        expected = function(np.int32(i), x)
        assert all(np.array_equal(*pair) for pair in zip(found, expected, strict=True))


def graph_with(*nodes):
    graph = amanda.Graph(amanda.namespace("tensorflow").name)
    made = {}
    for name, kind, inputs, attrs in nodes:
        values = [made[i] for i in inputs]
        made[name] = graph.add(kind, values, attrs, name=name).outputs[0]
    graph.result(made[nodes[-1][0]], "y")
    return graph


def test_control_flow_without_structure_is_named():
    boolean, real = DType("bool"), DType("float32")
    graph = graph_with(
        ("p", "Placeholder", [], {"dtype": boolean, "shape": None}),
        ("x", "Placeholder", [], {"dtype": real, "shape": None}),
        ("m", "Merge", ["x", "x"], {"N": 2, "T": real}),
    )
    with pytest.raises(FormatError, match="no structure"):
        amanda.convert(graph, "std")


def test_functions_that_call_themselves_are_refused():
    graph = graph_with(
        ("x", "Placeholder", [], {"dtype": DType("float32"), "shape": None}),
    )
    body = graph.add_function("f", amanda.Graph(graph.namespace))
    x = body.parameter(amanda.parse_type("float32[...]"), "x")
    call = {
        "f": FunctionRef("f"),
        "Tin": [DType("float32")],
        "Tout": [DType("float32")],
    }
    body.result(body.add("PartitionedCall", [x], call).output, "y")
    made = graph.add("PartitionedCall", [graph.ops["x"].output], call)
    graph.result(made.output, "z")
    with pytest.raises(LimitError, match="calls itself"):
        amanda.convert(graph, "std")
