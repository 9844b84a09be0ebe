"""One measurement of benchmarks/onnx_io.py, or one of its models. Prints JSON."""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

WEIGHT = 4 << 20  # bytes of one weight of the large model


def resident() -> float:
    """The peak of resident memory, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return float(line.split()[1]) * 1024
    return 0.0


def large(path: Path, megabytes: int) -> None:
    """Additions of random weights, until there are as many bytes."""
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


def many(path: Path, count: int) -> None:
    """A model of small nodes: most plain, some with an attribute or a type."""
    import onnx
    from onnx import helper

    info = helper.make_tensor_value_info
    nodes, types, last = [], [], "x"
    for i in range(count):
        value = f"value_{i}"
        if i % 4:
            made = helper.make_node("Add", [last, "x"], [value], name=f"node_{i}")
        else:
            made = helper.make_node(
                "Softmax", [last], [value], name=f"node_{i}", axis=i % 3 - 1
            )
        nodes.append(made)
        if i % 10 == 0:
            types.append(info(value, 1, ["batch", 3]))
        last = value
    ends = [info(name, 1, ["batch", 3]) for name in ("x", last)]
    graph = helper.make_graph(nodes, "many", ends[:1], ends[1:], value_info=types)
    onnx.save(helper.make_model(graph), str(path))


def of_amanda() -> tuple[Callable[..., Any], Callable[..., Any]]:
    from amanda_onnx.format import Format, reader, writer  # noqa: F401  (late imports)

    codec = Format()
    return codec.read, codec.write


def of_onnx() -> tuple[Callable[..., Any], Callable[..., Any]]:
    import onnx

    return onnx.load, onnx.save


def of_onnx_ir() -> tuple[Callable[..., Any], Callable[..., Any]]:
    import onnx_ir

    return onnx_ir.load, onnx_ir.save


LIBRARIES = {"amanda": of_amanda, "onnx": of_onnx, "onnx_ir": of_onnx_ir}


def main(who: str, what: str, path: Path) -> None:
    load, save = LIBRARIES[who]()
    warm = path.with_name("warm.onnx")  # what is imported when it is first needed
    save(load(warm), path.with_name(f"warm-{who}.onnx"))
    target = path.with_name(f"written-{who}.onnx")
    model = load(path) if what == "write" else None
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak is from now on
    before = resident()
    begin = time.process_time()
    if what == "write":
        save(model, target)
    else:
        model = load(path)
    seconds = time.process_time() - begin
    after = resident()
    if what == "write":
        target.unlink()
    print(json.dumps({"seconds": seconds, "memory": after - before}))


if __name__ == "__main__":
    if sys.argv[1] == "make":
        {"large": large, "many": many}[sys.argv[2]](Path(sys.argv[3]), int(sys.argv[4]))
    else:
        main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
