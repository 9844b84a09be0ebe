"""Overhead of tools under XLA: observed values, and the search for NaNs.

    python benchmarks/instrumentation/overhead.py [NAME ...] [--folder F] [--rounds N]

BERT-base (128 tokens) and ResNet-50 with batch size 1, exported by PyTorch with random
weights; F caches the exports. The mean of 20 ops, of all ops of floats, and the tool
`trace` without ranges, each compared with the same model without a tool, in interleaved
rounds of one process; the best time of each counts. Exits with 1 if a limit is missed.
Needs torch and transformers.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from functools import partial
from pathlib import Path
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


def measure(name: str, folder: Path, rounds: int) -> bool:
    """Measure one model; prints a row for each tool. Returns whether limits are met."""
    import amanda

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
    times = best_times(calls, rounds)
    wall, cpu = times[PLAIN]
    print(f"{name:10} {PLAIN:18} {wall * 1e3:8.1f} ms {cpu * 1e3:8.1f} ms cpu")
    is_met = True
    for label, limit in LIMITS.items():
        ratio, cpu_ratio = times[label][0] / wall, times[label][1] / cpu
        verdict = "ok" if max(ratio, cpu_ratio) <= limit else "MISSED"
        is_met &= verdict == "ok"
        print(
            f"{name:10} {label:18} {ratio:7.3f}x {cpu_ratio:7.3f}x cpu  "
            f"{counts[label]:4} values  limit {limit}: {verdict}",
            flush=True,
        )
    return is_met


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", default=["BERT-base", "ResNet-50"])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.folder or Path(temporary)
        met = [measure(name, folder, args.rounds) for name in args.names]
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "tests"))
    sys.exit(main())
