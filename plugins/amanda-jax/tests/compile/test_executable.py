"""How graphs run: shapes and values that change, weights, loops, what is returned."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest

import amanda
from amanda.errors import BackendError, UsageError
from amanda.graph import Graph
from amanda.tensors import Tensor
from amanda.types import parse_type
from amanda_jax.compile.jitted_program import JittedProgram
from amanda_std import ops, trace


def graph_of(function, *types: str) -> Graph:
    names = ["x", "y", "z"][: len(types)]
    return trace(function, [parse_type(t) for t in types], names=names)


def run_both(graph: Graph, *feeds):
    """The executable, after its results were held against those of numpy."""
    compiled = amanda.compile(graph, "jax")
    expect_numpy(compiled, graph, *feeds)
    return compiled


def expect_numpy(compiled, graph: Graph, *feeds) -> None:
    wanted = amanda.run(graph, feeds, backend="numpy")
    results = compiled(feeds)
    assert list(results) == list(wanted)
    for key, value in results.items():
        assert value.dtype == wanted[key].dtype
        np.testing.assert_allclose(value, wanted[key], rtol=1e-5, atol=1e-6)


def text_of(compiled) -> str:
    """The program that was traced last, as XLA gets it."""
    function, given = compiled.executable._code.last_call()
    with jax.enable_x64(True):
        return function.lower(*given).as_text()


def ramp(*shape: int) -> np.ndarray:
    numbers = np.arange(np.prod(shape), dtype="float32")
    return np.sin(numbers).reshape(shape)


pytestmark = pytest.mark.usefixtures("without_onednn")


class TestShapes:
    def small_network(self) -> Graph:
        kernel, weight = ramp(4, 2, 3, 3), ramp(100, 3)

        def network(x):
            y = ops.relu(ops.conv(x, kernel, padding=((1, 1), (1, 1))))
            y = ops.reshape(y, [ops.dim(y, axis=0), -1])
            return ops.softmax(ops.matmul(y, weight))

        return graph_of(network, "float32[n, 2, 5, 5]")

    def test_computed_shapes_are_followed_on_the_host(self):
        compiled = run_both(self.small_network(), ramp(2, 2, 5, 5))
        report = compiled.executable.report()
        assert report.programs == report.compilations == 1
        assert report.decided_by == ()
        assert report.weight_bytes == 4 * (4 * 2 * 9 + 300)

    def test_other_shapes_and_values_on_the_same_executable(self):
        graph = self.small_network()
        compiled = amanda.compile(graph, "jax")
        for n in (1, 3, 2, 3):
            expect_numpy(compiled, graph, ramp(n, 2, 5, 5) + n)
        assert compiled.executable.report().compilations == 3

    def test_inputs_without_types(self):
        graph = Graph("amanda/std/1")
        x = graph.parameter(name="x")
        graph.result(graph.add("add", [x, x]).output, "sum")
        compiled = amanda.compile(graph, "jax")
        for x in (ramp(2), ramp(3, 1), np.arange(4), 2.5):
            np.testing.assert_array_equal(compiled([x])["sum"], np.add(x, x))


class TestValuesThatDecideShapes:
    def test_an_input_is_a_shape(self):
        graph = graph_of(ops.reshape, "float32[n]", "int64[2]")
        compiled = amanda.compile(graph, "jax")
        for shape in ([2, 3], [3, 2], [-1, 1], [2, 3]):
            expect_numpy(compiled, graph, ramp(6), np.array(shape))
        report = compiled.executable.report()
        assert report.decided_by == ("input 'y'",)
        assert report.compilations == report.programs == 3

    def test_programs_are_kept_up_to_a_number(self):
        graph = graph_of(ops.reshape, "float32[6]", "int64[2]")
        compiled = amanda.compile(graph, "jax", programs=2)
        for shape in ([2, 3], [3, 2], [6, 1], [2, 3]):
            expect_numpy(compiled, graph, ramp(6), np.array(shape))
        report = compiled.executable.report()
        assert (report.programs, report.compilations) == (2, 4)

    def test_what_decides_is_computed_from_data(self):
        weight = ramp(5, 5)

        def until_largest(x):
            y = ops.matmul(x, weight)
            stop = ops.expand_dims(ops.argmax(y, 0), (0,))
            return ops.slice(y, [0], stop)

        graph = graph_of(until_largest, "float32[5]")
        compiled = amanda.compile(graph, "jax")
        for start in range(4):
            expect_numpy(compiled, graph, ramp(5 + start)[start:])
        assert compiled.executable.report().weight_bytes == weight.nbytes

    def test_a_range_of_data(self):
        graph = graph_of(lambda x: ops.range(x * 0, x, x * 0 + 2), "int64[]")
        [found] = amanda.run(graph, [np.array(5)], backend="jax").values()
        assert found.tolist() == [0, 2, 4]

    def test_shapes_in_a_body(self):
        def choice(x, n, condition):
            return ops.if_(
                condition,
                lambda: ops.reshape(x, ops.stack(n, np.array(-1))),
                lambda: ops.reshape(x + 1.0, ops.stack(n, np.array(-1))),
            )

        graph = graph_of(choice, "float32[6]", "int64[]", "bool[]")
        for n, condition in ((2, True), (3, False)):
            feeds = ramp(6), np.array(n), np.array(condition)
            [y] = amanda.run(graph, feeds, backend="jax").values()
            assert (y == ramp(6).reshape(n, -1) + np.float32(not condition)).all()


class TestControlFlow:
    def test_a_choice(self):
        graph = graph_of(
            lambda x, c: ops.if_(c, lambda v: v * 2.0, lambda v: v - 1.0, x),
            "float32[3]",
            "bool[]",
        )
        compiled = run_both(graph, ramp(3), np.array(True))
        expect_numpy(compiled, graph, ramp(3), np.array(False))
        assert compiled.executable.report().control_flow == ("if: lax.cond",)
        assert compiled.executable.report().compilations == 1

    def test_a_loop_that_ends_by_its_data(self):
        def grow(_, __, v):
            return ops.all(ops.less(v, 50.0)), v * 2.0

        graph = graph_of(
            lambda x, n: ops.loop(n, np.array(True), grow, x), "float32[2]", "int64[]"
        )
        compiled = run_both(graph, np.array([1, 2], "float32"), np.array(9))
        expect_numpy(compiled, graph, np.array([1, 2], "float32"), np.array(3))
        assert compiled.executable.report().control_flow == ("loop: lax.while_loop",)

    def test_a_loop_that_stacks_its_rounds(self):
        weight = ramp(8, 8)

        def layer(_, condition, v):
            return condition, ops.tanh(ops.matmul(v, weight)), ops.sum(v)

        graph = graph_of(lambda x: ops.loop(np.array(5), None, layer, x), "float32[8]")
        compiled = run_both(graph, ramp(8))
        report = compiled.executable.report()
        assert report.control_flow == ("loop: lax.scan",)
        assert report.weight_bytes == weight.nbytes  # that of the body, not baked in

    def test_how_many_rounds_are_stacked_is_fed(self):
        graph = graph_of(
            lambda x, n: ops.loop(n, None, lambda _, c, v: (c, v * 2.0, v), x),
            "float32[2]",
            "int64[]",
        )
        compiled = run_both(graph, ramp(2), np.array(4))
        expect_numpy(compiled, graph, ramp(2), np.array(2))
        assert compiled.executable.report().control_flow == ("loop: lax.scan",)

    def test_a_short_loop_whose_shapes_grow_is_written_out(self):
        graph = graph_of(
            lambda x: ops.loop(
                np.array(3), None, lambda _, c, v: (c, ops.concat(v, v)), x
            ),
            "float32[2]",
        )
        report = run_both(graph, ramp(2)).executable.report()
        assert report.control_flow == ("loop: unrolled",)

    @pytest.mark.parametrize("fed", [True, False])
    def test_branches_of_other_shapes_are_driven_by_the_host(self, fed):
        graph = graph_of(
            lambda x, c: ops.if_(c, lambda v: v, lambda v: ops.sum(v), x),
            "float32[3]",
            "bool[]",
        )
        report = run_both(graph, ramp(3), np.array(fed)).executable.report()
        why = "if #0: the branches of an if return different types"
        assert report.python_driven == (why,)
        assert f"driven by Python: {why}" in str(report)
        assert report.outside == {}  # the branches are programs

    @pytest.mark.parametrize("choice", ["if", "case"])
    def test_a_branch_that_is_not_for_what_is_fed(self, choice):
        """XLA would compile it all the same; the model that has it is right."""

        def of_shape(*shape):
            return lambda v: ops.sum(ops.reshape(v, list(shape)), (1,))

        branches = of_shape(2, 3), of_shape(2, 5)
        if choice == "if":
            graph = graph_of(lambda x, c: ops.if_(c, *branches, x),
                             "float32[n]", "bool[]")  # fmt: skip
            first, second = np.array(True), np.array(False)
        else:
            graph = graph_of(lambda x, i: ops.case(i, branches, x),
                             "float32[n]", "int64[]")  # fmt: skip
            first, second = np.array(0), np.array(1)
        compiled = run_both(graph, ramp(6), first)
        expect_numpy(compiled, graph, ramp(10), second)
        [told] = compiled.executable.report().python_driven
        called = "an if" if choice == "if" else "a case"
        assert told.startswith(f"{choice} #0: a branch of {called}")
        with pytest.raises(BackendError, match="reshape"):
            compiled([ramp(6), second])

    def test_a_while_whose_shapes_grow_is_driven_by_the_host(self):
        graph = graph_of(
            lambda x: ops.while_(
                lambda v: ops.less(ops.size(v), np.array(20)),
                lambda v: ops.concat(v, v),
                x,
            ),
            "float32[2]",
        )
        report = run_both(graph, ramp(2)).executable.report()
        assert report.python_driven == (
            "while #0: a value that a while carries changes its type",
        )
        assert report.outside == {}


class TestCalls:
    def graph(self) -> Graph:
        return graph_of(lambda x, y: (ops.add(x, y), x), "float32[2]", "float32[]")

    @pytest.mark.parametrize("y", [3.0, np.float32(3), np.array(3, "float32")])
    def test_feeds_of_any_kind(self, y):
        compiled = amanda.compile(self.graph(), "jax")
        for x in ([1, 2], np.array([1, 2], "float32"), jax.numpy.asarray([1.0, 2.0])):
            added, same = compiled([x, y]).values()
            assert added.dtype == same.dtype == "float32"
            assert added.tolist() == [4, 5]

    def test_results_are_arrays_of_numpy_unless_told_otherwise(self):
        feeds = [ramp(2), np.array(1, "float32")]
        for result in amanda.compile(self.graph(), "jax")(feeds).values():
            assert type(result) is np.ndarray
        compiled = amanda.compile(self.graph(), "jax", results="jax")
        for result in compiled(feeds).values():
            assert isinstance(result, jax.Array)
        assert np.from_dlpack(compiled(feeds)[0]).shape == (2,)

    @pytest.mark.parametrize("results", ["numpy", "jax"])
    def test_a_result_does_not_change_with_the_feed(self, results):
        graph = graph_of(lambda x: (x, x * 2.0), "float32[n]")
        compiled = amanda.compile(graph, "jax", results=results)
        for _ in range(30):
            feed = np.zeros(1 << 16, "float32")
            made = compiled([feed])
            feed[:] = 1  # at once, while it may still be read
            assert not any(np.asarray(result).any() for result in made.values())

    def test_threads(self):
        graph = graph_of(ops.reshape, "float32[6]", "int64[2]")
        compiled = amanda.compile(graph, "jax")

        def call(i):
            shape = [[2, 3], [3, 2], [1, 6]][i % 3]
            return compiled([ramp(6), np.array(shape)])[0].shape == tuple(shape)

        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(call, range(24)))

    def test_a_shape_that_does_not_fit_names_the_op(self):
        graph = graph_of(lambda x, y: ops.add(x, y), "float32[n]", "float32[m]")
        with pytest.raises(BackendError, match="add #0 failed while running"):
            amanda.run(graph, [ramp(2), ramp(3)], backend="jax")

    def test_wrong_feeds_are_refused(self):
        with pytest.raises(UsageError, match="float64, not float32"):
            amanda.run(self.graph(), [np.zeros(2), 1.0], backend="jax")


class TestElementTypes:
    def test_64_bits_need_no_global_switch(self):
        graph = graph_of(lambda x, y: (x * 3, y / 3.0), "int64[n]", "float64[n]")
        feeds = [np.array([2**40, 1]), np.array([0.1, 1e300])]
        whole, part = amanda.run(graph, feeds, backend="jax").values()
        assert whole.tolist() == [3 * 2**40, 3]
        np.testing.assert_allclose(part, [0.1 / 3, 1e300 / 3], rtol=1e-15)
        assert not jax.config.jax_enable_x64

    def test_64_bits_inside_only(self):
        def through(x):
            wide = ops.astype(x, dtype="int64") * 2**33
            large = ops.astype(ops.greater(wide, x.shape[0] * 2**32), dtype="int32")
            return large, ops.topk(x, 2)[0]

        graph = graph_of(through, "int32[n]")
        feeds = [np.array([1, 3, 2, 0], "int32")]
        large, top = amanda.run(graph, feeds, backend="jax").values()
        assert large.tolist() == [0, 1, 0, 0]  # n * 2**33 > 4 * 2**32
        assert top.tolist() == [3, 2]

    def test_a_small_program_without_64_bits_needs_no_switch_at_all(self):
        graph = graph_of(lambda x: x + 1.0, "float32[n]")
        compiled = run_both(graph, ramp(3))
        assert compiled.executable._direct_call is not None

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "int4"])
    def test_small_ones(self, dtype):
        graph = graph_of(lambda x: (x, ops.astype(x, dtype="float32")), f"{dtype}[3]")
        x = np.array([1, 2, 3]).astype(parse_type(f"{dtype}[]").dtype.numpy)
        same, wide = amanda.run(graph, [x], backend="jax").values()
        assert same.dtype == x.dtype
        assert wide.tolist() == [1, 2, 3]

    def test_strings_are_declined(self):
        graph = Graph("amanda/std/1")
        x = graph.parameter(parse_type("string[n]"), "x")
        graph.result(graph.add("identity", [x], name="same").output)
        with pytest.raises(BackendError, match="XLA has no element type string"):
            amanda.compile(graph, "jax")


class TestWeights:
    def test_they_are_arguments_and_move_once(self):
        weight = ramp(64, 64)
        graph = graph_of(lambda x: ops.matmul(x, weight), "float32[n, 64]")
        executable = run_both(graph, ramp(2, 64)).executable
        program = executable._code
        assert isinstance(program, JittedProgram)
        text = (
            program._jit(program._run_steps)
            .lower(*program.weights, ramp(2, 64))
            .as_text()
        )
        assert "%arg1" in text
        assert "dense<" not in text

    def test_the_same_tensor_is_held_once(self):
        graph = Graph("amanda/std/1")
        x = graph.parameter(parse_type("float32[8]"), "x")
        tensor = Tensor.of(ramp(8, 8))
        for _ in range(2):
            x = graph.add("matmul", [x, graph.constant(tensor).output]).output
        graph.result(x)
        report = run_both(graph, ramp(8)).executable.report()
        assert report.weight_bytes == tensor.nbytes

    def test_uneven_rows_are_turned_once(self, monkeypatch):
        monkeypatch.setattr("amanda_jax.cpu_tuning.cores.core_count", lambda: 1)
        weight = ramp(8, 5001)
        graph = graph_of(lambda x: ops.matmul(x, weight), "float32[n, 2, 8]")
        told = (
            ("products", (5001, 8)),
            ("products,weights", (8, 5001)),
            ("", (8, 5001)),
        )
        for without, shape in told:
            compiled = amanda.compile(graph, "jax", without=without)
            expect_numpy(compiled, graph, ramp(3, 2, 8))
            [held] = compiled.executable._code.weights
            assert held.shape == shape

    @pytest.mark.parametrize(
        ("shape", "wide", "is_turned"),
        [
            ((16, 1024), 512, True),
            ((2, 32, 1024), 600, True),
            ((64, 1024), 512, True),
            ((1, 1024), 512, True),
            ((1, 512), 1024, False),
            ((1024,), 512, True),
            ((8, 1024), 2048, True),
            ((8, 1024), 1024, False),
            ((17, 1024), 512, False),
            ((128, 1024), 256, False),
            ((16, 256), 256, False),
        ],
    )
    def test_products_of_few_rows_have_the_weight_first(
        self, shape, wide, is_turned, monkeypatch
    ):
        monkeypatch.setattr("amanda_jax.cpu_tuning.cores.core_count", lambda: 2)
        weight = ramp(shape[-1], wide) / 1e3
        text = f"float32[{', '.join(map(str, shape))}]"
        graph = graph_of(lambda x: ops.matmul(x, weight), text)
        for without in ("", "weights"):
            compiled = amanda.compile(graph, "jax", without=without)
            expect_numpy(compiled, graph, ramp(*shape))
            [held] = compiled.executable._code.weights
            turned = is_turned and not without
            assert held.shape == ((wide, shape[-1]) if turned else (shape[-1], wide))
            assert ("optimization_barrier" in text_of(compiled)) is turned

    def test_a_weight_of_several_products_is_turned_once(self, monkeypatch):
        """And read as it was by what else does."""
        monkeypatch.setattr("amanda_jax.cpu_tuning.cores.core_count", lambda: 2)
        graph = Graph("amanda/std/1")
        tensor = Tensor.of(ramp(768, 768) / 1e3)
        weight = graph.constant(tensor).output
        x = graph.parameter(parse_type("float32[16, 768]"), "x")
        y = graph.add("matmul", [x, weight]).output
        graph.result(graph.add("matmul", [y, graph.constant(tensor).output]).output)
        compiled = run_both(graph, ramp(16, 768))
        assert compiled.executable.report().weight_bytes == tensor.nbytes
        columns = graph.add("transpose", [y], {"perm": (1, 0)}).output
        graph.result(graph.add("matmul", [weight, columns]).output)
        compiled = run_both(graph, ramp(16, 768))
        assert compiled.executable.report().weight_bytes == 2 * tensor.nbytes

    @pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
    def test_products_of_other_types_are_as_they_were(self, dtype, monkeypatch):
        monkeypatch.setattr("amanda_jax.cpu_tuning.cores.core_count", lambda: 2)
        weight = np.ones((1024, 512), dtype)
        graph = graph_of(lambda x: ops.matmul(x, weight), f"{dtype}[16, 1024]")
        compiled = run_both(graph, np.ones((16, 1024), dtype))
        assert "optimization_barrier" not in text_of(compiled)

    @pytest.mark.parametrize("is_around", [True, False])
    def test_a_weight_that_bodies_multiply_with_is_held_once(
        self, is_around, monkeypatch
    ):
        """Theirs, or one around them that nothing else reads."""
        monkeypatch.setattr("amanda_jax.cpu_tuning.cores.core_count", lambda: 2)
        held = ramp(1024, 512) / 1e3
        kinds = [parse_type("float32[16, 1024]"), parse_type("bool[]")]
        graph = trace(
            lambda x, flag: ops.if_(
                flag, lambda v: ops.matmul(v, held), lambda v: ops.matmul(-v, held), x
            ),
            kinds,
            names=["x", "flag"],
        )
        tensor = Tensor.of(held)
        with graph.before(next(iter(graph))):
            around = graph.constant(tensor).output
        for body in [part for part in graph.graphs() if part is not graph]:
            [own] = [op for op in body if op.type == "constant"]
            own.attrs["value"] = tensor
            if is_around:
                body.replace_uses(own.output, around)
                body.remove(own)
        if not is_around:
            graph.remove(around.op)
        compiled = run_both(graph, ramp(16, 1024), np.array(True))
        expect_numpy(compiled, graph, ramp(16, 1024), np.array(False))
        assert "optimization_barrier" in text_of(compiled)
        assert compiled.executable.report().weight_bytes == tensor.nbytes

    def test_products_that_numpy_allows_and_few_rows_do_not_change(self, monkeypatch):
        """A right side of one column, or of a size that is open."""
        monkeypatch.setattr("amanda_jax.cpu_tuning.cores.core_count", lambda: 2)
        graph = trace(
            lambda x, y: ops.einsum(x, y, equation="...k,nk->...n"),
            [parse_type("float32[16, a]"), parse_type("float32[n, b]")],
            names=["x", "y"],
        )
        compiled = amanda.compile(graph, "jax")
        for inner, columns in ((1, 1024), (1024, 1), (1024, 1024)):
            x, y = ramp(16, inner) / 64, ramp(512, columns)
            wide = max(inner, columns)
            expected = np.matmul(
                np.broadcast_to(x, (16, wide)).astype("float64"),
                np.broadcast_to(y, (512, wide)).astype("float64").T,
            )
            [found] = compiled([x, y]).values()
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)

    def test_few_rows_that_only_a_call_tells(self, monkeypatch):
        """The weight lies turned for another reason: one program does it, one not."""
        monkeypatch.setattr("amanda_jax.cpu_tuning.cores.core_count", lambda: 2)
        weight = ramp(256, 5001) / 1e3
        graph = graph_of(lambda x: ops.matmul(x, weight), "float32[n, 256]")
        compiled = amanda.compile(graph, "jax")
        for rows, is_turned in ((16, True), (17, False)):
            expect_numpy(compiled, graph, ramp(rows, 256))
            assert ("optimization_barrier" in text_of(compiled)) is is_turned

    @pytest.mark.parametrize(
        ("without", "wanted"),
        [("", ["dot_general"]), ("pointwise", ["convolution"])],
    )
    def test_kernels_of_one_element_are_products(self, without, wanted):
        kernel = ramp(4, 2, 1, 1)
        graph = graph_of(
            lambda x: ops.conv(x, kernel, strides=(2, 1)), "float32[n, 2, 5, 5]"
        )
        compiled = amanda.compile(graph, "jax", without=without)
        expect_numpy(compiled, graph, ramp(3, 2, 5, 5))
        function, given = compiled.executable._code.last_call()
        text = function.lower(*given).as_text()
        found = [n for n in ("dot_general", "convolution") if f"stablehlo.{n}" in text]
        assert found == wanted

    @pytest.mark.parametrize(
        "without", ["", "layout", "norms", "algebra", "layout,norms"]
    )
    def test_each_step_keeps_the_results(self, without):
        kernel, factor = ramp(4, 2, 3, 3), ramp(4)

        def network(x):
            y = ops.conv(x, kernel, padding=((1, 1), (1, 1)))
            y = ops.batch_norm(y, factor, factor, factor, np.abs(factor) + 1, axis=1)
            y = ops.max_pool(ops.relu(y), window=(2, 2))
            return ops.sum(y * 1.0, (2, 3))

        graph = graph_of(network, "float32[n, 2, 6, 6]")
        compiled = amanda.compile(graph, "jax", without=without)
        [found] = compiled([ramp(3, 2, 6, 6)]).values()
        np.testing.assert_allclose(found, self.by_loops(), rtol=1e-4, atol=1e-5)

    @staticmethod
    def by_loops() -> np.ndarray:
        """The network above, in float64."""
        x = np.pad(ramp(3, 2, 6, 6).astype("float64"), [(0, 0)] * 2 + [(1, 1)] * 2)
        kernel, factor = ramp(4, 2, 3, 3), ramp(4).astype("float64")[:, None, None]
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
        y = np.einsum("nchwij,ocij->nohw", windows, kernel)
        y = (y - factor) / np.sqrt(np.abs(factor) + 1 + 1e-5) * factor + factor
        at = [(slice(i, i + 2), slice(j, j + 2)) for i, j in np.ndindex(5, 5)]
        return sum(np.maximum(y[:, :, *window].max((2, 3)), 0) for window in at)

    def test_precision(self):
        graph = graph_of(ops.matmul, "float32[2, 2]", "float32[2, 2]")
        for precision, word in (("highest", "HIGHEST"), ("default", "DEFAULT")):
            compiled = amanda.compile(graph, "jax", precision=precision)
            program = compiled.executable._code
            assert (
                word
                in program._jit(program._run_steps)
                .lower(ramp(2, 2), ramp(2, 2))
                .as_text()
            )
