"""The variables of layers: their names, and where the files of Keras have them.

A variable is named by the attributes that lead to its layer, and its own name:
`kernel`, `cell/recurrent_kernel`, `query_dense/bias`. A `.keras` file numbers the
variables of each layer: `cell/vars/1`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from amanda import namespace

__all__ = [
    "WRAPPERS", "Part", "Variable", "class_of", "exported_name", "file_path",
    "is_layer", "is_model",
    "layer_name",
    "layer_variables", "model_layers", "snake_case", "unique_names",
]  # fmt: skip

_KERNEL: Final = "kernel bias?use_bias"
_SEPARABLE: Final = "depthwise_kernel pointwise_kernel bias?use_bias"
_RECURRENT: Final = "kernel recurrent_kernel bias?use_bias"
_AFFINE: Final = "gamma?scale beta?center"
_OWN: Final[Mapping[str, str]] = {
    "Dense": _KERNEL, "Conv1D": _KERNEL, "Conv2D": _KERNEL, "Conv3D": _KERNEL,
    "Conv1DTranspose": _KERNEL, "Conv2DTranspose": _KERNEL, "Conv3DTranspose": _KERNEL,
    "DepthwiseConv1D": _KERNEL, "DepthwiseConv2D": _KERNEL,
    "SeparableConv1D": _SEPARABLE, "SeparableConv2D": _SEPARABLE,
    "EinsumDense": "kernel bias?bias_axes", "Embedding": "embeddings",
    "ReversibleEmbedding": "embeddings reverse_embeddings?!tie_weights",
    "BatchNormalization": f"{_AFFINE} moving_mean! moving_variance!",
    "SyncBatchNormalization": f"{_AFFINE} moving_mean! moving_variance!",
    "LayerNormalization": _AFFINE, "GroupNormalization": _AFFINE,
    "LayerScale": "gamma", "RMSNormalization": "scale", "PReLU": "alpha",
    "Normalization": "mean?adapted! variance?adapted! count?adapted!",
    "SpectralNormalization": "vector_u!",
    "Attention": "scale?use_scale concat_score_weight?concat",
    "AdditiveAttention": "scale?use_scale",
    "LSTMCell": _RECURRENT, "GRUCell": _RECURRENT, "SimpleRNNCell": _RECURRENT,
    "ConvLSTMCell": _RECURRENT,
}  # fmt: skip
"""Variables in the order of their creation; `?` is the argument that they need, `!` is
for those that are not trained."""

_CELLS: Final = {
    "LSTM": "LSTMCell", "GRU": "GRUCell", "SimpleRNN": "SimpleRNNCell",
    "ConvLSTM1D": "ConvLSTMCell", "ConvLSTM2D": "ConvLSTMCell",
    "ConvLSTM3D": "ConvLSTMCell",
}  # fmt: skip
WRAPPERS: Final = ("TimeDistributed", "SpectralNormalization", "Wrapper")
"""Layers that call another layer, which is their body `layer`."""


_CLASSES: Final = {"GroupQueryAttention": "GroupedQueryAttention"}
"""Classes that Keras exports under another name."""


class Variable(NamedTuple):
    """A variable of a layer by its name; `path` is where a `.keras` file has it."""

    name: str
    path: str
    is_trainable: bool


class Part(NamedTuple):
    """A layer that another one holds, at a path."""

    path: str
    class_name: str
    config: Mapping[str, Any]


def layer_variables(class_name: str, config: Mapping[str, Any]) -> list[Variable]:
    """The variables of a layer of Keras; none for a class that is unknown.

    >>> [v.name for v in layer_variables("Dense", {"use_bias": False})]
    ['kernel']
    >>> [v.path for v in layer_variables("GRU", {})]
    ['cell/vars/0', 'cell/vars/1', 'cell/vars/2']
    """
    trained = config.get("trainable") is not False
    own = [item for item in _OWN.get(class_name, "").split() if _has(item, config)]
    own.sort(key=lambda item: item.endswith("!"))
    found = [
        Variable(re.split("[?!]", item)[0], f"vars/{i}", trained and item[-1] != "!")
        for i, item in enumerate(own)
    ]
    for part in _parts(class_name, config):
        for name, path, is_trainable in layer_variables(part.class_name, part.config):
            found.append(
                Variable(
                    f"{part.path.lstrip('_')}/{name}",
                    f"{part.path}/{path}",
                    trained and is_trainable,
                )
            )
    return found


def _has(item: str, config: Mapping[str, Any]) -> bool:
    """Whether a layer with this config has a variable of the table."""
    name, _, needed = item.rstrip("!").partition("?")
    if needed == "concat":
        return config.get("score_mode") == "concat"
    if needed == "adapted":  # not where the config has the numbers
        return config.get("mean") is None
    if needed == "bias_axes":
        return config.get("bias_axes") is not None
    if needed == "use_scale":  # Attention has none by default, AdditiveAttention one
        return bool(config.get("use_scale", False))
    if needed.startswith("!"):
        return not config.get(needed[1:], True)
    if name in ("gamma", "beta") and config.get("rms_scaling"):
        return name == "gamma"
    return not needed or config.get(needed, True) is not False


def _parts(class_name: str, config: Mapping[str, Any]) -> Iterator[Part]:
    """The layers that a layer creates or holds, in the order of their weights."""
    if class_name in _CELLS:
        yield Part("cell", _CELLS[class_name], config)
    elif class_name == "RNN" and isinstance(config.get("cell"), dict):
        yield _part("cell", config["cell"])
    elif class_name == "StackedRNNCells":
        cells = [c for c in config.get("cells") or () if isinstance(c, dict)]
        names = unique_names(class_of(cell) for cell in cells)
        for name, cell in zip(names, cells, strict=True):
            yield _part(f"cells/{name}", cell)
    elif class_name == "Bidirectional":
        forward = config.get("layer")
        backward = config.get("backward_layer") or forward
        if isinstance(forward, dict) and isinstance(backward, dict):
            yield _part("forward_layer", forward)
            yield _part("backward_layer", backward)
    elif class_name in ("MultiHeadAttention", "GroupedQueryAttention"):
        hidden = "_" if class_name == "GroupedQueryAttention" else ""
        for name in ("query", "key", "gate", "value", "output"):
            if name != "gate":
                yield Part(f"{hidden}{name}_dense", "Dense", config)
            elif config.get("use_gate"):
                yield Part("_gate_dense", "Dense", config)


def _part(path: str, entry: Mapping[str, Any]) -> Part:
    config = entry.get("config")
    return Part(path, class_of(entry), config if isinstance(config, dict) else {})


def class_of(entry: Mapping[str, Any]) -> str:
    """The name of the class of a serialized object."""
    name = str(entry.get("class_name") or "")
    return _CLASSES.get(name, name)


def exported_name(class_name: str) -> str:
    """The name of a class in files."""
    return next((k for k, v in _CLASSES.items() if v == class_name), class_name)


def is_layer(entry: Mapping[str, Any]) -> bool:
    """Whether an object of a model is a layer; else it is an operation.

    In files without modules, layers are those whose config has `trainable`, or a
    `dtype` where no operation has this name.
    """
    module = entry.get("module")
    if isinstance(module, str):
        return not (".ops." in module or module.endswith(".ops"))
    config = entry.get("config")
    if not isinstance(config, dict) or is_model(entry):
        return True
    name = class_of(entry)
    if name == "InputLayer" or "trainable" in config:
        return True
    return "dtype" in config and name not in _operation_names()


@cache
def _operation_names() -> frozenset[str]:
    """The classes of operations of Keras, without those that are layers too."""
    names = set(namespace("keras"))
    return frozenset(
        name.removeprefix("ops.")
        for name in names
        if name.startswith("ops.") and name.removeprefix("ops.") not in names
    )


def is_model(entry: Mapping[str, Any]) -> bool:
    """Whether an object is a model of layers that its config lists."""
    config = entry.get("config")
    listed = isinstance(config, dict) and isinstance(config.get("layers"), list)
    return listed or (class_of(entry) == "Sequential" and isinstance(config, list))


def model_layers(entry: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """The layers of a model, each with the name that `.keras` files have for it."""
    config = entry.get("config")
    layers = config if isinstance(config, list) else (config or {}).get("layers", ())
    found: dict[str, Mapping[str, Any]] = {}
    is_sequence = class_of(entry) == "Sequential"
    for item in layers:
        if not isinstance(item, dict) or not is_layer(item):
            continue
        if is_sequence and class_of(item) == "InputLayer":
            continue
        found.setdefault(layer_name(item) or f"#{len(found)}", item)
    names = unique_names(map(class_of, found.values()))
    return list(zip(names, found.values(), strict=True))


def layer_name(entry: Mapping[str, Any]) -> str:
    """The name of a layer of a model."""
    config = entry.get("config")
    own = config.get("name") if isinstance(config, dict) else None
    return str(entry.get("name") or own or "")


def snake_case(name: str) -> str:
    """
    >>> snake_case("Conv2DTranspose"), snake_case("GRUCell"), snake_case("PReLU")
    ('conv2d_transpose', 'gru_cell', 'p_re_lu')
    """
    name = re.sub(r"\W+", "", name)
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


def unique_names(classes: Iterable[str]) -> list[str]:
    """The names of `.keras` files for objects in a list.

    >>> unique_names(["Dense", "ReLU", "Dense"])
    ['dense', 're_lu', 'dense_1']
    """
    counts: dict[str, int] = {}
    found = []
    for each in classes:
        name = snake_case(each)
        count = counts[name] = counts.get(name, -1) + 1
        found.append(f"{name}_{count}" if count else name)
    return found


def file_path(class_name: str, config: Mapping[str, Any], name: str) -> str:
    """Where a `.keras` file has a variable of a layer; unknown names are paths."""
    known = {v.name: v.path for v in layer_variables(class_name, config)}
    return known.get(name, name)
