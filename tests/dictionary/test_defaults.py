"""Defaults written out and taken away, on real graphs."""

from __future__ import annotations

from pathlib import Path

import pytest
from dictionary.onnx_models import cases, graph_of
from dictionary.test_mutations import frozen

from amanda.dictionary import Dictionary, DictionaryHistory, parse_name
from amanda.graph import Graph

pytestmark = pytest.mark.install_independent


def digest(graph: Graph) -> str:
    return graph.digest(content=True, names=True)


def unchanged(graph: Graph, dictionary: Dictionary) -> int:
    """Fills and strips; how many attributes that were."""
    before = digest(graph)
    given = dictionary.fill(graph)
    assert dictionary.validate(graph) == []
    assert (digest(graph) == before) is not bool(given)
    assert dictionary.fill(graph) == []
    full = digest(graph)
    assert dictionary.strip(graph, given) == len(given)
    assert digest(graph) == before
    dictionary.strip(graph)
    assert dictionary.validate(graph) == []
    bare = digest(graph)
    dictionary.fill(graph)
    assert digest(graph) == full  # what was stripped is what stands for it
    dictionary.strip(graph)
    assert digest(graph) == bare
    return len(given)


@pytest.mark.most_cases(1)
@pytest.mark.parametrize("part", range(2))
@pytest.mark.filterwarnings("ignore")  # onnx computes what its models should give
def test_models_of_onnx(onnx: DictionaryHistory, part: int) -> None:
    pytest.importorskip("onnx", reason="needs onnx, whose test models are changed")
    count = graphs = 0
    for i, (_, model) in enumerate(cases()):
        if i % 16 != 8 * part:
            continue
        graph = graph_of(model)
        assert graph.namespace is not None
        version = parse_name(graph.namespace).version
        assert version is not None
        count += unchanged(graph, onnx.at(version))
        graphs += 1
    assert graphs > 75
    assert count > 50


def test_graphs_of_tensorflow(data: Path, tensorflow: DictionaryHistory) -> None:
    dictionary = tensorflow.at(tensorflow.versions()[-1])
    graphs = frozen(data, dictionary)
    counts = [unchanged(graph, dictionary) for graph in graphs.values()]
    assert len(counts) == 922
    assert sum(counts) > 0


def test_what_is_no_default_stays(onnx: DictionaryHistory) -> None:
    dictionary = onnx.at("18")
    graph = Graph(dictionary.name)
    x = graph.parameter()
    made = dictionary.build(graph)
    kept = made.LeakyRelu(x, alpha=0.5).op
    gone = made.LRN(x, size=3, bias=1.0).op
    assert dictionary.strip(graph) == 1
    assert dict(kept.attrs) == {"alpha": 0.5}
    assert dict(gone.attrs) == {"size": 3}
    foreign = graph.add("LRN", [x], {"bias": 1.0}, namespace="acme/x/1")
    assert dictionary.strip(graph) == 0
    assert dict(foreign.attrs) == {"bias": 1.0}
