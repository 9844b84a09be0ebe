"""Checks that the tests of several native libraries share."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable
from importlib.metadata import Distribution, entry_points
from pathlib import Path

import numpy as np
import pytest
from models.architectures import export
from native_libraries import COMPILER, SANITIZERS, build_folder, run_compiler

import amanda
from amanda.testing import BackendSample

LIMIT = "-DMAX_ELEMENTS=((int64_t)1<<20)"
"""So that a shape of a mutant does not take seconds to fill."""
ROUNDS = max(int(os.environ.get("AMANDA_FUZZ_ROUNDS", "0")), 10_000)
"""10,000 take two seconds on the reference backend."""
TAKEN = [
    "abs", "add", "all", "any", "arange", "argmax", "astype", "avg_pool",
    "broadcast_to", "ceil", "clip", "concat", "conv", "cos", "dim", "divide",
    "equal", "erf", "exp", "expand_dims", "expm1", "flip", "floor", "floor_divide",
    "full", "gather", "gather_elements", "greater", "greater_equal", "identity",
    "isnan", "less", "less_equal", "log", "log1p", "logical_and", "logical_not",
    "logical_or", "matmul", "max", "max_pool", "maximum", "min", "minimum",
    "multiply", "negative", "not_equal", "pad", "pow", "prod", "reciprocal",
    "remainder", "reshape", "round", "rsqrt", "shape_of", "sigmoid", "sign", "sin",
    "size", "slice", "split", "sqrt", "square", "squeeze", "stack", "subtract",
    "sum", "tanh", "transpose", "where",
]  # fmt: skip
"""The ops of the reference library: all are primitives."""


def elements_sample() -> BackendSample:
    """A sample of `gather_elements` in a dtype that the library has."""
    numbers = np.arange(24, dtype="float32").reshape(2, 3, 4)
    indices = np.array([[[2, -1], [0, 1]], [[1, 1], [-3, 0]]])
    graph = amanda.Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type("float32[2, 3, 4]"), "x")
    i = graph.parameter(amanda.parse_type("int64[2, 2, 2]"), "i")
    graph.result(graph.add("gather_elements", [x, i], {"axis": -2}).output)
    expected = np.take_along_axis(numbers[:, :, :2], indices, 1)
    return BackendSample(graph, [numbers, indices], [expected])


def library_backends() -> list[str]:
    """The installed backends of distributions that contain a library."""
    points = entry_points(group="amanda.backends")
    return [p.name for p in points if p.dist and _requires_native(p.dist)]


def _requires_native(dist: Distribution) -> bool:
    return any(re.match(r"amanda-native\b", need) for need in dist.requires or ())


def assert_run_as_on_numpy(
    name: str,
    folder: Path,
    backends: Iterable[str],
    *,
    small: bool,
    dynamic: bool = False,
) -> None:
    """A network that PyTorch exports has the results of numpy, up to rounding."""
    for module in ("amanda_onnx", "onnxscript", "transformers"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    model = export(name, folder, small=small, dynamic=dynamic)
    graph = amanda.load(model.path)
    expected = amanda.run(graph, model.feeds, backend="numpy")
    for backend in backends:
        found = amanda.run(graph, model.feeds, backend=backend)
        assert found.keys() == expected.keys()
        for key, wanted in expected.items():
            atol = 1e-5 * np.abs(wanted).max()
            np.testing.assert_allclose(found[key], wanted, 0, atol, err_msg=backend)


def run_driver(driver: Path, texts: Iterable[str]) -> list[int]:
    """How many graphs were tried, compiled, and run; no sanitizer reports anything."""
    data = [text.encode("utf-8", "surrogateescape") for text in texts]
    stream = b"".join(b"%d\n%s" % (len(each), each) for each in data)
    done = subprocess.run([str(driver)], input=stream, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")[-4000:]
    assert done.stderr == b""
    return [int(number) for number in done.stdout.split()]


def skip_without_sanitizers() -> None:
    """Skip the test where the compiler, which compiles a program, has no sanitizers."""
    folder = Path(build_folder().name)
    target, source = folder / "without_faults", folder / "without_faults.c"
    source.write_text("int main(void) { return 0; }\n")
    run_compiler("-o", str(target), str(source))
    command = [str(COMPILER), *SANITIZERS, "-o", str(target), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or subprocess.run([str(target)], check=False).returncode:
        pytest.skip(f"the compiler has no sanitizers: {done.stderr.strip()[:200]}")
