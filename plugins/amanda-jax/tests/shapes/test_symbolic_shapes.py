"""Programs whose sizes stay open: saved once, called with many, in another process."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import amanda
from amanda.errors import UsageError
from amanda.graph import Graph
from amanda.types import DType, Sym, TensorType, parse_type
from amanda_jax import load_saved_program
from amanda_std import ops, trace


def ramp(*shape: int) -> np.ndarray:
    return np.sin(np.arange(np.prod(shape), dtype="float32")).reshape(shape)


def graph_of(function, *types: str) -> Graph:
    names = ["x", "y", "z"][: len(types)]
    return trace(function, [parse_type(t) for t in types], names=names)


def saved(graph: Graph, path, symbolic=True):
    """What was saved without a call, read back."""
    amanda.compile(graph, "jax").executable.save(path, symbolic=symbolic)
    return load_saved_program(path)


def expect_numpy(program, graph: Graph, *feeds) -> None:
    wanted = amanda.run(graph, feeds, backend="numpy")
    got = program(feeds)
    assert len(got) == len(wanted)
    for have, want in zip(got.values(), wanted.values(), strict=True):
        assert have.dtype == want.dtype
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)


KERNEL, WEIGHT, MIXING = ramp(4, 2, 3, 3), ramp(100, 3), ramp(8, 24)


def images(x):
    """A convolution whose features are laid flat by the size of the batch."""
    y = ops.relu(ops.conv(x, KERNEL, padding=((1, 1), (1, 1))))
    y = ops.reshape(y, [ops.dim(y, axis=0), -1])
    return ops.softmax(ops.matmul(y, WEIGHT))


def attention(x):
    """Heads, positions and a mean over the steps: sizes in shapes and in numbers."""
    n, s = ops.dim(x, axis=0), ops.dim(x, axis=1)
    parts = ops.split(ops.matmul(x, MIXING), axis=-1, outputs=3)
    heads = [ops.reshape(part, [n, s, 2, 4]) for part in parts]
    q, k, v = (ops.transpose(head, perm=(0, 2, 1, 3)) for head in heads)
    weights = ops.softmax(ops.matmul(q, ops.swap_last(k)) / 2.0)
    y = ops.transpose(ops.matmul(weights, v), perm=(0, 2, 1, 3))
    y = ops.reshape(y, [n, s, 8]) + ops.slice(
        ramp(64, 8), [0], ops.expand_dims(s, (0,))
    )
    return ops.layer_norm(y + x, ramp(8), ramp(8)), ops.mean(y, (1,)), ops.shape_of(y)


class TestSavedOnce:
    def test_a_batch_of_any_size(self, tmp_path):
        graph = graph_of(images, "float32[batch, 2, 5, 5]")
        program = saved(graph, tmp_path / "program")
        for n in (1, 3, 8):
            expect_numpy(program, graph, ramp(n, 2, 5, 5))

    def test_batch_and_steps(self, tmp_path):
        graph = graph_of(attention, "float32[n, s, 8]")
        program = saved(graph, tmp_path / "program", "s <= 64")
        for n, s in ((1, 3), (3, 5), (4, 64)):
            expect_numpy(program, graph, ramp(n, s, 8))
        with pytest.raises(UsageError, match="do not match the saved program"):
            program([ramp(1, 65, 8)])

    def test_without_the_condition_the_op_is_named(self, tmp_path):
        graph = graph_of(attention, "float32[n, s, 8]")
        with pytest.raises(
            UsageError, match=r"cannot be one program for all sizes"
        ) as told:
            saved(graph, tmp_path / "program")
        assert "add" in str(told.value)
        assert "min(64, s)" in str(told.value)
        assert "symbolic='s <= 512'" in str(told.value)
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("batch", ["n", "2"])
    def test_kernels_that_lie_otherwise_on_the_device(self, batch, tmp_path):
        kernels = [ramp(64, 32, 3, 3) / 10, ramp(64, 64, 3, 3) / 10]

        def deep(x):
            for kernel in kernels:
                x = ops.relu(ops.conv(x, kernel, padding=((1, 1), (1, 1))))
            return x

        graph = graph_of(deep, f"float32[{batch}, 32, 28, 28]")
        program = saved(graph, tmp_path / "program", batch == "n")
        expect_numpy(program, graph, ramp(2, 32, 28, 28))

    @pytest.mark.parametrize("pad", [0, 1])
    @pytest.mark.parametrize(
        ("x", "lies"),
        [
            ("float32[n, 32, h, w]", (3, 3, 32, 40)),
            ("float32[n, 32, 9, w]", (3, 3, 32, 40)),
            ("float32[n, 32, 9, 7]", None),
        ],
    )
    def test_kernels_where_nobody_can_count_tiles(
        self, x, lies, pad, tmp_path, monkeypatch
    ):
        """They lie as plain convolutions read them; there is no other copy."""
        monkeypatch.setattr("amanda_jax.cpu_tuning.cores.core_count", lambda: 2)
        kernel = ramp(40, 32, 3, 3) / 17
        pads = ((pad, pad), (pad, pad))
        graph = graph_of(lambda x: ops.conv(x, kernel, padding=pads), x)
        compiled = amanda.compile(graph, "jax", precision="high")
        written = compiled.executable.export(symbolic=True)
        tiles = (5, 96, 40) if pad else (6, 96, 40)  # of three rows each, or four
        assert [weight.shape for weight in written.weights] == [lies or tiles]
        program = saved(graph, tmp_path / "program")
        for n in (1, 3):
            expect_numpy(program, graph, ramp(n, 32, 9, 7))

    def test_an_input_that_nothing_reads(self, tmp_path):
        graph = graph_of(lambda x, y: ops.exp(y), "float32[n]", "float32[n]")
        program = saved(graph, tmp_path / "program")
        expect_numpy(program, graph, ramp(3), ramp(3) + 1)

    def test_sizes_without_names_and_sums_of_them(self, tmp_path):
        graph = graph_of(
            lambda x, y: ops.concat(x, y), "float32[?, 2]", "float32[?, 2]"
        )
        program = saved(graph, tmp_path / "program")
        for n, m in ((1, 3), (4, 2), (5, 5)):
            expect_numpy(program, graph, ramp(n, 2), ramp(m, 2))

    @pytest.mark.parametrize(
        "names",
        [("dim1", "größe"), ("größe", "dim0"), ("max", "dim1"), ("a-b", "dim1 ")],
    )
    def test_names_of_sizes_that_jax_cannot_read(self, names, tmp_path):
        graph = graph_of(lambda x: x * 2.0, "float32[?, ?]")
        dims = [Sym.named(name) for name in names]
        graph.parameters[0].type = TensorType(DType("float32"), dims)
        program = saved(graph, tmp_path / "program")
        for shape in ((2, 3), (3, 2), (4, 4)):
            expect_numpy(program, graph, ramp(*shape))

    @pytest.mark.parametrize(
        "condition",
        [
            "mod(s, 8) == 0",
            "mod(s, 8) == 0, s <= 512",
            ["mod(s, 8) == 0", "max(mod(s, 8), min(s, 1)) <= s"],
            "max(mod(s, 8), min(s, 1)) <= s, mod(s, 8) == 0",
            "s == 8*k",
        ],
    )
    def test_conditions_with_functions(self, condition, tmp_path):
        graph = graph_of(lambda x: x + 1.0, "float32[s]")
        program = saved(graph, tmp_path / "program", condition)
        for s in (8, 24):
            expect_numpy(program, graph, ramp(s))
        with pytest.raises(UsageError, match="do not match the saved program"):
            program([ramp(9)])

    @pytest.mark.parametrize("condition", ["mod(s, 8) == 0", "s == 8*k"])
    def test_a_condition_tells_what_is_left(self, condition, tmp_path):
        graph = graph_of(lambda x: ops.reshape(x, [-1, 4, 2]) + 1.0, "float32[s]")
        with pytest.raises(UsageError, match="Cannot divide evenly"):
            saved(graph, tmp_path / "program", "s <= 64")
        program = saved(graph, tmp_path / "program", condition)
        for s in (8, 24):
            expect_numpy(program, graph, ramp(s))

    @pytest.mark.parametrize(
        "condition",
        ["s <", "n <= 5", "s == mod(s, 8)", "mod(s <= 5", "s < 5", "s >= 1, n <= 5",
         "s <= 8)"],
    )  # fmt: skip
    def test_conditions_that_cannot_be(self, condition, tmp_path):
        graph = graph_of(lambda x: x + 1.0, "float32[s]")
        with pytest.raises(UsageError) as told:
            saved(graph, tmp_path / "program", condition)
        assert condition.split(", ")[-1] in str(told.value.got)
        assert told.value.expected.endswith("expressions of s")
        assert not list(tmp_path.iterdir())

    def test_a_size_that_two_inputs_have(self, tmp_path):
        graph = graph_of(ops.add, "float32[n]", "float32[n]")
        program = saved(graph, tmp_path / "program")
        expect_numpy(program, graph, ramp(4), ramp(4))
        with pytest.raises(UsageError, match="do not match the saved program"):
            program([ramp(4), ramp(3)])

    def test_loops_and_choices(self, tmp_path):
        def looped(x, c):
            w = ramp(3, 3)
            [y] = ops.loop(np.int64(4), None, lambda _, go, v: (go, v @ w), x)
            return ops.if_(c, lambda: ops.sum(y, (1,)), lambda: ops.max(y, (1,)))

        graph = graph_of(looped, "float32[n, 3]", "bool[]")
        program = saved(graph, tmp_path / "program")
        for n in (1, 2, 7):
            for chosen in (True, False):
                expect_numpy(program, graph, ramp(n, 3), np.array(chosen))

    def test_repeated_blocks_are_one_program_too(self, tmp_path):
        weights = [ramp(4, 4) + i for i in range(8)]

        def deep(x):
            for weight in weights:
                x = ops.tanh(ops.matmul(ops.relu(x), weight)) + x
            return x

        graph = graph_of(deep, "float32[n, 4]")
        program = saved(graph, tmp_path / "program")
        for n in (1, 5):
            expect_numpy(program, graph, ramp(n, 4))

    def test_sizes_that_types_tell_need_no_call(self, tmp_path):
        graph = graph_of(lambda x: ops.tanh(x), "float32[3]")
        expect_numpy(saved(graph, tmp_path / "program", False), graph, ramp(3))

    def test_what_the_host_would_drive_cannot_be_one_program(self, tmp_path):
        graph = graph_of(
            lambda x, c: ops.if_(c, lambda: x, lambda: ops.sum(x)),
            "float32[3]",
            "bool[]",
        )
        with pytest.raises(UsageError, match="branches of an if return different"):
            saved(graph, tmp_path / "program", False)

    @pytest.mark.parametrize(
        ("types", "function", "text"),
        [
            (["float32[n]"], ops.nonzero, "nonzero #0: data decides the shape"),
            (["float32[n]", "int64[2]"], ops.reshape, "input 'y' decides a shape"),
            (["float32[...]"], ops.tanh, "input 'x' has no type"),
        ],
    )
    def test_what_cannot_be_one_program(self, types, function, text, tmp_path):
        graph = graph_of(function, *types)
        with pytest.raises(UsageError, match=text):
            saved(graph, tmp_path / "program")


FRESH = """
import sys
import numpy as np
from amanda_jax import load_saved_program
program = load_saved_program(sys.argv[1])
for n in (1, 5, 12):
    x = np.load(f"{sys.argv[2]}/x{n}.npy")
    np.save(f"{sys.argv[2]}/y{n}.npy", program({"x": x})[0])
"""


def test_three_sizes_in_another_process(tmp_path):
    graph = graph_of(images, "float32[batch, 2, 5, 5]")
    saved(graph, tmp_path / "program")
    for n in (1, 5, 12):
        np.save(tmp_path / f"x{n}.npy", ramp(n, 2, 5, 5))
    line = [sys.executable, "-W", "ignore", "-c", FRESH]
    subprocess.run([*line, tmp_path / "program", tmp_path], check=True)
    for n in (1, 5, 12):
        [wanted] = amanda.run(graph, [ramp(n, 2, 5, 5)], backend="numpy").values()
        got = np.load(tmp_path / f"y{n}.npy")
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
