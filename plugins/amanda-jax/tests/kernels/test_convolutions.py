"""Convolutions and windows as the CPU has them fastest: held against sums in float64.

Which way one goes is read in the program that XLA gets.
"""

from __future__ import annotations

from functools import partial

import jax
import numpy as np
import pytest

import amanda
from amanda.graph import Graph
from amanda.types import parse_type
from amanda_jax.compile.passes import prepare_graph
from amanda_jax.cpu_tuning import convolution, winograd
from amanda_std import ops, trace

pytestmark = pytest.mark.usefixtures("without_onednn")

FORMS = [
    winograd.EVERY_AXIS,
    *map(winograd.WinogradForm, (2, 3, 4)),
    winograd.WinogradForm(4, sum_after=True),
]


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, "float32")


def plain(x, w, stride: int = 1, pads=((0, 0), (0, 0))) -> np.ndarray:
    """NCHW data, OIHW kernels: a sum for each place, in float64."""
    x = np.pad(x.astype("float64"), ((0, 0), (0, 0), *pads))
    high, wide = w.shape[2:]
    rows, columns = ((x.shape[2 + i] - w.shape[2 + i]) // stride + 1 for i in (0, 1))
    made = np.empty((len(x), len(w), rows, columns))
    for i in range(rows):
        for j in range(columns):
            seen = x[:, :, i * stride :, j * stride :][:, :, :high, :wide]
            made[:, :, i, j] = np.einsum("nihw,oihw->no", seen, w)
    return made


def network(kernel, x: str, **attrs) -> Graph:
    return trace(lambda x: ops.conv(x, kernel, **attrs), [parse_type(x)], names=["x"])


def text_of(compiled) -> str:
    function, given = compiled.executable._code.last_call()
    with jax.enable_x64(True):
        return function.lower(*given).as_text()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("size", "low", "high", "batch"),
    [
        ([5], 1, 1, 2),
        ([4], 2, 0, 1),
        ([7, 6], 1, 1, 1),
        ([1, 3], 0, 1, 2),
        ([3, 2, 5], 1, 0, 1),
    ],
)
def test_tiles_give_what_the_sum_gives(size, low, high, batch, form):
    """Over one, two and three axes; sizes that tiles do not divide, and pads."""
    n = len(size)
    size = [k + 2 for k in size]
    with jax.enable_x64(True):
        rng = np.random.default_rng(0)
        x, w = (
            rng.standard_normal((batch, *size, 2)),
            rng.standard_normal((3, 2, *[3] * n)),
        )
        pads = [(low, high)] * n
        got = jax.jit(lambda x, w: winograd.conv(x, w, pads))(
            x, winograd.transform_kernel(w, form)
        )
    padded = np.pad(x, [(0, 0), *[(low, high)] * n, (0, 0)])
    seen = np.lib.stride_tricks.sliding_window_view(
        padded, [3] * n, tuple(range(1, n + 1))
    )
    wanted = np.tensordot(seen, w, ([n + 1, *range(n + 2, 2 * n + 2)],
                                    [1, *range(2, n + 2)]))  # fmt: skip
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-12)


def test_errors_of_tiles_beside_those_of_plain_sums():
    """The root of the mean square, of many channels after a `relu`."""
    x, w = np.maximum(random(1, 16, 16, 256), 0), random(32, 256, 3, 3, seed=1)
    wanted = plain(np.moveaxis(x, 3, 1), w)
    errors = {}
    with jax.default_matmul_precision("highest"):
        for form in FORMS:
            got = winograd.conv(x, winograd.transform_kernel(w, form), [(0, 0), (0, 0)])
            errors[form] = np.sqrt(np.mean((np.moveaxis(got, 3, 1) - wanted) ** 2))
        laid = jax.lax.ConvDimensionNumbers((0, 3, 1, 2), (0, 1, 2, 3), (0, 3, 1, 2))
        sums = jax.lax.conv_general_dilated(
            x, w, (1, 1), "VALID", dimension_numbers=laid
        )
    plainly = np.sqrt(np.mean((np.moveaxis(sums, 3, 1) - wanted) ** 2))
    assert (
        max(errors[winograd.EVERY_AXIS], errors[winograd.WinogradForm(2)])
        < 2.5 * plainly
    )
    assert max(errors.values()) < 4 * plainly


