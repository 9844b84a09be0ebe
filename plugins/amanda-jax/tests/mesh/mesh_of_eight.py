"""Graphs on a mesh of eight devices; `test_mesh.py` runs this where there are eight.

`test_mesh_processes.py` runs it in two processes at once, each with four of them: they
run the same tests in the same order, but those that are about one process.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest
from jax.experimental import multihost_utils

import amanda
from amanda.errors import BackendError, UsageError
from amanda.graph import Graph
from amanda.tensors import Tensor
from amanda.types import parse_type
from amanda_jax.compile import block_reuse
from amanda_jax.mesh.distributed import join
from amanda_std import ops, trace

join(os.environ.get("MESH_OF_EIGHT"))
ALONE = pytest.mark.skipif(jax.process_count() > 1, reason="is about one process")
MESH = {"data": 4, "model": 2}
WIDTH, HEADS = 32, 2
RULES = [None, "fsdp", "batch, megatron, fsdp", "megatron:data", {}]


def weight(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32") / 3


def graph_of(function, *types: str) -> Graph:
    names = ["x", "y", "z"][: len(types)]
    return trace(function, [parse_type(t) for t in types], names=names)


def named(graph: Graph) -> Graph:
    """Its weights named w0, w1, ... in order."""
    found = [op for op in graph if op.type == "constant"]
    for i, op in enumerate(found):
        graph.rename(op, f"w{i}")
    return graph


def expect_numpy(graph: Graph, *feeds, **options):
    """The executable, after its results were held against those of numpy."""
    options.setdefault("mesh", MESH)
    compiled = amanda.compile(graph, "jax", **options)
    wanted = amanda.run(graph, feeds, backend="numpy")
    for key, value in compiled(feeds).items():
        assert value.dtype == wanted[key].dtype
        np.testing.assert_allclose(value, wanted[key], rtol=2e-4, atol=2e-5)
    return compiled


def mlp() -> Graph:
    def network(x):
        x = ops.relu(ops.matmul(x, weight(0, 16, 32)) + weight(1, 32))
        x = ops.matmul(x, weight(2, 32, 16)) + weight(3, 16)
        return ops.softmax(ops.matmul(x, weight(4, 16, 24)))

    return named(graph_of(network, "float32[n, 16]"))


def layer(x, seed: int):
    """Attention with heads and a layer behind it, as transformers have them."""
    around = [ops.dim(x, axis=0), ops.dim(x, axis=1)]
    split = ops.stack(*around, np.array(HEADS), np.array(WIDTH // HEADS))
    q, k, v = (
        ops.transpose(
            ops.reshape(
                ops.matmul(x, weight(seed + i, WIDTH, WIDTH)) + weight(seed, WIDTH),
                split,
            ),
            perm=(0, 2, 1, 3),
        )
        for i in range(3)
    )
    scores = ops.softmax(ops.matmul(q, ops.transpose(k, perm=(0, 1, 3, 2))) * 0.25)
    told = ops.transpose(ops.matmul(scores, v), perm=(0, 2, 1, 3))
    merged = ops.reshape(told, ops.stack(*around, np.array(WIDTH)))
    x = ops.layer_norm(x + ops.matmul(merged, weight(seed + 4, WIDTH, WIDTH)))
    inner = ops.gelu(ops.matmul(x, weight(seed + 5, WIDTH, 64)) + weight(seed, 64))
    return ops.layer_norm(x + ops.matmul(inner, weight(seed + 6, 64, WIDTH)))


def transformer(depth: int) -> Graph:
    """Tokens in, and a number for each token of the vocabulary out."""
    table = weight(90, 40, WIDTH)

    def network(tokens):
        x = ops.gather(table, tokens, axis=0)
        for i in range(depth):
            x = layer(x, 10 * i)
        return ops.matmul(x, weight(91, WIDTH, 40))

    return graph_of(network, "int64[n, 5]")


def tokens(count: int) -> np.ndarray:
    return np.random.default_rng(5).integers(0, 40, (count, 5))


def read(value) -> np.ndarray:
    """A result as an array of numpy, also where processes have parts of it."""
    if isinstance(value, jax.Array) and not value.is_fully_addressable:
        value = multihost_utils.process_allgather(value, tiled=True)
    return np.asarray(value)


class TestResults:
    @pytest.mark.parametrize("shardings", RULES)
    def test_layers(self, shardings):
        expect_numpy(mlp(), weight(9, 8, 16), shardings=shardings)

    @pytest.mark.parametrize("shardings", RULES)
    def test_transformers(self, shardings):
        compiled = expect_numpy(transformer(1), tokens(8), shardings=shardings)
        report = compiled.executable.report()
        assert report.outside == {}
        assert report.programs == 1

    @pytest.mark.parametrize("shardings", [None, "batch, fsdp"])
    def test_blocks_are_compiled_once_for_all(self, shardings, monkeypatch):
        monkeypatch.setattr(block_reuse, "MIN_REPEATS", 6)  # more would take longer
        compiled = expect_numpy(transformer(8), tokens(8), shardings=shardings)
        report = compiled.executable.report()
        assert report.pieces >= 8
        assert report.programs <= 3
        assert report.programs <= report.compilations <= 4  # one by JAX itself

    @pytest.mark.parametrize("shardings", [None, "batch, fsdp:model"])
    def test_a_network_of_convolutions(self, shardings):
        def network(x):
            for i, (a, b) in enumerate(((3, 8), (8, 8), (8, 16))):
                x = ops.conv(x, weight(i, b, a, 3, 3), padding=((1, 1), (1, 1)))
                x = ops.batch_norm(x, *(weight(i + j, b) ** 2 + 1 for j in range(4)))
                x = ops.relu(x)
            x = ops.max_pool(x, window=(2, 2), strides=(2, 2))
            return ops.matmul(ops.mean(x, (2, 3)), weight(7, 16, 10))

        graph = graph_of(network, "float32[n, 3, 8, 8]")
        expect_numpy(graph, weight(8, 8, 3, 8, 8), shardings=shardings)

    def test_other_sizes_on_the_same_executable(self):
        graph = mlp()
        compiled = expect_numpy(graph, weight(9, 8, 16))
        for n in (4, 12, 8):
            wanted = amanda.run(graph, [weight(n, n, 16)], backend="numpy")
            got = compiled([weight(n, n, 16)])
            np.testing.assert_allclose(got[0], wanted[0], rtol=1e-4, atol=1e-5)
        assert compiled.executable.report().compilations == 3

    def test_all_kinds_of_elements(self):
        for name in ("int64", "float64", "int8", "bool", "float16", "bfloat16"):
            kind = amanda.types.DType(name).numpy
            x = (np.arange(16).reshape(8, 2) % 3).astype(kind)
            graph = graph_of(lambda x: (ops.concat(x, x, axis=1), x), f"{name}[8, 2]")
            expect_numpy(graph, x)

    def test_nothing_that_is_fed(self):
        graph = graph_of(lambda: ops.exp(weight(0, 4, 8)))
        expect_numpy(graph, shardings="fsdp", without="algebra")

    @ALONE  # what JAX's own arrays are is in parts of both
    def test_a_result_does_not_change_with_what_was_fed(self):
        graph = graph_of(lambda x: (x, x * 2.0), "float32[n, 4]")
        compiled = amanda.compile(graph, "jax", mesh=MESH, results="jax")
        x = weight(0, 64, 4)
        same, twice = compiled([x]).values()
        before = x.copy()
        x[:] = 0
        np.testing.assert_array_equal(same, before)
        np.testing.assert_array_equal(twice, before * 2)

    @ALONE  # they take turns in an order that differs
    def test_several_threads(self):
        graph = transformer(1)
        compiled = amanda.compile(graph, "jax", mesh=MESH)
        wanted = amanda.run(graph, [tokens(8)], backend="numpy")[0]
        with ThreadPoolExecutor(4) as pool:
            for got in pool.map(lambda _: compiled([tokens(8)])[0], range(12)):
                np.testing.assert_allclose(got, wanted, rtol=2e-4, atol=2e-5)


class TestPieces:
    def test_sizes_that_data_decides(self):
        def positive(x):
            y = ops.matmul(x, weight(0, 16, 8))
            places = ops.nonzero(ops.greater(y, 0.0))
            values, _, _, counts = ops.unique(ops.round(y))
            return places + 1, values, ops.sum(counts)

        graph = graph_of(positive, "float32[n, 16]")
        expect_numpy(graph, weight(1, 8, 16), shardings="batch, megatron")

    def test_a_shape_that_is_fed(self):
        graph = graph_of(
            lambda x, n: ops.reshape(ops.matmul(x, weight(0, 8, 8)), n),
            "float32[4, 8]",
            "int64[2]",
        )
        for shape in ([8, 4], [2, 16]):
            compiled = expect_numpy(graph, weight(1, 4, 8), np.array(shape))
        assert compiled.executable.report().decided_by == ("input 'y'",)

    def test_a_number_that_is_computed(self):
        def until_largest(x):
            y = ops.tanh(ops.matmul(x, weight(0, 8, 8)))
            stop = ops.expand_dims(ops.argmax(ops.sum(y, (0,)), 0), (0,))
            return ops.slice(y, [0], stop, [1])

        report = expect_numpy(graph_of(until_largest, "float32[8, 8]"), weight(1, 8, 8))
        assert report.executable.report().pieces == 2

    def test_choices_and_loops(self):
        def network(x, n):
            y = ops.matmul(x, weight(0, 8, 8))
            (y,) = ops.loop(n, None, lambda _, go, v: (go, ops.tanh(v) + x), y)
            (z,) = ops.if_(
                ops.greater(ops.sum(y), 0.0), lambda: y * 2.0, lambda: y - 1.0
            )
            return ops.matmul(z, weight(1, 8, 16))

        graph = graph_of(network, "float32[8, 8]", "int64[]")
        told = expect_numpy(graph, weight(1, 8, 8), np.array(3)).executable.report()
        assert told.control_flow == ("loop: lax.while_loop", "if: lax.cond")

    def test_what_the_host_drives(self):
        def grow(x):
            return ops.while_(
                lambda v: ops.less(ops.size(v), np.array(100)),
                lambda v: ops.concat(v, ops.matmul(v, weight(0, 8, 8))),
                x,
            )

        told = expect_numpy(graph_of(grow, "float32[4, 8]"), weight(1, 4, 8))
        assert len(told.executable.report().python_driven) == 1

    def test_state(self):
        def count(x):
            v = ops.variable(np.zeros((8, 2), "float32"), key="total")
            return ops.tanh(ops.assign_add(v, ops.exp(x)))

        compiled = amanda.compile(graph_of(count, "float32[8, 2]"), "jax", mesh=MESH)
        x, total = weight(0, 8, 2), np.zeros((8, 2), "float32")
        for _ in range(3):
            total = total + np.exp(x)
            np.testing.assert_allclose(compiled([x])[0], np.tanh(total), rtol=1e-5)
        np.testing.assert_allclose(compiled.state["total"], total, rtol=1e-5)

    def test_values_inside(self):
        graph = named(mlp())
        (y,) = [op.output for op in graph if op.type == "softmax"]
        inner = y.op.inputs[0]
        compiled = expect_numpy(graph, weight(9, 8, 16), shardings={"x": ("data",)})
        (wanted,) = amanda.run(
            graph, [weight(9, 8, 16)], targets=[inner], backend="numpy"
        ).values()
        np.testing.assert_allclose(compiled[inner], wanted, rtol=1e-4, atol=1e-5)

    def test_what_is_looked_at_on_the_way(self):
        seen = []
        graph = graph_of(
            lambda x: ops.exp(ops.probe(ops.matmul(x, weight(0, 8, 8)), label="y")),
            "float32[8, 8]",
        )
        options = {"mesh": MESH, "observe": lambda *told: seen.append(told)}
        amanda.compile(graph, "jax", **options)([weight(1, 8, 8)])
        [(label, value)] = seen
        assert label == "y"
        wanted = weight(1, 8, 8) @ weight(0, 8, 8)
        np.testing.assert_allclose(value, wanted, rtol=1e-4, atol=1e-5)

    def test_what_another_backend_has_to_do(self):
        def network(x):
            return ops.tanh(ops.dawsn(ops.matmul(x, weight(0, 8, 8))))

        graph = graph_of(network, "float32[8, 8]")
        compiled = expect_numpy(graph, weight(1, 8, 8), fallback="numpy")
        assert "on numpy: dawsn" in str(compiled.executable.report())

    @ALONE
    def test_feeds_that_are_given_away(self):
        graph = graph_of(lambda x: x * 2.0 + 1.0, "float32[8, 4]")
        compiled = amanda.compile(graph, "jax", mesh=MESH, donate="x", results="jax")
        x = weight(0, 8, 4)
        (first,) = compiled([x]).values()  # as it lies where results lie
        (second,) = compiled([first]).values()
        np.testing.assert_allclose(second, (x * 2 + 1) * 2 + 1, rtol=1e-6)
        assert first.is_deleted()


class TestWhereThingsLie:
    def ports(self, compiled):
        return {port.name: port for port in compiled.executable.report().ports}

    def test_the_default(self):
        ports = self.ports(expect_numpy(mlp(), weight(9, 8, 16)))
        assert {name: port.spec for name, port in ports.items() if name != "0"} == {
            "x": ("data",),
            "w0": (None, "model"),
            "w1": ("model",),
            "w2": ("model",),  # rows: what comes in is divided already
            "w4": (None, "model"),
        }
        assert {name: port.bytes for name, port in ports.items() if name != "0"} == {
            "x": 4 * 8 * 16 // 4,
            "w0": 4 * 16 * 32 // 2,
            "w1": 4 * 32 // 2,
            "w2": 4 * 32 * 16 // 2,
            "w4": 4 * 16 * 24 // 2,
        }

    def test_a_device_has_its_part_and_no_more(self):
        before = jax.live_arrays()  # held: else another array may get the place of one
        told = {"w*": (None, "data")}
        graph = graph_of(lambda x: ops.matmul(x, weight(0, 64, 64)), "float32[8, 64]")
        compiled = amanda.compile(named(graph), "jax", mesh={"data": 8}, shardings=told)
        known = set(map(id, before))
        new = [array for array in jax.live_arrays() if id(array) not in known]
        there: dict[object, dict[int, int]] = {
            device: {} for device in jax.local_devices()
        }
        for part in (part for array in new for part in array.addressable_shards):
            place = part.data.unsafe_buffer_pointer()
            there[part.device][place] = part.data.nbytes
        assert all([*sizes.values()] == [2048] for sizes in there.values()), there
        report = compiled.executable.report()
        assert report.weight_bytes == 64 * 64 * 4
        assert report.ports[1].bytes == 64 * 64 * 4 // 8

    def test_patterns_the_first_that_fits_decides(self):
        told = {"w0": ("model", "data"), "w[12]": ("model",), "w*": (None, "data")}
        compiled = expect_numpy(mlp(), weight(9, 8, 16), shardings=told)
        ports = self.ports(compiled)
        assert ports["w0"].spec == ("model", "data")
        assert ports["w1"].spec == ports["w2"].spec == ("model",)
        assert ports["w4"].spec == (None, "data")
        assert ports["x"].spec == ()

    def test_two_axes_of_the_mesh_for_one(self):
        told = {"w0": (None, ("data", "model")), "x": (("data", "model"),)}
        ports = self.ports(expect_numpy(mlp(), weight(9, 8, 16), shardings=told))
        assert ports["w0"].bytes == 4 * 16 * 32 // 8
        assert ports["x"].bytes == 4 * 8 * 16 // 8

    def test_axes_are_those_that_the_model_has(self):
        """Also where the weight would be turned, or joined with what is around it."""
        graph = Graph("amanda/std/1")
        x = graph.parameter(parse_type("float32[8, 8]"), "x")
        weights = {
            "turned": weight(0, 24, 8),
            "kernel": weight(1, 16, 4, 3, 3),
            **{f"norm{i}": weight(i, 16) ** 2 + 1 for i in range(4)},
        }
        turned, kernel, *norms = (
            graph.constant(Tensor.of(array), name).output
            for name, array in weights.items()
        )
        shape = graph.constant(Tensor.of(np.array([-1, 4, 3, 2]))).output
        columns = graph.add("transpose", [turned], {"perm": (1, 0)}).output
        y = graph.add("matmul", [x, columns]).output
        y = graph.add("reshape", [y, shape]).output
        y = graph.add("conv", [y, kernel], {"padding": ((1, 1), (1, 1))}).output
        graph.result(graph.add("batch_norm", [y, *norms]).output, "y")
        told = {"turned": (("data", "model"),), "kernel": ("data", "model")}
        compiled = expect_numpy(graph, weight(3, 8, 8), shardings=told)
        ports = self.ports(compiled)
        assert ports["turned"].type == "float32[24, 8]"
        assert ports["turned"].bytes == 24 * 8 * 4 // 8
        assert ports["kernel"].type == "float32[16, 4, 3, 3]"
        assert ports["kernel"].bytes == 16 * 4 * 9 * 4 // 8

    def test_results_lie_as_it_is_told(self):
        graph = graph_of(lambda x: x * 2.0, "float32[8, 4]")
        graph.outputs[0].name = "y"
        told = {"y": (None, "model")}
        compiled = amanda.compile(
            graph, "jax", mesh=MESH, shardings=told, results="jax"
        )
        result = compiled([weight(0, 8, 4)])["y"]
        assert {part.data.shape for part in result.addressable_shards} == {(8, 2)}
        assert "result 'y': float32[8, 4] by (None, 'model'), 64 bytes" in str(
            compiled.executable.report()
        )

    def test_a_result_that_is_asked_for_whole(self):
        graph = graph_of(lambda x: x * 2.0, "float32[8, 4]")
        graph.outputs[0].name = "y"
        for told, shape in (({}, (2, 4)), ({"y": ()}, (8, 4))):
            shardings = {"x": ("data",), **told}
            compiled = amanda.compile(
                graph, "jax", mesh=MESH, shardings=shardings, results="jax"
            )
            result = compiled([weight(0, 8, 4)])["y"]
            assert {part.data.shape for part in result.addressable_shards} == {shape}

    @ALONE
    def test_feeds_that_are_on_devices(self):
        compiled = amanda.compile(mlp(), "jax", mesh=MESH, results="jax")
        x = weight(9, 8, 16)
        (wanted,) = compiled([x]).values()
        for device in jax.devices()[::3]:
            (got,) = compiled([jax.device_put(x, device)]).values()
            np.testing.assert_array_equal(got, wanted)
        (again,) = amanda.compile(
            graph_of(lambda x: x + 1.0, "float32[8, 24]"), "jax", mesh=MESH
        )([wanted]).values()
        np.testing.assert_array_equal(again, np.asarray(wanted) + 1)

    def test_a_mesh_of_jax(self):
        mesh = jax.make_mesh((2, 4), ("data", "model"), devices=jax.devices())
        ports = self.ports(expect_numpy(mlp(), weight(9, 8, 16), mesh=mesh))
        assert ports["x"].bytes == 4 * 8 * 16 // 2
        assert ports["w0"].bytes == 4 * 16 * 32 // 4

    def test_on_a_platform(self):
        compiled = amanda.compile(mlp(), "jax:cpu", mesh=MESH)
        assert str(compiled.executable.report()).startswith(
            "on a mesh data=4, model=2 of 8 devices (cpu): "
        )

    @ALONE
    def test_what_it_costs_one_device(self):
        compiled = expect_numpy(mlp(), weight(9, 8, 16))
        alone = expect_numpy(mlp(), weight(9, 8, 16), mesh={"data": 1})
        parts, whole = compiled.executable.cost(), alone.executable.cost()
        assert parts.argument_bytes < whole.argument_bytes
        assert parts.flops < whole.flops / 4


class TestBuckets:
    def test_what_is_padded_is_what_is_divided(self):
        graph = mlp()
        options = {"buckets": {"n": [8, 16]}, "shardings": "batch, megatron"}
        compiled = expect_numpy(graph, weight(9, 6, 16), **options)
        wanted = amanda.run(graph, [weight(8, 13, 16)], backend="numpy")[0]
        got = compiled([weight(8, 13, 16)])[0]
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)
        report = compiled.executable.report()
        assert report.buckets == {"8 of 'n'": 1, "16 of 'n'": 1}
        assert report.ports[0].bytes == 16 * 16 * 4 // 4


class TestWhatCannotBe:
    def expect(self, error, text, *feeds, **options):
        options.setdefault("mesh", MESH)
        with pytest.raises(error) as caught:
            amanda.compile(mlp(), "jax", **options)(feeds or [weight(9, 8, 16)])
        assert text in " ".join(str(caught.value).split()), str(caught.value)

    def test_more_devices_than_there_are(self):
        self.expect(
            BackendError,
            "the mesh data=4, model=4 has more devices than there are expected: 16 "
            "devices got: 8 of cpu",
            mesh={"data": 4, "model": 4},
        )

    def test_a_feed_that_is_not_divided(self):
        self.expect(
            UsageError,
            "input 'x' cannot be sharded over the mesh data=4, model=2 where: "
            "shardings: ('data',) got: shape [6, 16]: its axis 0 has 6 elements, which "
            "the 4 devices along 'data' do not divide to do: feed a multiple",
            weight(9, 6, 16),
        )

    def test_a_weight_that_is_not_divided(self):
        self.expect(
            BackendError,
            "weight 'w4' is float32[16, 24]: its axis 1 has 24 elements, which the 5 "
            "devices along 'model' do not divide",
            mesh={"model": 5},
            shardings={"w4": (None, "model")},
        )

    @pytest.mark.parametrize("results", ["numpy", "jax"])
    def test_a_result_that_is_not_divided(self, results):
        """Told when it is compiled, where its type has the size: 24 numbers in 4 parts
        are fine, 24 in 5 are not."""
        options = {"mesh": {"data": 5}, "results": results}
        graph = mlp()
        graph.outputs[0].name = "y"
        with pytest.raises(BackendError) as caught:
            amanda.compile(graph, "jax", shardings="y=-,data", **options)
        [told] = caught.value.problems
        assert told == (
            "result 'y' is float32[n, 24]: its axis 1 has 24 elements, which the 5 "
            "devices along 'data' do not divide"
        )
        options["mesh"] = {"data": 4}
        amanda.compile(graph, "jax", shardings="y=-,data", **options)

    @pytest.mark.parametrize("results", ["numpy", "jax"])
    def test_a_result_whose_size_a_call_tells(self, results):
        """Before anything is run: what was counted before stays as it was."""

        def count(x):
            v = ops.variable(np.zeros((2,), "float32"), key="total")
            total = ops.assign_add(v, ops.sum(x, (0,)))
            return ops.concat(x, x) + total

        graph = graph_of(count, "float32[n, 2]")
        graph.outputs[0].name = "y"
        options = {"mesh": MESH, "shardings": "y=data", "results": results}
        compiled = amanda.compile(graph, "jax", **options)
        x = weight(0, 6, 2)
        (first,) = compiled([x]).values()
        wanted = np.concatenate([x, x]) + x.sum(0)
        np.testing.assert_allclose(read(first), wanted, rtol=1e-5)
        with pytest.raises(UsageError) as caught:
            compiled([x[:5]])
        assert str(caught.value) == (
            "result 'y' cannot be sharded over the mesh data=4, model=2\n"
            "  where:    shardings: ('data',)\n"
            "  got:      shape [10, 2]: its axis 0 has 10 elements, which the 4 "
            "devices along 'data' do not divide\n"
            "  to do:    feed what makes it a multiple, or leave this axis whole with "
            "None in `shardings`"
        )
        np.testing.assert_allclose(compiled.state["total"], x.sum(0), rtol=1e-5)

    @pytest.mark.parametrize("results", ["numpy", "jax"])
    def test_a_result_whose_size_data_decides(self, results):
        graph = graph_of(lambda x: ops.nonzero(x), "float32[8]")
        graph.outputs[0].name = "y"
        options = {"mesh": MESH, "shardings": "y=-,data", "results": results}
        compiled = amanda.compile(graph, "jax", **options)
        x = np.float32([1, 0, 1, 0, 0, 1, 1, 0])
        (found,) = compiled([x]).values()
        np.testing.assert_array_equal(read(found), [[0, 2, 5, 6]])
        x[0] = 0
        with pytest.raises(UsageError, match=r"shape \[1, 3\]: its axis 1 has 3"):
            compiled([x])

    def test_one_device_of_a_platform(self):
        with pytest.raises(BackendError, match="all devices of a platform"):
            amanda.compile(mlp(), "jax:cpu:1", mesh=MESH)

    def test_saving(self, tmp_path):
        compiled = expect_numpy(mlp(), weight(9, 8, 16))
        with pytest.raises(UsageError, match="on a mesh cannot be saved"):
            compiled.executable.save(tmp_path / "x")


def test_a_weight_that_two_names_share():
    tensor = Tensor.of(weight(0, 16, 16))
    graph = Graph("amanda/std/1")
    x = graph.parameter(parse_type("float32[8, 16]"), "x")
    for name in ("a", "b"):
        x = graph.add("matmul", [x, graph.constant(tensor, name).output]).output
    graph.result(x, "y")
    expect_numpy(graph, weight(1, 8, 16), shardings={"a": ("data",)})
