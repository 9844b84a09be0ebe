"""All cases of ONNX's backend test suite, through the hub set, on numpy."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import amanda
from amanda.cli import run_command_line
from amanda.errors import BackendError
from amanda.scoreboard import OUTCOMES
from amanda_onnx_conformance import KINDS, cases, data_sets, run_case

CASES = 2033  # of onnx 1.23; newer ones have more
PARTS = 16  # of the cases, which several processes share
DRAWN = ("test_bernoulli", "test_training_dropout")  # with a ratio that is not 0


def test_all_cases_are_found():
    """Each has inputs and expected outputs."""
    found = list(cases())
    assert len(found) >= CASES
    assert {kind for kind, _ in found} == set(KINDS)
    assert len({(kind, case.name) for kind, case in found}) == len(found)
    assert [case.name for _, case in found if not any(data_sets(case))] == []


def test_real_networks_are_cases():
    assert len([case for kind, case in cases() if kind == "real"]) >= 9


@pytest.mark.most_cases(6)
@pytest.mark.parametrize("part", range(PARTS))
def test_cases_pass(part):
    """All but the random ones, whose numbers onnx's own reference leaves out, too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcomes = [run_case(*case) for case in list(cases())[part::PARTS]]
    assert {each.status for each in outcomes} <= set(OUTCOMES)
    others = [each for each in outcomes if each.status != "pass"]
    assert {
        each.case: (each.status, each.why)
        for each in others
        if each.status != "drawn" or not each.case.startswith(DRAWN)
    } == {}
    assert all(each.why for each in others)


def test_command_counts(capsys):
    arguments = ["--kind", "simple", "--match", "sequence|sign", "--json"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run_command_line(["scoreboard", "onnx", *arguments]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["suite"] == "onnx"
    assert answer["backend"] == "numpy"
    counts = answer["counts"]
    assert sum(counts.values()) == len(answer["cases"]) + counts["pass"]


class FailingBackend:
    """numpy, whose results are an error, or one too large."""

    def __init__(self, *, raises: bool) -> None:
        self._raises = raises
        self._numpy = amanda.default_host().get("backends", "numpy")

    def __getattr__(self, name):
        return getattr(self._numpy, name)

    def compile(self, graph, device, options):
        executable = self._numpy.compile(graph, device, options)

        def call(feeds, out=None):
            if self._raises:
                raise ArithmeticError("no result")
            return [y + np.ones((), y.dtype) for y in executable(feeds, out)]

        return call


@pytest.mark.parametrize(("raises", "status"), [(True, "fail"), (False, "wrong")])
def test_exit_code_is_1_on_any_failure(monkeypatch, capsys, raises, status):
    host = amanda.Host()
    monkeypatch.setattr("amanda.host._default", host)
    backend = FailingBackend(raises=raises)
    host.register_backend("faulty", backend, manifest={"namespace": backend.namespace})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run_command_line([*SIGNS, "faulty"]) == 1
    out = capsys.readouterr().out
    assert f"\n{status}: test_" in out
    assert " 0 pass" in " ".join(out.split())


def test_how_cases_ran_is_counted(capsys):
    pytest.importorskip("amanda_jax")
    arguments = ["scoreboard", "onnx", "--backend", "jax", "--kind", "node", "--json",
                 "--match", "test_(tanh|top_k|nonzero_example)$"]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run_command_line(arguments) == 0
    modes = json.loads(capsys.readouterr().out)["modes"]
    assert modes == {
        "one program for each shape of the inputs": ["test_tanh"],
        "a program for each value that decides a shape": ["test_top_k"],
        "programs, and ops between them that Python runs": ["test_nonzero_example"],
    }


class RecordingBackend:
    """numpy, which records its options and has one more."""

    def __init__(self) -> None:
        self.options: list[dict[str, object]] = []
        self._numpy = amanda.default_host().get("backends", "numpy")

    def __getattr__(self, name):
        return getattr(self._numpy, name)

    def compile(self, graph, device, options):
        if set(options) - {"depth"}:
            raise BackendError(f"no option {min(options)!r}")
        self.options.append(dict(options))
        return self._numpy.compile(graph, device, {})


@pytest.fixture
def recorder(monkeypatch):
    host = amanda.Host()
    monkeypatch.setattr("amanda.host._default", host)
    made = RecordingBackend()
    host.register_backend("recorder", made, manifest={"namespace": made.namespace})
    return made


SIGNS = (
    "scoreboard",
    "onnx",
    "--kind",
    "simple",
    "--match",
    "sign|shrink",
    "--backend",
)


def test_options_reach_the_backend(recorder, capsys):
    """Once for a small model, to check them; then for each case."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert (
            run_command_line(
                [*SIGNS, "recorder", "--option", "depth=3", "--fallback", "numpy"]
            )
            == 0
        )
    out = capsys.readouterr().out
    count = int(out.split("\n")[1].split()[0])
    assert count >= 2
    assert f"{count} cases of onnx on recorder (depth=3), else numpy" in out
    assert recorder.options == [{"depth": 3}] * (count + 1)


@pytest.mark.parametrize(
    ("option", "code", "text"),
    [
        ("speed=1", 4, "amanda scoreboard: no option 'speed'\n"),
        ("fallback=numpy", 2, "invalid --option 'fallback': it is not an option\n"),
        ("depth", 2, "--option takes NAME=VALUE\n  where:    --option depth\n"),
    ],
)
def test_invalid_option_is_reported_once(recorder, capsys, option, code, text):
    assert run_command_line([*SIGNS, "recorder", "--option", option]) == code
    assert text in capsys.readouterr().err
    assert recorder.options == []
