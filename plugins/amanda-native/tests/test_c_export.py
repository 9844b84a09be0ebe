"""`amanda export --c`: the files, what is refused, and small graphs as C."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_programs import assert_equals_numpy, call_program, compile_program
from native_libraries import COMPILER, needs_compiler
from test_plugin import TAKEN

import amanda
from amanda.backend import refusals
from amanda.cli import run_command_line
from amanda.errors import BackendError, UsageError
from amanda.graph import Graph, set_dims
from amanda.tensors import Tensor
from amanda.testing import BackendSample
from amanda_native.c_export import export_c
from amanda_native.c_export.definitions import DEFINITIONS
from amanda_native.c_export.kernel_source import kernel_rows, source_of_parts
from amanda_native.c_export.memory import Lifetime, plan_memory
from amanda_native.c_export.static_graph import static_graph
from amanda_std.backends import op_samples

ROOT = Path(__file__).resolve().parents[3]
DIGITS = ROOT / "examples" / "digits"


@needs_compiler
def test_the_digits_equal_numpy(tmp_path: Path) -> None:
    graph = amanda.load(DIGITS / "digits.onnx")
    set_dims(graph, {"batch": 4})
    images = np.load(DIGITS / "digits.npz")["images"][:4]
    files, (chances,) = assert_equals_numpy(graph, [images], tmp_path)
    labels = np.load(DIGITS / "digits.npz")["labels"][:4]
    np.testing.assert_array_equal(chances.argmax(1), labels)
    assert files.weight_bytes == 39_212


@needs_compiler
def test_a_c_program_calls_it(tmp_path: Path) -> None:
    """Without Python: the files, a main function, and the compiler."""
    graph = Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type("float32[3]"), "x")
    held = graph.constant(Tensor.of([0.5, 2.0, -1.0], "float32")).output
    graph.result(graph.add("multiply", [x, held]).output, "y")
    export_c(graph, tmp_path, "scaled")
    (tmp_path / "main.c").write_text(
        '#include "scaled.h"\n#include <stdio.h>\n'
        "int main(void) {\n  const float x[3] = {1, 2, 3};\n  float y[3];\n"
        "  if (scaled_run(x, y)) return 1;\n"
        '  printf("%g %g %g\\n", (double)y[0], (double)y[1], (double)y[2]);\n'
        "  return 0;\n}\n"
    )
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-O3"]
    sources = [str(tmp_path / name) for name in ("main.c", "scaled.c")]
    target = tmp_path / "program"
    command = [str(COMPILER), *flags, *sources, "-o", str(target), "-lm"]
    subprocess.run(command, check=True)
    done = subprocess.run([str(target)], capture_output=True, text=True, check=True)
    assert done.stdout == "0.5 4 -3\n"


def samples() -> dict[str, Callable[[], BackendSample]]:
    """The hub's samples of ops with kernels in C, and of those that become such."""
    return op_samples(sorted({*TAKEN, *DEFINITIONS} - {"scan"}), most=2)


@pytest.mark.most_cases(1)
@needs_compiler
@pytest.mark.parametrize("first", range(8))
def test_samples_of_ops_equal_their_results(first: int, tmp_path: Path) -> None:
    """Whatever is written as C computes what independent oracles say."""
    names = [*samples()][first::8]
    ran = 0
    for name in names:
        sample = samples()[name]()
        if refused_types(sample):
            continue
        folder = tmp_path / name
        function = compile_program(sample.graph, folder)
        for got, wanted in zip(
            call_program(function, sample.feeds, sample.expected), sample.expected,
            strict=True,
        ):  # fmt: skip
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5, err_msg=name)
        ran += 1
    assert ran >= 4


def refused_types(sample: BackendSample) -> bool:
    """Whether a sample has elements without kernels in C."""
    arrays = map(np.asarray, [*sample.feeds, *sample.expected])
    kinds = {array.dtype.name for array in arrays}
    return not kinds <= {"float32", "int32", "int64", "bool"} or bool(
        refusals(sample.graph, takes_dtype)
    )


def takes_dtype(op: Any) -> bool:
    row = kernel_rows().get(op.type)
    return row is None or all(
        v is None or row.inputs[0] == "*" or row.takes_dtype(str(v.type.dtype))
        for v in op.inputs[:1]
    )


@needs_compiler
def test_results_that_no_kernel_writes(tmp_path: Path) -> None:
    """Inputs, weights and a value as two results; a reshaped input, an unused one."""
    graph = Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type("int64[2, 3]"), "x")
    graph.parameter(amanda.parse_type("float32[]"), "unused")
    held = graph.constant(Tensor.of([[-(2**63), 2**63 - 1]], "int64")).output
    total = graph.add("sum", [x], {"axes": [1]}).output
    flat = graph.add("reshape", [x], {"shape": [6]}).output
    for value in (x, held, total, total, flat, graph.add("negative", [total]).output):
        graph.result(value)
    feeds = [np.arange(6).reshape(2, 3), np.float32(0)]
    assert_equals_numpy(graph, feeds, tmp_path)


@needs_compiler
def test_numbers_are_written_exactly(tmp_path: Path) -> None:
    bits = np.random.default_rng(0).integers(0, 2**32, 3000, dtype="uint32")
    special = np.array([0.0, -0.0, np.inf, -np.inf, 1e-45, 3.4028235e38, 1.0], "f4")
    numbers = np.concatenate([bits.view("float32"), special])
    numbers = numbers[~np.isnan(numbers)]
    graph = Graph("amanda/std/1")
    graph.result(graph.constant(Tensor.of(numbers)).output, "y")
    graph.result(graph.constant(Tensor.of([np.nan, 1], "float32")).output, "nan")
    function = compile_program(graph, tmp_path)
    found, nan = call_program(function, [], [numbers, np.zeros(2, "float32")])
    np.testing.assert_array_equal(found.view("uint32"), numbers.view("uint32"))
    assert np.isnan(nan).tolist() == [True, False]


