"""SavedModels of TensorFlow, to the hub and back, run by TensorFlow again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amanda
from amanda_std import ops, trace

tf = pytest.importorskip("tensorflow", reason="needs TensorFlow, to make models")
v1 = tf.compat.v1
LENGTHS = np.array([2, 0, 3, 1])
WORDS = np.array([b"a", b"Bc", b""], object)


def random(*shape: int) -> Any:
    return np.random.default_rng(3).normal(size=shape).astype("float32")


def gradient_of_each(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.sin(x)
    return tape.jacobian(y, x)


def images(function: Callable[[Any], Any]) -> Any:
    return function, [random(1, 5, 6, 3)], [[1, None, None, 3]]


def rows_taken(rows: Any, at: Any) -> Any:
    return tf.gather(rows, at), rows[:, :1], tf.reduce_sum(rows, 1), rows.to_sparse()


FUNCTIONS: dict[str, tuple[Callable[..., Any], list[Any], list[Any]]] = {
    "colocated ops": (gradient_of_each, [random(2, 3)], [[2, 3]]),
    "images resized and padded": images(
        lambda x: tf.image.resize_with_pad(x, 8, 8, method="nearest")
    ),
    "images resized in proportion": images(
        lambda x: tf.image.resize(
            x, [8, 8], method="nearest", preserve_aspect_ratio=True
        )
    ),
    "rows of any number by their lengths": (
        lambda v, n: tf.RaggedTensor.from_row_lengths(v, n).to_tensor(9.0),
        [random(6), LENGTHS], [[None], [None]]),
    "rows of any number by their splits": (
        lambda v, n, at: rows_taken(tf.RaggedTensor.from_row_splits(v, n), at),
        [random(6), np.cumsum([0, *LENGTHS]), LENGTHS[1:]], [[None], [None], [None]]),
    "ranges of any number": (
        lambda n: tf.ragged.range(n, n + 5, 2), [LENGTHS], [[None]]),
    "strings mapped one by one": (
        lambda s: tf.map_fn(tf.strings.upper, s), [WORDS], [[None]]),
    "arrays of strings": (
        lambda s: tf.TensorArray(tf.string, 6, element_shape=[]).scatter(
            [4, 1, 0], s).stack(), [WORDS], [[3]]),
    "hashes of strings": (
        lambda s: [tf.strings.to_hash_bucket_fast(x, 1000) for x in (s, s[0])],
        [WORDS], [[None]]),
}  # fmt: skip
"""Functions, arrays for their arguments, and the shapes that they declare."""


def run_tensorflow(folder: Path, feeds: list[Any]) -> Any:
    function = tf.saved_model.load(str(folder)).signatures["serving_default"]
    given = {f"x{i}": tf.constant(feed) for i, feed in enumerate(feeds)}
    return {name: value.numpy() for name, value in function(**given).items()}


def expect_same(got: Any, expected: Any) -> None:
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        if value.dtype == object:
            texts = [item.encode() for item in map(str, got[name].ravel())]
            assert texts == value.ravel().tolist() or np.array_equal(got[name], value)
        else:
            assert np.asarray(got[name]).dtype == value.dtype
            np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str, tmp_path: Path) -> None:
    function, feeds, shapes = FUNCTIONS[name]
    specs = [
        tf.TensorSpec(shape, tf.constant(feed).dtype, name=f"x{i}")
        for i, (shape, feed) in enumerate(zip(shapes, feeds, strict=True))
    ]
    module = tf.Module()
    module.f = tf.function(
        lambda *xs: dict(enumerate_names(function(*xs))), input_signature=specs
    )
    tf.saved_model.save(
        module, str(tmp_path / "a"), signatures=module.f.get_concrete_function()
    )
    expected = run_tensorflow(tmp_path / "a", feeds)
    hub = amanda.convert(amanda.load(tmp_path / "a"), "std")
    given = {f"x{i}": feed for i, feed in enumerate(feeds)}
    expect_same(amanda.run(hub, given, backend="numpy"), expected)
    amanda.save(amanda.convert(hub, "tensorflow"), tmp_path / "b", "tensorflow")
    expect_same(run_tensorflow(tmp_path / "b", feeds), expected)


def enumerate_names(results: Any) -> Any:
    flat = tf.nest.flatten(results, expand_composites=True)
    return [(f"y{i}", value) for i, value in enumerate(flat)]


@pytest.mark.parametrize("is_resource", [False, True], ids=["reference", "resource"])
def test_variables_of_tensorflow_1(is_resource: bool, tmp_path: Path) -> None:
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [2], name="x0")
        totals = [
            v1.get_variable(name, initializer=[value, 2.0], use_resource=is_resource)
            for name, value in (("scope/total", 1.0), ("other", 5.0))
        ]
        added = [v1.assign_add(total, x) for total in totals]
        with tf.control_dependencies(added):
            y = tf.add(*(total.read_value() for total in totals), name="y0")
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(tmp_path / "a"), {"x0": x}, {"y0": y})
    hub = amanda.convert(amanda.load(tmp_path / "a"), "std")
    amanda.save(amanda.convert(hub, "tensorflow"), tmp_path / "b", "tensorflow")
    keys = tf.train.load_checkpoint(str(tmp_path / "b/variables/variables"))
    assert {*keys.get_variable_to_shape_map()} == {"scope/total", "other"}
    [y0] = run_tensorflow(tmp_path / "b", [np.array([1, 2], "f")]).values()
    np.testing.assert_array_equal(y0, [8, 8])
    again = amanda.convert(amanda.load(tmp_path / "b"), "std")
    [y0] = amanda.run(again, [np.array([1, 2], "f")], backend="numpy").values()
    np.testing.assert_array_equal(y0, [8, 8])


def test_variables_without_a_name_are_saved_by_the_name_of_their_node(
    tmp_path: Path,
) -> None:
    def count(x: Any) -> Any:
        held = [
            ops.variable(np.float32(n), key=key) for n, key in ((1, "a b"), (2, "c"))
        ]
        return ops.assign_add(held[0], x) * ops.assign_add(held[1], x)

    graph = trace(count, [amanda.parse_type("float32[]")])
    graph.parameters[0].name = "x"
    amanda.save(amanda.convert(graph, "tensorflow"), tmp_path / "a", "tensorflow")
    keys = tf.train.load_checkpoint(str(tmp_path / "a/variables/variables"))
    assert {*keys.get_variable_to_shape_map()} == {"na_b", "c"}
    loaded = tf.saved_model.load(str(tmp_path / "a")).signatures["serving_default"]
    assert [float(*loaded(tf.constant(3.0)).values()) for _ in range(2)] == [20, 56]
