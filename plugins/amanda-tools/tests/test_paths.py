"""Effective paths: minimal sets by hand, and what is left explains the result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from tool_samples import BACKENDS, NAMESPACES, digits, images, samples

import amanda
from amanda.errors import UsageError
from amanda.graph import Graph
from amanda.testing import ToolSuite
from amanda_std import Value, ops, tracing
from amanda_tools.paths.contributions import largest_terms
from amanda_tools.paths.effective_path import EffectivePaths, find_path

X = images(20)


class TestEffectivePaths(ToolSuite):
    tool = "effective_path"
    backends = BACKENDS
    options: ClassVar[Any] = {"threshold": 0.7}

    def samples(self) -> Any:
        return samples()


def test_the_fewest_terms() -> None:
    terms = np.array([[4, 1, 3, -2], [1, 1, 1, 1], [-1, -5, 2, 0], [-1, -1, 0, 0]])
    # Half of 6 is 3: the first is enough. Half of 4 takes two. The sum of the third is
    # negative: half of its positive terms. The last has none.
    expected = np.zeros((4, 4), bool)
    expected[0, 0] = expected[1, :2] = expected[2, 2] = True
    np.testing.assert_array_equal(largest_terms(terms.astype(float), 0.5), expected)


def chain(*layers: Any) -> Graph:
    """Matrix products with a ReLU between them."""
    graph = Graph("amanda/std/1")
    x = Value(graph.parameter(f"float32[n, {len(layers[0])}]", "x"))
    with tracing(graph):
        for index, layer in enumerate(layers):
            held = Value(graph.constant(np.array(layer, "float32")).output)
            x = ops.matmul(ops.relu(x) if index else x, held)
        graph.result(x, "y")
    return graph


def test_a_path_by_hand() -> None:
    """Output 1 is 2*6 + 1*1 = 13; 12 of hidden neuron 0, which is 4 + 2 of inputs."""
    graph = chain([[4, 0], [2, 0], [0, 1]], [[0, 2], [9, 1]])
    feeds = [np.ones((1, 3), "float32")]
    found = find_path(graph, [feeds], labels=[1])
    [inputs] = found.inputs
    np.testing.assert_array_equal(inputs, [True, False, False])
    more = find_path(graph, [feeds], labels=[1], threshold=0.9)
    np.testing.assert_array_equal(more.inputs[0], [True, True, False])
    whole = find_path(graph, [feeds], labels=[1], threshold=1.0)
    np.testing.assert_array_equal(whole.inputs[0], [True, True, True])
    # product 1 of 1 and its neuron, ReLU, product 1 of 2: connections
    assert (found.links, more.links, whole.links) == (3, 4, 2 + 2 + 3)
    assert found.union(more).neurons == more.neurons
    assert found.similarity(found) == 1
    assert 0 < found.similarity(more) < 1


def block(x: Any, kernel: Any, **options: Any) -> Any:
    return ops.relu(ops.conv(x, kernel, **options))


@pytest.mark.parametrize("layout", ["NC*", "N*C"])
def test_convolutions_are_products_of_windows(layout: str) -> None:
    """The same network as matrix products of unfolded windows has the same path."""
    random = np.random.default_rng(0)
    kernel = random.normal(size=(3, 2, 2, 2)).astype("float32")
    head = random.normal(size=(12, 4)).astype("float32")
    image = random.normal(size=(1, 2, 4, 4)).astype("float32")

    def network(graph: Graph, x: Any) -> Any:
        order = (0, 2, 3, 1) if layout == "N*C" else (0, 1, 2, 3)
        y = block(ops.transpose(x, perm=order), kernel, strides=(2, 2), layout=layout)
        back = (0, 3, 1, 2) if layout == "N*C" else (0, 1, 2, 3)
        return ops.reshape(ops.transpose(y, perm=back), (1, 12))

    def unfolded(graph: Graph, x: Any) -> Any:
        blocks = ops.reshape(x, (1, 2, 2, 2, 2, 2))  # channels, rows, in, columns, in
        rows = ops.reshape(ops.transpose(blocks, perm=(0, 2, 4, 1, 3, 5)), (4, 8))
        y = ops.relu(ops.matmul(rows, kernel.reshape(3, 8).T))
        return ops.reshape(ops.transpose(y, perm=(1, 0)), (1, 12))

    masks = []
    for build in (network, unfolded):
        graph = Graph("amanda/std/1")
        x = Value(graph.parameter("float32[1, 2, 4, 4]", "x"))
        with tracing(graph):
            graph.result(ops.matmul(build(graph, x), head), "y")
        [mask] = find_path(graph, [[image]], threshold=0.6).inputs
        masks.append(mask)
    np.testing.assert_array_equal(masks[0], masks[1])
    assert 0 < masks[0].sum() < masks[0].size


def test_pools_choose_within_windows() -> None:
    """Maxima are one element; averages the largest; padding is none."""
    image = np.array(
        [[1, 8, 2, 2], [3, 4, 5, 1], [0, 0, 7, 1], [0, 6, 1, 2]], "float32"
    )

    def path(pool: Any, **options: Any) -> Any:
        graph = Graph("amanda/std/1")
        x = Value(graph.parameter("float32[1, 1, 4, 4]", "x"))
        with tracing(graph):
            y = pool(x, window=(2, 2), strides=(2, 2), **options)
            graph.result(ops.reshape(y, (1, -1)), "y")
        [mask] = find_path(graph, [[image[None, None]]], threshold=0.8).inputs
        return mask[0]

    largest = np.zeros((4, 4), bool)
    largest[0, 1] = True
    np.testing.assert_array_equal(path(ops.max_pool), largest)
    # The first window has the largest mean: 80 % of 16 takes 8, 4 and 3.
    terms = largest.copy()
    terms[1, :2] = True
    np.testing.assert_array_equal(path(ops.avg_pool), terms)
    padded = path(ops.max_pool, padding=((1, 1), (1, 1)))
    np.testing.assert_array_equal(padded, largest)


def test_what_is_left_explains_the_result() -> None:
    """The digits are read from the pixels of their paths alone."""
    graph = digits()
    probabilities = run_digits(graph, X)
    classes = probabilities.argmax(1)
    same = 0
    for image, expected in zip(X, classes, strict=True):
        [mask] = find_path(graph_of_hub(graph), [[image[None]]], threshold=0.9).inputs
        same += run_digits(graph, (image * mask)[None]).argmax() == expected
        assert 0 < mask.mean() < 0.6
    assert same >= 19


def graph_of_hub(graph: Graph) -> Graph:
    return amanda.convert(graph, "amanda/std/1")


def run_digits(graph: Graph, x: Any) -> Any:
    [found] = amanda.run(graph, [x], backend="numpy").values()
    return np.asarray(found)


def test_the_same_class_has_similar_paths() -> None:
    """As published for image classifiers: paths differ more between classes."""
    graph = graph_of_hub(digits())
    classes = run_digits(digits(), X).argmax(1)
    paths = [find_path(graph, [[image[None]]]) for image in X]
    same, others = [], []
    for i in range(len(X)):
        for j in range(i):
            found = same if classes[i] == classes[j] else others
            found.append(paths[i].similarity(paths[j]))
    assert len(same) >= 5
    assert np.mean(same) > 1.1 * np.mean(others)


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_paths_of_all_frameworks(namespace: str, tmp_path: Path) -> None:
    file = tmp_path / "path.json"
    tool = EffectivePaths(overlay=str(file))
    report = amanda.apply(digits(namespace), tool, data=[[X[:4]]]).report
    reference = amanda.apply(digits(), EffectivePaths(), data=[[X[:4]]]).report
    document = json.loads(file.read_text())
    assert document["overlay"] == 1
    names = {op.name for op in digits(namespace)}
    assert set(document["ops"]) <= names
    assert len(document["ops"]) >= 8
    assert "counted whole" not in report.summary
    layers, due = (
        [row.value for row in found.select("neurons") if row.type == "conv"]
        for found in (report, reference)
    )
    assert layers == due
    assert len(layers) == 2
    assert report.to_html().count("<svg") == 1


def test_wrong_arguments() -> None:
    graph = chain([[1], [2]])
    with pytest.raises(UsageError, match="threshold"):
        EffectivePaths(threshold=0)
    with pytest.raises(UsageError, match="example inputs"):
        amanda.apply(graph, EffectivePaths())
    feeds = [np.ones((1, 2), "float32")]
    with pytest.raises(UsageError, match="no result 'z'"):
        find_path(graph, [feeds], output="z")
    with pytest.raises(UsageError, match="a label for each row"):
        find_path(graph, [feeds], labels=[1])
