"""Make the files of all models, with the outputs that TensorFlow computes.

    python -m amanda_tf_conformance.models.making FOLDER [N]

N: only every Nth model. In FOLDER each model has a folder with `data.npz` (inputs and
outputs), `model.pb` (the function with its library, variables frozen) and
`saved_model/`; `index.json` lists all.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import (
    convert_variables_to_constants_v2,
)

from amanda_tf_conformance.models import (
    control,
    layers,
    nesting,
    operations,
    recurrent,
    steps,
    training,
)
from amanda_tf_conformance.models.table import Model

__all__ = ["all_models", "make_files"]

_ASSIGNING = ("Assign", "ResourceApply", "ResourceScatter", "ResourceStrided")
"""How the names of ops begin that change variables."""


def all_models() -> list[Model]:
    """The models of every theme; names are unique."""
    themes = (control, nesting, layers, recurrent, operations, training, steps)
    found = [model for theme in themes for model in theme.models()]
    assert len({model.name for model in found}) == len(found)
    return found


def make_files(folder: Path, every: int = 1) -> None:
    """Make the files of all models, and last their index."""
    chosen = all_models()[::every]
    rows = [_make_model(model, folder / model.name) for model in chosen]
    index = {"tensorflow": tf.__version__, "models": rows}
    (folder / "index.json").write_text(json.dumps(index, indent=1), "utf-8")


def _make_model(model: Model, folder: Path) -> dict[str, Any]:
    """Make the files of a model; its row of the index."""
    folder.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(1)
    names = [f"x{i}" for i in range(len(model.inputs))]
    module, function = _trace(model, names)
    tf.saved_model.save(module, str(folder / "saved_model"), signatures=function)
    feeds = dict(zip(names, map(tf.constant, model.inputs), strict=True))
    arrays = {"in_" + k: _storable(v.numpy()) for k, v in feeds.items()}
    for i in range(model.calls):
        for name, value in function(**feeds).items():
            arrays[f"out{i}_{name}"] = _storable(value.numpy())
    np.savez(folder / "data.npz", **arrays)
    names = sorted(function.structured_outputs)
    row: dict[str, Any] = {"name": model.name, "outputs": names, "calls": model.calls}
    if model.calls == 1 and model.freezes and not _assigns(function):
        frozen = convert_variables_to_constants_v2(function, lower_control_flow=False)
        definition = frozen.graph.as_graph_def()
        (folder / "model.pb").write_bytes(definition.SerializeToString())
        tensors = [tensor.name for tensor in frozen.outputs]
        row["tensors"] = dict(zip(row["outputs"], tensors, strict=True))
    return row


def _trace(model: Model, names: list[str]) -> tuple[Any, Any]:
    """A module with the function of a model, and its one concrete function."""
    module = tf.Module()
    made = model.make()
    if isinstance(made, tf.Module):
        module.made = made

    def call(*x: Any) -> dict[str, Any]:
        flat = tf.nest.flatten(made(*x))
        return {f"y{i}": tf.convert_to_tensor(y) for i, y in enumerate(flat)}

    specs = [
        _spec(np.asarray(x), name, any_batch=model.any_batch)
        for x, name in zip(model.inputs, names, strict=True)
    ]
    module.call = tf.function(call, input_signature=specs)
    function = module.call.get_concrete_function()
    module.held = list(function.graph.variables)
    _randomize(module.held)
    return module, function


def _randomize(variables: list[Any]) -> None:
    """Replace values that are all zero or one, such as of biases, by random numbers."""
    rng = np.random.default_rng(3)
    for variable in variables:
        value = variable.numpy()
        if value.ndim and value.dtype.kind == "f" and np.ptp(value) == 0:
            variable.assign(rng.uniform(0.2, 1.0, value.shape).astype(value.dtype))


def _assigns(function: Any) -> bool:
    """Whether a function changes variables, itself or in functions that it calls."""
    graph = function.graph.as_graph_def()
    nodes = [*graph.node, *(n for f in graph.library.function for n in f.node_def)]
    return any(n.op.startswith(_ASSIGNING) for n in nodes)


def _spec(array: Any, name: str, *, any_batch: bool) -> Any:
    shape: list[int | None] = list(array.shape)
    if any_batch and shape:
        shape[0] = None
    dtype = tf.string if array.dtype == object else tf.as_dtype(array.dtype)
    return tf.TensorSpec(shape, dtype, name)


def _storable(array: Any) -> Any:
    """An array that a `.npz` file can hold without pickle: bytes as fixed-size text."""
    return np.array(array.astype("S")) if np.asarray(array).dtype == object else array


if __name__ == "__main__":
    make_files(Path(sys.argv[1]), *map(int, sys.argv[2:]))
