"""Inference on the backend `jax` compared with onnxruntime, PyTorch and plain JAX.

    python benchmarks/run_models.py [NAME ...] [--folder F] [--rounds N] [--steps]
                                    [--one-core]

ResNet-50, BERT-base (128 tokens), ViT-B and GPT-2 (64 tokens) with batch size 1,
exported by PyTorch with random weights; F caches the exports. Each model runs in its
own process, where the contenders alternate; the best time of each counts. Other load on
the machine slows all of them, though not equally, so CPU times are printed as well;
with `--one-core` all run in one thread on one core, and the limits apply to CPU time.
`--steps` disables each CPU optimization in turn. Where JAX has a GPU, that is used, and
compared with hand-written JAX only. Exits with 1 if a limit is missed. Needs torch,
transformers and onnxruntime.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]

MODELS = ("ResNet-50", "BERT-base", "ViT-B", "GPT-2")
JAX, ORT, HAND, TORCH = "amanda on jax", "onnxruntime", "hand-written JAX", "torch"
LIMITS = {
    ("ResNet-50", ORT): 1.20,
    ("ResNet-50", HAND): 0.35,
    ("BERT-base", ORT): 1.05,
    ("BERT-base", HAND): 1.0,
    ("ViT-B", ORT): 1.05,
    ("GPT-2", ORT): 1.10,
}
"""Maximum time of `amanda on jax` relative to that of another, on a CPU."""
GPU_LIMIT = 1.05
"""The same on a GPU, relative to the fastest hand-written JAX implementation."""
MEMORY = {"ResNet-50": 1.75, "BERT-base": 1.3, "ViT-B": 1.3, "GPT-2": 1.3}
"""Maximum memory beyond the imports, relative to the size of the weights."""
BURST = 3
"""Consecutive calls: threads of the previous contender may still spin in the first."""

Call = Callable[[], Any]


def export_cached(name: str, folder: Path) -> tuple[Path, Any, Any]:
    """Return the file of a model, its input, and the output of PyTorch."""
    import numpy as np

    cache = folder / f"{name}.npz"
    if not cache.exists():
        from models.architectures import export

        exported = export(name, folder, small=False, batch=1)
        np.savez(cache, x=exported.feeds["x"], y=exported.expected[0])
    arrays = np.load(cache)
    return folder / f"{name}.onnx", arrays["x"], arrays["y"]


def build_calls(name: str, folder: Path, steps: bool) -> dict[str, Call]:
    """Return a call for each contender, with numpy arrays in and out."""
    path, x, expected = export_cached(name, folder)
    calls: dict[str, Call] = {JAX: _jax_call(path, x, expected)}
    if steps:
        from amanda_jax.cpu_tuning.steps import STEPS

        for step in (each.name for each in STEPS):
            calls[f"{JAX}, without {step}"] = _jax_call(path, x, expected, without=step)
    if is_on_cpu() and is_installed("onnxruntime"):
        calls[ORT] = _onnxruntime_call(path, x)
    from _hand_written import IMPLEMENTATIONS

    for suffix, factory in IMPLEMENTATIONS.get(name, {}).items():
        calls[HAND + suffix] = _hand_written_call(factory, x)
    if is_on_cpu() and is_installed("torch"):
        calls[TORCH] = _torch_call(name, x)
    return calls


def is_on_cpu() -> bool:
    """Return whether the default device of JAX is a CPU."""
    import jax

    return bool(jax.default_backend() == "cpu")


def is_installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def _jax_call(path: Path, x: Any, expected: Any, **options: Any) -> Call:
    import numpy as np

    import amanda

    graph = amanda.load(path)
    compiled = amanda.compile(graph, "jax", **options)
    start = time.perf_counter()
    first = next(iter(compiled([x]).values()))
    seconds = time.perf_counter() - start
    print(f"compiled in {seconds:.1f} s {options or ''}", file=sys.stderr)
    np.testing.assert_allclose(
        first, expected, rtol=1e-3, atol=1e-3 * abs(expected).max()
    )
    return lambda: compiled([x])


def _hand_written_call(factory: Callable[[], Any], x: Any) -> Call:
    import jax
    import numpy as np

    function, params = factory()
    jitted = jax.jit(function)
    return lambda: jax.tree.map(np.asarray, jitted(params, x))


def _onnxruntime_call(path: Path, x: Any) -> Call:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    cores = len(os.sched_getaffinity(0))
    options.intra_op_num_threads = cores
    session = onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"]
    )
    feeds = {session.get_inputs()[0].name: x}
    return lambda: session.run(None, feeds)


def _torch_call(name: str, x: Any) -> Call:
    import torch
    from models.architectures import build_network

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    module, inputs = build_network(name, small=False), torch.from_numpy(x)

    def call() -> Any:
        with torch.inference_mode():
            return [y.numpy() for y in module(inputs)]

    return call


def best_times(calls: dict[str, Call], rounds: int) -> dict[str, tuple[float, float]]:
    """Return the best wall time and the best CPU time of each."""
    for call in calls.values():
        call()
    best = dict.fromkeys(calls, (float("inf"), float("inf")))
    for _ in range(rounds):
        for name, call in calls.items():
            for _ in range(BURST):
                start, cpu_start = time.perf_counter(), time.process_time()
                call()
                wall, cpu = time.perf_counter() - start, time.process_time() - cpu_start
                best[name] = min(best[name][0], wall), min(best[name][1], cpu)
    return best


def measure_model(name: str, folder: Path, rounds: int, steps: bool) -> None:
    """Measure one model, in a process of its own."""
    warnings.simplefilter("ignore")
    times = best_times(build_calls(name, folder, steps), rounds)
    print(json.dumps({"times": times, "on_cpu": is_on_cpu()}))


def resident_bytes() -> int:
    """Return the resident memory of this process; on Linux only."""
    text = Path("/proc/self/statm").read_text(encoding="ascii")
    return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure_peak(name: str, folder: Path) -> None:
    """Print the peak memory of loading, compiling and one call, and of the weights."""
    import threading

    import numpy as np

    import amanda

    path, x, _ = export_cached(name, folder)
    small = amanda.load(path.with_name("small.onnx"))
    amanda.compile(small, "jax")([np.ones((1, 4), "float32")])  # triggers all imports
    before, highest, done = resident_bytes(), [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.003):
            highest[0] = max(highest[0], resident_bytes() - before)

    thread = threading.Thread(target=watch)
    thread.start()
    compiled = amanda.compile(amanda.load(path), "jax")
    compiled([x])
    done.set()
    thread.join()
    weights = compiled.executable.report().weight_bytes  # type: ignore[attr-defined]
    print(json.dumps({"peak": highest[0], "weights": weights}))


def write_small(folder: Path) -> None:
    """Write a model of one matmul, which triggers all imports before measuring."""
    import numpy as np

    import amanda
    from amanda.types import parse_type
    from amanda_std import ops, trace

    weight = np.ones((4, 4), "float32")
    graph = trace(lambda x: ops.matmul(x, weight), [parse_type("float32[1, 4]")])
    amanda.save(amanda.convert(graph, "onnx@18"), folder / "small.onnx")


def check_memory(name: str, folder: Path) -> bool:
    """Run `measure_peak` in its own process; print and check its result."""
    write_small(folder)
    line = [sys.executable, __file__, name, "--folder", str(folder), "--peak"]
    process = subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True)
    figures = json.loads(process.stdout.splitlines()[-1])
    ratio = figures["peak"] / figures["weights"]
    limit = MEMORY.get(name)
    missed = limit is not None and ratio > limit
    verdict = "" if limit is None else f" limit {limit}: {'MISSED' if missed else 'ok'}"
    print(f"{name:10} memory: {ratio:.2f}x the weights{verdict}", flush=True)
    return not missed


def run_in_process(name: str, args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Export a model in one new process and measure it in another."""
    line = [sys.executable, __file__, name, "--folder", str(folder), "--rounds"]
    line += [str(args.rounds), "--one", *["--steps"] * args.steps]
    cores = {min(os.sched_getaffinity(0))} if args.one_core else os.sched_getaffinity(0)
    export = (
        "import sys; from pathlib import Path; from run_models import export_cached; "
    )
    export += f"export_cached({name!r}, Path({str(folder)!r}))"
    path = os.pathsep.join([*sys.path[:2], os.environ.get("PYTHONPATH", "")])
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", export], check=True,
        env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    process = subprocess.run(
        line, check=True, stdout=subprocess.PIPE, text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )  # fmt: skip
    figures: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return figures


