"""Run one measurement of onnx_io.py, or write one of its models. Prints JSON."""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WEIGHT = 4 << 20  # bytes per weight of the large model


def peak_memory() -> float:
    """Return the peak resident memory in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return float(line.split()[1]) * 1024
    return 0.0


def write_large_model(path: Path, megabytes: int) -> None:
    """Write a chain of additions of random weights, `megabytes` in total."""
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper

    random = np.random.default_rng(0)
    nodes, weights, last = [], [], "x"
    for i in range(megabytes * 2**20 // WEIGHT):
        array = random.random((WEIGHT // 4 // 1024, 1024), dtype=np.float32)
        weights.append(numpy_helper.from_array(array, f"w{i}"))
        nodes.append(helper.make_node("Add", [last, f"w{i}"], [f"v{i}"], name=f"n{i}"))
        last = f"v{i}"
    info = helper.make_tensor_value_info
    ends = [info(name, 1, [1024, 1024]) for name in ("x", last)]
    graph = helper.make_graph(nodes, "large", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph), str(path))


def write_many_nodes(path: Path, count: int) -> None:
    """Write a model of `count` small nodes, some with an attribute or a type."""
    import onnx
    from onnx import helper

    info = helper.make_tensor_value_info
    nodes, types, last = [], [], "x"
    for i in range(count):
        value = f"value_{i}"
        if i % 4:
            node = helper.make_node("Add", [last, "x"], [value], name=f"node_{i}")
        else:
            node = helper.make_node(
                "Softmax", [last], [value], name=f"node_{i}", axis=i % 3 - 1
            )
        nodes.append(node)
        if i % 10 == 0:
            types.append(info(value, 1, ["batch", 3]))
        last = value
    ends = [info(name, 1, ["batch", 3]) for name in ("x", last)]
    graph = helper.make_graph(nodes, "many", ends[:1], ends[1:], value_info=types)
    onnx.save(helper.make_model(graph), str(path))


def amanda_functions() -> tuple[Callable[..., Any], Callable[..., Any]]:
    from amanda_onnx.format import Format, reader, writer  # noqa: F401  (late imports)

    codec = Format()
    return codec.read, codec.write


def onnx_functions() -> tuple[Callable[..., Any], Callable[..., Any]]:
    import onnx

    return onnx.load, onnx.save


def onnx_ir_functions() -> tuple[Callable[..., Any], Callable[..., Any]]:
    import onnx_ir

    return onnx_ir.load, onnx_ir.save


LIBRARIES = {
    "amanda": amanda_functions,
    "onnx": onnx_functions,
    "onnx_ir": onnx_ir_functions,
}


def main(library: str, operation: str, path: Path) -> None:
    load, save = LIBRARIES[library]()
    warm = path.with_name("warm.onnx")  # triggers the lazy imports
    save(load(warm), path.with_name(f"warm-{library}.onnx"))
    target = path.with_name(f"written-{library}.onnx")
    model = load(path) if operation == "write" else None
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    before = peak_memory()
    begin = time.process_time()
    if operation == "write":
        save(model, target)
    else:
        model = load(path)
    seconds = time.process_time() - begin
    after = peak_memory()
    if operation == "write":
        target.unlink()
    print(json.dumps({"seconds": seconds, "memory": after - before}))


if __name__ == "__main__":
    if sys.argv[1] == "make":
        {"large": write_large_model, "many": write_many_nodes}[sys.argv[2]](
            Path(sys.argv[3]), int(sys.argv[4])
        )
    else:
        main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
