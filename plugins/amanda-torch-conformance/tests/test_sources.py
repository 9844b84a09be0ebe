"""Python source of programs: written, imported, and run in PyTorch.

The programs are those of the scoreboard, in the folders that AMANDA_TEST_TORCH_MODELS
and AMANDA_TEST_TORCH_PROGRAMS name.
"""

from __future__ import annotations

import importlib.util
import json
import os
import warnings

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from torch.utils import _pytree  # noqa: E402

import amanda  # noqa: E402
from amanda.scoreboard import DataSet, run_function  # noqa: E402
from amanda_torch.backend.arrays import to_numpy, to_tensor  # noqa: E402
from amanda_torch.records import PROGRAM_RECORDS  # noqa: E402
from amanda_torch.source.program import Program  # noqa: E402
from amanda_torch.source.signature import FixedInput, flat_inputs  # noqa: E402
from amanda_torch_conformance import cases  # noqa: E402
from amanda_torch_conformance.program_files import load_arrays  # noqa: E402

pytestmark = pytest.mark.scale

KNOWN = {
    "maskformer": "PyTorch records two modules under one path",
    "histogramdd": "a result that is a list in a tuple",
    "nn.functional.linear_cross_entropy-chunked": "an op that PyTorch registers late",
    "nn.functional.linear_cross_entropy-chunked_none": "the same",
    "to_sparse": "a result that is no dense tensor",
}
"""What is not right, and why."""


def load_module(path):
    """The module of a written file."""
    spec = importlib.util.spec_from_file_location("written", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load()


def source_function(graph, path):
    """A function of flat arrays: the module whose source is written."""
    amanda.save(graph, path)
    inputs = flat_inputs(Program(graph, amanda.namespace(graph.namespace)))
    calls = PROGRAM_RECORDS.of(graph).get("module_call_graph")
    module = load_module(path)

    def run(arrays):
        rest = iter([to_tensor(array, torch.device("cpu")).clone() for array in arrays])
        leaves = [
            each.value if isinstance(each, FixedInput) else next(rest)
            for each in inputs
        ]
        args, kwargs = leaves, {}
        if calls:
            spec = json.loads(calls[0]["signature"]["in_spec"])[1]
            args, kwargs = build_tree(spec, iter(leaves))
        with torch.no_grad():
            results = _pytree.tree_leaves(module(*args, **kwargs))
        return [to_numpy(torch.as_tensor(each)) for each in results]

    return run


def build_tree(spec, leaves):
    """The arguments of a specification; classes with names are dicts, as in sources."""
    if spec["type"] is None:
        return next(leaves)
    children = [build_tree(child, leaves) for child in spec["children_spec"]]
    if spec["type"] in ("builtins.tuple", "builtins.list"):
        return tuple(children) if spec["type"] == "builtins.tuple" else children
    keys = json.loads(spec["context"])
    keys = keys[0] if isinstance(keys[0], list) else keys
    return dict(zip(keys, children, strict=True))


def data_of(case, kind, sample):
    if sample is not None:
        return [case.data(sample, "torch-export")]
    files = sorted((case.folder / kind).glob("*.npz"))
    return [
        DataSet(load_arrays(f, "in_"), load_arrays(f, "out_"), 1e-5, 1e-5)
        for f in files
    ]


def find_wrong(kind, path):
    """How many cases are right, and why the others are not."""
    right, wrong = 0, {}
    for _, case in cases([kind]):
        samples = [None] if kind == "models" else range(case.samples)
        for sample in samples:
            given = [] if sample is None else [sample]
            data = data_of(case, kind, sample)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.manual_seed(0)
                outcome = run_function(
                    case.name, kind,
                    lambda c=case, g=given: source_function(c.load(*g), path), data,
                )  # fmt: skip
            if outcome.status != "pass":
                wrong[case.name] = outcome.why
                break
        else:
            right += 1
    return right, wrong


@pytest.mark.skipif("AMANDA_TEST_TORCH_MODELS" not in os.environ, reason="no models")
def test_models(tmp_path):
    """Their ops of experts are registered by `transformers`."""
    pytest.importorskip("transformers.integrations.moe")
    right, wrong = find_wrong("models", tmp_path / "written.py")
    print(f"{right} of {right + len(wrong)} models", *wrong.items(), sep="\n")
    assert wrong.keys() <= KNOWN.keys()


@pytest.mark.skipif(
    "AMANDA_TEST_TORCH_PROGRAMS" not in os.environ, reason="no programs"
)
def test_ops(tmp_path):
    right, wrong = find_wrong("static", tmp_path / "written.py")
    print(f"{right} of {right + len(wrong)} ops", *wrong.items(), sep="\n")
    assert wrong.keys() <= KNOWN.keys()
