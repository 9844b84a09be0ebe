"""Overhead of tools under XLA: observed values, and the search for NaNs.

    python benchmarks/instrumentation/overhead.py [NAME ...] [--folder F] [--rounds N]
                                                  [--processes N]

BERT-base (128 tokens) and ResNet-50 with batch size 1, exported by PyTorch with random
weights; F caches the exports. The mean of 20 ops, of all ops of floats, and the tool
`trace` without ranges, each compared with the same model without a tool, in interleaved
rounds of one process; the best time of each counts, and the median of the ratios of
several processes. Exits with 1 if a limit is missed. Needs torch and transformers.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from run_models import ROOT, best_times, export_cached  # type: ignore[import-not-found]

PLAIN = "without a tool"
LIMITS = {"20 ops observed": 1.05, "all ops observed": 1.30, "trace for NaN": 1.10}
"""Maximum time relative to that without a tool."""
FEW = 20


def new_tools() -> dict[str, Any]:
    """The tools that are measured, by name."""
    from amanda.instrument import Site, Tool
    from amanda_std import ops
    from amanda_tools.analysis.trace import Trace

    class Means(Tool):
        """The mean of each output of floats, of some ops or of all."""

        def __init__(self, *, count: int | None) -> None:
            self.count = count

        def instrument(self, instrumentation: Any) -> None:
            sites = [s for s in instrumentation.sites() if _is_computed(s)]
            step = 1 if self.count is None else max(len(sites) // self.count, 1)
            for site in sites[::step][: self.count]:
                with site.insertion_point():
                    site.observe("mean", ops.mean(site.outputs[0]))

    def _is_computed(site: Site) -> bool:
        type_ = site.op.outputs[0].type
        is_float = getattr(getattr(type_, "dtype", None), "kind", "") == "float"
        read = [port for port in site.op.inputs if port is not None]
        return is_float and not all(port.op.is_constant for port in read)

    return {
        "20 ops observed": Means(count=FEW),
        "all ops observed": Means(count=None),
        "trace for NaN": Trace(ranges=False),
    }


def measure_one(name: str, folder: Path, rounds: int) -> None:
    """Measure one model, in a process of its own; prints times and counts as JSON."""
    import amanda

    warnings.simplefilter("ignore")
    path, x, _ = export_cached(name, folder)
    graph = amanda.load(path)
    plain = amanda.compile(graph, "jax", keep_executable=False)
    calls: dict[str, Any] = {PLAIN: partial(plain, [x])}
    counts = {}
    for label, tool in new_tools().items():
        instrumented = amanda.apply(graph, tool)
        compiled = instrumented.compile("jax", keep_executable=False)
        calls[label] = partial(compiled, [x])
        counts[label] = len(instrumented.report.probes)
    print(json.dumps({"times": best_times(calls, rounds), "counts": counts}))


def measure(name: str, folder: Path, rounds: int, processes: int) -> bool:
    """Measure one model; prints a row for each tool. Returns whether limits are met.

    Where the memory of an executable lies changes its time by a tenth from process to
    process: the median of the ratios of several is compared with the limit."""
    export_cached(name, folder)
    found = [_measure_in_process(name, folder, rounds) for _ in range(processes)]
    plain = [each["times"][PLAIN] for each in found]
    wall, cpu = (min(times) * 1e3 for times in zip(*plain, strict=True))
    print(f"{name:10} {PLAIN:18} {wall:8.1f} ms {cpu:8.1f} ms cpu")
    is_met = True
    for label, limit in LIMITS.items():
        ratios = [
            [one / other for one, other in zip(each["times"][label], base, strict=True)]
            for each, base in zip(found, plain, strict=True)
        ]
        ratio, cpu_ratio = map(median, zip(*ratios, strict=True))
        verdict = "ok" if max(ratio, cpu_ratio) <= limit else "MISSED"
        is_met &= verdict == "ok"
        print(
            f"{name:10} {label:18} {ratio:7.3f}x {cpu_ratio:7.3f}x cpu  "
            f"{found[0]['counts'][label]:4} values  limit {limit}: {verdict}  "
            f"({' '.join(f'{each[0]:.3f}' for each in ratios)})",
            flush=True,
        )
    return is_met


def _measure_in_process(name: str, folder: Path, rounds: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--one", name]
    options = ["--folder", str(folder), "--rounds", str(rounds)]
    output = subprocess.run(
        command + options, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", default=["BERT-base", "ResNet-50"])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        if args.one:
            measure_one(args.one, folder, args.rounds)
            return 0
        met = [
            measure(name, folder, args.rounds, args.processes) for name in args.names
        ]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "tests"))
    sys.exit(main())
