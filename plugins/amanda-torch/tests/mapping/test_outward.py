"""Ops of the hub as programs of PyTorch, which it loads and runs.

Each sample passes against the value that it expects, which is from an oracle.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amanda
from amanda.errors import AmandaError, ConversionError
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

CONTAINERS = "PyTorch has no sequences, optionals and tuples as values"
STATE = "PyTorch has no such effect"
DECLINED = {
    **dict.fromkeys(
        ("optional", "has_element", "get_element", "sequence_construct",
         "sequence_empty", "sequence_at", "sequence_insert", "sequence_erase",
         "sequence_length", "split_to_sequence", "concat_from_sequence",
         "sequence_map", "tuple_make", "tuple_push", "tuple_get"), CONTAINERS),
    **dict.fromkeys(
        ("print", "probe", "assert", "host_callback", "next_random_key"), STATE),
    **dict.fromkeys(("expi", "dawsn", "spence", "fresnel_cos", "fresnel_sin",
                     "betainc"), "PyTorch has no such special function"),
    **dict.fromkeys(("nms", "soft_nms"), "PyTorch has no such op; torchvision has"),
    "decode_image": "PyTorch has no such op; torchvision has",
}  # fmt: skip
"""Ops that no program of PyTorch has, and why."""


def load_in_torch(graph: amanda.Graph, path: Path) -> Any:
    """The module of a graph, written as a file and loaded by PyTorch."""
    amanda.save(amanda.convert(graph, "torch@2.13"), path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.export.load(path).module()


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
        expect_close(to_numpy(got), wanted, sample.tolerance or 0)
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


def test_first_samples_of_all_ops(tmp_path):
    counts, failures = outcomes(list(OPS), 1, tmp_path / "op.pt2")
    assert failures == []
    assert counts["passed"] > 350


if __name__ == "__main__":
    way, most, *rest = [*sys.argv[1:], "known", "0"][:2] + sys.argv[3:]
    found, failures = outcomes(
        rest or list(OPS), int(most) or None, Path("/tmp/op.pt2"), way
    )
    print(*failures, found, sep="\n")
