"""Files of Keras: read, written, damaged. No Keras here."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import amanda
from amanda.errors import FormatError
from amanda.graph import Graph
from amanda.testing import FormatSuite, MappingSample, MappingSuite, PluginSuite
from amanda.types import parse_element, parse_type


def two_layers() -> Graph:
    """A Functional model, built by hand."""
    graph = Graph("amanda/keras/3.15.0", "model")
    x = graph.parameter(parse_type("float32[batch, 3]"), "x")
    kernel = graph.constant(np.eye(3, 2, dtype="f4") * 2, "dense/kernel").output
    bias = graph.constant(np.float32([1, -1]), "dense/bias").output
    attrs = {"units": 2, "activation": "relu", "variables": ["kernel", "bias"]}
    y = graph.add("Dense", [x, kernel, bias], attrs, name="dense").output
    y = graph.add("Add", [y, y], {"call": CALL_OF_TWO}, name="add").output
    graph.result(y, "add")
    return graph


CALL_OF_TWO = {"args": [[{"$input": 0}, {"$input": 1}]], "kwargs": {}}


class TestPlugin(PluginSuite):
    dist = "amanda-keras"


class TestFormat(FormatSuite):
    format = "keras"
    late = ("h5py", "numpy", "keras", "tensorflow")

    def samples(self) -> Mapping[str, Callable[[], Graph]]:
        return {"two layers": two_layers}


class TestMapping(MappingSuite):
    mapping = "keras-std"

    def samples(self) -> dict[str, Callable[[], MappingSample]]:
        return {"two layers": lambda: MappingSample(two_layers(), "amanda/std/1")}


def test_the_numbers() -> None:
    feed = np.float32([[1, 0, 5], [-3, 1, 0]])
    [found] = amanda.run(two_layers(), [feed], backend="numpy").values()
    np.testing.assert_array_equal(found, [[6, 0], [0, 2]])


# -- files in parts ------------------------------------------------------------------


def weights_of(arrays: Mapping[str, Any]) -> bytes:
    file = io.BytesIO()
    with h5py.File(file, "w") as h5:
        for path, array in arrays.items():
            h5.create_dataset(path, data=array)
    return file.getvalue()


def archive_of(
    config: Any, weights: bytes | None, *, deflate: bool = False, **members: bytes
) -> bytes:
    file = io.BytesIO()
    kind = zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", kind) as archive:
        text = config if isinstance(config, bytes) else json.dumps(config).encode()
        archive.writestr("config.json", text)
        archive.writestr("metadata.json", json.dumps({"keras_version": "3.15.0"}))
        if weights is not None:
            archive.writestr("model.weights.h5", weights)
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def dense_config(**more: Any) -> dict[str, Any]:
    config = {"name": "d", "units": 2, "use_bias": False, **more}
    first = {"batch_shape": [None, 3], "dtype": "float32", "name": "x"}
    layers = [
        {"module": "keras.layers", "class_name": "InputLayer", "config": first},
        {"module": "keras.layers", "class_name": "Dense", "config": config},
    ]
    return {"class_name": "Sequential", "config": {"name": "m", "layers": layers}}


KERNEL = np.arange(6, dtype="float32").reshape(3, 2)
WEIGHTS = weights_of({"layers/dense/vars/0": KERNEL})


@pytest.mark.parametrize("deflate", [False, True])
def test_weights_that_are_stored_stay_in_the_file(
    deflate: bool, tmp_path: Path
) -> None:
    large = np.ones((3, 1 << 20), "float32")
    data = archive_of(
        dense_config(units=1 << 20),
        weights_of({"layers/dense/vars/0": large}),
        deflate=deflate,
    )
    path = tmp_path / "model.keras"
    path.write_bytes(data)
    graph = amanda.load(path)
    (constant,) = (op for op in graph if op.is_constant)
    tensor = constant.attrs["value"]
    assert (tensor.mapped_file is not None) == (not deflate)
    np.testing.assert_array_equal(tensor.numpy(), large)


def test_other_members_and_weights_are_kept(tmp_path: Path) -> None:
    weights = weights_of(
        {"layers/dense/vars/0": KERNEL, "optimizer/vars/0": np.int32(7)}
    )
    graph = amanda.load(
        archive_of(dense_config(), weights, asset=b"abc"), format="keras"
    )
    path = tmp_path / "m.keras"
    amanda.save(graph, path)
    with zipfile.ZipFile(path) as archive:
        assert archive.read("asset") == b"abc"
        with h5py.File(io.BytesIO(archive.read("model.weights.h5"))) as h5:
            assert h5["optimizer/vars/0"][()] == 7
    assert amanda.load(path).difference(graph) is None


def test_a_bfloat16_weight_and_one_in_chunks() -> None:
    file = io.BytesIO()
    kernel = KERNEL.astype(parse_element("bfloat16").numpy)
    with h5py.File(file, "w") as h5:
        data = h5.create_dataset("layers/dense/vars/0", data=kernel)
        data.attrs["dtype"] = "bfloat16"
        h5.create_dataset("other", data=KERNEL, chunks=(1, 2), compression="gzip")
    graph = amanda.load(archive_of(dense_config(), file.getvalue()), format="keras")
    (constant,) = (op for op in graph if op.is_constant)
    assert str(constant.output.type) == "bfloat16[3, 2]"
    np.testing.assert_array_equal(constant.attrs["value"].numpy(), kernel)
    other = graph.attrs["keras:model"]["tensors"]["other"]
    np.testing.assert_array_equal(other.numpy(), KERNEL)


# -- bad input -----------------------------------------------------------------------


def cyclic_config() -> dict[str, Any]:
    def tensor(name: str) -> dict[str, Any]:
        config = {"shape": [None, 3], "dtype": "float32", "keras_history": [name, 0, 0]}
        return {"class_name": "__keras_tensor__", "config": config}

    layers = [
        {
            "class_name": "Dense",
            "config": {"name": name, "units": 3, "trainable": True},
            "name": name,
            "inbound_nodes": [{"args": [tensor(other)], "kwargs": {}}],
        }
        for name, other in (("a", "b"), ("b", "a"))
    ]
    ends = {"input_layers": [], "output_layers": [["a", 0, 0]]}
    config = {"name": "m", "layers": layers, **ends}
    return {"class_name": "Functional", "config": config}


def missing_output() -> dict[str, Any]:
    """The input of `a` is the output 3 of `x`, which has one."""
    entry = cyclic_config()
    a, b = entry["config"]["layers"]
    b.update(class_name="InputLayer", inbound_nodes=[])
    b["config"] = {"name": "b", "batch_shape": [None, 3]}
    a["inbound_nodes"][0]["args"][0]["config"]["keras_history"][2] = 3
    entry["config"]["input_layers"] = [["b", 0, 0]]
    return entry


def nested_config(depth: int) -> dict[str, Any]:
    inner = dense_config()
    for i in range(depth):
        inner["config"]["name"] = f"m{i}"
        inner = {"class_name": "Sequential", "config": {"name": "m", "layers": [inner]}}
    return inner


def broken_heap() -> bytes:
    """A whole model whose heap of texts has none."""
    file = io.BytesIO()
    with h5py.File(file, "w") as h5:
        h5.attrs["model_config"] = json.dumps(dense_config())
    data = bytearray(file.getvalue())
    at = data.index(b"GCOL") + 16
    data[at : at + 16] = bytes(16)
    return bytes(data)


BAD = {
    "a heap": (broken_heap(), "HDF5 file is damaged"),
    "half a surrogate pair": (
        archive_of(b'{"class_name": "\\udcff"}', None),
        "not valid JSON",
    ),
    "a missing output": (archive_of(missing_output(), None), "is not computed"),
    "truncated": (
        archive_of(dense_config(), WEIGHTS)[:-40],
        "the archive cannot be read",
    ),
    "no config": (weights_of({"a": KERNEL}), "there is no attribute model_config"),
    "not JSON": (archive_of(b"{", None), "not valid JSON"),
    "deep JSON": (archive_of(b"[" * 5000 + b"]" * 5000, None), "not valid JSON"),
    "a list": (archive_of([], None), "no JSON object"),
    "a subclass": (
        archive_of({"class_name": "Mine", "config": {}}, None),
        "the model has no list of layers",
    ),
    "a cycle": (archive_of(cyclic_config(), None), "depend on each other in a cycle"),
    "nested": (archive_of(nested_config(90), None), "nested too deeply|not valid JSON"),
    "weights": (archive_of(dense_config(), WEIGHTS[:900]), "HDF5 file is damaged"),
    "no HDF5": (archive_of(dense_config(), b"abc"), "HDF5 file is damaged"),
    "a bomb": (
        archive_of(dense_config(), b"\0" * (96 << 20), deflate=True),
        "too large for its size",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_damaged_file_is_refused_with_its_name(name: str, tmp_path: Path) -> None:
    data, message = BAD[name]
    path = tmp_path / "model.keras"
    path.write_bytes(data)
    with pytest.raises(FormatError, match=message) as caught:
        amanda.load(path, format="keras")
    assert str(path) in str(caught.value)


def test_links_to_other_files_are_refused(tmp_path: Path) -> None:
    file = io.BytesIO()
    with h5py.File(file, "w") as h5:
        h5["layers/dense/vars/0"] = h5py.ExternalLink("/etc/passwd", "/a")
    with pytest.raises(FormatError, match="a link of the HDF5 file is not followed"):
        amanda.load(archive_of(dense_config(), file.getvalue()), format="keras")


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({}, "the variable kernel is missing"),
        ({"layers/dense/vars/0": KERNEL[:2]}, "columns and rows differ"),
    ],
)
def test_missing_weights_and_wrong_shapes_are_gaps(
    weights: dict[str, Any], message: str
) -> None:
    graph = amanda.load(archive_of(dense_config(), weights_of(weights)), format="keras")
    with pytest.raises(amanda.AmandaError, match=message):
        amanda.convert(graph, "std")


DENSE = {"class_name": "Dense", "config": {"units": 2}}


def test_lambda_and_state_are_declined_with_the_reason() -> None:
    for kind, more, message in (
        ("Lambda", {"function": {"class_name": "__lambda__"}}, "is Python code"),
        ("LSTM", {"units": 2, "stateful": True}, "states live between calls"),
        ("Dense", {"units": 2, "novelty": 3}, "novelty=3 is not covered"),
        ("ReLU", {"negative_slope": "a"}, "negative_slope='a': float is expected"),
        ("Softmax", {"axis": "a"}, "axis='a'"),
        ("MaxPooling1D", {"pool_size": {}}, "numbers are expected, not {}"),
        ("Reshape", {}, "the arguments do not fit: missing a required"),
        ("Rescaling", {"scale": 2, "dtype": 7}, "the dtype is 7, no name"),
        ("Bidirectional", {"layer": 3}, "Bidirectional"),
        ("RNN", {"cell": {"class_name": "GRUCell", "config": {}}}, "units is None"),
        ("RNN", {"cell": {"class_name": "LSTMCell", "config": 3}}, "no JSON object"),
        ("Activation", {"activation": DENSE}, "the arguments do not fit"),
        ("ReLU", {"call": {"args": [None]}}, "inputs of the call is no tensor"),
        ("ReLU", {"call": {"args": [{"$input": 3}]}}, "the call has no input 3"),
    ):
        graph = Graph("amanda/keras/3.15.0")
        x = graph.parameter(parse_type("float32[batch, 4, 3]"), "x")
        graph.result(graph.add(kind, [x], more, name="layer").output, "y")
        with pytest.raises(amanda.AmandaError, match=message):
            amanda.convert(graph, "std")


def test_a_graph_that_keras_cannot_hold_is_refused(tmp_path: Path) -> None:
    graph = Graph("amanda/keras/3.15.0")
    x = graph.parameter(parse_type("float32[batch, 3]"), "x")
    y = graph.add("Dense", [x, x], {"variables": ["kernel"]}, name="d").output
    graph.result(graph.add("ReLU", [y], {"max_value": b"1"}).output, "y")
    with pytest.raises(FormatError) as caught:
        amanda.save(graph, tmp_path / "m.keras")
    text = str(caught.value)
    for part in ("kernel is no constant", "needs a name", "is not JSON"):
        assert part in text
    with pytest.raises(FormatError, match=r"expected: a file \*.keras"):
        amanda.save(two_layers(), tmp_path / "m.h5")
