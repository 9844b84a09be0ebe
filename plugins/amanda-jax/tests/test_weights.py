"""Weights on their way to the device: what they take in memory meanwhile."""

from __future__ import annotations

import gc
import mmap
import sys
from collections import Counter
from pathlib import Path

import jax
import numpy as np
import pytest

import amanda
from amanda.graph import Graph
from amanda.tensors import Tensor
from amanda.types import parse_type
from amanda_jax.compile import passes
from amanda_jax.cpu_tuning import convolution_weights, winograd
from amanda_jax.weights import layout, memory
from amanda_jax.weights.device_weights import DeviceWeights
from amanda_jax.weights.memory import (
    ALIGNMENT,
    aligned_copy,
    is_memory_mapped,
    release_pages,
)
from amanda_std import ops, trace

PAGE = mmap.PAGESIZE
COMPILED = "/jax/core/compile/backend_compile_duration"


def random(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def in_file(array: np.ndarray, path: Path, skip: int = 4) -> Tensor:
    """It, in a file, `skip` bytes behind where a device would read it in place."""
    path.write_bytes(b"\0" * skip + array.tobytes())
    return Tensor.from_file(path, str(array.dtype), array.shape, skip)


def reading(tensor: Tensor, function, *types: str) -> Graph:
    """A graph of this function, which is given a weight and then inputs."""
    array = tensor.numpy()
    return trace(lambda *xs: function(array, *xs), [*map(parse_type, types)])


def resident(path: Path) -> int:
    """Bytes of a mapped file that are in the memory of this process."""
    lines = Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines()
    found, here = 0, False
    for line in lines:
        if not line.split()[0].endswith(":"):
            here = line.endswith(str(path))
        elif here and line.startswith("Rss:"):
            found += int(line.split()[1]) << 10
    return found


@pytest.fixture
def compilations():
    """What XLA has compiled meanwhile: a list that grows; with whom it is to ask."""
    events, ask = [], []

    def told(event: str, seconds: float, **others: object) -> None:
        if event == COMPILED:
            events.append([question() for question in ask])

    jax.monitoring.register_event_duration_secs_listener(told)
    yield events, ask
    jax.monitoring.unregister_event_duration_listener(told)


@pytest.mark.parametrize("access", [mmap.ACCESS_READ, mmap.ACCESS_COPY])
def test_what_is_let_go_is_read_again_as_it_was(access, tmp_path):
    """A copy that was written to has its pages nowhere else: they have to stay."""
    content = np.random.default_rng(0).integers(0, 256, 5 * PAGE + 7, "uint8")
    (tmp_path / "file").write_bytes(content.tobytes())
    with open(tmp_path / "file", "rb") as file:
        held = mmap.mmap(file.fileno(), 0, access=access)
    if access == mmap.ACCESS_COPY:
        content[2 * PAGE] ^= 255
        held[2 * PAGE] = int(content[2 * PAGE])
    array = np.asarray(memoryview(held)[3:])
    release_pages(array)
    np.testing.assert_array_equal(array, content[3:])


def test_arrays_of_no_file_stay():
    for array in (np.arange(9), np.frombuffer(b"12345678", "int64")):
        before = array.copy()
        release_pages(array)
        np.testing.assert_array_equal(array, before)


def test_an_aligned_copy_is_not_copied_by_the_device():
    made = aligned_copy(np.arange(1 << 12, dtype="float32").reshape(64, 64).T)
    assert made.ctypes.data % ALIGNMENT == 0
    assert made.flags.c_contiguous
    np.testing.assert_array_equal(made, np.arange(1 << 12).reshape(64, 64).T)
    device = jax.devices("cpu")[0]
    [there] = DeviceWeights(device).transfer([Tensor.of(made)])
    assert there.unsafe_buffer_pointer() == made.ctypes.data


class TestWaiting:
    """Weights in files move when XLA has compiled, once."""

    def test_what_lies_in_a_file_moves_after_compiling(self, tmp_path, compilations):
        weight = in_file(random(64, 40), tmp_path / "file")
        graph = reading(weight, lambda w, x: ops.matmul(x, w), "float32[n, 64]")
        events, ask = compilations
        compiled = amanda.compile(graph, "jax")
        held = compiled.executable._weights._arrays
        assert not held
        assert compiled.executable.report().weight_bytes == weight.nbytes
        events.clear()  # importing may have compiled something small
        ask.append(lambda: len(held))
        x = random(3, 64)
        for _ in range(2):
            [got] = compiled([x]).values()
            np.testing.assert_allclose(got, x @ weight.numpy(), rtol=1e-4, atol=1e-5)
        assert events == [[0]]
        assert len(held) == 1
        assert compiled.executable.report().weight_bytes == weight.nbytes
        assert compiled.executable.report().compilations == 1
        compiled([random(5, 64)])
        assert events == [[0], [1]]

    @pytest.mark.parametrize("dtype", ["int64", "float64"])
    def test_so_do_those_of_64_bits(self, dtype, tmp_path, compilations):
        weight = in_file(np.arange(20, dtype=dtype), tmp_path / "file")

        def inside(w, x):
            return ops.astype(ops.astype(x, dtype=dtype) * w, dtype="float32")

        graph = reading(weight, inside, "float32[20]")
        events, _ = compilations
        compiled = amanda.compile(graph, "jax")
        before = len(events)
        [got] = compiled([np.full(20, 2, "float32")]).values()
        assert [*got] == [*range(0, 40, 2)]
        assert len(events) == before + 1
        assert compiled.executable.report().compilations == 1

    def test_with_programs_that_are_kept(self, tmp_path, compilations):
        weight = in_file(random(64, 40), tmp_path / "file")
        graph = reading(weight, lambda w, x: ops.matmul(x, w), "float32[n, 64]")
        events, ask = compilations
        x = random(3, 64)
        for _ in range(2):
            compiled = amanda.compile(graph, "jax", cache=str(tmp_path / "kept"))
            events[:] = [asked for asked in events if asked]
            held = compiled.executable._weights._arrays
            ask[:] = [lambda held=held: len(held)]
            [got] = compiled([x]).values()
            np.testing.assert_allclose(got, x @ weight.numpy(), rtol=1e-4, atol=1e-5)
            assert len(held) == 1
        assert events == [[0]]

    def test_what_lies_in_memory_moves_at_once(self):
        weight = random(64, 40)
        types = [parse_type("float32[n, 64]")]
        graph = trace(lambda x: ops.matmul(x, weight), types)
        compiled = amanda.compile(graph, "jax")
        assert len(compiled.executable._weights._arrays) == 1

    def test_a_file_may_go_before_the_first_call(self, tmp_path):
        array = random(64, 40)
        weight = in_file(array, tmp_path / "file")
        graph = reading(weight, lambda w, x: ops.matmul(x, w), "float32[2, 64]")
        compiled = amanda.compile(graph, "jax")
        (tmp_path / "file").unlink()
        x = random(2, 64)
        [got] = compiled([x]).values()
        np.testing.assert_allclose(got, x @ array, rtol=1e-4, atol=1e-5)

    def test_memory_is_given_back_where_something_was_compiled(self, monkeypatch):
        asked = []
        monkeypatch.setattr(
            "amanda_jax.compile.jitted_program.return_freed_memory",
            lambda: asked.append(1),
        )
        graph = trace(lambda x: x + 1, [parse_type("float32[n]")])
        compiled = amanda.compile(graph, "jax")
        for _ in range(3):
            compiled([random(3)])
        assert len(asked) == 1

    @pytest.mark.skipif(
        memory._trimmer() is None, reason="this C library gives back by itself"
    )
    def test_the_c_library_gives_back_what_lies_between(self):
        """Blocks too small to be mapped alone, freed where others stay behind them."""
        blocks = [b"x" * (100_000 + i) for i in range(1000)]
        stays = b"x" * 100_000
        before = _resident()
        blocks.clear()
        gc.collect()
        memory.return_freed_memory()
        assert _resident() < before - 50_000_000
        assert stays[0] == ord("x")


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


class TestTurned:
    """Weights that lie in another way on the device than in the graph."""

    def test_in_a_file_they_are_turned_when_they_move(self, tmp_path, monkeypatch):
        made = []
        monkeypatch.setattr(
            layout,
            "aligned_copy",
            lambda array: made.append(aligned_copy(array)) or made[-1],
        )
        array = random(40, 64)
        turned = layout.permuted_tensor(in_file(array, tmp_path / "file"), (1, 0))
        assert turned.is_lazy
        assert not made
        [there] = DeviceWeights(jax.devices("cpu")[0]).transfer([turned])
        np.testing.assert_array_equal(there, array.T)
        [once] = made
        assert once.ctypes.data == there.unsafe_buffer_pointer()

    def test_they_are_made_once(self, tmp_path, monkeypatch):
        made: Counter[str] = Counter()
        for name in ("aligned_copy", "release_pages"):
            monkeypatch.setattr(
                layout, name, _counting(made, name, getattr(memory, name))
            )
        turned = layout.permuted_tensor(
            in_file(random(40, 64), tmp_path / "file"), (1, 0)
        )
        assert not made
        weights = DeviceWeights(jax.devices("cpu")[0])
        weights.announce([turned])
        assert not made
        for _ in range(2):
            weights.transfer([turned])
        assert made == {"aligned_copy": 1, "release_pages": 1}

    def test_in_memory_they_are_turned_at_once(self):
        """What they are made of is free then; it would have to stay."""
        array = random(40, 64)
        turned = layout.permuted_tensor(Tensor.of(array), (1, 0))
        assert not turned.is_lazy
        np.testing.assert_array_equal(turned.numpy(), array.T)

    @pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of pages")
    def test_pages_of_the_file_leave(self, tmp_path):
        array = random(256, 256, 3, 3)
        path = tmp_path / "file"
        tensor = in_file(array, path)
        turned = convolution_weights.winograd_kernel(tensor, "OI*", winograd.EVERY_AXIS)
        assert resident(path) < 100_000
        [there] = DeviceWeights(jax.devices("cpu")[0]).transfer([turned])
        assert there.shape == (16, 256, 256)
        assert is_memory_mapped(tensor.numpy())
        assert resident(path) < 100_000 < tensor.nbytes

    @pytest.mark.most_cases(1)
    @pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of pages")
    @pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0), (0, 2, 1)])
    def test_no_more_than_a_part_is_in_memory(self, order, tmp_path, monkeypatch):
        path, seen = tmp_path / "file", []
        monkeypatch.setattr(memory, "CHUNK", 1 << 22)

        def watched(array):
            seen.append(resident(path))
            release_pages(array)

        monkeypatch.setattr(memory, "release_pages", watched)
        array = np.arange(1 << 24, dtype="float32").reshape(64, 512, 512)
        tensor = in_file(array, path)
        made = aligned_copy(tensor.numpy().transpose(order))
        assert len(seen) == 16
        assert max(seen) < tensor.nbytes / 4
        assert np.array_equal(made, array.transpose(order))

    @pytest.mark.parametrize("shape", [(), (0, 3), (1,), (3, 1, 5)])
    def test_copies_of_any_form(self, shape):
        array = random(*shape) if shape else np.float32(3).reshape(())
        for given in (array, array.T, array[..., ::-1] if shape else array):
            made = aligned_copy(given)
            assert made.flags.c_contiguous
            np.testing.assert_array_equal(made, given)

    @pytest.mark.parametrize("layout", ["OI*", "*IO"])
    @pytest.mark.parametrize(
        "form",
        [
            winograd.EVERY_AXIS,
            *map(winograd.WinogradForm, (2, 3, 4)),
            winograd.WinogradForm(4, sum_after=True),
        ],
    )
    def test_kernels_for_tiles_are_turned_in_parts(self, form, layout, tmp_path):
        kernel = random(convolution_weights.CHUNK + 8, 5, 3, 3)
        whole = winograd.transform_kernel(kernel, form)
        laid = kernel if layout == "OI*" else kernel.transpose(2, 3, 1, 0).copy()
        for tensor in (Tensor.of(laid), in_file(laid, tmp_path / "file")):
            made = convolution_weights.winograd_kernel(tensor, layout, form)
            assert made.shape == whole.shape
            np.testing.assert_allclose(made.numpy(), whole, rtol=1e-6)
            assert made.numpy().ctypes.data % ALIGNMENT == 0

    def test_one_weight_for_looking_up_and_telling_is_held_once(self, monkeypatch):
        monkeypatch.setattr("amanda_jax.cpu_tuning.cores.core_count", lambda: 2)
        table = random(2001, 512)

        graph = Graph("amanda/std/1")
        words = graph.parameter(parse_type("int64[16]"), "words")
        x = graph.parameter(parse_type("float32[16, 512]"), "x")
        weight = graph.constant(Tensor.of(table)).output
        graph.result(graph.add("gather", [weight, words]).output)
        turned = graph.add("transpose", [weight], {"perm": (1, 0)}).output
        graph.result(graph.add("matmul", [x, turned]).output)
        feeds = [np.arange(16) * 7, random(16, 512)]
        for without in ("", "weights"):
            compiled = amanda.compile(graph, "jax", without=without)
            found, told = compiled(feeds).values()
            np.testing.assert_array_equal(found, table[feeds[0]])
            np.testing.assert_allclose(told, feeds[1] @ table.T, atol=1e-3)
            assert compiled.executable.report().weight_bytes == table.nbytes

    def test_what_the_graph_turns_is_turned_when_it_moves(self, tmp_path, monkeypatch):
        """Once for two that read it so, and read as it lies by a third."""
        made: Counter[str] = Counter()
        counted = _counting(made, "aligned_copy", aligned_copy)
        monkeypatch.setattr(layout, "aligned_copy", counted)
        weight = in_file(random(160, 160), tmp_path / "file")
        graph = Graph("amanda/std/1")
        x = graph.parameter(parse_type("float32[n, 160]"), "x")
        held = graph.constant(weight, name="w").output
        for name in ("first", "second"):
            turned = graph.add("transpose", [held], {"perm": (1, 0)}, name=name).output
            graph.result(graph.add("matmul", [x, turned]).output)
        graph.result(graph.add("matmul", [x, held]).output)
        compiled = amanda.compile(graph, "jax")
        assert not made
        x = random(3, 160)
        first, second, third = compiled([x]).values()
        array = weight.numpy()
        np.testing.assert_allclose(first, x @ array.T, rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(first, second)
        np.testing.assert_allclose(third, x @ array, rtol=1e-4, atol=1e-4)
        assert made == {"aligned_copy": 1}
        assert compiled.executable.report().weight_bytes == 2 * weight.nbytes

    def test_what_the_graph_turns_keeps_its_name(self, tmp_path):
        weight = in_file(random(160, 200, 2), tmp_path / "file")
        graph = Graph("amanda/std/1")
        held = graph.constant(weight).output
        turned = graph.add("transpose", [held], {"perm": (2, 0, 1)}, name="w").output
        graph.result(turned)
        made = passes.prepare_graph(graph)
        assert made.results[0] is made["w"].output
        np.testing.assert_array_equal(
            made["w"].attrs["value"].numpy(), weight.numpy().transpose(2, 0, 1)
        )

    def test_a_product_that_is_scaled_has_its_factors_in_the_weight(self, monkeypatch):
        monkeypatch.setattr("amanda_jax.cpu_tuning.cores.core_count", lambda: 2)
        weight, factors = random(2001, 512), random(2001)

        def scaled(x):
            return ops.matmul(x, ops.transpose(weight, perm=(1, 0))) * factors

        graph = trace(scaled, [parse_type("float32[16, 512]")])
        compiled = amanda.compile(graph, "jax")
        x = random(16, 512)
        [got] = compiled([x]).values()
        np.testing.assert_allclose(got, (x @ weight.T) * factors, atol=1e-3)
        function, given = compiled.executable._code.last_call()
        assert "stablehlo.multiply" not in function.lower(*given).as_text()


def _counting(made: Counter[str], name: str, call):
    def counted(*args):
        made[name] += 1
        return call(*args)

    return counted
