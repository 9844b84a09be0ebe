"""Graphs as `.keras` files: the config of the model, and its weights."""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from amanda.errors import FormatError
from amanda.graph import Graph, Op, OutputPort, Parameter
from amanda.mapping import constant_of
from amanda.tensors import Tensor
from amanda.types import TensorType
from amanda_keras.records import (
    CALL,
    DEFAULT_CALL,
    INPUT,
    LAYER_RECORDS,
    MODEL_RECORDS,
    MODULES,
    VARIABLES,
    layer_class,
)
from amanda_keras.variables import (
    exported_name,
    file_path,
    layer_name,
    model_layers,
)

__all__ = ["LISTS", "model_of", "variables_of", "write_archive"]

_DATE: Final = (1980, 1, 1, 0, 0, 0)
_OWN_ATTRS: Final = (CALL, VARIABLES)


def write_archive(graph: Graph, file: BinaryIO) -> None:
    """Write a model as an archive whose members are stored, not compressed."""
    records = MODEL_RECORDS.of(graph)
    entry, tensors = model_of(graph)
    tensors = {**records.get("tensors", {}), **tensors}
    version = (graph.namespace or "").rpartition("/")[2]
    metadata = records.get("metadata") or {"keras_version": version}
    with zipfile.ZipFile(file, "w") as archive, tempfile.TemporaryDirectory() as folder:
        for name, value in (("metadata.json", metadata), ("config.json", entry)):
            archive.writestr(_member(name), json.dumps(value))
        path = Path(folder) / "weights.h5"
        _write_weights(path, tensors)
        with (
            path.open("rb") as source,
            archive.open(_member("model.weights.h5"), "w", force_zip64=True) as target,
        ):
            while block := source.read(1 << 20):
                target.write(block)
        for name, data in records.get("members", {}).items():
            archive.writestr(_member(name), data)


