"""Keras models: `.keras` archives and whole-model `.h5` files, made without Keras."""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from fuzz.readers import Mutant, Reader
from fuzz.stages import try_stages
from proto.proto_mutations import break_bytes

__all__ = ["READERS"]

_CONFIG, _WEIGHTS = "config.json", "model.weights.h5"
_WORDS = (None, 0, -1, 1.5, 1 << 40, "", "same", "relu", True, [], {}, [[1, 2]])


def _layer(kind: str, name: str, call: Sequence[str] = (), **config: Any) -> Any:
    """The entry of a layer, as Keras 3 writes it."""
    tensors = [_tensor(each) for each in call]
    args = [tensors if len(tensors) > 1 else tensors[0]] if call else []
    return {
        "module": "keras.layers", "class_name": kind, "name": name,
        "config": {"name": name, "dtype": "float32", **config},
        "registered_name": None,
        "inbound_nodes": [{"args": args, "kwargs": {}}] if call else [],
    }  # fmt: skip


def _tensor(layer: str) -> Any:
    config = {"shape": [None, 6], "dtype": "float32", "keras_history": [layer, 0, 0]}
    return {"class_name": "__keras_tensor__", "config": config}


def _functional() -> Any:
    """Layers of most kinds of arguments: masks, a wrapper, a model, an operation."""
    inner = [
        _layer("InputLayer", "i", batch_shape=[None, 3]),
        _layer("Dense", "inner", units=2),
    ]
    cell = _layer("GRUCell", "cell", units=3)
    layers = [
        _layer("InputLayer", "x", batch_shape=[None, 6]),
        _layer("Embedding", "e", ["x"], input_dim=5, output_dim=4, mask_zero=True),
        _layer("Bidirectional", "b", ["e"], merge_mode="concat",
               layer=_layer("LSTM", "l", units=3, return_sequences=True)),
        _layer("TimeDistributed", "t", ["b"], layer=_layer("Dense", "td", units=2)),
        _layer("RNN", "r", ["t"], cell=cell),
        _layer("Dense", "d", ["r"], units=3, activation="softmax"),
        {"class_name": "Sequential", "name": "s", "module": "keras",
         "config": {"name": "s", "layers": inner},
         "inbound_nodes": [{"args": [_tensor("d")], "kwargs": {}}]},
        {"module": "keras.src.ops.numpy", "class_name": "Add", "name": "a",
         "config": {"name": "a"},
         "inbound_nodes": [{"args": [_tensor("s"), _tensor("s")], "kwargs": {}}]},
    ]  # fmt: skip
    places = {"input_layers": [["x", 0, 0]], "output_layers": [["a", 0, 0]]}
    return {"class_name": "Functional", "module": "keras.src.models.functional",
            "config": {"name": "m", "layers": layers, **places}}  # fmt: skip


def _sequential() -> Any:
    layers = [
        _layer("InputLayer", "x", batch_shape=[None, 8, 8, 3]),
        _layer("Conv2D", "c", filters=4, kernel_size=[3, 3], strides=[2, 1],
               padding="same", activation="relu"),
        _layer("BatchNormalization", "n"),
        _layer("MaxPooling2D", "p", pool_size=[2, 2]),
        _layer("Resizing", "z", height=3, width=3), _layer("Flatten", "f"),
        _layer("Dense", "d", units=2),
    ]  # fmt: skip
    return {"class_name": "Sequential", "config": {"name": "m", "layers": layers}}


_GRU = [(2, 9), (3, 9), (2, 9)]
_LSTM = [(4, 12), (3, 12), (12,)]
_ARRAYS: Sequence[Mapping[str, Sequence[tuple[int, ...]]]] = (
    {
        "e:embedding": [(5, 4)], "b:bidirectional/forward_layer/cell": _LSTM,
        "b:bidirectional/backward_layer/cell": _LSTM,
        "t:time_distributed/layer": [(6, 2), (2,)], "r:rnn/cell": _GRU,
        "d:dense": [(3, 3), (3,)], "s:sequential/layers/dense": [(3, 2), (2,)],
    },
    {
        "c:conv2d": [(3, 3, 3, 4), (4,)], "n:batch_normalization": [(4,)] * 4,
        "d:dense": [(36, 2), (2,)],
    },
)  # fmt: skip
"""Of both models: the shapes of a layer's variables, by its name and path."""


