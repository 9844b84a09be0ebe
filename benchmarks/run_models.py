"""Models on the backend `jax` beside onnxruntime, PyTorch and JAX written by hand.

    python benchmarks/run_models.py [NAME ...] [--folder F] [--rounds N] [--steps]
                                    [--one-core]

ResNet-50, BERT-base (128 tokens), ViT-B and GPT-2 (64 tokens), one input each, exported
by PyTorch with random weights; F keeps the exports for the next time. Each model has a
process of its own, in which all take turns; the least time of each counts. Ratios are
what to look at: another process on the machine slows all of them, though not alike. So
the processor's time is told as well; with `--one-core` all run on one core with one
thread, and that is what counts. `--steps` leaves out each step towards speed in turn.
Where JAX has a GPU, that is what runs, beside JAX written by hand alone.
Exits with 1 where a limit is missed. Needs torch, transformers and onnxruntime.
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
JAX, ORT, HAND, TORCH = "amanda on jax", "onnxruntime", "JAX by hand", "torch"
LIMITS = {
    ("ResNet-50", ORT): 1.35,
    ("ResNet-50", HAND): 0.35,
    ("BERT-base", ORT): 1.15,
    ("BERT-base", HAND): 1.0,
    ("ViT-B", ORT): 1.15,
    ("GPT-2", ORT): 1.15,
}
"""The time of `amanda on jax`, at most, in that of another, on a CPU."""
ELSEWHERE = 1.05
"""The same on a GPU, in that of JAX by hand, whichever way of it is faster."""
MEMORY = {"ResNet-50": 1.75, "BERT-base": 1.3, "ViT-B": 1.3, "GPT-2": 1.3}
"""Memory beyond imports, at most, in that of the weights."""
BURST = 3
"""Calls in a row: threads of the one before may still spin through the first."""

Call = Callable[[], Any]


def exported(name: str, folder: Path) -> tuple[Path, Any, Any]:
    """The file of a model, what it is fed, and what PyTorch computes."""
    import numpy as np

    kept = folder / f"{name}.npz"
    if not kept.exists():
        from models.architectures import exported as export

        made = export(name, folder, small=False, batch=1)
        np.savez(kept, x=made.feeds["x"], y=made.expected[0])
    held = np.load(kept)
    return folder / f"{name}.onnx", held["x"], held["y"]


def calls_of(name: str, folder: Path, steps: bool) -> dict[str, Call]:
    """Each contender, with arrays of numpy in and out; all give the right numbers."""
    path, x, wanted = exported(name, folder)
    calls: dict[str, Call] = {JAX: _on_jax(path, x, wanted)}
    if steps:
        from amanda_jax.cpu_tuning.steps import STEPS

        for step in (each.name for each in STEPS):
            calls[f"{JAX}, without {step}"] = _on_jax(path, x, wanted, without=step)
    if is_on_cpu() and has("onnxruntime"):
        calls[ORT] = _on_onnxruntime(path, x)
    from _hand_written import WRITTEN

    for way, made in WRITTEN.get(name, {}).items():
        calls[HAND + way] = _by_hand(made, x)
    if is_on_cpu() and has("torch"):
        calls[TORCH] = _on_torch(name, x)
    return calls


def is_on_cpu() -> bool:
    """Whether that is where JAX runs what nobody puts elsewhere."""
    import jax

    return bool(jax.default_backend() == "cpu")


def has(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def _on_jax(path: Path, x: Any, wanted: Any, **options: Any) -> Call:
    import numpy as np

    import amanda

    graph = amanda.load(path)
    compiled = amanda.compile(graph, "jax", **options)
    began = time.perf_counter()
    first = next(iter(compiled([x]).values()))
    seconds = time.perf_counter() - began
    print(f"compiled in {seconds:.1f} s {options or ''}", file=sys.stderr)
    np.testing.assert_allclose(first, wanted, rtol=1e-3, atol=1e-3 * abs(wanted).max())
    return lambda: compiled([x])


def _by_hand(made: Callable[[], Any], x: Any) -> Call:
    import jax
    import numpy as np

    function, params = made()
    jitted = jax.jit(function)
    return lambda: jax.tree.map(np.asarray, jitted(params, x))


def _on_onnxruntime(path: Path, x: Any) -> Call:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    cores = len(os.sched_getaffinity(0))
    options.intra_op_num_threads = cores
    session = onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"]
    )
    feeds = {session.get_inputs()[0].name: x}
    return lambda: session.run(None, feeds)


def _on_torch(name: str, x: Any) -> Call:
    import torch
    from models.architectures import network

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    module, fed = network(name, small=False), torch.from_numpy(x)

    def call() -> Any:
        with torch.inference_mode():
            return [y.numpy() for y in module(fed)]

    return call


def measured(calls: dict[str, Call], rounds: int) -> dict[str, tuple[float, float]]:
    """The least time of each, and the least time of the processor."""
    for call in calls.values():
        call()
    best = dict.fromkeys(calls, (float("inf"), float("inf")))
    for _ in range(rounds):
        for name, call in calls.items():
            for _ in range(BURST):
                began, used = time.perf_counter(), time.process_time()
                call()
                spent = time.perf_counter() - began, time.process_time() - used
                best[name] = min(best[name][0], spent[0]), min(best[name][1], spent[1])
    return best


def one(name: str, folder: Path, rounds: int, steps: bool) -> None:
    """Measures one model; its process is to end afterwards."""
    warnings.simplefilter("ignore")
    times = measured(calls_of(name, folder, steps), rounds)
    print(json.dumps({"times": times, "on_cpu": is_on_cpu()}))


def resident() -> int:
    """Bytes of this process that are in memory; on Linux only."""
    text = Path("/proc/self/statm").read_text(encoding="ascii")
    return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak(name: str, folder: Path) -> None:
    """The most memory that loading, compiling and one call took, over the weights."""
    import threading

    import numpy as np

    import amanda

    path, x, _ = exported(name, folder)
    small = amanda.load(path.with_name("small.onnx"))
    amanda.compile(small, "jax")([np.ones((1, 4), "float32")])  # all is imported
    before, most, done = resident(), [0], threading.Event()

    def watch() -> None:
        while not done.wait(0.003):
            most[0] = max(most[0], resident() - before)

    watching = threading.Thread(target=watch)
    watching.start()
    compiled = amanda.compile(amanda.load(path), "jax")
    compiled([x])
    done.set()
    watching.join()
    weights = compiled.executable.report().weight_bytes  # type: ignore[attr-defined]
    print(json.dumps({"peak": most[0], "weights": weights}))


def write_small(folder: Path) -> None:
    """A model of one product, so that everything is imported before it counts."""
    import numpy as np

    import amanda
    from amanda.types import parse_type
    from amanda_std import ops, trace

    weight = np.ones((4, 4), "float32")
    graph = trace(lambda x: ops.matmul(x, weight), [parse_type("float32[1, 4]")])
    amanda.save(amanda.convert(graph, "onnx@18"), folder / "small.onnx")


def memory(name: str, folder: Path) -> bool:
    """Prints what `peak` says of a model, from a process of its own."""
    write_small(folder)
    line = [sys.executable, __file__, name, "--folder", str(folder), "--peak"]
    done = subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    ratio = found["peak"] / found["weights"]
    limit = MEMORY.get(name)
    missed = limit is not None and ratio > limit
    said = "" if limit is None else f" at most {limit}: {'MISSED' if missed else 'ok'}"
    print(f"{name:10} memory: {ratio:.2f}x the weights{said}", flush=True)
    return not missed


def apart(name: str, args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The same, in a process of its own. The export has another one before that."""
    line = [sys.executable, __file__, name, "--folder", str(folder), "--rounds"]
    line += [str(args.rounds), "--one", *["--steps"] * args.steps]
    only = {min(os.sched_getaffinity(0))} if args.one_core else os.sched_getaffinity(0)
    make = "import sys; from pathlib import Path; from run_models import exported; "
    make += f"exported({name!r}, Path({str(folder)!r}))"
    path = os.pathsep.join([*sys.path[:2], os.environ.get("PYTHONPATH", "")])
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", make], check=True,
        env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    done = subprocess.run(
        line, check=True, stdout=subprocess.PIPE, text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, only),
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def limits_of(name: str, times: dict[str, Any], on_cpu: bool) -> dict[str, float]:
    """What is asked for, by the name of the other."""
    if on_cpu:
        return {other: most for (model, other), most in LIMITS.items() if model == name}
    by_hand = [other for other in times if other.startswith(HAND)]
    return {min(by_hand, key=lambda name: times[name][0]): ELSEWHERE} if by_hand else {}