def _member(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(name, _DATE)


def _write_weights(path: Path, tensors: Mapping[str, Tensor]) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        for name, tensor in tensors.items():
            array = tensor.numpy()
            dataset = file.create_dataset(name, data=array, track_times=False)
            if str(tensor.dtype) == "bfloat16":
                dataset.attrs["dtype"] = "bfloat16"


def model_of(graph: Graph) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The config of a model, and its weights by path; all problems at once."""
    writer = _ModelWriter(graph)
    entry = writer.model(graph, graph.name or "model", "")
    if writer.problems:
        raise FormatError("Keras cannot hold this graph", problems=writer.problems)
    return entry, writer.tensors


class _ModelWriter:
    """Collects the weights and problems of a model and of the models in it."""

    def __init__(self, root: Graph) -> None:
        self.root = root
        self.tensors: dict[str, Tensor] = {}
        self.problems: list[str] = []

    def model(self, graph: Graph, name: str, path: str) -> dict[str, Any]:
        """The config of a model whose weights are below `path`."""
        records = MODEL_RECORDS.of(graph)
        layers = _Layers(graph, self)
        kind = records.get("class_name") or "Functional"
        if kind == "Sequential" and layers.is_sequence():
            listed = layers.inputs() + [layers.entry(each) for each in layers.calls]
            listed = [{k: v for k, v in e.items() if k not in ("name", "inbound_nodes")}
                      for e in listed]  # fmt: skip
            config = {"name": name, **records.get("config", {}), "layers": listed}
        else:
            kind = "Functional" if kind == "Sequential" else kind
            listed = layers.entries()
            config = {
                "name": name, **records.get("config", {}), "layers": listed,
                "input_layers": layers.structure("input_layers", graph.parameters),
                "output_layers": layers.structure("output_layers", graph.results),
            }  # fmt: skip
        where = MODULES.get(kind, MODULES["Functional"])
        entry = {"class_name": kind, "config": config, **where}
        entry |= records.get("entry", {})
        for place, layer in model_layers(entry):
            ops = layers.calls.get(layer_name(layer))
            if ops:
                self.weights(ops[0], f"{path}layers/{place}")
        return entry

    def layer(self, op: Op) -> dict[str, Any]:
        """The config of the layer of an op, without its calls."""
        name = str(LAYER_RECORDS.of(op).get("name") or op.name or "")
        function = self.root.functions.get(op.type or "")
        if function is not None:
            return {**self.model(function, name, "#"), "name": name}
        config: dict[str, Any] = {"name": name} if name else {}
        config |= dict.fromkeys(LAYER_RECORDS.of(op).get("empty", ()))
        config |= {
            key: value
            for key, value in op.attrs.items()
            if ":" not in key and key not in _OWN_ATTRS
        }
        body = op.bodies.get("layer")
        if body is not None:
            inner = [each for each in body if not each.is_constant]
            if len(inner) != 1:
                self.problems.append(f"{op.label}: its body is not one layer")
            else:
                config["layer"] = {
                    k: v for k, v in self.layer(inner[0]).items() if k != "name"
                }
        try:
            json.dumps(config)
        except TypeError as error:
            self.problems.append(f"{op.label}: an attribute is not JSON: {error}")
        is_operation = (op.type or "").startswith("ops.")
        module = "keras.src.ops.numpy" if is_operation else "keras.layers"
        return {
            "module": module, "class_name": exported_name(layer_class(op.type or "")),
            "config": config, "registered_name": None,
            **LAYER_RECORDS.of(op).get("entry", {}), "name": name,
        }  # fmt: skip

    def weights(self, op: Op, path: str) -> None:
        """Collect the variables of a layer."""
        function = self.root.functions.get(op.type or "")
        if function is not None:
            self.model(function, op.name or "", f"{path}/")
            return
        body = op.bodies.get("layer")
        for inner in body or ():
            if not inner.is_constant:
                self.weights(inner, f"{path}/layer")
        names, values = variables_of(op)
        for name, value in zip(names, values, strict=True):
            tensor = None if value is None else constant_of(value)
            if tensor is None:
                self.problems.append(f"{op.label}: the variable {name} is no constant")
                continue
            place = file_path(layer_class(op.type or ""), op.attrs, name)
            if path.startswith("#"):
                continue
            self.tensors[f"{path}/{place}"] = tensor


def variables_of(op: Op) -> tuple[list[str], list[OutputPort | None]]:
    """The names of the variables of an op, and their values, its last inputs."""
    names = op.attrs.get(VARIABLES, []) if op.has_attrs else []
    if not isinstance(names, list) or len(names) > len(op.inputs):
        raise FormatError(
            f"the attribute {VARIABLES!r} does not fit the inputs", who=op.label,
            expected=f"at most {len(op.inputs)} names", got=repr(names)[:60],
        )  # fmt: skip
    first = len(op.inputs) - len(names)
    return [str(name) for name in names], list(op.inputs[first:])


class _Layers:
    """The layers of a graph, each with the ops that call it."""

    def __init__(self, graph: Graph, writer: _ModelWriter) -> None:
        self.graph = graph
        self.writer = writer
        self.records = MODEL_RECORDS.of(graph)
        self.calls: dict[str, list[Op]] = {}
        self.places: dict[OutputPort, list[Any]] = {}
        for i, port in enumerate(graph.parameters):
            self.places[port] = [port.name or f"input_{i}", 0, 0]
        for op in graph:
            if op.is_constant:
                continue
            name = str(LAYER_RECORDS.of(op).get("name") or op.name or "")
            if not name:
                name = graph.fresh_name((op.type or "layer").lower())
                writer.problems.append(f"{op.label}: a layer needs a name")
            calls = self.calls.setdefault(name, [])
            for i, value in enumerate(op.outputs):
                self.places[value] = [name, len(calls), i]
            calls.append(op)
        self._check_shared()

    def _check_shared(self) -> None:
        for name, ops in self.calls.items():
            for op in ops[1:]:
                if variables_of(op)[1] != variables_of(ops[0])[1]:
                    self.writer.problems.append(
                        f"{op.label}: calls of the layer {name!r} have other weights"
                    )

    def is_sequence(self) -> bool:
        """Whether the layers are a chain."""
        if len(self.graph.parameters) != 1 or len(self.graph.results) != 1:
            return False
        value: OutputPort | None = self.graph.parameters[0]
        for ops in self.calls.values():
            op = ops[0]
            data = op.inputs[: len(op.inputs) - len(variables_of(op)[0])]
            if len(ops) != 1 or list(data) != [value] or CALL in op.attrs:
                return False
            value = op.outputs[0]
        return self.graph.results[0] is value

    def inputs(self) -> list[dict[str, Any]]:
        """The input layers."""
        recorded = self.records.get("inputs", {})
        if self.records.get("implicit_input"):
            return []
        return [_input(port, recorded.get(port.name)) for port in self.graph.parameters]

    def entries(self) -> list[dict[str, Any]]:
        """All layers with their calls, in the order that they had."""
        order = {name: i for i, name in enumerate(self.records.get("layers", ()))}
        found = self.inputs() + [
            {**self.entry(name), "inbound_nodes": [*map(self._node, self.calls[name])]}
            for name in self.calls
        ]
        return sorted(found, key=lambda each: order.get(each["name"], len(order)))

    def entry(self, name: str) -> dict[str, Any]:
        entry = self.writer.layer(self.calls[name][0])
        entry["config"]["name"] = entry["name"] = name
        return entry

    def _node(self, op: Op) -> dict[str, Any]:
        names, _ = variables_of(op)
        data = op.inputs[: len(op.inputs) - len(names)]
        call = op.attrs.get(CALL) or DEFAULT_CALL
        if CALL not in op.attrs and len(data) != 1:
            places = [{INPUT: i} for i in range(len(data))]
            merges = op.type in LISTS
            call = {"args": [places] if merges else places, "kwargs": {}}
        return {
            "args": self._fill(call.get("args", []), data, op),
            "kwargs": self._fill(call.get("kwargs", {}), data, op),
        }

    def _fill(self, value: Any, data: Any, op: Op) -> Any:
        """An argument with the tensors in their places."""
        if isinstance(value, dict):
            if value.keys() == {INPUT}:
                return self._tensor(data, value[INPUT], op)
            return {k: self._fill(v, data, op) for k, v in value.items()}
        if isinstance(value, list):
            return [self._fill(item, data, op) for item in value]
        return value

    def _tensor(self, data: Any, index: Any, op: Op) -> Any:
        if type(index) is not int or not 0 <= index < len(data) or data[index] is None:
            self.writer.problems.append(f"{op.label}: its call has no input {index}")
            return None
        value = data[index]
        if value in self.places:
            shape, dtype = _shape(value.type)
            config = {
                "shape": shape,
                "dtype": dtype,
                "keras_history": self.places[value],
            }
            return {"class_name": "__keras_tensor__", "config": config}
        tensor = constant_of(value)
        if tensor is None:
            self.writer.problems.append(
                f"{op.label}: it reads a value of another graph"
            )
            return None
        config = {"value": tensor.tolist(), "dtype": str(tensor.dtype)}
        return {"class_name": "__numpy__", "config": config}

    def _structure_place(self, value: OutputPort | None) -> list[Any] | None:
        """The place of a value; the creation of a Functional model counts as a call."""
        place = self.places.get(value) if value is not None else None
        calls = self.calls.get(place[0], ()) if place is not None else ()
        function = (
            self.writer.root.functions.get(calls[0].type or "") if calls else None
        )
        if place is None or function is None:
            return place
        is_sequence = MODEL_RECORDS.of(function).get("class_name") == "Sequential"
        return [place[0], place[1] + (not is_sequence), place[2]]

    def structure(self, key: str, values: Iterable[OutputPort | None]) -> Any:
        """The inputs or outputs of the model, nested as they were."""
        values = list(values)
        listed = [self._structure_place(value) for value in values]
        for place, value in zip(listed, values, strict=True):
            if place is None:
                self.writer.problems.append(f"the result {value} is of no layer")
        found = self.records.get(key)
        nesting = found.get("nesting") if isinstance(found, dict) else None
        count = len(listed)
        if nesting is None or sorted(_numbers(nesting)) != list(range(count)):
            return listed
        return _fill_structure(nesting, listed)


LISTS: Final = (
    "Add", "Average", "Concatenate", "Dot", "Maximum", "Minimum", "Multiply",
    "Subtract",
)  # fmt: skip
"""Layers that are called with one list, where no call is given."""


def _numbers(nesting: Any) -> list[Any]:
    if isinstance(nesting, dict):
        if nesting.keys() == {INPUT}:
            return [nesting[INPUT]]
        return [n for item in nesting.values() for n in _numbers(item)]
    return [n for item in nesting for n in _numbers(item)]


def _fill_structure(nesting: Any, places: list[Any]) -> Any:
    if isinstance(nesting, dict):
        if nesting.keys() == {INPUT}:
            return places[nesting[INPUT]]
        return {key: _fill_structure(item, places) for key, item in nesting.items()}
    return [_fill_structure(item, places) for item in nesting]


def _shape(type: Any) -> tuple[list[int | None], str]:
    if not isinstance(type, TensorType) or not type.shape.has_rank:
        return [], "float32"
    return [d if isinstance(d, int) else None for d in type.shape.dims], str(type.dtype)


def _input(port: Parameter, recorded: Any) -> dict[str, Any]:
    """The input layer of a parameter."""
    entry: dict[str, Any] = {
        **MODULES["InputLayer"], "class_name": "InputLayer", "config": {}
    }  # fmt: skip
    name = port.name or f"input_{port.index}"
    if isinstance(recorded, dict):
        entry.update(recorded)
    shape, dtype = _shape(port.type)
    config = dict(entry["config"])
    if "batch_input_shape" not in config:
        config.setdefault("batch_shape", shape)
    config.setdefault("dtype", dtype)
    entry["config"] = {**config, "name": name}
    return {**entry, "name": name, "inbound_nodes": []}
