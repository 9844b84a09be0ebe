"""Reproductions of faults that outside trials found, in `AMANDA_TEST_DATA/repro`.

Each runs in a child process, in bounded time and memory, and ends with an AmandaError
or the right numbers: `expected` is a pattern of what it prints then, `refused` of what
it prints where the fault is there. Those that are still there are strict xfails.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

FOLDER = Path(os.environ.get("AMANDA_TEST_DATA", "/nowhere"), "repro")
RUNNER = Path(__file__).with_name("run_reproduction.py")
SECONDS = 120  # on a machine with other load; alone, each takes less than 20
MEGABYTES = 500
FOREIGN = r"Traceback|Segmentation|Fatal Python"

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="there is no AMANDA_TEST_DATA/repro"
)


class Case(NamedTuple):
    """A file with its arguments, and what it prints without the fault."""

    file: str
    arguments: tuple[str, ...] = ()
    expected: str = ""
    refused: str = "(?!)"

    @property
    def name(self) -> str:
        return " ".join((self.file, *self.arguments))


CASES = [
    *(
        Case(name)
        for name in (
            "abort.mlir",
            "bc_abort.onnx",
            "bc_segv.onnx",
            "big_import.py",
            "big_version.json",
            "const_no_tensor.yaml",
            "const_no_tensor_onnx.yaml",
            "custom_call.mlir",
            "deep.mlir",
            "empty_type.yaml",
            "expcall.mlir",
            "long_version.yaml",
            "notes_corrupt.amtxt",
            "ort_sigfpe.py",
            "sharding.mlir",
        )
    ),
    Case("splat.mlir", ("load",)),  # its result has 4 GB
    Case("overwrite.py", ("1",), "jax second model, right: True", "WRONG|right: False"),
    Case("ext_order.py", (), r"graph m1 with weights \[1\.\]|m2 with weights \[2\.\]"),
    Case("stablehlo_write.py", (), "old file intact: True"),
    Case("jax_save_part.py", (), r"two writers: \{\}(.|\n)*True \['p'\]"),
    Case("jax_cache_pickle.py", (), "0.7615942", "CODE EXECUTED"),
    Case("excl.py", (), re.escape("sum excl [0.e+00 1.e+00 1.e+08]")),
    Case("tiles_min.py", (), r"e-06", r"e-0[1-4]|\bnan\b|: inf|: \d\d"),
    Case("gradrepro.py", (), " ok ", "refused|Error"),
    Case("avg.py", ("640",)),
    Case("memerr.py", (), "", "False"),
    Case("random_huge.py", (), r"(?m)^[1-5]$", r"(?m)^70$"),
    Case("npz.py", (), "exit [1-5]", "exit 70"),
    Case("save_file_name.py", (), "exit", "exit 70"),
    Case("same_names.py", (), "2 inputs of the graph are named 'x'"),
    Case("bool_bits.py", (), "amanda True", "False"),
    Case("session_threads.py", (), "wrong 0 of 1600; errors 0"),
    Case("session_jax_import.py", (), r"(?m)^\{\}$"),
    *(Case("fold_bombs.py", (name,)) for name in ("concat", "reduce", "regex")),
    *(
        Case("mk_convert_mem.py", (name,))
        for name in ("eye", "hann", "onehot", "uniform", "upsample")
    ),
    Case("repro1.py", (), "Gelu max", r"(numpy|jax) [A-Z]\w*Error"),
    Case("repro2.py", (), "sizes called by one name", "Error|do not match"),
]
FLUSHED = [
    "Less denormal: jax",
    "Log denormal: jax",
    "Mul to denormal: jax",
    "ArgMax: jax",
]
"""Blocks of repro1.py that differ: XLA flushes denormal numbers on the CPU, which the
README of amanda-jax documents, under Rounding."""


def run(case: Case, folder: Path) -> str:
    """What it prints; a foreign exception or a signal fails."""
    done = subprocess.run(
        [sys.executable, RUNNER, FOLDER / case.file, *case.arguments],
        cwd=folder,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONWARNINGS": "ignore"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode in (0, 3), (done.returncode, done.stdout[-2000:])
    return done.stdout


def differences(printed: str) -> list[str]:
    """The ops of which a backend has other numbers than both references."""
    found = []
    for block in printed.split("# ")[1:]:
        rows = dict(re.findall(r"(?m)^ +(ref|ort|numpy|jax) (.*)$", block))
        wanted = [numbers(rows[name]) for name in ("ref", "ort")]
        for backend in ("numpy", "jax"):
            if not any(equal(numbers(rows[backend]), each) for each in wanted):
                found.append(f"{block.splitlines()[0]}: {backend}")
    return found


def numbers(text: str) -> list[float]:
    words = text.replace("True", "1").replace("False", "0")
    return [
        float(word) for word in re.findall(r"-?[\d.]+(?:e[-+]?\d+)?|nan|-?inf", words)
    ]


def equal(a: list[float], b: list[float]) -> bool:
    return len(a) == len(b) and np.allclose(a, b, rtol=1e-5, atol=0, equal_nan=True)


@pytest.mark.most_cases(7)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_reproduction(case: Case, tmp_path: Path) -> None:
    printed = run(case, tmp_path)
    assert not re.search(FOREIGN, printed), printed[-2000:]
    assert not re.search(case.refused, printed), printed[-2000:]
    if "AmandaError:" not in printed:
        assert re.search(case.expected, printed), printed[-2000:]
    if case.file == "repro1.py":
        assert differences(printed) == FLUSHED
    peak = re.search(r"(?m)^peak (\d+) MB$", printed)
    assert peak is not None
    assert int(peak[1]) <= MEGABYTES


@pytest.mark.parametrize(
    ("plugin", "command"),
    [
        ("plug_run_exit", ["compare", "--backend", "evb", "--backend", "numpy",
                           "--random", "1"]),
        ("plug_takes_exit", ["check", "--for", "evb"]),
    ],
)  # fmt: skip
def test_a_plugin_that_exits(plugin: str, command: list[str], tmp_path: Path) -> None:
    import amanda

    graph = amanda.Graph("amanda/std/1")
    x = graph.parameter(amanda.parse_type("float32[3]"), name="x")
    graph.result(graph.add("tanh", [x]).output, name="y")
    amanda.save(graph, tmp_path / "m.yaml")
    verb, *options = command
    done = subprocess.run(
        [sys.executable, "-m", "amanda", verb, tmp_path / "m.yaml", *options],
        env={**os.environ, "PYTHONPATH": str(FOLDER / plugin)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode not in (0, 70)
    assert "evb" in done.stdout + done.stderr


def test_every_file_is_run() -> None:
    covered = {case.file for case in CASES} | {"README.md", "plug.sh"}
    files = {path.name for path in FOLDER.iterdir() if path.is_file()}
    assert files <= covered