@pytest.fixture(params=["highest", "high"], ids=["every axis", "along rows"])
def precision(request, monkeypatch) -> str:
    """Tiles along rows alone are for several cores and lower precision."""
    monkeypatch.setattr("amanda_jax.cpu_tuning.cores.core_count", lambda: 2)
    return request.param


class TestPairsOfRows:
    """Two results of a column share four products, each over a row of the kernel."""

    @staticmethod
    def weights_of(
        channels: int, rows: int, columns: int, **options
    ) -> tuple[int, int]:
        """The number of weights of the program, and of the kernel."""
        kernel = random(channels, channels, 3, 3) / channels
        x = random(1, channels, rows, columns, seed=1)
        text = ", ".join(map(str, x.shape))
        graph = network(kernel, f"float32[{text}]", padding=((1, 1), (1, 1)))
        compiled = amanda.compile(graph, "jax", **options)
        [got] = compiled([x]).values()
        wanted = plain(x, kernel, pads=((1, 1), (1, 1)))
        assert abs(got - wanted).max() < 1e-5
        return compiled.executable.report().weight_bytes // 4, kernel.size

    @pytest.mark.parametrize(
        ("channels", "rows", "columns", "factor"),
        [
            (128, 14, 14, (4, 3)),
            (128, 15, 29, (4, 3)),
            (64, 16, 16, (16, 9)),  # few channels
            (128, 12, 12, (16, 9)),  # few positions
            (128, 50, 50, (16, 9)),  # products that run on several cores anyway
        ],
    )
    def test_where_they_are_used(self, channels, rows, columns, factor, monkeypatch):
        monkeypatch.setattr("amanda_jax.cpu_tuning.cores.core_count", lambda: 2)
        got, plainly = self.weights_of(channels, rows, columns)
        assert got * factor[1] == plainly * factor[0]

    def test_one_core_uses_pairs_along_both_axes(self, monkeypatch):
        monkeypatch.setattr("amanda_jax.cpu_tuning.cores.core_count", lambda: 1)
        got, plainly = self.weights_of(128, 14, 14)
        assert got * 9 == plainly * 16

    def test_they_can_be_disabled(self, monkeypatch):
        monkeypatch.setattr("amanda_jax.cpu_tuning.cores.core_count", lambda: 2)
        got, plainly = self.weights_of(128, 14, 14, without="pairs")
        assert got * 9 == plainly * 16


class TestPointwiseKernels:
    """Kernels of one element are products, which read the outputs first."""

    @pytest.mark.parametrize(
        ("without", "order"), [("", "[1] x [1]"), ("transposed", "[1] x [0]")]
    )
    def test_they_are_not_transposed(self, without, order, monkeypatch):
        monkeypatch.setattr("amanda_jax.cpu_tuning.cores.core_count", lambda: 2)
        kernel, x = random(40, 32, 1, 1) / 6, random(1, 32, 9, 7, seed=1)
        graph = network(kernel, "float32[1, 32, 9, 7]")
        compiled = amanda.compile(graph, "jax", without=without)
        [got] = compiled([x]).values()
        np.testing.assert_allclose(got, plain(x, kernel), rtol=1e-5, atol=1e-5)
        assert f"contracting_dims = {order}" in text_of(compiled)

    @pytest.mark.parametrize(("groups", "pad"), [(2, 0), (1, 1)])
    def test_others_are_convolutions_in_channels_last_layout(self, groups, pad):
        kernel, x = random(40, 32 // groups, 1, 1) / 6, random(1, 32, 19, 17, seed=1)
        pads = ((pad, pad), (pad, pad))
        graph = network(kernel, "float32[1, 32, 19, 17]", padding=pads, groups=groups)
        compiled = amanda.compile(graph, "jax")
        [got] = compiled([x]).values()
        if groups == 1:
            wanted = plain(x, kernel, pads=pads)
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)
        assert "[0, 1, i, o]" in text_of(compiled)


