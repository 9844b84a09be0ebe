"""Weights of whole-model `.h5` files: lists by layer, in the order of their creation.

They are given the paths that `.keras` files have, so that one reader reads both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from amanda.errors import FormatError
from amanda.tensors import Tensor
from amanda_keras.variables import (
    WRAPPERS,
    Variable,
    class_of,
    is_model,
    layer_name,
    layer_variables,
    model_layers,
)
from amanda_keras.weight_file import WeightFile

__all__ = ["legacy_tensors"]


def legacy_tensors(file: WeightFile, entry: Mapping[str, Any]) -> dict[str, Tensor]:
    """The weights of a model by their paths in a `.keras` file."""
    group = "model_weights" if "model_weights" in file.groups else ""
    found: dict[str, Tensor] = {}
    for name, layer in model_layers(entry):
        where = "/".join(filter(None, (group, layer_name(layer))))
        if where not in file.groups:
            continue
        listed = file.attribute(where, "weight_names")
        names = [str(each) for each in listed] if isinstance(listed, list) else []
        for path, tensor in _assign(file, where, layer, names):
            found[f"layers/{name}/{path}"] = tensor
    return found


def _assign(
    file: WeightFile, where: str, layer: Mapping[str, Any], names: list[str]
) -> Iterator[tuple[str, Tensor]]:
    """The weights of one layer of the model, by their paths in it."""
    known = sorted(entry_variables(layer), key=lambda v: not v.is_trainable)
    if known and len(known) != len(names):
        raise FormatError(
            "the file has another number of weights than the layer", who=where,
            expected=", ".join(v.name for v in known), got=", ".join(names) or "none",
        )  # fmt: skip
    for i, name in enumerate(names):
        path = f"{where}/{name}"
        if path not in file.datasets:
            raise FormatError("a weight of a layer is missing", who=path)
        last = name.rpartition("/")[2].partition(":")[0]
        variable = known[i] if known else None
        if variable is not None and not _is_named(variable, last):
            raise FormatError(
                "a weight of a layer has another name than expected", who=path,
                expected=variable.name, got=last,
            )  # fmt: skip
        yield variable.path if variable else f"vars/{i}", file.tensor(path)


def _is_named(variable: Variable, last: str) -> bool:
    """Whether the name of a file fits; older versions have `depthwise_kernel`."""
    own = variable.name.rpartition("/")[2]
    return last.rstrip("_0123456789").endswith(own.rstrip("_0123456789"))


def entry_variables(entry: Mapping[str, Any]) -> list[Variable]:
    """The variables of a layer, of a model or of a wrapper, in their natural order."""
    config = entry.get("config")
    own = config if isinstance(config, dict) else {}
    trained = own.get("trainable") is not False
    found = layer_variables(class_of(entry), own)
    inner: list[tuple[str, Mapping[str, Any]]] = []
    if is_model(entry):
        inner = [(f"layers/{name}", layer) for name, layer in model_layers(entry)]
    elif class_of(entry) in WRAPPERS and isinstance(own.get("layer"), dict):
        inner = [("layer", own["layer"])]
    for path, layer in inner:
        found += [
            Variable(f"{path}/{v.name}", f"{path}/{v.path}", trained and v.is_trainable)
            for v in entry_variables(layer)
        ]
    return found
