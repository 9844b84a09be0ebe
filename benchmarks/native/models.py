"""Inference on the backend `onednn` compared with onnxruntime.

    python benchmarks/native/models.py [NAME ...] [--folder F] [--rounds N]

ResNet-50, BERT-base (128 tokens), ViT-B and GPT-2 (64 tokens) with batch size 1,
exported by PyTorch with random weights; F caches the exports. Both contenders run in
one process on all cores, in turns of a few calls, and the best time of each counts;
results are compared with PyTorch's first. Exits with 1 if a ratio of `LIMITS` is
missed. Threads of OpenMP wait without spinning, unless OMP_WAIT_POLICY says otherwise:
other load on the machine would stop those that spin. Needs torch, transformers,
onnxruntime and amanda-onednn.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
sys.path = [each for each in sys.path if Path(each) != HERE]
"""Without this folder: `models` is a folder of tests, not this file."""
sys.path[:0] = [str(ROOT / part) for part in ("tests", "benchmarks")]

NATIVE, ORT = "amanda on oneDNN", "onnxruntime"
Call = Callable[[], Any]

LIMITS = {"ResNet-50": 1.10, "BERT-base": 1.10}
"""Maximum time of the backend relative to onnxruntime's."""
MODELS = ("ResNet-50", "BERT-base", "ViT-B", "GPT-2")
TOLERANCE = 1e-4


def native_call(path: Path, x: Any, expected: Any) -> Call:
    """The call of the backend, once its results are found right."""
    import numpy as np

    import amanda

    compiled = amanda.compile(amanda.load(path), backend="onednn")
    first = next(iter(compiled([x]).values()))
    scale = float(abs(expected).max())
    np.testing.assert_allclose(first, expected, rtol=0, atol=TOLERANCE * scale)
    return partial(compiled, [x])


def measure(name: str, folder: Path, rounds: int) -> bool:
    """Print the times of a model; return whether its limit is met."""
    models = import_module("run_models")
    path, x, expected = models.export_cached(name, folder)
    calls: dict[str, Call] = {
        NATIVE: native_call(path, x, expected),
        ORT: models._onnxruntime_call(path, x),
    }
    times = models.best_times(calls, rounds)
    ratio = times[NATIVE][0] / times[ORT][0]
    limit = LIMITS.get(name)
    missed = limit is not None and ratio > limit
    verdict = "" if limit is None else f" limit {limit}: {'MISSED' if missed else 'ok'}"
    milliseconds = ", ".join(
        f"{k} {wall * 1e3:.1f} ms" for k, (wall, _) in times.items()
    )
    print(f"{name:10} {milliseconds}: {ratio:.2f}x{verdict}", flush=True)
    return not missed


def missing_parts() -> list[str]:
    is_installed = import_module("run_models").is_installed
    names = ("torch", "transformers", "onnxscript", "onnxruntime", "amanda_onednn")
    return [f"{name} is not installed" for name in names if not is_installed(name)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", default=MODELS)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--rounds", type=int, default=20)
    args = parser.parse_args()
    if unknown := [name for name in args.names if name not in MODELS]:
        parser.error(f"no model {', '.join(unknown)}; available: {', '.join(MODELS)}")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read when it is loaded
    if reasons := missing_parts():
        print(f"skipped: {'; '.join(reasons)}")
        return 0
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory(prefix="amanda-native-models-") as scratch:
        folder = args.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        fine = [measure(name, folder, args.rounds) for name in args.names]
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
