"""Keras applications to ONNX, by Amanda and by tf2onnx, side by side.

    python benchmarks/convert.py [TF2ONNX_PYTHON [FOLDER [NAME ...]]]

TF2ONNX_PYTHON is the Python of an environment with tf2onnx and TensorFlow, which do not
share one with newer packages; without it only Amanda is measured. FOLDER keeps the
SavedModels and results. `command` is the command of each tool with its defaults,
`first` the first conversion from Python after all modules were imported, and `later`
the faster one of two more in the same process: tf2onnx reads its rules when it is
imported, Amanda those that it needs with the first conversion. `memory` is how much the
peak of memory grows with the first one, relative to the weights. Prints the numbers of
nodes and the largest difference of the results in onnxruntime from TensorFlow's. Exits
with 1 where that of Amanda is above 1e-4.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
NAMES = ("ResNet50", "MobileNetV3Large", "EfficientNetV2B0", "ConvNeXtTiny")
TOLERANCE = 1e-4
PEAK = """
def peak():
    "The peak of this process in KB; that of ru_maxrss may be its parent's."
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
"""
MEASURE = """
def measure(convert):
    "Print the seconds of the first conversion, those of a later one, and KB."
    before, seconds = peak(), []
    for number in range(3):
        start = time.perf_counter()
        convert()
        seconds.append(time.perf_counter() - start)
        memory = memory if number else peak() - before
    print(seconds[0], min(seconds[1:]), memory)
"""
AMANDA = """
import importlib, pkgutil, sys, time, amanda
for name in ("amanda_std", "amanda_tf", "amanda_onnx"):
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(package.__path__, name + "."):
        importlib.import_module(module.name)
def convert():
    graph, passes = amanda.load(sys.argv[1]), ["optimize_for_inference"]
    amanda.save(amanda.convert(graph, "onnx@18", passes=passes), sys.argv[2])
"""
TF2ONNX = """
import sys, time, tensorflow, tf2onnx.convert
sys.argv[1:] = ["--saved-model", sys.argv[1], "--output", sys.argv[2], "--opset", "18"]
convert = tf2onnx.convert.main
"""
SCRIPTS = {
    name: f"{code}{PEAK}{MEASURE}measure(convert)\n"
    for name, code in (("amanda", AMANDA), ("tf2onnx", TF2ONNX))
}
COMMANDS = {
    "amanda": "amanda convert {0} {1} --to onnx@18",
    "tf2onnx": "tf2onnx.convert --saved-model {0} --output {1} --opset 18",
}


class Cost(NamedTuple):
    """Seconds of conversions in a process and of the command; growth of the peak memory
    in KB."""

    first: float
    later: float
    command: float
    memory: int


def convert(python: str, tool: str, folder: Path, target: Path) -> Cost:
    """Convert in new processes, from Python and by the command.

    Bytecode of modules is cached, as it is for users, whatever the settings here are.
    """
    source = str(folder / "saved_model")
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / f"{tool}_cache")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def run(*command: str) -> str:
        return subprocess.run(
            [python, *command],
            check=True, capture_output=True, text=True, env=environment,
        ).stdout  # fmt: skip

    options = [each.format(source, target) for each in COMMANDS[tool].split()]
    run("-m", *options)  # which writes the bytecode
    *_, first, later, memory = run("-c", SCRIPTS[tool], source, str(target)).split()
    start = time.perf_counter()
    run("-m", *options)
    command = time.perf_counter() - start
    return Cost(float(first), float(later), command, int(memory))


def weights_of(folder: Path) -> float:
    """The size of the weights in MB."""
    files = (folder / "saved_model" / "variables").glob("*.data-*")
    return sum(file.stat().st_size for file in files) / 1e6


def result_of(model: Path, folder: Path) -> tuple[int, float]:
    """The number of nodes, and the largest difference from TensorFlow's result; NaN
    for a model that onnxruntime refuses."""
    import numpy as np
    import onnx
    import onnxruntime
    from onnxruntime.capi.onnxruntime_pybind11_state import InvalidGraph

    nodes = onnx.load(model, load_external_data=False).graph.node
    try:
        session: Any = onnxruntime.InferenceSession(str(model))
    except InvalidGraph as error:
        print(f"{model}: {error}", file=sys.stderr)
        return len(nodes), float("nan")
    x, y = np.load(folder / "x.npy"), np.load(folder / "y.npy")
    [found] = session.run(None, {session.get_inputs()[0].name: x})
    return len(nodes), float(np.abs(found - y).max())


def main(python: str, root: Path, names: tuple[str, ...]) -> int:
    """Print a table; 1 if a result differs."""
    missing = [name for name in names if not (root / name / "y.npy").is_file()]
    if missing:
        make = [
            sys.executable,
            str(HERE / "processes" / "make_applications.py"),
            str(root),
        ]
        subprocess.run([*make, *missing], check=True)
    worst = 0.0
    headings = (
        f"{'model':18}{'by':9}{'first':>9}{'later':>9}{'command':>9}{'memory':>12}"
    )
    print(f"{headings}{'nodes':>7}  error")
    for name in names:
        folder = root / name
        tools = [("amanda", sys.executable), ("tf2onnx", python)]
        for tool, runs in tools if python else tools[:1]:
            target = folder / f"{tool}.onnx"
            cost = convert(runs, tool, folder, target)
            nodes, error = result_of(target, folder)
            if tool == "amanda" and not error <= worst:  # also NaN
                worst = error
            times = "".join(f"{t:8.2f}s" for t in cost[:3])
            memory = f"{cost.memory / 1e3 / weights_of(folder):11.2f}x"
            print(f"{name:18}{tool:9}{times}{memory}{nodes:7}  {error:.1e}", flush=True)
    return int(not worst <= TOLERANCE)


if __name__ == "__main__":
    peer, *others = [*sys.argv[1:], ""][: max(1, len(sys.argv) - 1)]
    with tempfile.TemporaryDirectory() as temporary:
        chosen = Path(others[0]) if others else Path(temporary)
        sys.exit(main(peer, chosen, tuple(others[1:]) or NAMES))