def table(name: str, found: dict[str, Any], column: int) -> bool:
    """Prints the ratios of one model; whether all limits are kept."""
    fine = True
    times, on_cpu = found["times"], found["on_cpu"]
    limits = limits_of(name, times, on_cpu)
    own = times[JAX]
    column = column if on_cpu else 0  # what the processor does is not the work
    for other, (wall, used) in times.items():
        ratio = own[column] / (wall, used)[column]
        limit = limits.get(other)
        missed = limit is not None and ratio > limit
        fine = fine and not missed
        said = (
            ""
            if limit is None
            else f" at most {limit}: " + ("MISSED" if missed else "ok")
        )
        print(
            f"{name:10} {other:34} {wall * 1e3:8.1f} ms {used * 1e3:8.1f} ms cpu"
            f"  {own[0] / wall:6.2f}x {own[1] / used:6.2f}x{said}",
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
        peak(args.names[0], args.folder)
        return 0
    if args.one:
        one(args.names[0], args.folder, args.rounds, args.steps)
        return 0
    unknown = [name for name in args.names if name not in MODELS]
    if unknown:
        parser.error(f"no model {', '.join(unknown)}; here: {', '.join(MODELS)}")
    missing = [m for m in ("jax", "torch", "transformers", "onnxruntime") if not has(m)]
    if missing:
        print(f"not measured: {', '.join(missing)} is not installed")
        return 0
    with tempfile.TemporaryDirectory(prefix="amanda-run-models-") as scratch:
        folder = args.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        fine = [
            table(name, apart(name, args, folder), int(args.one_core))
            for name in args.names
        ]
        if sys.platform == "linux":
            fine += [memory(name, folder) for name in args.names]
    print("times of amanda on jax in those of the others: by the clock, by processor")
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