def select_limits(name: str, times: dict[str, Any], on_cpu: bool) -> dict[str, float]:
    """Return the limits that apply, by contender."""
    if on_cpu:
        return {
            other: limit for (model, other), limit in LIMITS.items() if model == name
        }
    hand_written = [other for other in times if other.startswith(HAND)]
    return (
        {min(hand_written, key=lambda name: times[name][0]): GPU_LIMIT}
        if hand_written
        else {}
    )


def print_ratios(name: str, figures: dict[str, Any], column: int) -> bool:
    """Print the ratios of one model; return whether all limits are met."""
    fine = True
    times, on_cpu = figures["times"], figures["on_cpu"]
    limits = select_limits(name, times, on_cpu)
    own = times[JAX]
    column = column if on_cpu else 0  # on a GPU, CPU time does not measure the work
    for other, (wall, cpu) in times.items():
        ratio = own[column] / (wall, cpu)[column]
        limit = limits.get(other)
        missed = limit is not None and ratio > limit
        fine = fine and not missed
        verdict = (
            ""
            if limit is None
            else f" limit {limit}: " + ("MISSED" if missed else "ok")
        )
        print(
            f"{name:10} {other:34} {wall * 1e3:8.1f} ms {cpu * 1e3:8.1f} ms cpu"
            f"  {own[0] / wall:6.2f}x {own[1] / cpu:6.2f}x{verdict}",
            flush=True,
        )
    return fine


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", default=MODELS)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("--one-core", action="store_true")
    parser.add_argument("--peak", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peak:
        measure_peak(args.names[0], args.folder)
        return 0
    if args.one:
        measure_model(args.names[0], args.folder, args.rounds, args.steps)
        return 0
    unknown = [name for name in args.names if name not in MODELS]
    if unknown:
        parser.error(f"no model {', '.join(unknown)}; available: {', '.join(MODELS)}")
    missing = [
        m
        for m in ("jax", "torch", "transformers", "onnxruntime")
        if not is_installed(m)
    ]
    if missing:
        print(f"skipped: {', '.join(missing)} is not installed")
        return 0
    with tempfile.TemporaryDirectory(prefix="amanda-run-models-") as scratch:
        folder = args.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        fine = [
            print_ratios(name, run_in_process(name, args, folder), int(args.one_core))
            for name in args.names
        ]
        if sys.platform == "linux":
            fine += [check_memory(name, folder) for name in args.names]
    print("ratios: time of amanda on jax over that of the other, wall and CPU")
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
