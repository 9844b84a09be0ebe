"""Static int8 quantization compared with onnxruntime's: errors, and speed of the files.

    python benchmarks/instrumentation/quantise.py FOLDER [NAME ...]

FOLDER has published models, as models/get.py of the test data fetches them. Each is
quantized by the tool `quantise` and by `onnxruntime.quantization.quantize_static` with
the same example inputs and options (minmax, uint8 activations, int8 weights per channel
of 7 bits, so that no product saturates on any processor). Printed are the
signal-to-noise ratios of the results against the float model, on other inputs, and the
time of the written file over that of theirs, both in onnxruntime in interleaved rounds.
Exits with 1 if a ratio is more than 1 dB worse, or a file slower by more than 10 %.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import amanda
from amanda.feeds import generate_feeds
from amanda_tools.quantization.quantise import Quantise, signal_to_noise

MODELS = {
    "digits": "digits.onnx",
    "pnet": "pnet.onnx",
    "rnet": "rnet.onnx",
    "onet": "onet.onnx",
    "embedding": "embedding_model.onnx",
    "alexa": "alexa_v0.1.onnx",
    "hey_jarvis": "hey_jarvis_v0.1.onnx",
    "timer": "timer_v0.1.onnx",
    "face_front": "face_detection_front_128x128.onnx",
    "face_back": "face_detection_back_256x256.onnx",
}
ROOT = Path(__file__).resolve().parents[2]
SAMPLES, ROUNDS = 8, 30
SIZE = 96  # of dims that are open, except the first
DECIBELS, SLOWER = 1.0, 1.10
Feeds = dict[str, Any]


def find_file(name: str, folder: Path) -> Path | None:
    if name == "digits":
        return ROOT / "examples" / "digits" / "digits.onnx"
    return next(iter(sorted(folder.rglob(MODELS[name]))), None)


def make_feeds(graph: Any, count: int, seed: int) -> list[Feeds]:
    """Random inputs in the ranges that the ops reading them accept."""
    from amanda.graph import input_dims

    first = {str(p.type.shape.dims[0]) for p in graph.parameters if p.type.shape.rank}
    names = {str(dim) for dim in input_dims(graph)}
    sizes = {name: 1 if name in first else SIZE for name in names}
    made = [generate_feeds(graph, seed=seed + i, dims=sizes) for i in range(count)]
    return [{str(name): value for name, value in each.items()} for each in made]


def quantize_theirs(path: Path, data: list[Feeds], target: Path) -> None:
    """Quantize a file by onnxruntime's tools."""
    from onnxruntime import quantization as ortq

    class Reader(ortq.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.rows = iter(data)

        def get_next(self) -> Feeds | None:
            return next(self.rows, None)

    prepared = target.with_suffix(".prepared.onnx")
    ortq.shape_inference.quant_pre_process(str(path), str(prepared))
    ortq.quantize_static(
        str(prepared), str(target), Reader(), quant_format=ortq.QuantFormat.QDQ,
        activation_type=ortq.QuantType.QUInt8, weight_type=ortq.QuantType.QInt8,
        per_channel=True, reduce_range=True,
    )  # fmt: skip


def quantize_ours(graph: Any, data: list[Feeds], target: Path) -> None:
    """Quantize a graph by the tool."""
    tool = Quantise(bits=7, backend="onnxruntime")
    instrumented = amanda.apply(graph, tool, data=data)
    amanda.save(amanda.convert(instrumented.graph, "onnx@19"), target)


def open_session(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        str(path), options, providers=["CPUExecutionProvider"]
    )


def mean_ratio(exact: Any, found: Any, data: list[Feeds]) -> float:
    """The signal-to-noise ratio over all results of all inputs."""
    names = [port.name for port in exact.get_inputs()]
    pairs = []
    for feeds in data:
        ordered = [feeds[name] for name in names]
        theirs = [port.name for port in found.get_inputs()]
        again = dict(zip(theirs, ordered, strict=True))
        rows = zip(exact.run(None, feeds), found.run(None, again), strict=False)
        pairs += [(np.ravel(a), np.ravel(b)) for a, b in rows if a.dtype.kind == "f"]
    return signal_to_noise(*(np.concatenate(side) for side in zip(*pairs, strict=True)))


def best_time(session: Any, feeds: Feeds) -> float:
    names = [port.name for port in session.get_inputs()]
    again = dict(zip(names, feeds.values(), strict=True))
    start = time.perf_counter()
    session.run(None, again)
    return time.perf_counter() - start


def measure(name: str, path: Path, folder: Path) -> bool:
    """Measure one model; returns whether limits are met."""
    graph = amanda.convert(amanda.load(path), "onnx@17")
    path = folder / f"{name}.onnx"  # older opsets have no scales for each channel
    amanda.save(graph, path)
    data, others = make_feeds(graph, SAMPLES, 0), make_feeds(graph, SAMPLES, 100)
    mine, their = folder / f"{name}.ours.onnx", folder / f"{name}.theirs.onnx"
    quantize_theirs(path, data, their)
    quantize_ours(graph, data, mine)
    exact, ours, theirs = (open_session(p) for p in (path, mine, their))
    a, b = (mean_ratio(exact, each, others) for each in (ours, theirs))
    times: dict[str, float] = {"ours": np.inf, "theirs": np.inf}
    for _ in range(ROUNDS):
        for label, session in (("ours", ours), ("theirs", theirs)):
            times[label] = min(times[label], best_time(session, others[0]))
    ratio = times["ours"] / times["theirs"]
    is_met = a >= b - DECIBELS and ratio <= SLOWER
    print(
        f"{name:12} {a:8.1f} dB {b:8.1f} dB {ratio:8.2f}x  "
        f"{'ok' if is_met else 'MISSED'}",
        flush=True,
    )
    return is_met


def main(arguments: list[str]) -> int:
    warnings.simplefilter("ignore")
    if not arguments:
        print(__doc__)
        return 2
    folder = Path(arguments[0])
    print(f"{'model':12} {'ours':>11} {'theirs':>11} {'time':>9}")
    met = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in arguments[1:] or MODELS:
            path = find_file(name, folder)
            if path is None:
                print(f"{name:12} is not in {folder}")
                continue
            met.append(measure(name, path, Path(scratch)))
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
