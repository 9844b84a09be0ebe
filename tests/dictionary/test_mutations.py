"""Real graphs: none has a fault that it does not have; every planted fault is found."""

from __future__ import annotations

import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from dictionary.mutations import MUTATIONS, plant_mutations
from dictionary.onnx_models import cases, graph_of
from dictionary.specimens import specimen
from dictionary.tf_graphs import graph_of as tf_graph_of

from amanda.dictionary import Dictionary, DictionaryHistory, check_graph, parse_name
from amanda.graph import Graph

pytestmark = pytest.mark.install_independent

EVERY = 3  # of the graphs, so many are left out for each that is mutated
PARTS = 2  # of those, each of which is a case
LARGE = 60  # ops; mutating a graph looks through it once for each fault


@pytest.fixture(scope="module")
def onnx_graphs() -> dict[str, Graph]:
    pytest.importorskip("onnx", reason="needs onnx, whose test models are checked")
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # onnx computes what its models should give
        return {name: graph_of(model) for name, model in cases()}


@pytest.fixture(scope="module")
def tf_graphs(data: Path, newest: Dictionary) -> dict[str, Graph]:
    return frozen(data, newest)


def frozen(data: Path, dictionary: Dictionary) -> dict[str, Graph]:
    """The graphs of tf_graphs; the test is skipped where they are not there."""
    file = data / "tf_graphs" / "tf_graphs_dev.tar.gz"
    if not file.is_file():
        pytest.skip("needs tf_graphs in AMANDA_TEST_DATA")
    graphs = {}
    with tarfile.open(file) as archive:
        for member in archive:
            if member.name.endswith("/model.pb"):
                content = archive.extractfile(member)
                assert content is not None
                graphs[member.name] = tf_graph_of(content.read(), dictionary)
    return graphs


@pytest.fixture(scope="module")
def newest(tensorflow: DictionaryHistory) -> Dictionary:
    return tensorflow.at(tensorflow.versions()[-1])


def of(graph: Graph, history: DictionaryHistory) -> Dictionary:
    assert graph.namespace is not None
    version = parse_name(graph.namespace).version
    assert version is not None
    return history.at(version)


def test_models_of_onnx_have_no_fault(
    onnx_graphs: dict[str, Graph], onnx: DictionaryHistory
) -> None:
    assert len(onnx_graphs) > 1500
    for name, graph in onnx_graphs.items():
        found = check_graph(graph, against=of(graph, onnx))
        assert [str(problem) for problem in found.problems] == [], name
        assert found.unchecked == {}, name


def test_graphs_of_tensorflow_have_no_fault(
    tf_graphs: dict[str, Graph], newest: Dictionary
) -> None:
    assert len(tf_graphs) == 922
    for name, graph in tf_graphs.items():
        assert [str(problem) for problem in newest.validate(graph)] == [], name


def every_fault_is_found(
    pairs: Iterator[tuple[str, Graph, Dictionary]],
) -> Counter[str]:
    """How many faults of each kind were planted and, all of them, found."""
    counts: Counter[str] = Counter()
    for name, graph, dictionary in pairs:
        for mutation, found in plant_mutations(graph, dictionary):
            counts[mutation] += 1
            assert found, f"{name}: {mutation}, the {counts[mutation]}th, was not told"
        assert dictionary.validate(graph) == [], name  # all was taken out again
        assert graph.check() == [], name
    return counts


@pytest.mark.most_cases(1)
@pytest.mark.parametrize("part", range(PARTS))
def test_faults_in_models_of_onnx(
    onnx_graphs: dict[str, Graph], onnx: DictionaryHistory, part: int
) -> None:
    chosen = list(onnx_graphs)[part * EVERY :: PARTS * EVERY]
    chosen = [name for name in chosen if len(onnx_graphs[name]) <= LARGE]
    assert len(chosen) > 250
    graphs = ((n, onnx_graphs[n], of(onnx_graphs[n], onnx)) for n in chosen)
    counts = every_fault_is_found(graphs)
    assert set(counts) == set(MUTATIONS)
    assert counts.total() > 1500


@pytest.mark.most_cases(1)
@pytest.mark.parametrize("part", range(PARTS))
def test_faults_in_graphs_of_tensorflow(
    tf_graphs: dict[str, Graph], newest: Dictionary, part: int
) -> None:
    chosen = list(tf_graphs)[2 * part * EVERY :: 2 * PARTS * EVERY]
    chosen = [name for name in chosen if len(tf_graphs[name]) <= LARGE]
    counts = every_fault_is_found((n, tf_graphs[n], newest) for n in chosen)
    assert set(counts) == set(MUTATIONS)
    assert counts.total() > 1000


def test_an_op_of_every_type_of_tensorflow(tf1: Dictionary) -> None:
    dictionary = tf1
    graphs = (
        (e.name, specimen(e, dictionary), dictionary) for e in dictionary.values()
    )
    counts = every_fault_is_found(graphs)
    assert set(counts) == set(MUTATIONS)


@pytest.mark.parametrize("version", ["1", "9", "18", "28"])
def test_an_op_of_every_type_of_onnx(onnx: DictionaryHistory, version: str) -> None:
    dictionary = onnx.at(version)
    entries = [e for e in dictionary.values() if e.deprecated is None and not e.bodies]
    counts = every_fault_is_found(
        (e.name, specimen(e, dictionary), dictionary) for e in entries
    )
    assert counts.total() > 500
