"""Ops of which data decides the size: made at the most, cut on the host.

Against numpy and loops; each size is met twice, as programs are kept.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from amanda.errors import UsageError
from amanda.types import DType
from amanda_jax.kernels.dynamic_shapes import KERNELS

TYPES = ["bool", "uint64", "bfloat16", "complex64"]


def call(name: str, *args: Any, **attrs: Any) -> Any:
    with jax.enable_x64(True):
        given = [a if a is None else jnp.asarray(a) for a in args]
        made = KERNELS[name](*given, **attrs)
        return [*map(np.asarray, made)] if isinstance(made, tuple) else np.asarray(made)


def expect(got: np.ndarray, wanted: np.ndarray) -> None:
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_array_equal(got, wanted)


def digits(*shape: int, dtype: str = "int64", most: int = 3) -> np.ndarray:
    drawn = np.random.default_rng(0).integers(0, most, shape)
    return drawn.astype(DType(dtype).numpy)


class TestNonzero:
    @pytest.mark.most_cases(6)
    @pytest.mark.parametrize("dtype", TYPES)
    @pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 3, 2), (1, 1), ()])
    def test_as_numpy(self, shape, dtype):
        for most in (3, 1):
            x = digits(*shape, dtype=dtype, most=most)
            wanted = np.stack(np.nonzero(np.atleast_1d(x)))[: x.ndim]
            expect(call("nonzero", x), wanted)

    def test_a_number_on_its_own_is_there_or_not(self):
        """It has no place, so places have no row; the count is told by the columns."""
        for number, count in ((5.0, 1), (0.0, 0)):
            assert call("nonzero", number).shape == (0, count)

    def test_what_is_no_number_and_the_other_zero(self):
        x = np.array([0.0, -0.0, np.nan, np.inf])
        expect(call("nonzero", x), np.array([[2, 3]]))

    @pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3)])
    def test_nothing(self, shape):
        expect(call("nonzero", np.zeros(shape)), np.zeros((len(shape), 0), "int64"))


class TestCompress:
    @pytest.mark.most_cases(6)
    @pytest.mark.parametrize("dtype", TYPES)
    @pytest.mark.parametrize("axis", [None, 0, 1, -1])
    def test_as_numpy(self, axis, dtype):
        x = digits(3, 4, 3, dtype=dtype, most=9)
        for row in ([0, 1, 1], [0, 0, 0], [1, 1, 1], [1, 0]):
            flags = np.array(row, bool)
            wanted = np.compress(flags, x, axis)
            expect(call("compress", x, flags, axis=axis), wanted)

    def test_of_more_flags_those_beyond_must_be_off(self):
        x = np.arange(2.0)
        got = call("compress", x, np.array([True, True, False]), axis=0)
        expect(got, x)
        for flags in ([True, True, True], [False, False, False, True]):
            with pytest.raises(UsageError, match=r"compress.*beyond the end"):
                call("compress", x, np.array(flags), axis=None)

    def test_flags_in_a_block(self):
        flags = np.array([[True], [False], [True]])
        expect(call("compress", np.arange(3), flags, axis=None), np.array([0, 2]))

    def test_nothing(self):
        none = np.zeros((0, 2))
        expect(call("compress", none, np.array([True]), axis=1), none[:, :1])
        expect(call("compress", np.ones(2), np.zeros(0, bool), axis=0), none[:, 0])


def apart(x: np.ndarray, axis: int | None, in_order: bool) -> list[np.ndarray]:
    """Parts as tuples, one by one: each where it is met first."""
    parts = x.reshape(-1, 1) if axis is None else np.moveaxis(x, axis, 0)
    rows = [tuple(part.reshape(-1).tolist()) for part in parts]
    found = list(dict.fromkeys(rows))
    found = sorted(found) if in_order else found
    first = [rows.index(row) for row in found]
    values = x.reshape(-1)[first] if axis is None else np.take(x, np.array(first), axis)
    inverse, counts = [found.index(r) for r in rows], [rows.count(r) for r in found]
    return [values, *(np.array(each, "int64") for each in (first, inverse, counts))]


class TestUnique:
    @pytest.mark.most_cases(3)
    @pytest.mark.parametrize("dtype", ["int64", "float16"])
    @pytest.mark.parametrize("in_order", [True, False])
    @pytest.mark.parametrize(
        ("shape", "axis"),
        [((8,), None), ((3, 4), None), ((7, 2), 0), ((2, 7), -1), ((2, 6, 2), 1)],
    )  # fmt: skip
    def test_one_by_one(self, shape, axis, in_order, dtype):
        for most in (2, 3):
            x = digits(*shape, dtype=dtype, most=most)
            got = call("unique", x, axis=axis, sorted=in_order)
            for have, want in zip(got, apart(x, axis, in_order), strict=True):
                expect(have, want)

    def test_an_order_that_is_not_its_own_inverse(self):
        x = np.array([7, 9, 8, 7, 5, 9])
        values, first, inverse, counts = call("unique", x, axis=None, sorted=False)
        expect(values, np.array([7, 9, 8, 5]))
        expect(first, np.array([0, 1, 2, 4]))
        expect(values[inverse], x)
        expect(counts, np.array([2, 2, 1, 1]))

    def test_what_is_no_number_is_there_once(self):
        x = np.array([np.nan, 1, np.nan, np.inf])
        values, first, inverse, counts = call("unique", x, axis=None, sorted=True)
        np.testing.assert_array_equal(values, [1, np.inf, np.nan])
        assert [first.tolist(), counts.tolist()] == [[1, 3, 0], [1, 1, 2]]
        assert inverse.tolist() == [2, 0, 2, 1]

    def test_nothing(self):
        for part in call("unique", np.zeros(0), axis=None, sorted=True):
            assert part.shape == (0,)


def area(box: list[float]) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def shared(a: list[float], b: list[float]) -> float:
    """What two boxes have in common, of what they cover together."""
    wide = min(a[2], b[2]) - max(a[0], b[0])
    high = min(a[3], b[3]) - max(a[1], b[1])
    if wide <= 0 or high <= 0:
        return 0.0
    return wide * high / (area(a) + area(b) - wide * high)


def best(boxes: Any, scores: Any, limit: int, share: float, least: float) -> list[int]:
    order = sorted(range(len(boxes)), key=lambda i: -scores[i])
    kept: list[int] = []
    for i in order:
        if scores[i] <= least or len(kept) >= limit:
            continue
        if all(shared(boxes[i], boxes[j]) <= share for j in kept):
            kept.append(i)
    return kept


class TestBoxes:
    """Middles and sizes are drawn; corners are given in any order."""

    MIDDLES = np.random.default_rng(3).uniform(0, 4, (2, 9, 2)).round(2)
    SIZES = np.random.default_rng(4).uniform(0.5, 3, (2, 9, 2)).round(2)
    SCORES = np.random.default_rng(5).uniform(-1, 1, (2, 3, 9)).round(1)

    def wanted(self, limit: int, share: float, least: float) -> np.ndarray:
        low, high = self.MIDDLES - self.SIZES / 2, self.MIDDLES + self.SIZES / 2
        corners = np.concatenate([low, high], -1).tolist()
        rows = [
            (b, c, i)
            for b in range(2)
            for c in range(3)
            for i in best(corners[b], self.SCORES[b, c].tolist(), limit, share, least)
        ]
        return np.array(rows, "int64").reshape(-1, 3)

    @pytest.mark.most_cases(3)
    @pytest.mark.parametrize("centered", [True, False])
    @pytest.mark.parametrize(
        ("limit", "share", "least"),
        [(None, None, None), (2, None, None), (None, 0.1, None), (None, None, 0.2),
         (0, 0.4, 0.2), (1, 0.4, 0.2), (3, 0.4, 0.2), (20, 1.0, 0.2), (3, 0.1, 5.0)],
    )  # fmt: skip
    def test_one_by_one(self, least, share, limit, centered):
        if centered:
            boxes = np.concatenate([self.MIDDLES, self.SIZES], -1)
        else:
            low, high = self.MIDDLES - self.SIZES / 2, self.MIDDLES + self.SIZES / 2
            turned = np.arange(9)[:, None] % np.array([2, 3]) == 0
            ends = np.where(turned, high, low), np.where(turned, low, high)
            boxes = np.concatenate(ends, -1)
        told = [
            None if limit is None else np.array([limit]),
            None if share is None else np.array(share),
            None if least is None else np.array([least]),
        ]
        got = call("nms", boxes, self.SCORES, *told, centered=centered)
        given = (limit, 9), (share, 0.0), (least, -np.inf)
        expect(got, self.wanted(*(b if a is None else a for a, b in given)))

    def test_boxes_without_a_size_cover_nothing(self):
        boxes = np.array([[[1.0, 1, 1, 3], [1, 1, 1, 3], [0, 0, 4, 4], [2, 2, 2, 2]]])
        got = call("nms", boxes, np.array([[[0.9, 0.8, 0.7, 0.6]]]), centered=False)
        expect(got, np.array([[0, 0, i] for i in range(4)]))

    def test_of_equal_ones_the_first_stays(self):
        boxes = np.array([[[0.0, 0, 2, 2]] * 3])
        got = call("nms", boxes, np.ones((1, 1, 3)), centered=False)
        expect(got, np.array([[0, 0, 0]]))

    def test_just_as_much_as_is_allowed_stays(self):
        """Two squares of 2 that share a half of each: a third of what they cover."""
        boxes = np.array([[[0.0, 0, 2, 2], [0, 1, 2, 3]]])
        for share, count in ((2 / 6, 2), (0.333, 1), (0.334, 2)):
            got = call(
                "nms", boxes, np.array([[[2.0, 1.0]]]), None, np.array(share),
                centered=False,
            )  # fmt: skip
            assert len(got) == count

    def test_nothing(self):
        got = call("nms", np.zeros((1, 0, 4)), np.zeros((1, 2, 0)), centered=False)
        expect(got, np.zeros((0, 3), "int64"))
