"""Models of `transformers`: all of them where AMANDA_TEST_TORCH_MODELS is set."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from amanda.scoreboard import Outcome, parse_section
from amanda_torch_conformance import KINDS, cases, run_case
from amanda_torch_conformance.cases import step_data
from amanda_torch_conformance.program_files import (
    load_arrays,
    load_names,
    programs_folder,
)

pytestmark = pytest.mark.xdist_group("models")

PAGE = Path(__file__).parents[3] / "docs" / "scoreboard-torch.md"
SLICE = "^(bert|llama-cache|detr)$"


def make(folder, pattern):
    if find_spec("torch") is None or find_spec("transformers") is None:
        pytest.skip("PyTorch and transformers make the models")
    command = [sys.executable, "-m", "amanda_torch_conformance.making.model_files"]
    subprocess.run([*command, str(folder), pattern], check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AMANDA_TEST_TORCH_MODELS", str(folder))
        programs_folder.cache_clear()
        yield folder
    programs_folder.cache_clear()


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A few small models, made by PyTorch in a process of its own."""
    yield from make(tmp_path_factory.mktemp("models"), SLICE)


@pytest.fixture(scope="module")
def all_models(tmp_path_factory):
    folder = os.environ.get("AMANDA_TEST_TORCH_MODELS") or tmp_path_factory.mktemp(
        "models"
    )
    yield from make(folder, "")


def test_dynamic_models(models):
    index = json.loads((models / "index.json").read_text("utf-8"))
    axes = {row["name"]: row["kinds"] for row in index["programs"]}
    kinds = {"models": "", "models-dynamic": "batch length", "models-training": ""}
    assert axes == dict.fromkeys(("bert", "llama-cache", "detr"), kinds)
    outcomes = [run_case(*each) for each in cases(["models-dynamic"])]
    assert [(o.case, o.status, o.why) for o in outcomes] == [
        (name, "pass", "") for name in axes
    ]


@pytest.mark.parametrize("kind", KINDS[2:])
def test_modules_of_pytorch(models, kind):
    [bert] = cases([kind], "bert")
    assert run_case(*bert, "torch-export") == Outcome("bert", kind, "pass")


def test_modules_that_no_other_backend_trains(models):
    [bert] = cases(["models-training"], "bert")
    assert run_case(*bert, "numpy") == Outcome(
        "bert", "models-training", "declined",
        "programs of PyTorch are trained: --backend torch-export",
    )  # fmt: skip


def training_results(models):
    """The names of parameters, and their values after a step."""
    file = models / "bert" / "models-training" / "0.npz"
    return load_names(file), load_arrays(file, "out_")[1:]


def weights_before():
    """The parameters of the model before the step, by name."""
    [(_, bert)] = cases(["models-training"], "bert")
    return {
        op.attrs["target"]: np.asarray(op.attrs["x-value"])
        for op in bert.load() if op.type == "get_attr"
    }  # fmt: skip


def test_a_step_changes_the_parameters(models):
    """All but the biases of keys, which softmax takes out of the scores."""
    names, after = training_results(models)
    weights = weights_before()
    unchanged = [
        name for name, value in zip(names, after, strict=True)
        if np.abs(value - weights[name]).max() < 1e-3
    ]  # fmt: skip
    assert unchanged == [name for name in names if name.endswith("key.bias")]
    assert len(unchanged) == 2


def test_wrong_gradients_are_found(models):
    """One of 1.001 times the size, and one that is 0 but for rounding."""
    names, _ = training_results(models)
    data = step_data(models / "bert" / "models-training" / "0.npz")
    before = [None, *map(weights_before().get, names)]

    def outcome_with(name, change):
        i = 1 + names.index(name)
        after = list(data.expected)
        step = after[i].astype("float64") - before[i]
        after[i] = (before[i] + change(step)).astype("float32")
        return data.criterion(lambda: after)

    for name in names:
        why = outcome_with(name, lambda step: 1.001 * step)
        assert (why is None) == name.endswith("key.bias")
        if name.endswith("key.bias"):
            assert outcome_with(name, lambda step: np.roll(step, 1)) is None
            assert "errors" in outcome_with(name, lambda step: step + 1e-5)


@pytest.mark.scale
@pytest.mark.parametrize("kind", KINDS[2:])
def test_all_modules_of_pytorch(all_models, kind):
    outcomes = [run_case(*each, "torch-export") for each in cases([kind])]
    listed = parse_section(PAGE.read_text("utf-8"), f"torch-export: {kind}")
    assert len(outcomes) > 140
    assert {o.case: o.why for o in outcomes
            if o.status != "pass" and o.case not in listed} == {}  # fmt: skip