class TestTiles:
    KERNEL = random(40, 32, 3, 3) / 17
    PADS = ((1, 1), (1, 1))

    @pytest.fixture(autouse=True)
    def _options(self, precision):
        self.options = {"precision": precision}

    def compile_graph(self, graph, **options):
        return amanda.compile(graph, "jax", **self.options, **options)

    def compiled(self, x: str = "float32[1, 32, 13, 12]", **options):
        graph = network(self.KERNEL, x, padding=self.PADS)
        return self.compile_graph(graph, **options)

    def test_as_near_as_the_plain_sum_where_elements_are_of_like_size(self):
        x = random(1, 32, 13, 12, seed=1)
        wanted = plain(x, self.KERNEL, pads=self.PADS)
        errors = {}
        for without in ("", "tiles,columns"):
            [got] = self.compiled(without=without)([x]).values()
            errors[without] = abs(got - wanted).max()
        assert errors[""] < 1e-5
        assert errors["tiles,columns"] < 1e-5

    def test_beside_huge_elements_nothing_is_left(self, precision):
        """Even where their weight is zero: the plain way is exact there. The error is
        that of the largest, and ends where no such element is under the kernel; in
        fours, where none is in the tile."""
        kernel = np.zeros((32, 32, 3, 3), "float32")
        kernel[range(32), range(32), 1, 1] = 1
        graph = network(kernel, "float32[1, 32, 16, 16]")
        x = random(1, 32, 16, 16, seed=1)
        x[:, :, 8:] = -1e9
        wanted = x[:, :, 1:-1, 1:-1]
        errors = {}
        for without in ("", "tiles"):
            compiled = self.compile_graph(graph, without=without)
            [got] = compiled([x]).values()
            errors[without] = abs(got - wanted).max((0, 1, 3))
        assert (errors["tiles"] == 0).all()
        assert errors[""][: 6 if precision == "highest" else 4].max() < 1e-5
        assert errors[""][6] > 1  # its elements are below 5
        assert errors[""].max() < 1e9 * 1e-6

    def test_they_are_products_and_weights_lie_that_way(self, precision):
        compiled = self.compiled()
        compiled([random(1, 32, 13, 12)])
        assert "stablehlo.convolution" not in text_of(compiled)
        elements = 16 * 32 * 40 if precision == "highest" else 6 * 3 * 32 * 40
        assert compiled.executable.report().weight_bytes == elements * 4
        plainly = self.compiled(without="tiles,columns")
        plainly([random(1, 32, 13, 12)])
        assert "stablehlo.convolution" in text_of(plainly)
        assert plainly.executable.report().weight_bytes == self.KERNEL.nbytes

    @pytest.mark.most_cases(2)
    @pytest.mark.parametrize("strange", [np.nan, np.inf])
    def test_what_is_no_number_reaches_what_sees_it_only(self, strange, precision):
        """For each place that an element can have in a tile; in fours, other rows of
        the tiles that take it."""
        for row, column in ((4, 4), (4, 5), (5, 4), (5, 5), (0, 11)):
            x = random(1, 32, 13, 12, seed=1)
            x[0, 3, row, column] = strange
            [got] = self.compiled()([x]).values()
            wanted = plain(x, self.KERNEL, pads=self.PADS)
            seen = np.isfinite(wanted)
            if precision == "high":
                assert not np.isfinite(got[~seen]).any()
                seen[..., reached(row), max(column - 1, 0) : column + 2] = False
            np.testing.assert_allclose(got[seen], wanted[seen], atol=1e-5)

    def test_large_elements_leave_others_as_exact(self, precision):
        x = random(1, 32, 13, 12, seed=1)
        x[0, :, 4, 5] = 1e6
        [got] = self.compiled()([x]).values()
        wanted = plain(x, self.KERNEL, pads=self.PADS)
        far = np.ones(wanted.shape, bool)
        far[..., slice(3, 6) if precision == "highest" else reached(4), 4:7] = False
        np.testing.assert_allclose(got[far], wanted[far], atol=1e-5)

    @pytest.mark.parametrize("n", [1, 3])
    def test_sizes_that_are_open(self, n):
        compiled = self.compiled("float32[n, 32, a, b]")
        for size in ((13, 12), (1, 5), (6, 1)):
            x = random(n, 32, *size)
            [got] = compiled([x]).values()
            np.testing.assert_allclose(
                got, plain(x, self.KERNEL, pads=self.PADS), atol=1e-5
            )

    @pytest.mark.parametrize(
        ("shape", "attrs"),
        [
            ((40, 32, 3, 3), {"strides": (2, 1)}),
            ((40, 32, 3, 3), {"dilations": (1, 2)}),
            ((40, 32, 3, 3), {"groups": 2}),
            ((40, 32, 5, 5), {}),
            ((40, 8, 3, 3), {}),
        ],
    )
    def test_others_stay_convolutions(self, shape, attrs):
        kernel = random(*shape)
        channels = shape[1] * attrs.get("groups", 1)
        graph = network(kernel, f"float32[1, {channels}, 40, 40]", **attrs)
        x = random(1, channels, 40, 40)
        compiled = self.compile_graph(graph)
        [got] = compiled([x]).values()
        assert "stablehlo.convolution" in text_of(compiled)
        [wanted] = amanda.run(graph, [x], backend="numpy").values()
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize("size", [(1, 1), (2, 5), (1, 5), (5, 2)])
    def test_data_smaller_than_the_kernel_gives_nothing(self, size):
        graph = network(self.KERNEL, "float32[n, 32, h, w]")
        x = random(1, 32, *size)
        for without in ("", "tiles,columns"):
            compiled = self.compile_graph(graph, without=without)
            [got] = compiled([x]).values()
            assert got.shape == (1, 40, max(0, size[0] - 2), max(0, size[1] - 2))

    @pytest.mark.parametrize("in_tiles", [True, False])
    def test_kernels_of_bodies_lie_as_plain_convolutions_read_them(self, in_tiles):
        """They come from outside there: as OI*, each call would turn them round."""
        kernel = random(32, 32, 3, 3) / 17

        def function(x):
            return ops.if_(
                ops.all(ops.less(x, 9.0)),
                lambda: ops.conv(x, kernel, padding=self.PADS),
                lambda: x,
            )[0]

        graph = trace(function, [parse_type("float32[1, 32, 14, 14]")], names=["x"])
        without = () if in_tiles else ("tiles",)
        ready = prepare_graph(graph, "cpu", without)
        [found] = [op for op in ready.walk() if op.type == "conv"]
        assert (found.attrs["layout"], found.attrs["kernel_layout"]) == ("N*C", "*IO")
        assert found.inputs[1].op.graph is ready
        x = random(1, 32, 14, 14)
        [got] = amanda.run(
            graph, [x], backend="jax", **self.options, without=without
        ).values()
        np.testing.assert_allclose(got, plain(x, kernel, pads=self.PADS), atol=1e-5)

    def test_a_kernel_with_two_readers(self):
        """One goes in tiles, the other one cannot: both read it as it is."""
        kernel = random(32, 32, 3, 3) / 17

        def both(x):
            y = ops.conv(x, kernel, padding=self.PADS)
            return y, ops.conv(x, kernel, strides=(2, 2))

        graph = trace(both, [parse_type("float32[1, 32, 31, 31]")], names=["x"])
        x = random(1, 32, 31, 31)
        first, second = amanda.run(graph, [x], backend="jax", **self.options).values()
        np.testing.assert_allclose(first, plain(x, kernel, pads=self.PADS), atol=1e-5)
        np.testing.assert_allclose(second, plain(x, kernel, 2), atol=1e-5)

    def test_two_readers_that_both_go_in_tiles(self, precision):
        kernel = random(32, 32, 3, 3) / 17

        def twice(x):
            return ops.conv(ops.conv(x, kernel), kernel, padding=self.PADS)

        graph = trace(twice, [parse_type("float32[1, 32, 14, 14]")], names=["x"])
        first, second = [op for op in graph if op.type == "constant"]
        graph.replace_uses(second.output, first.output)
        x = random(1, 32, 14, 14)
        compiled = self.compile_graph(graph)
        [got] = compiled([x]).values()
        wanted = plain(plain(x, kernel), kernel, pads=self.PADS)
        np.testing.assert_allclose(got, wanted, atol=2e-5)
        elements = 16 * 32 * 32 if precision == "highest" else 6 * 3 * 32 * 32
        assert compiled.executable.report().weight_bytes == elements * 4

    @pytest.mark.parametrize("batch", ["2", "n"])
    def test_where_results_are_large_sums_stand_behind(self, batch, precision):
        graph = network(self.KERNEL, f"float32[{batch}, 32, 64, 60]")
        compiled = self.compile_graph(graph)
        x = random(2, 32, 64, 60)
        [got] = compiled([x]).values()
        np.testing.assert_allclose(got, plain(x, self.KERNEL), atol=1e-5)
        [weight] = compiled.executable._code.weights
        assert weight.shape == (
            (16, 32, 40) if precision == "highest" else (6, 32, 120)
        )

    def test_two_readers_one_of_which_is_small(self, precision):
        kernel = random(32, 32, 3, 3) / 17

        def both(x):
            y = ops.conv(x, kernel, padding=self.PADS)
            return y, ops.conv(ops.max_pool(y, window=(4, 4), strides=(4, 4)), kernel)

        graph = trace(both, [parse_type("float32[1, 32, 64, 64]")], names=["x"])
        first, second = [op for op in graph if op.type == "constant"]
        graph.replace_uses(second.output, first.output)
        compiled = self.compile_graph(graph)
        x = random(1, 32, 64, 64)
        got, behind = compiled([x]).values()
        wanted = plain(x, kernel, pads=self.PADS)
        np.testing.assert_allclose(got, wanted, atol=1e-5)
        most = wanted.reshape(1, 32, 16, 4, 16, 4).max((3, 5))
        np.testing.assert_allclose(behind, plain(most, kernel), atol=2e-5)
        shapes = [weight.shape for weight in compiled.executable._code.weights]
        assert shapes == [(16, 32, 32) if precision == "highest" else (6, 96, 32)]

    def test_a_kernel_that_is_a_result_as_well(self):
        kernel = random(32, 32, 3, 3)
        graph = network(kernel, "float32[1, 32, 14, 14]")
        weight = next(iter(graph)).output
        graph.result(weight, "kernel")
        x = random(1, 32, 14, 14)
        got, same = amanda.run(graph, [x], backend="jax", **self.options).values()
        np.testing.assert_array_equal(same, kernel)
        np.testing.assert_allclose(got, plain(x, kernel), rtol=1e-4, atol=1e-4)


