"""Executables that are looked at, saved, kept for the next process, fed for good."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import amanda
from amanda.errors import BackendError, FormatError, UsageError
from amanda.types import parse_type
from amanda_jax import load_saved_program
from amanda_std import ops, trace

WEIGHT = np.sin(np.arange(32 * 16, dtype="float32")).reshape(32, 16)
X = np.cos(np.arange(8 * 32, dtype="float32")).reshape(8, 32)


def graph_of(function, *types: str):
    return trace(
        function, [parse_type(t) for t in types], names=["x", "y"][: len(types)]
    )


def product():
    return graph_of(lambda x: {"y": ops.matmul(x, WEIGHT)}, "float32[n, 32]")


class TestCost:
    def test_a_product_costs_two_flops_for_each_element_and_step(self):
        compiled = amanda.compile(product(), "jax")
        compiled([X])
        cost = compiled.executable.cost()
        assert cost.flops == pytest.approx(2 * 8 * 32 * 16, rel=0.05)
        assert cost.argument_bytes == X.nbytes + WEIGHT.nbytes
        assert cost.result_bytes == 8 * 16 * 4
        assert "bytes of arguments" in str(cost)
        assert compiled.executable.report().compilations == 1  # looking counts for none

    def test_before_it_was_called_nothing_is_known(self):
        with pytest.raises(UsageError, match="nothing was compiled yet"):
            amanda.compile(product(), "jax", programs=9).executable.cost()


class TestSaved:
    def test_it_is_called_without_the_graph(self, tmp_path):
        compiled = amanda.compile(product(), "jax")
        wanted = compiled([X])["y"]
        compiled.executable.save(tmp_path / "program")
        again = load_saved_program(tmp_path / "program")
        for feeds in ([X], {"x": X}):
            np.testing.assert_allclose(again(feeds)["y"], wanted, rtol=1e-4, atol=1e-5)
        assert [file.name for file in tmp_path.iterdir()] == ["program"]

    @pytest.mark.parametrize("dtype", ["int64", "float64", "bfloat16"])
    def test_element_types(self, dtype, tmp_path):
        weight = np.arange(24).astype(parse_type(f"{dtype}[]").dtype.numpy)
        graph = graph_of(lambda x: ops.add(x, weight), f"{dtype}[24]")
        compiled = amanda.compile(graph, "jax")
        [wanted] = compiled([weight]).values()
        compiled.executable.save(tmp_path / "program")
        [got] = load_saved_program(tmp_path / "program")([weight]).values()
        assert got.dtype == weight.dtype
        assert got.tolist() == wanted.tolist() == (weight + weight).tolist()

    def test_feeds_of_another_shape_or_type(self, tmp_path):
        compiled = amanda.compile(product(), "jax")
        compiled([X])
        compiled.executable.save(tmp_path / "program")
        with pytest.raises(
            UsageError, match=r"'x' is float32\[4, 32\], not float32\[8"
        ):
            load_saved_program(tmp_path / "program")([X[:4]])
        with pytest.raises(UsageError, match="the feeds do not match"):
            load_saved_program(tmp_path / "program")({"z": X})

    def test_what_is_in_pieces_is_not_saved(self, tmp_path):
        compiled = amanda.compile(graph_of(ops.nonzero, "float32[n]"), "jax")
        compiled([np.float32([0, 1])])
        with pytest.raises(UsageError, match="nonzero #0: data decides the shape"):
            compiled.executable.save(tmp_path / "program")

    @pytest.mark.parametrize("content", [b"", b"PK\x05\x06" + bytes(18), b"no zip"])
    def test_a_file_of_something_else(self, content, tmp_path):
        (tmp_path / "program").write_bytes(content)
        with pytest.raises(FormatError, match="is no saved program"):
            load_saved_program(tmp_path / "program")


class TestOptions:
    def test_donated_inputs_are_gone(self):
        graph = graph_of(lambda x, y: x + y, "float32[1024]", "float32[1024]")
        compiled = amanda.compile(graph, "jax", donate="x", results="jax")
        x, y = (jax.numpy.ones(1024, "float32") for _ in range(2))
        [made] = compiled([x, y]).values()
        assert (np.asarray(made) == 2).all()
        assert x.is_deleted()
        assert not y.is_deleted()

    def test_switches_of_xla_are_for_one_executable(self):
        for xla in (
            "xla_cpu_enable_fast_math=false",
            {"xla_cpu_enable_fast_math": False},
        ):
            compiled = amanda.compile(product(), "jax", xla=xla, deterministic=True)
            np.testing.assert_allclose(
                compiled([X])["y"], X @ WEIGHT, rtol=1e-4, atol=1e-5
            )
        with pytest.raises(BackendError, match="no_such_switch"):
            amanda.compile(product(), "jax", xla="no_such_switch=1")([X])

    @pytest.mark.parametrize(
        ("option", "text"),
        [
            ({"without": "haste"}, "has no optimization step 'haste'"),
            ({"xla": "fast"}, "the option 'xla' of backend 'jax' cannot be read"),
        ],
    )
    def test_they_are_checked(self, option, text):
        with pytest.raises(BackendError, match=text):
            amanda.compile(product(), "jax", **option)
