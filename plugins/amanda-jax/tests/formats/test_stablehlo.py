"""Programs of StableHLO: read, written, run, and made of graphs of the hub set."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import amanda
from amanda.cli import run_command_line
from amanda.errors import BackendError, FormatError, UsageError
from amanda.graph import Graph
from amanda.types import parse_type
from amanda_std import ops, trace


def ramp(*shape: int) -> np.ndarray:
    return np.sin(np.arange(np.prod(shape), dtype="float32")).reshape(shape)


X, W = ramp(4, 3), ramp(3, 5)


def windows(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2), (1, 2), "VALID")


PROGRAMS = {
    "product": (lambda x, w: jnp.tanh(x @ w), X, W),
    "loop": (lambda x: lax.fori_loop(0, 3, lambda i, v: v * 2 + i, x), X),
    "choice": (lambda x: lax.cond(x.sum() > 0, lambda: x + 1, lambda: -x), X),
    "switch": (
        lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.exp], x),
        np.int32(2),
        X,
    ),
    "scan": (lambda x: lax.scan(lambda c, v: (c + v, c * v), jnp.zeros(3), x), X),
    "sort": (lambda x: (jnp.sort(x, 0), jnp.argsort(x), jnp.argmax(x, 1)), X),
    "largest": (lambda x: lax.top_k(x, 2), X),
    "convolution": (
        lambda x: lax.conv_general_dilated(
            x, jnp.asarray(ramp(4, 2, 3, 3)), (1, 2), "SAME", rhs_dilation=(2, 1)
        ),
        ramp(1, 2, 5, 5),
    ),
    "windows": (windows, ramp(2, 4)),
    "slope of windows": (jax.grad(lambda x: (windows(x) ** 2).sum()), ramp(2, 4)),
    "places": (lambda x: (x[jnp.array([2, 0])], x.at[1].add(5.0)), X),
    "pieces": (lambda x: (x[1:3], jnp.pad(x, 1), jnp.flip(x, 0), x.T.reshape(-1)), X),
    "types": (
        lambda x: (
            x.astype("bfloat16") * jnp.array([1.5, -2, 0.1], "bfloat16"),
            (x > 0) & jnp.array([True, False, True]),
            x.astype("int8") + jnp.int8(3),
            x * (1 + 2j),
            (x.astype("float8_e4m3fn") + jnp.float8_e4m3fn(0.5)).astype("float32"),
        ),
        X,
    ),
    "special": (lambda x: (jax.scipy.special.erf(x), lax.erf_inv(x / 2)), X),
    "random": (lambda x: x + jax.random.normal(jax.random.key(1), x.shape), X),
    "waves": (lambda x: jnp.abs(jnp.fft.fft(x)), X),
    "precision": (lambda x, w: jnp.dot(x, w, precision="highest"), X, W),
    "rounds": (lambda x: (lax.reduce_precision(x, 5, 10), jnp.round(x, 1)), X),
}


@pytest.fixture(params=PROGRAMS)
def case(request):
    function, *args = PROGRAMS[request.param]
    exported = jax.export.export(jax.jit(function))(*args)
    wanted = jax.tree.leaves(jax.jit(function)(*args))
    return exported, args, wanted


def expect(graph: Graph, args, wanted) -> None:
    got = list(amanda.run(graph, args, backend="stablehlo").values())
    assert len(got) == len(wanted)
    for have, want in zip(got, wanted, strict=True):
        assert have.dtype == want.dtype
        assert have.shape == want.shape
        wide = "complex128" if want.dtype.kind == "c" else "float64"
        have, want = (np.asarray(v).astype(wide) for v in (have, want))
        np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-6)


class TestReadAndWritten:
    def test_what_is_read_runs_as_it_did(self, case):
        exported, args, wanted = case
        expect(amanda.load(exported, "stablehlo"), args, wanted)

    def test_text_brings_the_same_graph(self, case, tmp_path):
        graph = amanda.load(case[0], "stablehlo")
        amanda.save(graph, tmp_path / "x.mlir")
        again = amanda.load(tmp_path / "x.mlir")
        assert again.digest() == graph.digest()
        assert [p.name for p in again.parameters] == [p.name for p in graph.parameters]
        assert [p.name for p in again.outputs] == [p.name for p in graph.outputs]

    def test_artifacts_run_as_they_did(self, case, tmp_path):
        exported, args, wanted = case
        graph = amanda.load(exported, "stablehlo")
        amanda.save(graph, tmp_path / "x.stablehlo")
        expect(amanda.load(tmp_path / "x.stablehlo"), args, wanted)

    def test_ops_are_those_of_the_dictionary(self, case):
        graph = amanda.load(case[0], "stablehlo")
        told = amanda.namespace(graph.namespace).validate(graph)
        # the dictionary asks composites for regions, which they seldom have
        assert [str(p) for p in told if "composite_regions" not in str(p)] == []

    def test_what_jax_wrote_is_read(self, tmp_path):
        def function(x, w):
            return {"y": jnp.tanh(x @ w)}

        lowered = jax.jit(function).lower(X, W)
        (tmp_path / "a.mlir").write_text(lowered.as_text())
        exported = jax.export.export(jax.jit(function))(X, W)
        (tmp_path / "b.stablehlo").write_bytes(exported.mlir_module_serialized)
        for name in ("a.mlir", "b.stablehlo"):
            expect(amanda.load(tmp_path / name), [X, W], [np.tanh(X @ W)])

    def test_names_of_inputs_and_results(self):
        def function(x, w):
            return {"y": x @ w, "z": (x, w)}

        exported = jax.export.export(jax.jit(function))(X, W)
        graph = amanda.load(exported, "stablehlo")
        assert [p.name for p in graph.parameters] == ["x", "w"]
        assert [p.name for p in graph.outputs] == ["y", "z.0", "z.1"]

    @pytest.mark.parametrize("ending", ["mlir", "stablehlo"])
    @pytest.mark.parametrize("name", ["3d", "größe", "a-b", 'say "so"'])
    def test_a_graph_of_any_name(self, name, ending, tmp_path):
        graph = graph_of(lambda x: x + 1.0, "float32[3]")
        graph.name = name
        file = tmp_path / f"x.{ending}"
        amanda.save(amanda.convert(graph, "stablehlo"), file)
        read = amanda.load(file)
        assert read.name == name
        expect(read, [X[0]], [X[0] + 1])

    @pytest.mark.parametrize("ending", ["mlir", "stablehlo"])
    def test_inputs_and_results_of_any_name(self, ending, tmp_path):
        names = ["a:b", 'say "so"', "größe", "arg7"]
        graph = trace(
            lambda *xs: [x + 1.0 for x in xs],
            [parse_type("float32[3]")] * 4,
            names=names,
        )
        told = ["result.x", "result", "['y']", "a:b.c"]
        for port, name in zip(graph.outputs, told, strict=True):
            port.name = name
        file = tmp_path / f"x.{ending}"
        amanda.save(amanda.convert(graph, "stablehlo"), file)
        read = amanda.load(file)
        assert [p.name for p in read.parameters] == names
        assert [p.name for p in read.outputs] == told
        expect(read, [X[0]] * 4, [X[0] + 1] * 4)

    @pytest.mark.parametrize(
        ("content", "text"),
        [
            (b"module {}", "no entry function"),
            (b"module {", "is no StableHLO program"),
            (b"ML\xefR\x0dStableHLO", "is no StableHLO program"),
            (b"ML\xefRvhlo", "is no StableHLO program"),
            (b"func.func public @main() { return }", None),
            (b"func.func @main(%x: !stablehlo.token) { return }", None),
            (b"func.func @main(%x: tensor<3x!quant.uniform<i8:f32, 0.1>>) { return }",
             "StableHLO|not known"),
            (b"func.func @main(%x: i32) { return }", "a type of the program"),
            (b"func.func @main() { %c = arith.constant 1 : i8\n return }", "StableHLO"),
        ],
    )  # fmt: skip
    def test_other_files(self, content, text, tmp_path):
        (tmp_path / "x.mlir").write_bytes(content)
        if text is None:
            amanda.load(tmp_path / "x.mlir")
        else:
            with pytest.raises(FormatError, match=text):
                amanda.load(tmp_path / "x.mlir")

    def test_what_stablehlo_has_not(self, tmp_path):
        graph = Graph("amanda/stablehlo/1.17.0")
        x = graph.parameter(parse_type("string[3]"), "x")
        graph.result(x)
        with pytest.raises(FormatError, match="no such element type"):
            amanda.save(graph, tmp_path / "x.mlir")
        other = graph_of(lambda x: x + 1.0, "float32[3]")
        with pytest.raises(
            FormatError, match="does not write graphs of this namespace"
        ):
            amanda.save(other, tmp_path / "x.mlir")


def graph_of(function, *types: str) -> Graph:
    names = ["x", "y"][: len(types)]
    return trace(function, [parse_type(t) for t in types], names=names)


def network(x):
    y = ops.relu(ops.conv(x, ramp(4, 2, 3, 3), padding=((1, 1), (1, 1))))
    y = ops.reshape(y, [ops.dim(y, axis=0), -1])
    return {"y": ops.softmax(ops.matmul(y, ramp(100, 3)))}


class TestOfTheHub:
    def test_a_graph_is_lowered_with_its_weights(self, tmp_path):
        graph = graph_of(network, "float32[2, 2, 5, 5]")
        made = amanda.convert(graph, "stablehlo")
        assert [p.name for p in made.parameters] == ["x"]
        assert [p.name for p in made.outputs] == ["y"]
        amanda.save(made, tmp_path / "x.stablehlo")
        [wanted] = amanda.run(graph, [ramp(2, 2, 5, 5)], backend="numpy").values()
        expect(amanda.load(tmp_path / "x.stablehlo"), [ramp(2, 2, 5, 5)], [wanted])

    @pytest.mark.parametrize("to", ["stablehlo", "jax"])
    def test_it_is_the_same_on_every_machine(self, to, monkeypatch):
        """Steps for so many cores of a CPU are for what is compiled here."""
        kernel = ramp(40, 3, 7, 7)
        table = ramp(512, 1024)

        def function(x, y):
            z = ops.conv(x, kernel, layout="N*C", strides=(2, 2))
            return z, ops.einsum(y, table, equation="...k,nk->...n")

        graph = graph_of(function, "float32[1, 96, 96, 3]", "float32[16, 1024]")
        found = set()
        for count in (1, 2, 8):
            monkeypatch.setattr(
                "amanda_jax.cpu_tuning.cores.core_count", lambda count=count: count
            )
            found.add(tuple(op.type for op in amanda.convert(graph, to)))
        [types] = found
        assert sum("conv" in name for name in types) == 1
        assert "optimization_barrier" not in types

    def test_open_sizes_stay_open(self, tmp_path):
        made = amanda.convert(graph_of(network, "float32[n, 2, 5, 5]"), "stablehlo")
        assert made.parameters[0].type.shape.rank == 4
        assert not made.parameters[0].type.shape.is_static
        amanda.save(made, tmp_path / "x.mlir")
        assert "tensor<?x2x5x5xf32>" in (tmp_path / "x.mlir").read_text()
        with pytest.raises(BackendError, match="runs programs with static shapes"):
            amanda.run(made, [ramp(2, 2, 5, 5)], backend="stablehlo")

    def test_what_is_no_program_is_told_by_its_op(self):
        with pytest.raises(UsageError, match="nonzero #0: data decides the shape"):
            amanda.convert(graph_of(ops.nonzero, "float32[4]"), "stablehlo")

    def test_on_the_command_line(self, tmp_path):
        graph = graph_of(network, "float32[2, 2, 5, 5]")
        amanda.save(graph, tmp_path / "model.amanda")
        files = [str(tmp_path / name) for name in ("model.amanda", "model.mlir")]
        assert run_command_line(["convert", *files]) == 0
        [wanted] = amanda.run(graph, [ramp(2, 2, 5, 5)], backend="numpy").values()
        expect(amanda.load(files[1]), [ramp(2, 2, 5, 5)], [wanted])

    def test_the_text_of_an_executable(self):
        graph = graph_of(network, "float32[2, 2, 5, 5]")
        text = amanda.compile(graph, "jax").executable.stablehlo()
        assert "stablehlo.convolution" in text
        read = amanda.load(text.encode(), "stablehlo")
        assert len(read.parameters) == 3  # the weights come first