@needs_compiler
def test_a_fault_at_run_time_is_reported(tmp_path: Path) -> None:
    graph = Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type("float32[4]"), "x")
    i = graph.parameter(amanda.parse_type("int64[1]"), "i")
    graph.result(graph.add("gather", [x, i]).output, "y")
    function = compile_program(graph, tmp_path)
    feeds = [np.ones(4, "float32"), np.array([9])]
    with pytest.raises(AssertionError, match="an index is out of range"):
        call_program(function, feeds, [np.zeros(1, "float32")])


@needs_compiler
def test_keywords_of_c_are_no_names(tmp_path: Path) -> None:
    graph = Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type("float32[2]"), "int")
    y = graph.parameter(amanda.parse_type("float32[2]"), "a*/b\n\"'\\")
    total = graph.add("add", [x, y], name="*/ #error \\").output
    graph.result(total, "return")
    assert_equals_numpy(graph, [np.ones(2, "float32")] * 2, tmp_path)


# -- what is refused -------------------------------------------------------------------


def test_a_symbolic_size_is_refused(tmp_path: Path) -> None:
    graph = amanda.load(DIGITS / "digits.onnx")
    with pytest.raises(BackendError, match="not of static shape") as caught:
        export_c(graph, tmp_path, "digits")
    assert caught.value.hint == "`amanda export --dim NAME=SIZE` fixes sizes of inputs"
    assert "batch" in caught.value.problems[0]


def test_an_op_without_kernel_is_named(tmp_path: Path) -> None:
    graph = Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type("float32[3, 3]"), "x")
    graph.result(graph.add("sort", [x], name="ordered").output)
    with pytest.raises(BackendError, match="ops that are not written as C") as caught:
        export_c(graph, tmp_path, "model")
    assert caught.value.problems == (
        "sort 'ordered': there is no kernel in C for sort",
    )
    assert list(tmp_path.iterdir()) == []


def test_another_element_type_is_refused(tmp_path: Path) -> None:
    graph = Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type("float16[3]"), "x")
    graph.result(graph.add("abs", [x]).output)
    with pytest.raises(BackendError, match="supported types") as caught:
        export_c(graph, tmp_path, "model")
    assert "float16[3], another element type" in caught.value.problems[0]


def test_a_name_is_an_identifier(tmp_path: Path) -> None:
    graph = Graph("amanda/std/1")
    graph.result(graph.parameter(amanda.parse_type("float32[1]")))
    for name in ("", "a b", "../x", "9a"):
        with pytest.raises(UsageError, match="is an identifier"):
            export_c(graph, tmp_path, name)


def test_the_verb_needs_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["export", str(DIGITS / "digits.onnx")]) == 2
    assert "expected: --c FOLDER" in capsys.readouterr().err


# -- the C file as data ----------------------------------------------------------------


def test_the_table_is_that_of_the_library() -> None:
    assert sorted(kernel_rows()) == TAKEN
    assert kernel_rows()["pad"].inputs == "tPoA"
    assert kernel_rows()["where"].kernel == "where"


def test_each_kernel_has_what_it_needs() -> None:
    for row in kernel_rows().values():
        text = source_of_parts([row.kernel])
        assert f"KERNEL({row.kernel})" in text or f"({row.kernel}," in text


def test_values_that_live_together_are_apart() -> None:
    random = np.random.default_rng(3)
    lives = []
    for i in range(60):
        first, length = (int(n) for n in random.integers(0, 40, 2))
        size = int(random.integers(0, 500))
        lives.append(Lifetime(f"v{i}", size, first, first + length % 7))
    offsets, size = plan_memory(lives)
    most = max(
        sum(v.bytes for v in lives if v.first <= step <= v.last) for step in range(50)
    )
    assert most <= size < sum(v.bytes for v in lives) / 2
    for i, one in enumerate(lives):
        assert offsets[one.name] % 16 == 0
        for other in lives[:i]:
            if one.first <= other.last and other.first <= one.last:
                a, b = offsets[one.name], offsets[other.name]
                apart = a + one.bytes <= b or b + other.bytes <= a
                assert apart or not one.bytes or not other.bytes


def test_a_loop_is_unrolled() -> None:
    graph = Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type("float32[3, 2]"), "x")
    start = graph.parameter(amanda.parse_type("float32[2]"), "start")
    body = Graph("amanda/std/1")
    carried = body.parameter(amanda.parse_type("float32[2]"), "carried")
    row = body.parameter(amanda.parse_type("float32[2]"), "row")
    total = body.add("add", [carried, row]).output
    body.result(total)
    body.result(total)
    attrs = {"carried": 1, "reverse": [True], "out_axes": [1]}
    op = graph.add("scan", [None, start, x], attrs, outputs=2, bodies={"body": body})
    graph.result(op.outputs[0])
    graph.result(op.outputs[1])
    made = static_graph(graph)
    assert [op.type for op in made].count("add") == 3
    feeds = [np.arange(6, dtype="float32").reshape(3, 2), np.ones(2, "float32")]
    wanted = amanda.run(graph, feeds, backend="numpy")
    found = amanda.run(made, feeds, backend="numpy")
    for one, other in zip(wanted.values(), found.values(), strict=True):
        np.testing.assert_array_equal(one, other)
