"""Forty faults in files of four networks: bisection names the op that has each.

Small twins of the networks; `-m models` plants the faults in those of full size.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from planted_faults.networks import NETWORKS, Network, make_network
from planted_faults.table import FAULTS, Fault
from planted_faults.trial import run_trial

import amanda
from amanda_inspect import bisect
from amanda_inspect.anonymous import anonymize
from amanda_inspect.windows import Backend

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # by PyTorch's exporter
    pytest.mark.xdist_group("planted faults"),
]
for _needed in ("torch", "transformers", "onnxscript"):
    pytest.importorskip(_needed, reason=f"{_needed} is not installed")
for _plugin in ("amanda_onnx", "amanda_tf", "amanda_torch"):
    pytest.importorskip(_plugin, reason=f"{_plugin} is not installed")

Networks = Callable[[str], Network]


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Networks:
    folder = tmp_path_factory.mktemp("networks")
    return lambda name: make_network(name, folder, small=True)


@pytest.mark.most_cases(7)
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_planted_fault_is_named(fault: Fault, networks: Networks) -> None:
    trial = run_trial(fault, networks(fault.network), seed=0)
    assert trial.is_right, f"{trial.plant}: {trial.found.first}"
    assert len(trial.names) <= 3  # an op, with those that are folded into it
    assert trial.found.first is not None
    anonymous = anonymize(trial.found.first, (Backend("numpy", {}),) * 2)
    assert anonymous.reproduction is not None, "it shows with random weights, too"


@pytest.mark.parametrize(
    ("name", "a", "b"),
    list(dict.fromkeys((each.network, each.a, each.b) for each in FAULTS)),
)
def test_no_op_is_named_without_a_fault(
    name: str, a: str, b: str, networks: Networks
) -> None:
    network = networks(name)
    sides = [amanda.load(network.file(form)) for form in (a, b)]
    found = bisect(*sides, network.feeds, backend="numpy")
    assert found.first is None
    assert found.equal
    assert found.results


@pytest.mark.scale
def test_faults_at_other_places(networks: Networks) -> None:
    """The forty faults at places that another seed draws, in the small networks: all
    are named there, and with the seeds 2 and 3."""
    trials = [run_trial(each, networks(each.network), seed=1) for each in FAULTS]
    assert [str(each.fault) for each in trials if not each.is_right] == []


@pytest.mark.models
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_of_full_size(name: str, tmp_path: Path) -> None:
    folder = Path(os.environ.get("AMANDA_TEST_PLANTED_MODELS", tmp_path))
    network = make_network(name, folder, small=False)
    faults = [each for each in FAULTS if each.network == name]
    wrong = [
        trial
        for trial in (run_trial(each, network, seed=0) for each in faults)
        if not trial.is_right
    ]
    assert not wrong, [(str(each.fault), each.plant.text) for each in wrong]
