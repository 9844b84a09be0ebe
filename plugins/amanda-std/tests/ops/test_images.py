"""Vision and pooling ops against PyTorch and TensorFlow, where installed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from amanda_std import ops

RANDOM = np.random.default_rng(11)
MODES = {"linear": "bilinear", "cubic": "bicubic"}


def normal(*shape):
    return RANDOM.normal(size=shape)


def close(found, expected, tolerance=1e-9):
    expected = np.asarray(expected)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


class TestTorch:
    @pytest.fixture(autouse=True)
    def _torch(self):
        self.torch = pytest.importorskip("torch", reason="compared with PyTorch")
        self.f = self.torch.nn.functional

    def of(self, x):
        return self.torch.tensor(x)

    @pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
    @pytest.mark.parametrize("corners", [False, True])
    @pytest.mark.parametrize(
        ("mode", "spatial"),
        [("nearest", (5, 6)), ("linear", (5, 6)), ("cubic", (5, 6)),
         ("nearest", (3, 4, 5)), ("linear", (3, 4, 5))],
    )  # fmt: skip
    def test_grids(self, mode, spatial, corners, padding):
        x = normal(2, 3, *spatial)
        grid = RANDOM.uniform(-1.8, 1.8, (2, *([3] * len(spatial)), len(spatial)))
        expected = self.f.grid_sample(
            self.of(x), self.of(grid), mode=MODES.get(mode, mode),
            padding_mode=padding, align_corners=corners,
        )  # fmt: skip
        found = ops.grid_sample(
            x, grid, mode=mode, padding=padding, align_corners=corners
        )
        close(found, expected)

    @pytest.mark.parametrize("size", [(2, 3, 4, 5), (2, 3, 4, 5, 2), (1, 1, 2, 3)])
    @pytest.mark.parametrize("corners", [False, True])
    def test_affine_grids(self, size, corners):
        theta = normal(size[0], len(size) - 2, len(size) - 1)
        expected = self.f.affine_grid(self.of(theta), size, align_corners=corners)
        close(ops.affine_grid(theta, size, align_corners=corners), expected)

    @pytest.mark.parametrize("size", [(4, 3), (13, 10), (9, 3)])
    @pytest.mark.parametrize("antialias", [False, True])
    @pytest.mark.parametrize("mode", MODES)
    def test_resized(self, mode, antialias, size):
        x = normal(1, 2, 9, 7)
        expected = self.f.interpolate(
            self.of(x), size=size, mode=MODES[mode], antialias=antialias,
            align_corners=False,
        )  # fmt: skip
        found = ops.resize(
            x, size, axes=(2, 3), mode=mode, antialias=antialias,
            exclude_outside=antialias, cubic=-0.5 if antialias else -0.75,
        )  # fmt: skip
        close(found, expected)

    def test_unfold_and_fold(self):
        x = normal(2, 3, 6, 7)
        args = {"dilation": (1, 2), "padding": (1, 2), "stride": (2, 1)}
        own = {
            "dilations": (1, 2), "padding": ((1, 1), (2, 2)), "strides": (2, 1),
        }  # fmt: skip
        columns = self.f.unfold(self.of(x), (2, 3), **args)
        close(ops.unfold(x, window=(2, 3), **own), columns)
        folded = self.f.fold(columns, (6, 7), (2, 3), **args)
        close(ops.fold(np.asarray(columns), (6, 7), (2, 3), **own), folded)

    @pytest.mark.parametrize("ceil", [False, True])
    def test_max_pool_indices(self, ceil):
        x = normal(2, 3, 7, 8)
        args = {"kernel_size": (3, 2), "stride": (2, 3), "padding": (1, 0)}
        y, at = self.f.max_pool2d(
            self.of(x), **args, ceil_mode=ceil, return_indices=True
        )
        found = ops.max_pool_with_indices(
            x, window=(3, 2), strides=(2, 3), padding=((1, 1), (0, 0)), ceil=ceil
        )
        close(found[0], y)
        close(found[1], at)
        x = self.of(normal(2, 3, 6, 8))
        y, at = self.f.max_pool2d(x, 2, return_indices=True)
        back = self.f.max_unpool2d(y, at, 2)
        close(ops.max_unpool(y.numpy(), at.numpy(), (2, 3, 6, 8)), back)

    @pytest.mark.parametrize("size", [(3, 2), (9, 8), (1, 5)])
    def test_adaptive_pools(self, size):
        x = normal(2, 3, 7, 8)
        close(
            ops.adaptive_max_pool(x, size), self.f.adaptive_max_pool2d(self.of(x), size)
        )
        close(
            ops.adaptive_avg_pool(x, size), self.f.adaptive_avg_pool2d(self.of(x), size)
        )

    def test_space_to_depth_and_norms(self):
        x = normal(2, 8, 4, 6)
        deep = self.f.pixel_unshuffle(self.of(x), 2)
        close(ops.space_to_depth(x, block=2, mode="CRD"), deep)
        close(ops.depth_to_space(np.asarray(deep), block=2, mode="CRD"), x)
        expected = self.f.local_response_norm(self.of(x), 5, 0.3, 0.6, 1.2)
        found = ops.lrn(x, size=5, alpha=0.3, beta=0.6, bias=1.2)
        close(found, expected)

    @pytest.mark.parametrize(("causal", "mask"), [(True, None), (False, "bool"),
                                                  (False, "float")])  # fmt: skip
    def test_attention(self, causal, mask):
        q, k, v = normal(2, 4, 5, 3), normal(2, 4, 6, 3), normal(2, 4, 6, 2)
        seen = RANDOM.uniform(size=(5, 6)) < 0.5
        seen[2] = False  # this query sees nothing
        own = {"bool": seen, "float": np.where(seen, 0.3, -np.inf)}.get(mask)
        expected = self.f.scaled_dot_product_attention(
            *map(self.of, (q, k, v)), None if own is None else self.of(own),
            is_causal=causal,
        )  # fmt: skip
        close(ops.attention(q, k, v, own, causal=causal), expected)

    def test_grouped_heads(self):
        q, k, v = normal(2, 4, 5, 3), normal(2, 2, 5, 3), normal(2, 2, 5, 3)
        expected = self.f.scaled_dot_product_attention(
            *map(self.of, (q, k, v)), enable_gqa=True
        )
        close(ops.attention_with_cache(q, k, v)[0], expected)

    @pytest.mark.parametrize("right", [False, True])
    def test_searchsorted(self, right):
        rows, values = np.sort(normal(3, 8)), normal(3, 5)
        values[:, 0] = rows[:, 4]
        expected = self.torch.searchsorted(self.of(rows), self.of(values), right=right)
        close(ops.searchsorted(rows, values, right=right), expected)

    def test_deformable_sampling(self):
        x = normal(3, 4)
        expected = self.torch.roll(self.of(x), (1, -6), (0, 1))
        close(ops.roll(x, np.array([1, -6]), axes=(0, 1)), expected)
        times = np.array([2, 0, 3])
        expected = self.torch.repeat_interleave(self.of(x), self.of(times), 0)
        close(ops.repeat(x, times, axis=0), expected)


class TestTensorFlow:
    @pytest.fixture(autouse=True)
    def _tensorflow(self):
        self.tf = pytest.importorskip("tensorflow", reason="compared with TensorFlow")

    @pytest.mark.parametrize("method", ["bilinear", "nearest"])
    @pytest.mark.parametrize("size", [(3, 5), (1, 1), (1, 4)])
    def test_crops(self, method, size):
        x = normal(2, 5, 6, 3).astype("float32")
        boxes = RANDOM.uniform(-0.2, 1.2, (4, 4)).astype("float32")
        at = np.array([1, 0, 1, 0], "int32")
        expected = self.tf.image.crop_and_resize(
            x, boxes, at, size, method=method, extrapolation_value=7.0
        )
        found = ops.crop_and_resize(
            np.moveaxis(x, -1, 1), boxes, at, size, extrapolation=7.0,
            mode="linear" if method == "bilinear" else method,
        )  # fmt: skip
        close(np.moveaxis(found, 1, -1), expected, 1e-5)

    @pytest.mark.parametrize("size", [(3, 5), (11, 4)])
    @pytest.mark.parametrize(
        ("method", "antialias", "how"),
        [
            ("bilinear", False, {"mode": "linear"}),
            ("bilinear", True, {"mode": "linear", "antialias": True,
                                "exclude_outside": True}),
            ("bicubic", False, {"mode": "cubic", "cubic": -0.5,
                                "exclude_outside": True}),
            ("lanczos3", True, {"mode": "lanczos3", "antialias": True,
                                "exclude_outside": True}),
            ("lanczos5", True, {"mode": "lanczos5", "antialias": True,
                                "exclude_outside": True}),
            ("nearest", False, {"coordinates": "tf_half_pixel_for_nn",
                                "rounding": "floor"}),
            ("area", False, {"mode": "area"}),
        ],
    )  # fmt: skip
    def test_resized(self, method, antialias, how, size):
        x = normal(1, 7, 9, 2).astype("float32")
        expected = self.tf.image.resize(x, size, method=method, antialias=antialias)
        tabled = 5e-3 if method == "bicubic" else 1e-4  # its shares are from a table
        close(ops.resize(x, size, axes=(1, 2), **how), expected, tabled)

    def test_morphology(self):
        x, kernel = normal(2, 6, 7, 3), normal(2, 3, 3)
        own = np.moveaxis(x, -1, 1), np.moveaxis(kernel, -1, 0)
        how = {"window": (2, 3), "strides": (2, 1), "padding": "same_upper"}
        for name, found in (("dilation2d", ops.dilation), ("erosion2d", ops.erosion)):
            expected = getattr(self.tf.nn, name)(
                x, kernel, (1, 2, 1, 1), "SAME", "NHWC", (1, 1, 1, 1)
            )
            close(np.moveaxis(found(*own, **how), 1, -1), expected)

    def test_space_to_batch(self):
        x, pads = normal(2, 4, 5, 3), ((0, 2), (1, 0))
        expected = self.tf.space_to_batch(x, (3, 2), pads)
        found = ops.space_to_batch(x, pads, block=(3, 2))
        close(found, expected)
        close(ops.batch_to_space(found, pads, block=(3, 2)), x)
        deep = self.tf.nn.space_to_depth(x[:, :, :4], 2)
        close(ops.space_to_depth(x[:, :, :4], block=2, layout="N*C"), deep)

    @pytest.mark.parametrize("sigma", [0.0, 0.5])
    def test_boxes(self, sigma):
        corners = RANDOM.uniform(0, 1, (12, 2)).astype("float32")
        boxes = np.concatenate([corners, corners + 0.4], 1)
        scores = RANDOM.uniform(0, 1, 12).astype("float32")
        at, values = self.tf.image.non_max_suppression_with_scores(
            boxes, scores, 8, 0.6, 0.2, sigma
        )
        found = ops.soft_nms(boxes, scores, 8, overlap=0.6, least=0.2, sigma=sigma)
        count = int(found[2])
        assert found[0][:count].tolist() == at.numpy().tolist()
        close(found[1][:count], values, 1e-5)

    @pytest.mark.parametrize("reduction", ["sum", "mean", "prod", "max", "min"])
    def test_segments(self, reduction):
        x, at = normal(6, 2), np.array([2, 0, 2, 4, 0, 0])
        function = getattr(self.tf.math, f"unsorted_segment_{reduction}")
        rows = [0, 2, 4]  # what an empty segment holds differs
        found = ops.segment_reduce(x, at, 5, reduction=reduction)
        close(found[rows], function(x, at, 5).numpy()[rows])

    def test_counts(self):
        x = np.array([-1.0, 0, 0.3, 2.2, 5, 9, 10])
        expected = self.tf.histogram_fixed_width(x, (0.0, 5.0), 5)
        found = ops.histogram(x, np.asarray(0.0), np.asarray(5.0), 5)
        close(found, expected)
        scores, targets = normal(4, 6).astype("float32"), np.array([0, 3, 5, 2])
        for k in (1, 3):
            expected = self.tf.math.in_top_k(targets, scores, k)
            found = ops.in_top_k(scores, targets, np.asarray(k))
            assert found.tolist() == expected.numpy().tolist()

    def test_reverse_sequence(self):
        x, n = normal(3, 5, 2), np.array([0, 5, 2])
        expected = self.tf.reverse_sequence(x, n, 1, 0)
        close(ops.reverse_sequence(x, n, time_axis=1, batch_axis=0), expected)


def test_dynamic_slices_are_clamped():
    lax = pytest.importorskip("jax.lax", reason="compared with JAX")
    x, update = normal(4, 5), normal(2, 3)
    for numbers in itertools.product((-7, -2, 0, 3, 9), repeat=2):
        at = np.array(numbers)
        single = np.asarray(x, "float32")
        close(ops.dynamic_slice(single, at, (2, 3)),
              lax.dynamic_slice(single, numbers, (2, 3)))  # fmt: skip
        part = update.astype("float32")
        close(ops.dynamic_update_slice(single, part, at),
              lax.dynamic_update_slice(single, part, numbers))  # fmt: skip