_NAMES = {
    1: ["embeddings"], 2: ["kernel", "bias"], 3: ["kernel", "recurrent_kernel", "bias"],
    4: ["gamma", "beta", "moving_mean", "moving_variance"],
}  # fmt: skip
"""The names of the variables of a layer, by their number."""


def _array(shape: tuple[int, ...]) -> Any:
    return np.linspace(0.1, 1, int(np.prod(shape)), dtype="f4").reshape(shape)


def _weights(number: int) -> bytes:
    """The weights of a `.keras` file."""
    import h5py  # environments without amanda-keras do not have it

    file = io.BytesIO()
    with h5py.File(file, "w") as h5:
        for key, shapes in _ARRAYS[number].items():
            for i, shape in enumerate(shapes):
                path = f"layers/{key.partition(':')[2]}/vars/{i}"
                h5.create_dataset(path, data=_array(shape))
    return file.getvalue()


def _whole_model(number: int, config: str) -> bytes:
    """A model in HDF5, as Keras 2 writes it."""
    import h5py  # environments without amanda-keras do not have it

    file = io.BytesIO()
    with h5py.File(file, "w") as h5:
        h5.attrs["model_config"], h5.attrs["keras_version"] = config, "2.15.0"
        weights = h5.create_group("model_weights")
        names: dict[str, list[str]] = {}
        for key, shapes in _ARRAYS[number].items():
            layer = key.partition(":")[0]
            group = weights.require_group(layer)
            inner = key.rpartition("/")[0].rpartition("/")[2] or layer
            for name, shape in zip(_NAMES[len(shapes)], shapes, strict=True):
                label = f"{layer}/{inner}/{name}:0"
                names.setdefault(layer, []).append(label)
                group.create_dataset(label, data=_array(shape))
            group.attrs["weight_names"] = [n.encode() for n in names[layer]]
        weights.attrs["layer_names"] = [name.encode() for name in names]
    return file.getvalue()


def _archive(config: bytes, weights: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(_CONFIG, config)
        archive.writestr("metadata.json", '{"keras_version": "3.15.0"}')
        archive.writestr(_WEIGHTS, weights)
    return file.getvalue()


@cache
def _seeds() -> tuple[Mutant, ...]:
    found = []
    for number, entry in enumerate((_functional(), _sequential())):
        text = json.dumps(entry)
        found.append(Mutant("keras", _archive(text.encode(), _weights(number))))
        found.append(Mutant("h5", _whole_model(number, text)))
    return tuple(found)


def _change(data: bytes, good: Sequence[bytes], choose: random.Random) -> bytes:
    """Another config, other bytes of the weights, or of the whole file."""
    del good
    if not data.startswith(b"PK") or choose.random() < 0.2:
        return break_bytes(data, choose)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        config, weights = archive.read(_CONFIG), archive.read(_WEIGHTS)
    if choose.random() < 0.3:
        return _archive(config, break_bytes(weights, choose))
    if choose.random() < 0.1:
        return _archive(break_bytes(config, choose), weights)
    entry = json.loads(config)
    for _ in range(choose.choice([1, 1, 2, 4])):
        _change_json(entry, choose)
    return _archive(json.dumps(entry).encode(), weights)


def _change_json(entry: Any, choose: random.Random) -> None:
    """Replace, remove or repeat one item at any depth."""
    places = list(_places(entry))
    if not places:  # all items are removed
        return
    holder, key = choose.choice(places)
    how = choose.random()
    if how < 0.2:
        del holder[key]
    elif how < 0.3 and isinstance(holder, list):
        holder.append(json.loads(json.dumps(holder[key])))
    elif how < 0.6:
        other, name = choose.choice(places)
        if name in (other if isinstance(other, dict) else range(len(other))):
            holder[key] = json.loads(json.dumps(other[name]))
    else:
        holder[key] = choose.choice(_WORDS)


def _places(item: Any) -> Any:
    rows = item.items() if isinstance(item, dict) else enumerate(item)
    for key, value in list(rows):
        yield item, key
        if isinstance(value, dict | list):
            yield from _places(value)


def _attempt(path: Path, folder: Path, choose: random.Random) -> str:
    goals = ["amanda/std/1"] if choose.random() < 0.5 else []
    return try_stages(path, folder, choose, goals=goals)


READERS = [Reader("keras", 5, _seeds, _change, _attempt)]
