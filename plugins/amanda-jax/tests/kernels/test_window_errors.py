"""With `precision="highest"` every optimization step keeps results in their windows.

A result is the same to the last bit whatever the elements outside its window, or its
row, are: huge, infinite, or no number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import amanda
from amanda.types import parse_type
from amanda_jax.cpu_tuning.steps import STEPS
from amanda_std import ops, trace

pytestmark = pytest.mark.usefixtures("without_onednn")


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape, "float32")


def padded(n: int) -> tuple[tuple[int, int], ...]:
    return ((n, n), (n, n))


class Case(NamedTuple):
    """An op of one array; the largest distance at which elements belong to a window."""

    step: str
    """The step that changes this program; empty: a step for another option."""
    cores: int
    shape: tuple[int, ...]
    op: Callable[[Any], Any]
    axes: tuple[int, ...]
    """The axes of the data along which a result has a window, or an index."""
    reach: int
    stride: int = 1


K33, K_SCALE = random(40, 32, 3, 3) / 17, np.abs(random(1, 40, 1, 1)) + 0.5
K77, K11, K_ONE = random(40, 3, 7, 7) / 17, random(40, 32, 1, 1), random(40, 1, 3, 3)
K128 = random(128, 128, 3, 3) / 34
WIDE = random(1024, 2048) / 32

CASES = {
    "Winograd": Case("tiles", 2, (1, 32, 26, 27), lambda x: ops.conv(
        x, K33, padding=padded(1)), (2, 3), 1),
    "Winograd, one core": Case("tiles", 1, (1, 32, 26, 27), lambda x: ops.conv(
        x, K33, padding=padded(1)), (2, 3), 1),
    "Winograd, large": Case("tiles", 2, (2, 32, 64, 60), lambda x: ops.conv(
        x, K33, padding=padded(1)), (0, 2, 3), 1),
    "pairs of rows": Case("pairs", 2, (1, 128, 16, 14), lambda x: ops.conv(
        x, K128, padding=padded(1)), (2, 3), 1),
    "scaled": Case("norms", 2, (1, 32, 24, 24), lambda x: ops.multiply(ops.conv(
        x, K33, padding=padded(1)), K_SCALE), (2, 3), 1),
    "pointwise": Case("pointwise", 2, (1, 32, 24, 24), lambda x: ops.conv(
        x, K11), (2, 3), 0),
    "outputs first": Case("transposed", 2, (1, 32, 24, 24), lambda x: ops.conv(
        x, K11), (2, 3), 0),
    "im2col": Case("columns", 2, (1, 32, 12, 12), lambda x: ops.conv(
        x, K33, strides=(2, 2)), (2, 3), 2, 2),
    "parts": Case("parts", 2, (1, 3, 110, 111), lambda x: ops.conv(
        x, K77, padding=padded(3), strides=(2, 2)), (2, 3), 3, 2),
    "layout": Case("layout", 2, (1, 40, 24, 24), lambda x: ops.conv(
        x, K_ONE, padding=padded(1), groups=40), (1, 2, 3), 1),
    "maximum": Case("windows", 2, (1, 8, 24, 24), lambda x: ops.max_pool(
        x, window=(3, 3), strides=(1, 1), padding=padded(1)), (1, 2, 3), 1),
    "average": Case("windows", 2, (1, 8, 24, 24), lambda x: ops.avg_pool(
        x, window=(2, 2), strides=(2, 2)), (1, 2, 3), 1, 2),
    "large average": Case("", 2, (1, 8, 48, 48), lambda x: ops.avg_pool(
        x, window=(7, 7), strides=(1, 1), padding=padded(3)), (1, 2, 3), 3),
    "few rows": Case("weights", 2, (32, 1024), lambda x: ops.matmul(
        x, WIDE), (0,), 0),
    "many rows": Case("", 2, (200, 1024), lambda x: ops.matmul(x, WIDE), (0,), 0),
    "many rows, one core": Case("products", 1, (200, 1024), lambda x: ops.matmul(
        x, WIDE), (0,), 0),
}  # fmt: skip


@pytest.mark.most_cases(3)
@pytest.mark.parametrize("name", CASES)
def test_elements_outside_the_window_change_nothing(name, monkeypatch):
    case = CASES[name]
    monkeypatch.setattr("amanda_jax.cpu_tuning.cores.core_count", lambda: case.cores)
    text = ", ".join(map(str, case.shape))
    graph = trace(case.op, [parse_type(f"float32[{text}]")], names=["x"])
    compiled = amanda.compile(graph, "jax", precision="highest")
    x = random(*case.shape)
    [wanted] = compiled([x]).values()
    for axis in case.axes:
        for end in (case.shape[axis] // 2, case.shape[axis] // 2 - 1):
            for value in (1e4, -1e9, np.inf, np.nan):
                changed = x.copy()
                rows = changed.swapaxes(0, axis)[:end]
                rows[(slice(None), *(0,) * (axis > 1))] = value
                [got] = compiled([changed]).values()
                first = -(-(end + _far(case, axis)) // _stride(case, axis))
                far = np.s_[first:]
                np.testing.assert_array_equal(
                    got.swapaxes(0, axis)[far], wanted.swapaxes(0, axis)[far]
                )


def _far(case: Case, axis: int) -> int:
    """The distance from which an element is in no window."""
    return case.reach if axis > 1 else 0


def _stride(case: Case, axis: int) -> int:
    return case.stride if axis > 1 else 1


def program_text(compiled: Any) -> str:
    function, arguments = compiled.executable._code.last_call()
    return str(function.lower(*arguments).as_text())


def test_every_step_for_convolutions_pooling_and_products_has_a_case():
    """Each case acts on the program, or its weights, that its step is for."""
    acting = {
        step.name
        for step in STEPS
        if step.platform == "cpu"
        and step.is_available is None  # tested where what they need is tested
        and "highest" in (step.precisions or ["highest"])
    }
    assert acting == {case.step for case in CASES.values()} - {"", "norms", "pointwise"}


@pytest.mark.most_cases(3)
@pytest.mark.parametrize("name", [n for n, case in CASES.items() if case.step])
def test_its_step_changes_the_program(name, monkeypatch):
    case = CASES[name]
    monkeypatch.setattr("amanda_jax.cpu_tuning.cores.core_count", lambda: case.cores)
    text = ", ".join(map(str, case.shape))
    graph = trace(case.op, [parse_type(f"float32[{text}]")], names=["x"])
    programs = []
    for without in ("", case.step):
        compiled = amanda.compile(graph, "jax", without=without)
        compiled([random(*case.shape)])
        options = compiled.executable._build.settings.compiler_options
        programs.append((program_text(compiled), options))
    assert programs[0] != programs[1]
