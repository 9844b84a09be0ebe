"""The convolutions of ResNet-50, each by itself: XLA's fastest way against onnxruntime.

    python benchmarks/kernels/convolution_floor.py [--folder F] [--rounds N]

For each shape, several algorithms and settings of XLA are measured as a program of
their own, with bias and ReLU, without the cost of a call; the best time counts. For
onnxruntime it is the time of the node in a profile of the whole network, which includes
bias, ReLU and residual sum. No program of these algorithms takes less than the sum of
XLA's best times: residual sums, pooling and the last layer are left out, and data and
weights are in the cache. The last line compares it with a whole call of onnxruntime. F
caches the exported model, as for `run_models.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.run_models import export_cached, is_installed

BURST = 10
"""Consecutive calls of one contender."""
PROFILED = 60
"""Calls of onnxruntime that are profiled."""
STAGES = ((64, 256, 3, 56), (128, 512, 4, 28), (256, 1024, 6, 14), (512, 2048, 3, 7))
"""Inner and outer channels, blocks, and rows and columns of the results."""
EIGEN = {
    "xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INDIVIDUAL_CONVOLUTION"
}
FUSED = {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_DOT"}


class Shape(NamedTuple):
    """A convolution: channels, kernel size, stride, and size of its result."""

    inner: int
    outer: int
    kernel: int
    stride: int
    size: int

    @property
    def gigaflops(self) -> float:
        return 2e-9 * self.inner * self.outer * self.kernel**2 * self.size**2

    def __str__(self) -> str:
        return (
            f"{self.kernel} * {self.kernel}, {self.inner} to {self.outer} channels, "
            f"{self.size} * {self.size}" + (", stride 2" if self.stride > 1 else "")
        )


def shapes() -> Counter[Shape]:
    """The convolutions of ResNet-50, with their number."""
    found = [Shape(3, 64, 7, 2, 112)]
    channels = 64
    for stage, (inner, outer, blocks, size) in enumerate(STAGES):
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            found.append(Shape(channels, inner, 1, 1, size * stride))
            found.append(Shape(inner, inner, 3, stride, size))
            found.append(Shape(inner, outer, 1, 1, size))
            if not block:
                found.append(Shape(channels, outer, 1, stride, size))
            channels = outer
    return Counter(found)


# -- onnxruntime -------------------------------------------------------------------


def profile_onnxruntime(path: Path, x: Any) -> dict[Shape, float]:
    """The best time in ms of a node of each shape, in the whole network."""
    options = _session_options()
    options.enable_profiling = True
    with tempfile.TemporaryDirectory() as folder:
        options.profile_file_prefix = str(Path(folder, "profile"))
        session, call = _session(path, x, options)
        for _ in range(PROFILED):
            call()
        events = json.loads(Path(session.end_profiling()).read_text("utf-8"))
    best: dict[Shape, float] = {}
    for event in events:
        args = event.get("args", {})
        if args.get("op_name") == "Conv" and event["name"].endswith("_kernel_time"):
            shape = _shape_of_node(args)
            best[shape] = min(best.get(shape, 1e9), event["dur"] / 1e3)
    return best


def _session_options() -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    return options


def _session(path: Path, x: Any, options: Any) -> tuple[Any, Callable[[], Any]]:
    import onnxruntime

    session = onnxruntime.InferenceSession(
        path, options, providers=["CPUExecutionProvider"]
    )
    feeds = {session.get_inputs()[0].name: x}
    return session, lambda: session.run(None, feeds)


def _shape_of_node(args: dict[str, Any]) -> Shape:
    data, kernel = (next(iter(t.values())) for t in args["input_type_shape"][:2])
    (result,) = (next(iter(t.values())) for t in args["output_type_shape"])
    inner = min(kernel[1], data[1])
    return Shape(inner, kernel[0], kernel[2], data[2] // result[2], result[2])


# -- XLA ---------------------------------------------------------------------------


def candidates(shape: Shape) -> Iterator[tuple[str, Callable[..., Any], list[Any]]]:
    """Algorithms for a convolution of x with bias and ReLU, with their weights."""
    from amanda_jax.cpu_tuning import winograd
    from amanda_jax.cpu_tuning.convolution import ConvolutionCall, im2col, pointwise

    rng = np.random.default_rng(0)
    kernel = rng.normal(size=(shape.outer, shape.inner, *[shape.kernel] * 2))
    kernel = (kernel / 30).astype("float32")
    last = np.ascontiguousarray(kernel.transpose(2, 3, 1, 0))
    pads = [(shape.kernel // 2,) * 2] * 2

    def call(x: Any, w: Any, output_first: bool = False) -> ConvolutionCall:
        strides = (shape.stride,) * 2
        return ConvolutionCall(x, w, strides, (1, 1), pads, _never, output_first)

    if shape.kernel == 1:
        yield "product", lambda x, w: pointwise(call(x, w)), [last]
        yield "transposed", lambda x, w: pointwise(call(x, w, True)), [kernel]
        return
    yield "XLA", lambda x, w: _convolve(x, w, shape.stride, pads), [last]
    yield "columns", lambda x, w: _columns(x, w, shape, pads), [last]
    if shape.size <= 14 and shape.inner >= 32:
        yield "im2col", lambda x, w: im2col(call(x, w)), [last]
    if shape.kernel == 3 and shape.stride == 1:
        forms = {"tiles": winograd.EVERY_AXIS, "pairs": winograd.WinogradForm(2)}
        for name, form in forms.items():
            weights = winograd.transform_kernel(kernel, form)
            yield name, lambda x, w: winograd.conv(x, w, pads), [weights]


def _never(*_: Any) -> Any:
    raise AssertionError("the algorithm falls back to XLA's convolution")


def _convolve(x: Any, w: Any, stride: int, pads: Any) -> Any:
    from jax import lax

    return lax.conv_general_dilated(
        x, w, (stride, stride), pads, dimension_numbers=("NHWC", "HWIO", "NHWC"),
        precision="highest",
    )  # fmt: skip


def _columns(x: Any, w: Any, shape: Shape, pads: Any) -> Any:
    """One product of patches, whatever their number."""
    import jax.numpy as jnp

    x = jnp.pad(x, [(0, 0), *pads, (0, 0)])
    reach = (shape.size - 1) * shape.stride + 1
    patches = [
        x[:, i : i + reach : shape.stride, j : j + reach : shape.stride]
        for i, j in np.ndindex(shape.kernel, shape.kernel)
    ]
    rows = jnp.concatenate(patches, -1).reshape(shape.size**2, -1)
    y = rows @ w.reshape(-1, w.shape[-1])
    return y.reshape(1, shape.size, shape.size, -1)


def build_calls(shape: Shape) -> dict[str, Callable[[], Any]]:
    """A call of each algorithm and setting, which waits for its result."""
    import jax

    size = shape.size * shape.stride
    x = np.random.default_rng(1).normal(size=(1, size, size, shape.inner))
    data, bias = jax.device_put((x.astype("float32"), np.ones(shape.outer, "float32")))
    calls: dict[str, Callable[[], Any]] = {}
    for name, function, weights in candidates(shape):
        held = jax.device_put(weights)
        for suffix, options in {"": {}, ", Eigen": EIGEN, ", fused": FUSED}.items():
            if name == "XLA" and options is EIGEN:
                continue  # the same convolution

            def layer(x: Any, b: Any, *w: Any, function: Any = function) -> Any:
                return jax.nn.relu(function(x, *w) + b)

            compiled = jax.jit(layer).lower(data, bias, *held).compile(dict(options))
            calls[name + suffix] = _waiting_call(compiled, (data, bias, *held))
    return calls


def _waiting_call(compiled: Any, args: tuple[Any, ...]) -> Callable[[], Any]:
    return lambda: compiled(*args).block_until_ready()


def cost_of_call() -> float:
    """The time of a call of a program that does nothing."""
    import jax

    x = jax.device_put(np.ones(4, "float32"))
    compiled = jax.jit(lambda x: x + 1).lower(x).compile()
    calls: dict[Any, Callable[[], Any]] = {"": _waiting_call(compiled, (x,))}
    return best_times(calls, 30)[""]


def best_times(calls: dict[Any, Callable[[], Any]], rounds: int) -> dict[Any, float]:
    """The best time of each in ms; they alternate."""
    best: dict[Any, float] = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            for _ in range(BURST):
                start = time.perf_counter()
                call()
                best[name] = min(best[name], (time.perf_counter() - start) * 1e3)
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--rounds", type=int, default=6)
    args = parser.parse_args()
    needed = ("jax", "torch", "onnxruntime")
    if missing := [name for name in needed if not is_installed(name)]:
        print(f"skipped: {', '.join(missing)} is not installed")
        return 0
    with tempfile.TemporaryDirectory(prefix="amanda-convolutions-") as scratch:
        path, x, _ = export_cached("ResNet-50", args.folder or Path(scratch))
        theirs = profile_onnxruntime(path, x)
        _, whole = _session(path, x, _session_options())
    calls: dict[Any, Callable[[], Any]] = {
        (shape, name): call
        for shape in shapes()
        for name, call in build_calls(shape).items()
    }
    calls[None, "onnxruntime"] = whole
    overhead = cost_of_call()
    times = best_times(calls, args.rounds)
    totals = [0.0, 0.0]
    print("| convolution | number | onnxruntime | XLA's best | algorithm |")
    print("|---|---|---|---|---|")
    for shape, count in shapes().items():
        own, name = min((t, name) for (each, name), t in times.items() if each == shape)
        totals[0] += count * theirs[shape]
        totals[1] += count * (own - overhead)
        figures = f"{theirs[shape]:.2f} | {own - overhead:.2f}"
        print(f"| {shape} | {count} | {figures} | {name} |")
    flops = sum(shape.gigaflops * count for shape, count in shapes().items())
    for name, total in zip(("onnxruntime", "XLA's best"), totals, strict=True):
        print(f"{name}: {total:.1f} ms, {flops / total * 1e3:.0f} Gflop/s")
    network = times[None, "onnxruntime"]
    print(f"XLA's best is {totals[1] / totals[0]:.2f} times as long, and "
          f"{totals[1] / network:.2f} times the whole network of onnxruntime, "
          f"{network:.1f} ms")  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
