"""Kernels where samples do not get: ways for speed, sizes from which one is taken.

Each is called as it is and held against sums in float64, numpy, or what is defined.
Which way was taken, the traced program tells.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from amanda.types import DType
from amanda_jax.compile.trace_context import trace_context
from amanda_jax.cpu_tuning import convolution as tuned
from amanda_jax.cpu_tuning import winograd
from amanda_jax.kernels import array_ops, convolution, scatter, sequences, slicing
from amanda_std.backends import channels_first_permutation, use_kernels

CONVOLUTION = "conv_general_dilated"

FORMS = [
    winograd.EVERY_AXIS,
    *map(winograd.WinogradForm, (2, 3, 4)),
    winograd.WinogradForm(3, sum_after=True),
]


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def summed(x, w, b, s, d, pads, groups=1) -> np.ndarray:
    """NC* data, OI* kernels of any rank: what each place sees, times the kernel."""
    n = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0), *pads])
    reach = [(k - 1) * step + 1 for k, step in zip(w.shape[2:], d, strict=True)]
    seen = np.lib.stride_tricks.sliding_window_view(x, reach, range(2, n + 2))
    every = (slice(None),) * 2
    taken = (*(slice(None, None, k) for k in s), *(slice(None, None, k) for k in d))
    seen = seen[every + taken]
    out, inner = len(w) // groups, w.shape[1]
    axes = [1, *range(n + 2, 2 * n + 2)]
    parts = [
        np.tensordot(
            seen[:, g * inner : (g + 1) * inner],
            w[g * out : (g + 1) * out],
            (axes, [1, *range(2, n + 2)]),
        )
        for g in range(groups)
    ]
    return np.moveaxis(np.concatenate(parts, -1), -1, 1) + b.reshape(-1, *[1] * n)


def laid(array: np.ndarray, layout: str) -> np.ndarray:
    """An array whose axes stand as `NC*` or `OI*` tell, in another order."""
    return array.transpose(np.argsort(channels_first_permutation(layout, array.ndim)))


def check_conv(
    x: np.ndarray, w: np.ndarray, way: str, *, bias: bool = True, layout: str = "N*C",
    kernel_layout: str = "*IO", strides: Any = None, padding: Any = None,
    dilations: Any = None, groups: int = 1, without: tuple[str, ...] = (),
) -> None:  # fmt: skip
    """x is NC*, w is OI*: the results are the sums, by `way`."""
    n = x.ndim - 2
    b = random(len(w), seed=9)
    wanted = summed(
        x, w, b if bias else np.zeros(len(w)), strides or (1,) * n,
        dilations or (1,) * n, padding or ((0, 0),) * n, groups,
    )  # fmt: skip

    def function(x, w, b):
        with trace_context(python_driven=False, without=without):
            return convolution.conv(
                x, w, b if bias else None, layout=layout, kernel_layout=kernel_layout,
                strides=strides, padding=padding, dilations=dilations, groups=groups,
            )  # fmt: skip

    lies = winograd.transform_kernel(w, way) if way in FORMS else laid(w, kernel_layout)
    with jax.enable_x64(True):
        given = laid(x, layout), lies, b
        program = str(jax.make_jaxpr(function)(*given))
        got = jax.jit(function)(*given)
    np.testing.assert_allclose(got, laid(wanted, layout), rtol=0, atol=1e-11)
    assert (CONVOLUTION in program) is (way == "convolution")


class TestPointwise:
    @pytest.mark.parametrize("bias", [True, False])
    @pytest.mark.parametrize(
        ("size", "strides"), [((7,), None), ((5, 6), (2, 3)), ((2, 3, 4), (1, 2, 1))]
    )
    def test_a_product(self, size, strides, bias):
        x, w = random(2, 3, *size), random(5, 3, *[1] * len(size))
        for kernel_layout in ("*IO", "OI*"):
            check_conv(
                x, w, "product", kernel_layout=kernel_layout, strides=strides, bias=bias
            )

    @pytest.mark.parametrize(
        "options",
        [
            {"padding": ((0, 1), (0, 0))},
            {"padding": ((0, 1), (0, 0)), "kernel_layout": "OI*"},
            {"kernel_layout": "IO*"},
            {"layout": "NC*"},
            {"layout": "NC*", "kernel_layout": "OI*"},
            {"without": ("pointwise",)},
            {"without": ("pointwise",), "kernel_layout": "OI*"},
        ],
    )
    def test_others_are_convolutions(self, options):
        check_conv(random(2, 3, 5, 6), random(4, 3, 1, 1), "convolution", **options)

    @pytest.mark.parametrize("size", [(7,), (5, 6)])
    def test_channels_in_front_or_in_groups(self, size):
        w = random(6, 2, *[1] * len(size))
        x = random(2, 4, *size)
        for layout in ("NC*", "N*C"):
            check_conv(x, w, "convolution", groups=2, layout=layout)
        one = random(6, 4, *[1] * len(size))
        check_conv(x, one, "convolution", layout="NC*")

    def test_a_kernel_of_two_along_one_axis_is_none(self):
        check_conv(random(2, 3, 20, 20), random(4, 3, 1, 2), "convolution")


class TestColumns:
    DEEP = tuned.MIN_CHANNELS

    @pytest.mark.parametrize("bias", [True, False])
    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"strides": (2, 1), "padding": ((1, 0), (2, 1))},
            {"dilations": (1, 2), "padding": ((0, 3), (1, 1))},
            {"strides": (3, 2), "dilations": (2, 1)},
        ],
    )
    def test_few_places(self, options, bias):
        x, w = random(2, self.DEEP, 8, 9), random(5, self.DEEP, 3, 2)
        check_conv(x, w, "columns", bias=bias, **options)

    @pytest.mark.parametrize("size", [(9,), (3, 4, 3)])
    def test_along_one_axis_and_three(self, size):
        window = range(2, 2 + len(size))
        w = random(4, self.DEEP, *window)
        x = random(2, self.DEEP, *np.add(size, window))
        check_conv(x, w, "columns")

    def test_how_many_places_are_few(self):
        """16 * 16 are; so are 4 times 8 * 8; one row more is not."""
        w = random(3, self.DEEP, 2, 2)
        for batch, high, wide, way in (
            (1, 17, 17, "columns"),
            (4, 9, 9, "columns"),
            (1, 18, 17, "convolution"),
            (5, 9, 9, "convolution"),
        ):
            check_conv(random(batch, self.DEEP, high, wide), w, way)

    def test_how_many_channels_are_many(self):
        for channels, way in ((self.DEEP, "columns"), (self.DEEP - 1, "convolution")):
            x = random(1, channels, 6, 5)
            check_conv(x, random(64, channels, 3, 2), way)
            check_conv(x, random(3, channels, 3, 2), way)

    @pytest.mark.parametrize(
        "options",
        [
            {"groups": 2},
            {"kernel_layout": "OI*"},
            {"layout": "NC*"},
            {"without": ("columns",)},
        ],
    )
    def test_others_are_convolutions(self, options):
        groups = options.get("groups", 1)
        x, w = random(1, groups * self.DEEP, 6, 5), random(4, self.DEEP, 3, 2)
        check_conv(x, w, "convolution", **options)

    def test_a_batch_that_nobody_knows_is_not_few(self):
        [n] = jax.export.symbolic_shape("n")
        x = jax.ShapeDtypeStruct((n, 6, 5, self.DEEP), "float32")
        w = jax.ShapeDtypeStruct((3, 2, self.DEEP, 4), "float32")

        def function(x, w):
            with trace_context(python_driven=False):
                return convolution.conv(
                    x, w, layout="N*C", kernel_layout="*IO", strides=None,
                    padding=None, dilations=None, groups=1,
                )  # fmt: skip

        assert CONVOLUTION in str(jax.make_jaxpr(function)(x, w))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("size", [(5, 4), (3, 4, 5)])
@pytest.mark.parametrize("pad", [0, 1])
@pytest.mark.parametrize("form", FORMS)
def test_tiles_with_a_bias(size, pad, bias, form):
    n = len(size)
    x, w = random(2, 3, *size), random(4, 3, *[3] * n)
    check_conv(x, w, form, bias=bias, padding=((pad, 1),) * n)


@pytest.mark.parametrize(
    ("size", "rest"), [((2, 5), (0, 3)), ((5, 1), (3, 0)), ((1, 2), (0, 0))]
)
@pytest.mark.parametrize("form", FORMS)
def test_tiles_of_less_than_a_kernel(size, rest, form):
    w = winograd.transform_kernel(random(4, 3, 3, 3), form)
    with jax.enable_x64(True):
        made = winograd.conv(jnp.asarray(random(2, *size, 3)), w, [(0, 0), (0, 0)])
    assert (made.shape, made.dtype) == ((2, *rest, 4), "float64")


@pytest.mark.parametrize("layout", ["NC*", "N*C"])
@pytest.mark.parametrize(("word", "low"), [("same_upper", 0), ("same_lower", 1)])
def test_padding_told_by_a_word(word, low, layout):
    """Both axes need one more row: it is the last one, or the first."""
    x, w = random(2, 3, 5, 8), random(4, 3, 2, 3)
    wanted = summed(x, w, np.zeros(4), (2, 2), (1, 1), ((low, 1 - low),) * 2)
    with jax.enable_x64(True):
        got = convolution.conv(
            laid(x, layout), laid(w, "*IO"), layout=layout, kernel_layout="*IO",
            strides=(2, 2), padding=word, dilations=None, groups=1,
        )  # fmt: skip
    np.testing.assert_allclose(got, laid(wanted, layout), rtol=0, atol=1e-11)


class TestWhereNumbersAre:
    """A few integers are the host's; more, and all other types, are the device's."""

    LARGE = array_ops.LARGE

    @pytest.mark.parametrize(
        ("shape", "dtype", "is_there"),
        [
            ((3,), "int64", False),
            ((), "int64", False),
            ((LARGE,), "int64", False),
            ((3,), "uint8", False),
            ((3,), "bool", False),
            ((LARGE + 1,), "int64", True),
            ((1, 3), "int64", True),
            ((3,), "float32", True),
        ],
    )
    def test_full(self, shape, dtype, is_there):
        with jax.enable_x64(True):
            made = array_ops.full(shape, np.array(1, dtype))
        assert isinstance(made, jax.Array) is is_there
        assert made.dtype == dtype
        np.testing.assert_array_equal(made, np.ones(shape, dtype))

    @pytest.mark.parametrize(
        ("shape", "is_there"), [((2, LARGE // 2), False), ((2, LARGE), True)]
    )
    def test_broadcast_to(self, shape, is_there):
        x = np.arange(2).reshape(2, 1)
        with jax.enable_x64(True), use_kernels(None):
            made = array_ops.broadcast_to(x, shape)
        assert isinstance(made, jax.Array) is is_there
        np.testing.assert_array_equal(made, np.broadcast_to(x, shape))

    def test_a_dim_of_one_keeps_what_is_there(self):
        with jax.enable_x64(True):
            long = array_ops.broadcast_to(np.zeros((self.LARGE, 2)), (1, 2))
            wide = array_ops.broadcast_to(np.zeros((2, 1)), (1, self.LARGE + 1))
        assert long.shape == (self.LARGE, 2)
        assert wide.shape == (2, self.LARGE + 1)

    @pytest.mark.parametrize(
        ("stop", "step", "is_there"),
        [(LARGE, 1, False), (LARGE + 1, 1, True), (2 * LARGE, 2, False)],
    )
    def test_arange(self, stop, step, is_there):
        with jax.enable_x64(True):
            made = array_ops.arange(0, stop, step)
        assert isinstance(made, jax.Array) is is_there
        np.testing.assert_array_equal(made, np.arange(0, stop, step))


class TestWhatXlaWouldEndOtherwise:
    @pytest.mark.parametrize(
        "function",
        [array_ops.softmax, array_ops.log_softmax],
        ids=["softmax", "log_softmax"],
    )
    def test_the_largest_numbers_there_are(self, function):
        """One of them is the whole; nothing ends at infinity on the way."""
        most = np.finfo("float32").max
        x = np.array([[most, 0, -1], [0, 1, 2]], "float32")
        with np.errstate(over="ignore"):
            shares = np.exp(x.astype("float64") - x.max(1, keepdims=True))
        wanted = shares / shares.sum(1, keepdims=True)
        got = np.asarray(jax.jit(function)(x))
        if function is array_ops.log_softmax:
            assert got[0, 0] == 0
            got = np.exp(got)
        np.testing.assert_allclose(got, wanted, rtol=1e-6)

    @pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
    def test_floats_go_round_in_small_integers(self, dtype):
        """As numpy has it on the way over int32: the lower bits stay."""
        x = np.array([-1.5, 300.25, 70000.0, -70000.0], "float32")
        got = jax.jit(lambda x: array_ops.astype(x, dtype=DType(dtype)))(x)
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, x.astype("int32").astype(dtype))

    def test_large_floats_fill_integers_of_32_bits(self):
        x = np.array([3e9, 5.0], "float32")
        got = jax.jit(lambda x: array_ops.astype(x, dtype=DType("uint32")))(x)
        assert got.tolist() == [3_000_000_000, 5]

    def test_large_integers_keep_their_lower_bits(self):
        x = np.array([2**40 + 7, -3])
        with jax.enable_x64(True):
            got = jax.jit(lambda x: array_ops.astype(x, dtype=DType("uint8")))(x)
        assert got.tolist() == [7, 253]

    def test_what_is_padded_with_is_of_the_type(self):
        with jax.enable_x64(True):
            made = array_ops.pad(
                jnp.ones(2, "float32"), [(1, 0)], np.array(2.5), mode="constant"
            )
        assert (made.dtype, made.tolist()) == ("float32", [2.5, 1, 1])


class TestPlaces:
    @pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
    @pytest.mark.parametrize("size", [0, 1, 3])
    def test_gather_also_where_there_is_little_or_nothing(self, axis, size):
        shape = [2, 3, 4]
        shape[axis] = size
        x = random(*shape)
        for rows in (
            (0,),
            (0, 2),
            (2, 0),
            () if size else (3, 0),
            (5 if size else 0, 2),
        ):
            at = np.arange(np.prod(rows, dtype=int)).reshape(rows) % max(1, size)
            with jax.enable_x64(True):
                got = slicing.gather(x, at, axis)
            assert got.dtype == x.dtype
            np.testing.assert_array_equal(got, np.take(x, at, axis))

    @pytest.mark.parametrize("axis", [0, 1, -1])
    def test_elements_put_at_places_of_a_part(self, axis):
        x, updates = random(3, 4), random(2, 3, seed=1)
        at = np.array([[2, 0, 1], [0, 1, 2]])
        if axis != 0:
            at = np.array([[3, 0, 1], [0, 1, 3]])
        wanted = x.copy()
        for i, j in np.ndindex(*at.shape):
            wanted[(at[i, j], j) if axis == 0 else (i, at[i, j])] = updates[i, j]
        with jax.enable_x64(True):
            got = scatter.scatter_elements(x, at, updates, axis=axis, reduction="none")
        np.testing.assert_array_equal(got, wanted)

    @pytest.mark.parametrize("keepdims", [True, False])
    @pytest.mark.parametrize("axis", [0, 1, -1, -2])
    @pytest.mark.parametrize(
        ("sizes", "ends"), [(None, [1, 2, 3]), ([1, 3], [1]), (3, [3])]
    )
    def test_parts_of_a_sequence(self, sizes, ends, axis, keepdims):
        """Parts lose the axis without `keepdims`, where nobody told their sizes."""
        x = random(4, 4)
        with jax.enable_x64(True):
            got = sequences.split_to_sequence(x, sizes, axis=axis, keepdims=keepdims)
        wanted = np.split(x, ends, axis)
        if sizes is None and not keepdims:
            wanted = [np.squeeze(part, axis) for part in wanted]
        assert len(got) == len(wanted)
        for have, want in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(have, want)
