"""Models of `transformers`: some are made, all where AMANDA_TORCH_MODELS has them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

import amanda
from amanda_torch_conformance import cases, run_case
from amanda_torch_conformance.program_files import programs_folder

SLICE = "^(bert|llama-cache|detr)$"


def make(folder, pattern):
    if find_spec("torch") is None or find_spec("transformers") is None:
        pytest.skip("PyTorch and transformers make the models")
    command = [sys.executable, "-m", "amanda_torch_conformance.making.model_files"]
    subprocess.run([*command, str(folder), pattern], check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AMANDA_TORCH_MODELS", str(folder))
        programs_folder.cache_clear()
        yield folder
    programs_folder.cache_clear()


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A few small models, made by PyTorch in a process of its own."""
    yield from make(tmp_path_factory.mktemp("models"), SLICE)


@pytest.fixture(scope="module")
def all_models(tmp_path_factory):
    folder = os.environ.get("AMANDA_TORCH_MODELS") or tmp_path_factory.mktemp("models")
    yield from make(folder, "")


def test_dynamic_models(models):
    index = json.loads((models / "index.json").read_text("utf-8"))
    axes = {row["name"]: row["kinds"] for row in index["programs"]}
    assert axes == {
        name: {"models": "", "models-dynamic": "batch length"}
        for name in ("bert", "llama-cache", "detr")
    }
    outcomes = [run_case(*each) for each in cases(["models-dynamic"])]
    assert [(o.case, o.status, o.why) for o in outcomes] == [
        (name, "pass", "") for name in axes
    ]


def round_trip(folder, case, path):
    """Write the graph of a case again, and compare what PyTorch loads with the case."""
    import torch

    amanda.save(case.load(), path)
    module = torch.export.load(path).module()
    spec = module._in_spec
    for data in case.data():
        leaves = [torch.from_numpy(x) for x in data.feeds]
        args, kwargs = torch.utils._pytree.tree_unflatten(leaves, spec)
        with torch.no_grad():
            found = torch.utils._pytree.tree_leaves(module(*args, **kwargs))
        assert len(found) == len(data.expected)
        for have, want in zip(found, data.expected, strict=True):
            np.testing.assert_allclose(have.numpy(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.scale
@pytest.mark.parametrize("kind", ["models", "models-dynamic"])
def test_round_trips(all_models, kind, tmp_path):
    import transformers.integrations.executorch as integration

    integration.register_dynamic_cache_export_support()
    failed = {}
    for _, case in cases([kind]):
        try:
            round_trip(all_models, case, tmp_path / "model.pt2")
        except Exception as error:  # noqa: BLE001 - all are run, then listed
            failed[case.name] = f"{type(error).__name__}: {error}"[:200]
    assert failed == {}
