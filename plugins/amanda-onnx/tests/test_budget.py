"""Small files that describe large arrays: converted and compiled in little memory."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import amanda
from amanda.errors import AmandaError

MEMORY = 500_000_000
"""Bytes that all of them may add."""
SECONDS = 120
"""CPU seconds for all of them; each takes a fraction of one."""

node, F, I = helper.make_node, np.float32, np.int64  # noqa: E741
WINDOW, IMAGE = (
    {"kernel_shape": [2**20] * 2, "pads": [2**19] * 4},
    np.ones((1, 1, 2, 2), F),
)
ZEROS = node("ConstantOfShape", ["s"], ["z"])
LAST = node("ReduceMax", ["q"], ["y"], keepdims=0)
DOUBLE = [node("Concat", [f"d{i}" if i else "c"] * 2, [f"d{i + 1}"], axis=0)
          for i in range(40)]  # fmt: skip
CASES = {
    "eye": ([ZEROS, node("EyeLike", ["z"], ["y"])], {"s": I([20000, 20000])}),
    "window": ([node("HannWindow", ["s"], ["y"])], {"s": I(2**40)}),
    "blackman": ([node("BlackmanWindow", ["s"], ["y"])], {"s": I(2**31)}),
    "one hot": ([node("OneHot", ["i", "d", "v"], ["y"])],
                {"i": I([0]), "d": I(2**27), "v": F([0, 1])}),
    "uniform": ([node("RandomUniform", [], ["y"], shape=[2**27])], {}),
    "normal": ([node("RandomNormal", [], ["y"], shape=[2**40])], {}),
    "multinomial": ([node("Multinomial", ["x"], ["y"], sample_size=2**28)],
                    {"x": np.ones((1, 3), F)}),
    "bernoulli": ([ZEROS, node("Bernoulli", ["z"], ["y"])], {"s": I([2**28])}),
    "mel": ([node("MelWeightMatrix", [*"abcde"], ["y"])],
            {"a": I(2**14), "b": I(2**17), "c": I(2**14), "d": F(0), "e": F(8192)}),
    "resize": ([node("Resize", ["x", "", "", "s"], ["y"], mode="nearest")],
               {"x": IMAGE[:, :, :1, :1], "s": I([1, 1, 1, 2**27])}),
    "range": ([node("Range", [*"abc"], ["y"])], {"a": I(0), "b": I(2**40), "c": I(1)}),
    "tile": ([node("Tile", ["x", "r"], ["y"])], {"x": np.ones(4, F), "r": I([2**30])}),
    "expand": ([node("Expand", ["x", "r"], ["y"])], {"x": F([1]), "r": I([2**40])}),
    "pad": ([node("Pad", ["x", "r"], ["y"])], {"x": F([1]), "r": I([2**30, 2**30])}),
    "top k": ([ZEROS, node("TopK", ["z", "k"], ["y", "i"])],
              {"s": I([2**30]), "k": I([2**29])}),
    "reduce": ([ZEROS, node("ReduceMax", ["z"], ["y"], keepdims=0)], {"s": I([2**40])}),
    "cumsum": ([ZEROS, node("CumSum", ["z", "a"], ["q"]), LAST],
               {"s": I([2**30]), "a": I(0)}),
    "matmul": ([ZEROS, node("MatMul", ["z", "z"], ["q"]), LAST], {"s": I([2**14] * 2)}),
    "concat": ([*DOUBLE, node("ReduceMax", ["d40"], ["y"], keepdims=0)], {"c": F([1])}),
    "pooling": ([node("AveragePool", ["x"], ["y"], **WINDOW)], {"x": IMAGE}),
    "neighbors": ([node("LRN", ["x"], ["y"], size=2**40 + 1)], {"x": IMAGE}),
    "blocks": ([node("DepthToSpace", ["x"], ["y"], blocksize=2**40)], {"x": IMAGE}),
    "columns": ([node("TfIdfVectorizer", ["x"], ["y"], mode="TF", min_gram_length=1,
                      max_gram_length=1, max_skip_count=0, ngram_counts=[0],
                      ngram_indexes=[2**40], pool_int64s=[1])], {"x": I([1])}),
    "skips": ([node("TfIdfVectorizer", ["x"], ["y"], mode="TF", min_gram_length=1,
                    max_gram_length=2, max_skip_count=2**30, ngram_counts=[0, 1],
                    ngram_indexes=[0, 1], pool_int64s=[1, 1, 2])], {"x": I([1])}),
    "regex": ([node("RegexFullMatch", ["x"], ["y"], pattern="(a|a)*b")],
              {"x": np.array(["a" * 64], object)}),
}  # fmt: skip


def write_models(folder: Path) -> None:
    for name, (nodes, constants) in CASES.items():
        weights = [
            numpy_helper.from_array(np.asarray(c), n) for n, c in constants.items()
        ]
        result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        graph = helper.make_graph(nodes, "g", [], [result], weights)
        opset = helper.make_opsetid("", 20 if name == "regex" else 18)
        model = helper.make_model(graph, opset_imports=[opset])
        assert len(model.SerializeToString()) < 3000
        onnx.save(model, folder / f"{name}.onnx")


def prepare_all(folder: Path) -> None:
    """Convert and compile every model, with limits; runs in a child process."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    for path in sorted(folder.glob("*.onnx")):
        graph = amanda.load(path)
        for step in (
            lambda graph: amanda.convert(graph, "amanda/std/1"),
            lambda graph: amanda.compile(graph, "numpy"),
        ):
            try:
                step(graph)
            except AmandaError as error:
                if " failed while " in error.message:
                    raise
        print("prepared", path.stem, flush=True)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are of Linux")
def test_small_files_take_little_memory(tmp_path: Path) -> None:
    write_models(tmp_path)
    done = subprocess.run(
        [sys.executable, __file__, str(tmp_path)], capture_output=True, text=True
    )
    prepared = [line.removeprefix("prepared ") for line in done.stdout.splitlines()]
    assert done.returncode == 0, (prepared[-1:], done.stderr[-2000:])
    assert prepared == sorted(CASES)


if __name__ == "__main__":
    prepare_all(Path(sys.argv[1]))
