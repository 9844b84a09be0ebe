"""Ops of the hub as programs of PyTorch, which it loads and runs.

Each sample passes against the value that it expects, which is from an oracle.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amanda
from amanda.errors import AmandaError, ConversionError
from amanda.types import DType
from amanda_std.ops import OPS

torch = pytest.importorskip("torch")

sys.path.insert(0, str(Path(__file__).parents[1] / "backend"))

from test_samples import (  # noqa: E402
    expect_close,
    expected_of,
    graph_of,
    is_of_numbers,
    samples_of,
)
from torch.utils._pytree import tree_leaves  # noqa: E402

CONTAINERS = "PyTorch has no sequences, optionals and tuples as values"
STATE = "PyTorch has no such effect"
DECLINED = {
    **dict.fromkeys(
        ("optional", "has_element", "get_element", "sequence_construct",
         "sequence_empty", "sequence_at", "sequence_insert", "sequence_erase",
         "sequence_length", "split_to_sequence", "concat_from_sequence",
         "sequence_map", "tuple_make", "tuple_push", "tuple_get"), CONTAINERS),
    **dict.fromkeys(("print", "probe", "assert", "host_callback"), STATE),
    **dict.fromkeys(("expi", "dawsn", "spence", "fresnel_cos", "fresnel_sin",
                     "betainc"), "PyTorch has no such special function"),
    **dict.fromkeys(("nms", "soft_nms"), "PyTorch has no such op; torchvision has"),
    "decode_image": "PyTorch has no such op; torchvision has",
    "ctc_beam_search": "PyTorch has no such op; torchaudio has",
}  # fmt: skip
"""Ops that no program of PyTorch has, and why."""


ROUNDED_OTHERWISE = {
    "dynamic_quantize": "PyTorch multiplies by the reciprocal of the scale: a value "
    "that is halfway between two integers becomes the other one",
}  # fmt: skip
"""Ops whose integers may differ by one, and why."""

import_module("torch.ao.quantization.fx._decomposed")  # registers its ops for loading


def load_in_torch(graph: amanda.Graph, path: Path) -> Any:
    """A graph, written as a file and loaded by PyTorch: a function that returns its
    results in a list."""
    amanda.save(amanda.convert(graph, "torch@2.13"), path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = torch.export.load(path).module()
    return lambda *feeds: tree_leaves(module(*feeds))


def as_tensor(array: np.ndarray) -> Any:
    """A tensor; NumPy has not all element types of PyTorch."""
    if array.dtype.kind != "V" and array.dtype.name != "bfloat16":
        return torch.from_numpy(np.array(array))
    bits = np.array(array).view({2: "int16", 1: "uint8"}[array.dtype.itemsize])
    return torch.from_numpy(bits).view(getattr(torch, array.dtype.name))


def check(name: str, sample: Any, path: Path, way: str = "known") -> str:
    from amanda_torch.backend.arrays import to_numpy

    if not is_of_numbers(OPS[name], sample):
        return "no numbers"
    graph, feeds = graph_of(OPS[name], sample, way)
    try:
        module = load_in_torch(graph, path)
    except ConversionError:
        if name in DECLINED:
            return "declined"
        raise
    with torch.no_grad():
        results = module(*map(as_tensor, feeds))
    for got, wanted in zip(results, expected_of(sample), strict=True):
        tolerance = 1 / 25 if name in ROUNDED_OTHERWISE else sample.tolerance or 0
        expect_close(to_numpy(got), wanted, tolerance)
    return "passed"


def outcomes(
    names: Iterator[str] | list[str], most: int | None, path: Path, way: str = "known"
) -> tuple[Counter[str], list[str]]:
    """The counts of outcomes, and a line for each failure."""
    counts: Counter[str] = Counter()
    lines = []
    logging.disable(logging.CRITICAL)
    for name in names:
        for sample in islice(samples_of(name), most):
            try:
                counts[check(name, sample, path, way)] += 1
            except (AmandaError, AssertionError, RuntimeError) as error:
                counts["failed"] += 1
                dtypes = [f"{getattr(a, 'dtype', a)}"[:40] for a in sample.args]
                text = " ".join(str(error).split())[:300]
                lines.append(f"{name} {dtypes} {sample.attrs}: {text}")
    logging.disable(logging.NOTSET)
    return counts, lines


@pytest.mark.most_cases(1)
@pytest.mark.parametrize("part", range(4))
def test_first_samples_of_all_ops(part, tmp_path):
    counts, failures = outcomes(list(OPS)[part::4], 1, tmp_path / "op.pt2")
    assert failures == []
    assert counts["passed"] > 80


@pytest.mark.scale
@pytest.mark.parametrize("part", range(4))
def test_all_samples_of_all_ops(part, tmp_path):
    counts, failures = outcomes(list(OPS)[part::4], None, tmp_path / "op.pt2")
    assert failures == []
    assert counts["passed"] > 500


@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
def test_extrema_of_unsigned_integers(dtype, tmp_path):
    """PyTorch has no kernels of `maximum` and `minimum` for them."""
    from amanda_std import ops, trace

    types = [amanda.parse_type(f"{dtype}[3]")] * 2
    graph = trace(lambda a, b: (ops.maximum(a, b), ops.minimum(a, b)), types)
    a, b = np.array([1, 2**16 - 1, 7], dtype), np.array([2**15, 3, 7], dtype)
    results = load_in_torch(graph, tmp_path / "m.pt2")(*map(as_tensor, (a, b)))
    np.testing.assert_array_equal(results[0], np.maximum(a, b))
    np.testing.assert_array_equal(results[1], np.minimum(a, b))


@pytest.mark.parametrize("k", [-2, 0, 1])
def test_identity_matrices_of_symbolic_sizes(k, tmp_path):
    from amanda_std import ops, trace

    def function(x):
        rows, columns = ops.dim(x, axis=0), ops.dim(x, axis=1)
        return x + ops.eye(rows, columns, k=k, dtype=DType("float32"))

    graph = trace(function, [amanda.parse_type("float32[n, m]")])
    module = load_in_torch(graph, tmp_path / "m.pt2")
    for shape in ((3, 5), (4, 4), (6, 2)):
        x = torch.rand(shape)
        [y] = module(x)
        np.testing.assert_array_equal(y, x.numpy() + np.eye(*shape, k, "float32"))


def test_random_numbers_from_the_generator(tmp_path):
    """Other ones in each call, and the same ones after `manual_seed`."""
    from amanda_std import ops, trace

    def function():
        return ops.random_uniform(ops.next_random_key(), [1000], dtype=DType("float32"))

    module = load_in_torch(trace(function, []), tmp_path / "m.pt2")
    torch.manual_seed(5)
    (first,), (second,) = module(), module()
    torch.manual_seed(5)
    (again,) = module()
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    assert float(first.min()) >= 0
    assert float(first.max()) < 1
    assert abs(float(first.mean()) - 0.5) < 5 * (1 / 12 / 1000) ** 0.5


if __name__ == "__main__":
    way, most, *rest = [*sys.argv[1:], "known", "0"][:2] + sys.argv[3:]
    found, failures = outcomes(
        rest or list(OPS), int(most) or None, Path("/tmp/op.pt2"), way
    )
    print(*failures, found, sep="\n")
