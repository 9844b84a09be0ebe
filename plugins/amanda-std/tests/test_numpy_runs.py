"""How programs run on numpy: what is planned, what is fed, what is kept."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import amanda
from amanda import types
from amanda.errors import BackendError, UsageError
from amanda.graph import Graph
from amanda.tensors import Tensor
from amanda.types import TensorType, parse_type
from amanda_std import ops, trace
from amanda_std.engine.kernel_dispatch import dispatch, when
from amanda_std.runtime.implementations import implementations_in_table
from amanda_std.runtime.numpy_kernels import NUMPY
from amanda_std.runtime.step_runner import StepRunner

X = parse_type("float32[n, 4]")
WIDE = parse_type("float32[64, 64]")


def compiled(function, *types, **options):
    return amanda.compile(trace(function, list(types)), "numpy", **options)


# -- plans ---------------------------------------------------------------------------


def deep(x, w):
    """Memory that ends, and memory of the same size that begins."""
    y = ops.exp(x)  # new
    z = ops.matmul(y, w)  # y is read: z cannot lie there
    z = ops.tanh(z)  # over z
    u = ops.matmul(z, w)  # where y was
    return ops.matmul(ops.negative(u), w)  # over u, then where z was


def test_the_plan_uses_memory_again():
    run = compiled(deep, WIDE, WIDE)
    plan = run.plan()
    assert [step.label.split()[0] for step in plan.steps] == [
        "exp", "matmul", "tanh", "matmul", "negative", "matmul",
    ]  # fmt: skip
    assert plan.memories == 2  # in turn
    over = [step.over for step in plan.steps]
    assert over[0] is over[1] is None
    x, w = (np.random.default_rng(i).random((64, 64), "float32") for i in (0, 1))
    want = -(np.tanh(np.exp(x) @ w) @ w) @ w
    for _ in range(2):
        np.testing.assert_allclose(run([x, w])[0], want, rtol=1e-5)


def test_no_two_values_that_live_at_once_share_memory():
    rng = np.random.default_rng(5)
    for seed in range(20):
        run = compiled(lambda *xs, seed=seed: random_steps(seed, *xs), WIDE, WIDE)
        plan = run.plan()
        ends = len(plan.steps)
        for a in plan.values:
            for b in plan.values:
                if a is b or a.memory is None or a.memory != b.memory:
                    continue
                first, then = sorted((a, b), key=lambda v: v.made)
                last = ends if first.last is None else first.last
                assert last <= then.made
        args = [rng.random((64, 64), "float32") for _ in range(2)]
        want = random_steps(seed, *args)
        for got, expected in zip(run(args).values(), want, strict=True):
            np.testing.assert_array_equal(got, expected)


def random_steps(seed, *xs):
    rng = np.random.default_rng(seed)
    values = list(xs)
    for _ in range(30):
        a, b = (values[i] for i in rng.integers(0, len(values), 2))
        kind = rng.integers(0, 5)
        if kind == 0:
            values.append(ops.add(a, b))
        elif kind == 1:
            values.append(ops.negative(a))
        elif kind == 2:
            values.append(ops.transpose(a, perm=(1, 0)))  # a view
        elif kind == 3:
            values.append(ops.maximum(a, b))
        else:
            values.append(ops.multiply(ops.tanh(ops.matmul(a, b)), 0.5))
    return values[-6:]


def through_views(x, w):
    """Values that are read only through views of them."""
    y = ops.reshape(ops.exp(x), [64, 64])  # a view of exp
    z = ops.transpose(ops.matmul(y, w), perm=[1, 0])  # exp is not used any more
    return ops.negative(ops.matmul(z, w))  # where exp was, and over that


def test_memory_is_used_again_once_its_views_were_read():
    run = compiled(through_views, WIDE, WIDE)
    plan = run.plan()
    steps = {step.label.split()[0]: step for step in reversed(plan.steps)}
    (exp,), (product,) = steps["exp"].writes, steps["matmul"].writes
    aliases = {v.place: v.aliases for v in plan.values if v.aliases}
    (reshaped,), (swapped,) = steps["reshape"].writes, steps["transpose"].writes
    assert aliases == {reshaped: (exp,), swapped: (product,)}
    assert plan.memories == 2
    assert plan.reuse_count == 2
    assert f"shares %{exp}" in str(plan)
    x, w = (np.random.default_rng(i).random((64, 64), "float32") for i in (0, 1))
    want = -((np.exp(x) @ w).T @ w)
    for _ in range(2):
        np.testing.assert_allclose(run([x, w])[0], want, rtol=1e-5)


def test_memory_with_a_view_that_is_read_later_is_not_written_over():
    def later(x):
        y = ops.exp(x)
        view = ops.reshape(y, [64 * 64])
        return ops.tanh(y), ops.negative(ops.tanh(y)), ops.add(view, 1.0)

    x = np.random.default_rng(3).random((64, 64), "float32")
    first, second, third = compiled(later, WIDE)([x]).values()
    np.testing.assert_allclose(first, np.tanh(np.exp(x)), rtol=1e-5)
    np.testing.assert_allclose(second, -np.tanh(np.exp(x)), rtol=1e-5)
    np.testing.assert_array_equal(third, np.exp(x).reshape(-1) + np.float32(1))


def test_memory_that_a_variable_keeps_is_not_written_over():
    def keep(x):
        v = ops.variable(np.zeros((64, 64), "float32"), key="v")
        before = ops.add(ops.read(v), 0.0)
        ops.assign(v, ops.exp(x))
        return before, ops.tanh(ops.negative(ops.matmul(x, x)))

    x = np.random.default_rng(4).random((64, 64), "float32")
    run = compiled(keep, WIDE)
    run([x])
    np.testing.assert_array_equal(run([x])[0], np.exp(x))


def test_results_may_be_feeds_and_views_of_them():
    """A result that is fed, one that is a view of it, and one computed from it."""

    def same(x):
        return x, ops.transpose(x, perm=[1, 0]), ops.negative(ops.negative(x) * 2.0)

    x = np.random.default_rng(6).random((64, 64), "float32")
    kept = x.copy()
    results = list(compiled(same, WIDE)([x]).values())
    np.testing.assert_array_equal(x, kept)
    for result, want in zip(results, (kept, kept.T, kept * 2), strict=True):
        np.testing.assert_array_equal(result, want)
        result[...] = 0  # results are distinct from the feed and from each other
    np.testing.assert_array_equal(x, kept)


def test_the_report_names_what_runs_each_op_for_its_types():
    def function(x, n):
        return ops.exp(x), ops.mean(x), ops.add(n, n)

    ints = TensorType("int32", [3])
    report = compiled(function, WIDE, ints).executable.report()
    rows = {row.type: row for row in report.implementations}
    assert rows["exp"].dtypes == ("float32",)
    assert rows["exp"].name == "numpy.exp"
    assert rows["add"].call == "add(int32, int32)"
    assert rows["mean"].name == "amanda_std.runtime.numpy_kernels._mean"
    assert "add(int32, int32): numpy.add, 1 op" in str(report).splitlines()
    assert str(report).splitlines()[-1].startswith("memory: ")


def test_the_report_includes_ops_in_bodies():
    def function(c, x):
        return ops.if_(c, lambda x: ops.exp(x), lambda x: ops.sin(x), x)

    report = compiled(function, TensorType("bool", []), WIDE).executable.report()
    names = {row.type: row.name for row in report.implementations}
    assert (names["exp"], names["sin"]) == ("numpy.exp", "numpy.sin")


def test_kernels_by_dtype_are_reported_as_chosen():
    graph = trace(
        lambda x, n: (ops.exp(x), ops.exp(ops.astype(n, dtype="float64"))),
        [WIDE, TensorType("int8", [2])],
    )
    table = NUMPY.also(
        {"exp": dispatch(when(np.exp2, dtype="float32"), otherwise=np.exp)}
    )
    rows = [r for r in StepRunner(graph, table).implementations() if r.type == "exp"]
    assert [(row.dtypes, row.name) for row in rows] == [
        (("float32",), "numpy.exp2"),
        (("float64",), "numpy.exp"),
    ]
    listed = [(row.dtypes, row.name) for row in implementations_in_table("exp", table)]
    assert listed == [(("float32",), "numpy.exp2"), ((), "numpy.exp")]
    untyped = trace(ops.exp, [TensorType(types.unknown, [2])])
    (row,) = StepRunner(untyped, table).implementations()
    assert row.name == "by dtype in each call: numpy.exp2, numpy.exp"


def test_the_plan_is_printed_the_same_each_time():
    texts = {str(StepRunner(trace(deep, [WIDE, WIDE]), NUMPY).plan()) for _ in range(3)}
    [text] = texts
    lines = text.splitlines()
    assert lines[0] == "%0 input graph:0: float32[64, 64]"
    assert lines[-1].startswith("5: %7 = matmul #5(%6, %1)")
    assert any("over %" in line for line in lines)


def test_sizes_are_told_where_they_are_known():
    plan = compiled(lambda x: ops.exp(x) + 1.0, WIDE).plan()
    assert plan.values[0].nbytes == 64 * 64 * 4
    assert compiled(lambda x: ops.exp(x) + 1.0, X).plan().values[0].nbytes is None


def test_what_is_fed_is_never_written_over():
    run = compiled(lambda x: ops.negative(x) * 2.0, WIDE)
    x = np.ones((64, 64), "float32")
    run([x])
    assert (x == 1).all()


# -- weights -------------------------------------------------------------------------


def test_weights_are_read_when_they_are_needed():
    read = []

    def make():
        read.append(1)
        return np.full((64, 64), 2, "float32")

    graph = Graph("amanda/std/1")
    x = graph.parameter(WIDE)
    w = graph.constant(Tensor.lazy(make, "float32", [64, 64]), name="w").output
    y = graph.add("add", [x, w]).output
    y.type = WIDE
    graph.result(y)
    program = StepRunner(graph, NUMPY)
    assert (read, list(program.weights)) == ([], ["w"])
    x = np.ones((64, 64), "float32")
    other = np.zeros((64, 64), "float32")
    assert program.run([x], weights={"w": other})[0][0, 0] == 1
    assert read == []
    assert program.run([x])[0][0, 0] == program.run([x])[0][0, 0] == 3
    assert read == [1]


# -- feeds ---------------------------------------------------------------------------


def test_dlpack_is_taken_without_a_copy():
    run = compiled(lambda x: x + 1.0, X)

    class Foreign:
        """What has DLPack and nothing else."""

        def __init__(self, array):
            self.array = array
            self.asked = 0

        def __dlpack__(self, **options):
            self.asked += 1
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    foreign = Foreign(np.ones((2, 4), "float32"))
    assert run([foreign])[0].tolist() == [[2] * 4] * 2
    assert foreign.asked == 1


def test_torch_tensors_are_taken():
    torch = pytest.importorskip("torch")
    run = compiled(lambda x: x + 1.0, X)
    assert run([torch.ones(2, 4)])[0].tolist() == [[2] * 4] * 2
    with pytest.raises(UsageError, match="of shape"):
        run([torch.ones(2, 3)])


def test_numbers_in_lists_take_the_type_of_the_input():
    run = compiled(lambda x: x, parse_type("float32[n]"))
    got = run([[1, 2]])[0]
    assert (got.dtype, got.tolist()) == (np.float32, [1, 2])


def test_texts_are_fed_in_every_form():
    run = compiled(ops.string_upper, parse_type("string[n]"))
    for texts in (["a", "ß"], np.array(["a", "ß"]), np.array(["a", "ß"], object),
                  np.array([b"a", "ß".encode()], object)):  # fmt: skip
        assert run([texts])[0].tolist() == ["A", "SS"]


def test_weights_that_are_texts_are_texts():
    def function(x):
        return ops.string_concat(x, np.array(["é"], object))

    run = compiled(function, parse_type("string[n]"))
    assert run([["a", "b"]])[0].tolist() == ["aé", "bé"]


def test_results_that_hold_values_are_apart():
    def function(x):
        xs = ops.sequence_construct(x, x)
        return xs, ops.tuple_make(xs, x)

    run = compiled(function, parse_type("float32[n]"))
    given = np.zeros(2, "float32")
    first, (second, third) = run([given]).values()
    arrays = [given, *first, *second, third]
    for i, array in enumerate(arrays):
        assert not any(np.shares_memory(array, other) for other in arrays[:i])


def test_threads_have_their_own_memory():
    run = compiled(deep, WIDE, WIDE)
    rng = np.random.default_rng(3)
    pairs = [[rng.random((64, 64), "float32") for _ in range(2)] for _ in range(24)]
    alone = [run(pair)[0] for pair in pairs]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda pair: run(pair)[0], pairs))
    for a, b in zip(alone, together, strict=True):
        np.testing.assert_array_equal(a, b)


def test_options_that_nobody_knows_are_told():
    with pytest.raises(BackendError, match="one of callbacks, observe, profile, state"):
        compiled(lambda x: x, X, speed=3)


# -- sessions ------------------------------------------------------------------------


def test_a_session_keeps_state_between_targets():
    def function(x):
        v = ops.variable(np.zeros(2, "float32"), key="v")
        return ops.assign_add(v, x, name="more"), ops.exp(x)

    graph = trace(function, [parse_type("float32[2]")], names=["x"])
    session = amanda.Session(graph, "numpy")
    x = np.ones(2, "float32")
    for n in (1, 2, 3):
        assert session.run(["more"], [x])["more"].tolist() == [n, n]
    both = list(session.run().values())
    assert both[0].tolist() == [4, 4]  # run anew, though nothing was fed
    assert session.last.ops == 3  # variable, assign_add; exp was not there yet
    session.run()
    assert session.last.ops == 2


def test_a_session_in_bodies_and_sequences():
    def function(c, x, y):
        xs = ops.sequence_construct(ops.exp(x), y)
        return ops.if_(c, lambda: ops.sequence_at(xs, 0), lambda: x)[0]

    kind = parse_type("float32[n]")
    graph = trace(function, [parse_type("bool[]"), kind, kind], names=["c", "x", "y"])
    session = amanda.Session(graph, "numpy")
    x = np.float32([0, 1])
    got = session.run(feeds={"c": np.bool_(True), "x": x, "y": x})[0]
    np.testing.assert_allclose(got, np.exp(x), rtol=1e-6)
    session.run(feeds={"y": x + 1})
    assert "exp" not in [op.type for part in session._parts for op in part.ops][-2:]
    assert session.run(feeds={"c": np.bool_(False)})[0].tolist() == [0, 1]


def test_a_session_finds_the_first_nan():
    graph = trace(lambda x: ops.sqrt(ops.log(x)) + 1.0, [parse_type("float32[n]")])
    session = amanda.Session(graph, "numpy")
    found = session.first_not_finite(feeds=[np.float32([2, 0.5])])
    assert (found.op.type, found.what, found.places) == ("sqrt", "NaN", ((1,),))
