"""Tools that measure models, on three namespaces and three backends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from tool_samples import BACKENDS, NAMESPACES, digits, images, samples

import amanda
from amanda.errors import UsageError
from amanda.testing import ToolSuite
from amanda_std import ops
from amanda_tools.analysis.chains import chains
from amanda_tools.analysis.features import Dump, Features
from amanda_tools.analysis.flops import Flops
from amanda_tools.analysis.memory import Memory
from amanda_tools.analysis.profile import Profile
from amanda_tools.analysis.statistics import Statistics
from amanda_tools.analysis.trace import Trace


class AnalysisSuite(ToolSuite):
    backends = BACKENDS

    def samples(self) -> Any:
        return samples()


class TestStatistics(AnalysisSuite):
    tool = "statistics"
    options: ClassVar[Any] = {
        "types": ["conv", "relu"], "percentiles": [10, 90], "channel_axis": 1,
    }  # fmt: skip


class TestTrace(AnalysisSuite):
    tool = "trace"


class TestFeatures(AnalysisSuite):
    tool = "features"
    options: ClassVar[Any] = {"types": ["relu"]}


class TestFlops(AnalysisSuite):
    tool = "flops"


class TestMemory(AnalysisSuite):
    tool = "memory"


class TestProfile(AnalysisSuite):
    tool = "profile"


# -- flops -----------------------------------------------------------------------------


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_macs_of_the_network_of_digits(namespace: str) -> None:
    """Two convolutions of 3 x 3 (8 of 1 and 16 of 8 channels) and two dense layers."""
    report = amanda.apply(digits(namespace), Flops()).report
    macs = 64 * 8 * 9 + 64 * 16 * 8 * 9 + 256 * 32 + 32 * 10
    assert str(report.summary["MACs"]) == f"{macs}*batch"


def test_sizes_are_set_by_name() -> None:
    report = amanda.apply(digits(), Flops(sizes={"batch": 3})).report
    assert report.summary["MACs"] == 3 * 86848


def test_bodies_count_for_each_iteration() -> None:
    @amanda.function
    def network(x: Any) -> Any:
        step = lambda _, condition, now: (condition, ops.matmul(now, now))  # noqa: E731
        return ops.loop(np.array(5), None, step, x)[0]

    report = amanda.apply(network.graph("float32[4, 4]"), Flops()).report
    assert report.summary["MACs"] == 5 * 4**3


def test_loops_of_unknown_length_are_named() -> None:
    @amanda.function
    def network(x: Any) -> Any:
        return ops.while_(
            lambda now: ops.less(ops.sum(now), 9.0), lambda now: ops.exp(now), x
        )[0]

    report = amanda.apply(network.graph("float32[4]"), Flops()).report
    assert any("iterations is not known" in each.reason for each in report.unobserved)


@pytest.mark.parametrize(
    ("equation", "shapes", "macs"),
    [
        ("ij,jk->ik", [(3, 4), (4, 5)], 60),
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)], 120),
        ("...i,ij->...j", [(7, 2, 4), (4, 5)], 280),
    ],
)
def test_einsum(equation: str, shapes: Any, macs: int) -> None:
    @amanda.function
    def network(a: Any, b: Any) -> Any:
        return ops.einsum(a, b, equation=equation)

    types = [f"float32[{', '.join(map(str, shape))}]" for shape in shapes]
    assert amanda.apply(network.graph(*types), Flops()).report.summary["MACs"] == macs


# -- statistics ------------------------------------------------------------------------


def outputs_of(kind: str) -> tuple[list[np.ndarray[Any, Any]], amanda.Graph]:
    """The values of all ops of a type, by another way: as results of the graph."""
    graph = amanda.convert(digits(), "std")
    found = graph.ops.select(kind)
    targets = [op.output for op in found]
    results = amanda.run(graph, [images()], targets, backend="numpy")
    return [np.asarray(results[port]) for port in targets], graph


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_statistics_are_those_of_numpy(namespace: str) -> None:
    tool = Statistics(types="relu", bins=8, percentiles=[0, 50, 100])
    instrumented = amanda.apply(digits(namespace), tool)
    instrumented.run([images()], "numpy")
    expected, _ = outputs_of("relu")
    report = instrumented.report
    checks = {
        "mean": np.mean, "std": np.std, "min": np.min, "max": np.max,
        "zeros": lambda x: np.mean(x == 0),
    }  # fmt: skip
    for key, function in checks.items():
        found = list(report[key].values())
        np.testing.assert_allclose(found, [function(x) for x in expected], rtol=1e-4)
    for counts, x in zip(report["histogram"].values(), expected, strict=True):
        assert np.sum(counts) == x.size
        reference = np.histogram(x, 8, (x.min(), x.max()))[0]
        assert np.abs(counts - reference).sum() <= 2  # values on an edge
    for values, x in zip(report["percentiles"].values(), expected, strict=True):
        middle = np.sort(x.ravel())[round((x.size - 1) / 2)]
        np.testing.assert_allclose(values, [x.min(), middle, x.max()], atol=1e-5)
    assert "<svg" in (tool.picture(report) or "")


def test_channels() -> None:
    instrumented = amanda.apply(digits(), Statistics(types="relu", channel_axis=1))
    instrumented.run([images()], "numpy")
    [first, *_], _ = outputs_of("relu")
    report = instrumented.report
    means = next(iter(report["channel means"].values()))
    np.testing.assert_allclose(means, first.mean((0, 2, 3)), rtol=1e-4)
    largest = next(iter(report["channel magnitudes"].values()))
    np.testing.assert_allclose(largest, np.abs(first).max((0, 2, 3)), rtol=1e-4)
    zeros = next(iter(report["channel zeros"].values()))
    np.testing.assert_allclose(zeros, (first == 0).mean((0, 2, 3)), rtol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_distributions_of_channels(backend: str) -> None:
    """As numpy computes them, channel by channel."""
    tool = Statistics(types="relu", channel_axis=1, bins=7, percentiles=(25, 90))
    instrumented = amanda.apply(digits(), tool)
    instrumented.run([images()], backend)
    [first, *_], _ = outputs_of("relu")
    rows = np.moveaxis(first, 1, 0).reshape(first.shape[1], -1)
    counts = np.asarray(next(iter(instrumented.report["channel histograms"].values())))
    edges = (first.min(), first.max())
    expected = [np.histogram(row, 7, edges)[0] for row in rows]
    assert counts.sum() == first.size
    assert np.abs(counts - expected).max() <= 2  # at the edges of bins, by rounding
    found = next(iter(instrumented.report["channel percentiles"].values()))
    due = np.percentile(rows, (25, 90), axis=1, method="nearest").T
    np.testing.assert_allclose(found, due, rtol=1e-3, atol=1e-5)


# -- trace -----------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("ranges", [True, False])
def test_the_first_nan_is_found(backend: str, ranges: bool) -> None:
    """The logarithm of a negative number is NaN; what follows inherits it."""

    @amanda.function
    def network(x: Any) -> Any:
        shifted = ops.subtract(x, 2.0)
        return ops.relu(ops.add(ops.log(shifted), 1.0))

    graph = network.graph("float32[3]")
    for op in graph:
        if op.type != "constant":
            graph.rename(op, f"my_{op.type}")
    instrumented = amanda.apply(graph, Trace(ranges=ranges))
    compiled = instrumented.compile(backend)
    compiled([np.array([3, 4, 5], "float32")])
    assert instrumented.report.conclusions["first non-finite"] == "none"
    compiled([np.array([3, 1, 5], "float32")])
    assert instrumented.report.conclusions["first non-finite"] == "my_log"


def test_an_inherited_nan_is_not_made() -> None:
    """Neither op makes a NaN of finite arguments: the input of the model has it."""

    @amanda.function
    def network(x: Any) -> Any:
        return ops.exp(ops.add(x, 1.0))

    instrumented = amanda.apply(network.graph("float32[3]"), Trace())
    instrumented.run([np.array([1, np.nan, 2], "float32")], "numpy")
    found = instrumented.report.conclusions["first non-finite"]
    assert found == "an input or weight read by add"


def _attention(x: Any, y: Any, z: Any) -> Any:
    """Chains that meet: products, a residual, a softmax and a slice."""
    scores = ops.matmul(x, ops.transpose(y))
    mixed = ops.matmul(ops.softmax(scores, axes=(-1,)), y)
    whole = ops.add(ops.layer_norm(ops.add(mixed, x), ones, zeros), z)
    return ops.slice(whole, (0, 0), (1, 4)), ops.log(ops.add(ops.square(whole), 1.0))


ones, zeros = np.ones(4, "float32"), np.zeros(4, "float32")
_LARGE = {"x": 3e38, "y": 3e38, "z": np.inf}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("planted", ["none", "x", "y", "z"])
def test_counts_equal_those_of_each_value(planted: str, backend: str) -> None:
    """Where a run checks the last value of a chain, and where it checks every one."""
    graph = amanda.function(_attention).graph(*["float32[4,4]"] * 3)
    rng = np.random.default_rng(0)
    feeds = {name: rng.normal(size=(4, 4)).astype("float32") for name in _LARGE}
    if planted in feeds:
        feeds[planted][2, 1] = _LARGE[planted]
    found = {}
    for ranges in (True, False):
        instrumented = amanda.apply(graph, Trace(ranges=ranges))
        compiled = instrumented.compile(backend)
        for _ in range(2):
            compiled(feeds)
        rows = instrumented.report.select("non-finite", tool="trace")
        found[ranges] = {row.op: bool(row.value) for row in rows}
    few = {op: found[True][op] for op in found[False]}
    assert found[False] == few
    assert any(few.values()) == (planted != "none")
    assert len(few) >= 8


def test_chains_have_few_checks() -> None:
    """What is checked in each run: where values stop spreading, and no more."""
    graph = amanda.function(_attention).graph(*["float32[4,4]"] * 3)
    observed = [op for op in graph if op.type not in ("softmax", "slice", "constant")]
    by_last = {
        last.type: [op.type for op in others]
        for last, others in chains(observed, graph).items()
    }
    assert by_last == {
        "matmul": ["transpose"],
        "log": [],
        "add": ["matmul", "add", "layer_norm", "add", "square"],
    }


def test_values_that_are_not_finite_in_one_iteration() -> None:
    """A sum overflows in the body of a loop, in the third of four rounds."""

    def body(_: Any, go: Any, now: Any) -> Any:
        return go, ops.negative(ops.add(ops.multiply(now, 1e13), 1.0))

    @amanda.function
    def network(x: Any) -> Any:
        return ops.loop(4, True, body, x)

    for ranges in (True, False):
        instrumented = amanda.apply(network.graph("float32[2]"), Trace(ranges=ranges))
        instrumented.run([np.array([1, 2], "float32")], "numpy")
        rows = instrumented.report.select("non-finite", tool="trace")
        found = {row.op: int(row.value) for row in rows}
        assert found["multiply"] == (4 if ranges else 2)
        assert instrumented.report.conclusions["first non-finite"] == "multiply"
        instrumented.report.reset()
        instrumented.run([np.array([1, np.nan], "float32")], "numpy")
        first = instrumented.report.conclusions["first non-finite"]
        assert first.startswith("an input or weight")


# -- features and files ----------------------------------------------------------------


def test_features_are_results_of_the_saved_model(tmp_path: Path) -> None:
    instrumented = amanda.apply(digits(), Features(names="/2/Relu"))
    path = tmp_path / "features.onnx"
    amanda.save(amanda.convert(instrumented.graph, "onnx@17"), path)
    results = amanda.run(amanda.load(path), [images()], backend="onnxruntime")
    [expected, *_], _ = outputs_of("relu")
    np.testing.assert_allclose(
        results["features//2/Relu/output"], expected, rtol=1e-4, atol=1e-5
    )


def test_features_that_do_not_exist() -> None:
    with pytest.raises(UsageError, match="finds no such op"):
        amanda.apply(digits(), Features(names="nothing*"))


def test_dumps_are_bounded(tmp_path: Path) -> None:
    tool = Dump(folder=tmp_path, types="relu", max_bytes=1)
    graph = amanda.convert(digits(), "std")
    amanda.graph.set_dims(graph, {"batch": 4})
    from amanda_std import passes

    passes.infer(graph)
    instrumented = amanda.apply(graph, tool)
    assert len(instrumented.report.unobserved) == 3
    assert "max_bytes=1" in instrumented.report.unobserved[0].reason


def test_dumps_of_symbolic_sizes_are_bounded(tmp_path: Path) -> None:
    instrumented = amanda.apply(
        digits(), Dump(folder=tmp_path, types="relu", max_bytes=9000)
    )
    instrumented.run([images()], "numpy")  # the first has 4 x 8 x 8 x 8 floats
    [file] = tmp_path.iterdir()
    assert list(np.load(file)) == ["/2/Relu"]
    assert [each.op for each in instrumented.report.unobserved] == [
        "/4/Relu", "/8/Relu",
    ]  # fmt: skip


def test_each_run_is_a_file(tmp_path: Path) -> None:
    instrumented = amanda.apply(digits(), Dump(folder=tmp_path, types="relu"))
    compiled = instrumented.compile("numpy")
    for _ in range(2):
        compiled([images()])
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["run-0001.npz", "run-0002.npz"]
    tool = Dump(folder=tmp_path / "s", types="relu", format="safetensors")
    amanda.apply(digits(), tool).run([images()], "numpy")
    from safetensors.numpy import load_file

    again = load_file(tmp_path / "s" / "run-0001.safetensors")
    assert set(again) == set(np.load(files[0]))
    for name, value in np.load(files[0]).items():
        np.testing.assert_array_equal(again[name], value)
    expected, _ = outputs_of("relu")
    arrays = np.load(files[1])
    for name, x in zip(arrays, expected, strict=True):
        np.testing.assert_allclose(arrays[name], x, rtol=1e-4, atol=1e-5)


# -- memory and profile ----------------------------------------------------------------


def test_bytes_and_bounds() -> None:
    """The first convolution writes 8 x 8 x 8 floats, of 72 weights and 8 biases."""
    tool = Memory(sizes={"batch": 1}, peak_flops=1e11, bandwidth=1e10)
    report = amanda.apply(digits(), tool).report
    assert report["output bytes"]["/0/Conv"] == 4 * 512
    assert report["weight bytes"]["/0/Conv"] == 4 * 80
    moved = 4 * (64 + 512 + 80)
    flops = 2 * 4608 + 512
    assert report["intensity"]["/0/Conv"] == pytest.approx(flops / moved)
    assert report["bound"]["/0/Conv"] == "memory"
    assert report["bound"]["/3/Conv"] == "compute"
    assert report.summary["weight bytes"] == 4 * 9802
    assert "<svg" in (tool.picture(report) or "")


def test_a_profile_names_the_ops_of_the_model(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    tool = Profile(trace=str(file))
    report = amanda.apply(digits(), tool, data=[[images()]]).report
    assert {"/0/Conv", "/4/Relu", "/9/Gemm"} <= set(report["ms"])
    assert all(value > 0 for value in report["ms"].values())
    events = json.loads(file.read_text())["traceEvents"]
    assert any("/0/Conv" in event["name"] for event in events)
    assert "<svg" in (tool.picture(report) or "")


def test_a_profile_needs_feeds() -> None:
    with pytest.raises(UsageError, match="needs feeds"):
        amanda.apply(digits(), Profile())


def test_pictures() -> None:
    """A row for each op, as long as its value."""
    import re

    feeds = [images()]
    trace = amanda.apply(digits(), Trace())
    trace.run(feeds, "numpy")
    sized = amanda.apply(digits(), Flops(sizes={"batch": 1})).report
    profiled = amanda.apply(digits(), Profile(), data=[feeds]).report
    for report in (trace.report, sized, profiled):
        [picture] = report.pictures
        widths = [
            float(w) for w in re.findall(r'<rect[^>]* width="([0-9.]+)"', picture)
        ]
        assert len(widths) >= 8
        assert max(widths) <= 300
        assert len(set(widths)) > 3
