"""Variables of TensorFlow, of both kinds, and training steps, against TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

import amanda

tf = pytest.importorskip("tensorflow", reason="needs TensorFlow, to compare with")
v1 = tf.compat.v1
raw = tf.raw_ops


def check(function, *calls, backend="numpy"):
    """Run a function of TensorFlow and its graph with the same feeds, call by call.

    The graph is read before the first call, so both start with the same state.
    """
    specs = [tf.TensorSpec(np.shape(x), np.asarray(x).dtype) for x in calls[0]]
    concrete = tf.function(function).get_concrete_function(*specs)
    hub = amanda.convert(amanda.load(concrete), "std")
    run = amanda.compile(hub, backend)
    kept = {name: np.array(value) for name, value in _initial(hub).items()}
    for feeds in calls:
        got = run(list(feeds))
        expected = concrete(*map(tf.constant, feeds))
        for name, value in _flat(expected).items():
            np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-6)
    for variable in concrete.variables:
        key = variable.name.removesuffix(":0")
        if key in kept:
            np.testing.assert_allclose(
                run.state[key], variable.numpy(), rtol=1e-5, atol=1e-6
            )
    return hub


def _initial(hub):
    rows = [op for op in hub if op.type == "variable"]
    return {op.attrs["key"]: op.inputs[0].op.attrs["value"].numpy() for op in rows}


def _flat(results):
    flat = [] if results is None else tf.nest.flatten(results)
    if isinstance(results, dict):
        return dict(zip(sorted(results), flat, strict=True))
    return {f"output_{i}": value for i, value in enumerate(flat)}


def types(hub):
    return {op.type for part in hub.graphs() for op in part}


def matrix(*shape, seed=0):
    return np.random.default_rng(seed).uniform(0.5, 1.5, shape).astype("f")


def test_variables_that_nothing_assigns_are_constants():
    w = tf.Variable(matrix(3, 2), name="w")
    hub = check(lambda x: x @ w, [matrix(2, 3)])
    assert not types(hub) & {"variable", "read"}
    assert hub.ops["w"].type == "constant"


def test_assignments_are_ordered_by_control_edges():
    w = tf.Variable(matrix(2, 2), name="w")

    def build(x):
        before = w.read_value()
        w.assign(x)
        middle = w * 2.0
        w.assign_add(before)
        w.assign_sub(middle)
        return before, middle, w.read_value()

    hub = check(build, [matrix(2, 2, seed=1)], [matrix(2, 2, seed=2)])
    assert types(hub) >= {"variable", "assign", "assign_add", "assign_subtract"}


def test_functions_without_results_assign():
    w = tf.Variable(0.0, name="w")

    def build(x):
        w.assign_add(x)

    hub = check(build, [np.float32(2)], [np.float32(3)])
    assert "assign_add" in types(hub)


def test_branches_loops_and_functions_assign_variables():
    w, count = tf.Variable(matrix(2), name="w"), tf.Variable(0, name="count")

    @tf.function
    def grow(factor):
        count.assign_add(1)
        w.assign(w * factor)

    def build(x):
        if tf.reduce_sum(x) > 0:
            w.assign_add(x)
            grow(2.0)
        for i in tf.range(3):
            grow(tf.cast(i, tf.float32) + 0.5)
            if i > 1:
                w.assign_sub(x)
        return w.read_value(), count + 0

    check(build, [matrix(2)], [-matrix(2, seed=1)], [matrix(2, seed=2)])


SCATTERS = ["update", "add", "sub", "mul", "div", "min", "max"]


@pytest.mark.parametrize("name", SCATTERS)
def test_rows_are_scattered(name):
    w = tf.Variable(matrix(4, 3), name="w")
    kind = {"sub": "Sub", "div": "Div"}.get(name, name.title())
    op = getattr(raw, f"ResourceScatter{kind}")

    def build(x):
        op(resource=w.handle, indices=[2, 0], updates=x)
        return w.read_value()

    check(build, [matrix(2, 3, seed=3)])


@pytest.mark.parametrize("name", ["Update", "Add", "Sub", "Min", "Max"])
def test_elements_are_scattered(name):
    w = tf.Variable(matrix(4, 3), name="w")

    def build(x):
        op = getattr(raw, f"ResourceScatterNd{name}")
        op(ref=w.handle, indices=[[2, 1], [0, 0]], updates=x)
        return w.read_value()

    check(build, [matrix(2, seed=3)])


def test_rows_and_elements_are_gathered():
    w = tf.Variable(matrix(4, 3), name="w")

    def build(x):
        w.assign_add(x)
        rows = raw.ResourceGather(resource=w.handle, indices=[[1, 3]], dtype="float32")
        nd = raw.ResourceGatherNd(resource=w.handle, indices=[[1, 2]], dtype="float32")
        return rows, nd, raw.VariableShape(input=w.handle)

    check(build, [matrix(4, 3)])


def scalars(*values):
    return [np.float32(value) for value in values]


STEPS = {
    "GradientDescent": (1, [], [0.1, "g"]),
    "ProximalGradientDescent": (1, [], [0.1, 0.2, 0.3, "g"]),
    "Momentum": (2, [{"use_nesterov": False}, {"use_nesterov": True}],
                 [0.1, "g", 0.9]),
    "KerasMomentum": (2, [{"use_nesterov": False}, {"use_nesterov": True}],
                      [0.1, "g", 0.9]),
    "Adagrad": (2, [{}, {"update_slots": False}], [0.1, "g"]),
    "AdagradV2": (2, [], [0.1, 0.01, "g"]),
    "ProximalAdagrad": (2, [], [0.1, 0.2, 0.3, "g"]),
    "AdagradDA": (3, [], ["g", 0.1, 0.2, 0.3, np.int64(3)]),
    "Adadelta": (3, [], [0.1, 0.9, 0.01, "g"]),
    "Adam": (3, [{}, {"use_nesterov": True}], [0.9, 0.99, 0.1, 0.8, 0.95, 1e-3, "g"]),
    "AdamWithAmsgrad": (4, [], [0.9, 0.99, 0.1, 0.8, 0.95, 1e-3, "g"]),
    "AdaMax": (3, [], [0.9, 0.1, 0.8, 0.95, 1e-3, "g"]),
    "RMSProp": (3, [], [0.1, 0.9, 0.5, 1e-3, "g"]),
    "CenteredRMSProp": (4, [], [0.1, 0.9, 0.5, 0.5, "g"]),
    "Ftrl": (3, [{}, {"multiply_linear_by_lr": True}], ["g", 0.1, 0.2, 0.3, -0.5]),
    "FtrlV2": (3, [{}, {"multiply_linear_by_lr": True}],
               ["g", 0.1, 0.2, 0.3, 0.1, -0.5]),
    "AddSign": (2, [], [0.1, 0.2, 0.3, 0.9, "g"]),
    "PowerSign": (2, [], [0.1, 0.2, 0.3, 0.9, "g"]),
}  # fmt: skip


def step_cases():
    for name, (count, options, inputs) in STEPS.items():
        for kind in ("Apply", "SparseApply"):
            if hasattr(raw, f"Resource{kind}{name}"):
                for given in options or [{}]:
                    if kind == "Apply" or "use_nesterov" not in given or count == 2:
                        yield pytest.param(
                            f"Resource{kind}{name}", count, given, inputs,
                            id=f"{kind}{name}{'-'.join(given)}",
                        )  # fmt: skip


@pytest.mark.parametrize(("name", "count", "options", "inputs"), [*step_cases()])
def test_training_steps(name, count, options, inputs):
    slots = [tf.Variable(matrix(4, 2, seed=i), name=f"v{i}") for i in range(count)]
    rows = [2, 0] if "Sparse" in name else None

    def build(g):
        values = [g if isinstance(v, str) else tf.constant(v) for v in inputs]
        values = [tf.cast(v, g.dtype) if v.dtype == tf.float64 else v for v in values]
        place = next(i for i, v in enumerate(values) if v is g)
        if rows is not None:
            values.insert(place + 1, tf.constant(rows))
        given = [*(slot.handle for slot in slots), *values]
        op = getattr(raw, name)
        names = [*op.__signature__.parameters][: len(given)]
        op(**dict(zip(names, given, strict=True)), **options)
        return [slot.read_value() for slot in slots]

    shape = (2, 2) if rows is not None else (4, 2)
    calls = [[matrix(*shape, seed=9) - 1], [matrix(*shape, seed=8) - 1]]
    check(build, *calls)


def session_graph(build, *feeds):
    """A graph with the variables of `build`, whose results are read by TensorFlow."""
    with tf.Graph().as_default() as graph:
        given = [v1.placeholder(x.dtype, x.shape, f"x{i}") for i, x in enumerate(feeds)]
        results = build(*given)
        named = [tf.identity(r, f"result{i}") for i, r in enumerate(results)]
        with v1.Session(graph=graph) as session:
            session.run(v1.global_variables_initializer())
            initial = {v.op.name: session.run(v) for v in v1.global_variables()}
            runs = [
                session.run(named, dict(zip(given, feeds, strict=True)))
                for _ in range(3)
            ]
        read = amanda.load(graph)
    for op in read:
        if op.name in initial:
            op.attrs["x-value"] = amanda.tensors.Tensor.of(initial[op.name])
    for i in range(len(results)):
        read.result(read.ops[f"result{i}"].output, f"r{i}")
    return read, runs


def test_frozen_variables_order_nothing():
    """The results of a tf.function wait for every read, by a NoOp."""
    module = tf.Module()
    module.w, module.b = tf.Variable(matrix(3, 2)), tf.Variable(matrix(2))
    function = tf.function(lambda x: x @ module.w + module.b)
    x = matrix(4, 3)
    graph = amanda.load(function, args=(tf.TensorSpec(x.shape, x.dtype),))
    assert any(op.control_inputs for part in graph.graphs() for op in part)
    hub = amanda.convert(graph, "std")
    assert not list(hub.control_edges)
    [y] = amanda.run(hub, [x], backend="numpy").values()
    np.testing.assert_allclose(y, function(x), rtol=1e-6)


def test_values_of_variables_are_no_losses():
    def build(x):
        return (x * v1.get_variable("w", initializer=matrix(2), use_resource=True),)

    graph, _ = session_graph(build, matrix(2))
    graph.ops["w"].attrs["x-origin"] = "a note that no mapping reads"
    plan = amanda.plan(graph, "std")
    [lost] = [loss for report in plan.reports for loss in report.losses]
    assert "x-origin" in lost


@pytest.mark.parametrize("is_resource", [False, True], ids=["reference", "resource"])
def test_training_of_tensorflow_1(is_resource):
    def build(x):
        w = v1.get_variable("w", initializer=matrix(3, 2), use_resource=is_resource)
        b = v1.get_variable("b", initializer=matrix(2), use_resource=is_resource)
        loss = tf.reduce_sum((x @ w + b) ** 2)
        train = v1.train.AdamOptimizer(0.1).minimize(loss)
        with tf.control_dependencies([train]):
            return tf.identity(loss), tf.identity(w.read_value())

    graph, runs = session_graph(build, matrix(4, 3))
    hub = amanda.convert(graph, "std")
    run = amanda.compile(hub, "numpy")
    for expected in runs:
        got = run([matrix(4, 3)])
        np.testing.assert_allclose(got["r0"], expected[0], rtol=1e-4)
        np.testing.assert_allclose(got["r1"], expected[1], rtol=1e-4)


def test_references_that_nothing_assigns_are_constants():
    def build(x):
        w = v1.get_variable("w", initializer=matrix(3, 2), use_resource=False)
        return [x @ w]

    graph, runs = session_graph(build, matrix(4, 3))
    hub = amanda.convert(graph, "std")
    assert types(hub) == {"constant", "matmul", "identity"} & types(hub)
    got = amanda.compile(hub, "numpy")([matrix(4, 3)])
    np.testing.assert_allclose(got["r0"], runs[0][0], rtol=1e-5)


def check_round_trip(function, *calls):
    """Run a function from the hub by TensorFlow, and compare results and state."""
    hub = check(function, *calls)
    again = amanda.compile(hub, "numpy"), amanda.compile(hub, "tensorflow")
    for feeds in calls:
        rows = [dict(run(list(feeds)).items()) for run in again]
        for name, value in rows[0].items():
            np.testing.assert_allclose(rows[1][name], value, rtol=1e-5, atol=1e-6)
    for key in again[0].state:
        np.testing.assert_allclose(
            again[1].state[key], again[0].state[key], rtol=1e-5, atol=1e-6
        )
    return again[1]


def test_variables_of_the_hub_are_those_of_tensorflow():
    w, n = tf.Variable(matrix(2, 2), name="w"), tf.Variable(0.0, name="n")

    def build(x):
        before = w.read_value()
        w.assign(x * before)
        middle = w * 2.0
        w.assign_add(before)
        if tf.reduce_sum(x) > 4:
            n.assign_add(1.0)
        for _ in tf.range(3):
            w.assign_sub(0.1 * middle)
        return before, middle

    run = check_round_trip(build, [matrix(2, 2, seed=1)], [matrix(2, 2, seed=2) * 2])
    assert sorted(run.state) == ["n", "w"]
    run.state["w"] = np.zeros((2, 2), "f")
    assert run.state["w"].tolist() == [[0, 0], [0, 0]]
    run.state.reset("w")
    np.testing.assert_array_equal(run.state["w"], matrix(2, 2))


def test_slices_are_assigned():
    w = tf.Variable(matrix(4, 3), name="w")

    def build(x):
        w[1:3, ::2].assign(x)
        return w.read_value()

    check(build, [matrix(2, 2, seed=3)])