def reached(row: int) -> slice:
    """The rows of results, of a convolution padded by 1, in tiles of four that take
    the row of the data: each takes six."""
    tiles = [t for t in range(4) if 4 * t - 1 <= row <= 4 * t + 4]
    return slice(4 * tiles[0], 4 * tiles[-1] + 4)


class TestParts:
    """Convolutions to few channels, which XLA's library gives to one core."""

    @pytest.mark.parametrize(("count", "found"), [(1, 1), (2, 2), (3, 3), (32, 8)])
    def test_rows_apart(self, count, found, monkeypatch):
        monkeypatch.setattr("amanda_jax.cpu_tuning.cores.core_count", lambda: count)
        kernel = random(40, 3, 7, 7) / 17
        told = {"strides": (2, 2), "padding": ((3, 2), (1, 3))}
        graph = network(kernel, "float32[2, 3, 96, 95]", **told)
        compiled = amanda.compile(graph, "jax")
        x = random(2, 3, 96, 95)
        [got] = compiled([x]).values()
        wanted = plain(x, kernel, 2, told["padding"])
        np.testing.assert_allclose(got, wanted, atol=1e-5)
        assert text_of(compiled).count("stablehlo.convolution(") == found
        plainly = amanda.compile(graph, "jax", without="parts")
        plainly([x])
        assert text_of(plainly).count("stablehlo.convolution(") == 1

    @pytest.mark.parametrize(
        ("rows", "window", "stride", "dilation", "pads"),
        [
            (20, 3, 1, 1, (0, 0)),
            (37, 2, 2, 3, (4, 0)),
            (33, 5, 1, 2, (0, 9)),
            (16, 1, 1, 1, (1, 1)),
            (50, 3, 3, 1, (-2, 1)),
            (10, 3, 1, 1, (40, 0)),
            (10, 3, 2, 1, (0, 40)),
            (4, 3, 1, 2, (30, 30)),
        ],
    )
    def test_each_part_sees_what_it_needs(
        self, rows, window, stride, dilation, pads, monkeypatch
    ):
        """Held against one convolution of the whole."""
        monkeypatch.setattr("amanda_jax.cpu_tuning.cores.core_count", lambda: 3)
        x, w = random(2, rows, 5, 4), random(window, 2, 4, 6)
        laid = jax.lax.ConvDimensionNumbers((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))
        convolve = partial(
            jax.lax.conv_general_dilated,
            rhs=w,
            window_strides=(stride, 1),
            rhs_dilation=(dilation, 1),
            dimension_numbers=laid,
        )
        every = [pads, (1, 0)]
        call = convolution.ConvolutionCall(
            x, w, (stride, 1), (dilation, 1), every, lambda x, p: convolve(x, padding=p)
        )
        got = convolution.convolve_in_parts(call)
        np.testing.assert_allclose(got, convolve(x, padding=every), atol=1e-5)

    @pytest.mark.parametrize(
        ("out", "size", "attrs"),
        [
            (128, 96, {}),
            (40, 16, {}),
            (40, 96, {"groups": 2}),
            (40, 96, {"layout": "NC*"}),
        ],
    )
    def test_others_stay_whole(self, out, size, attrs, monkeypatch):
        monkeypatch.setattr("amanda_jax.cpu_tuning.cores.core_count", lambda: 2)
        kernel = random(out, 4 // attrs.get("groups", 1), 5, 5)
        graph = network(kernel, f"float32[1, 4, {size}, {size}]", **attrs)
        without = "layout" if "layout" in attrs else ""
        compiled = amanda.compile(graph, "jax", without=without)
        compiled([random(1, 4, size, size)])
        assert text_of(compiled).count("stablehlo.convolution(") == 1


@pytest.mark.parametrize("stride", [1, 2])
def test_few_places_are_columns(stride):
    kernel = random(24, 32, 3, 3) / 17
    x = random(2, 32, 7, 6)
    pads = ((1, 0), (0, 2))
    graph = network(
        kernel, "float32[2, 32, 7, 6]", strides=(stride, stride), padding=pads
    )
    compiled = amanda.compile(graph, "jax")
    [got] = compiled([x]).values()
    np.testing.assert_allclose(got, plain(x, kernel, stride, pads), atol=1e-5)
    assert "stablehlo.convolution" not in text_of(compiled)
    plainly = amanda.compile(graph, "jax", without="columns")
    plainly([x])
    assert "stablehlo.convolution" in text_of(plainly)


@pytest.mark.parametrize("op", [ops.max_pool, ops.avg_pool])
@pytest.mark.parametrize(
    ("layout", "window", "stride", "pad", "ceil"),
    [
        ("NC*", (3, 3), 2, 1, False),
        ("N*C", (2, 3), 2, 1, True),
        ("NC*", (1, 2), 3, 0, True),
        ("N*C", (3, 1), 1, 1, False),
    ],
)
def test_windows_as_slices(op, layout, window, stride, pad, ceil):
    pads = tuple((min(pad, k - 1), 0) for k in window)
    attrs = {"window": window, "strides": (stride, stride), "padding": pads,
             "ceil": ceil, "layout": layout}  # fmt: skip
    x = random(2, 9, 8, 5)
    x[0, 0, 0, 0] = np.nan
    graph = trace(lambda x: op(x, **attrs), [parse_type("float32[2, 9, 8, 5]")])
    [wanted] = amanda.run(graph, [x], backend="numpy").values()
    for without in ("", "windows"):
        compiled = amanda.compile(graph, "jax", without=without)
        [got] = compiled([x]).values()
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
        assert ("stablehlo.reduce_window" in text_of(compiled)) is (without != "")


def test_options_of_xla_are_measured_and_can_be_left_out(monkeypatch):
    monkeypatch.setattr("amanda_jax.cpu_tuning.cores.core_count", lambda: 1)
    graph = network(random(2, 2, 1, 1), "float32[1, 2, 3, 3]")
    told = amanda.compile(graph, "jax").executable._build.settings.compiler_options
    assert list(told) == ["xla_cpu_experimental_ynn_fusion_type"]
    left = amanda.compile(graph, "jax", without="products")
    assert left.executable._build.settings.compiler_options == {}
    name = "xla_cpu_experimental_ynn_fusion_type=LIBRARY_FUSION_TYPE_DOT"
    own = amanda.compile(
        graph, "jax", xla=name
    ).executable._build.settings.compiler_options
    assert own == {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_DOT"}
    monkeypatch.setattr("amanda_jax.cpu_tuning.cores.core_count", lambda: 2)
    many = network(random(2, 2, 1, 1), "float32[2, 2, 3, 3]")
    assert amanda.compile(many, "jax").executable._build.settings.compiler_options == {}
