"""What a model's config says of layers and models beside their arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from amanda.formatkit import FileRecords, dict_of, list_of, of_class
from amanda_keras.variables import class_of, is_layer

__all__ = [
    "CALL", "DEFAULT_CALL", "INPUT", "LAYER_RECORDS", "MODEL_RECORDS", "MODULES",
    "VARIABLES",
    "layer_class", "op_type",
]  # fmt: skip

VARIABLES: Final = "variables"
"""The attribute with the names of an op's last inputs: the layer's variables."""
CALL: Final = "call"
"""The attribute with the arguments of a call, where they are not the inputs alone."""
_OF_KERAS: Final = ("keras", "tf_keras", "tensorflow")
INPUT: Final = "$input"
"""The key of an argument that is an input of the op, by its number."""
DEFAULT_CALL: Final[Mapping[str, Any]] = {"args": [{INPUT: 0}], "kwargs": {}}

_ANY_DICT: Final = of_class(dict)
LAYER_RECORDS: Final = FileRecords(
    "keras:layer",
    {"name": of_class(str), "entry": _ANY_DICT, "empty": list_of(of_class(str))},
)
"""`name`: the layer that an op is a further call of; `entry`: its other fields;
`empty`: its arguments that are null."""

MODEL_RECORDS: Final = FileRecords(
    "keras:model",
    {
        "class_name": of_class(str), "entry": _ANY_DICT, "config": _ANY_DICT,
        "inputs": dict_of(_ANY_DICT), "layers": list_of(of_class(str)),
        "metadata": _ANY_DICT, "tensors": _ANY_DICT, "members": _ANY_DICT,
    },
)  # fmt: skip
"""`config`: its other arguments; `inputs`: the input layers by the parameters' names;
`layers`: the order of layers; `tensors`, `members`: further parts of the file."""


MODULES: Final[Mapping[str, Mapping[str, Any]]] = {
    "Functional": {
        "module": "keras.src.models.functional", "registered_name": "Functional"
    },
    "Sequential": {"module": "keras", "registered_name": None},
    "InputLayer": {"module": "keras.layers", "registered_name": None},
}  # fmt: skip
"""Where Keras has models and input layers, as its files say."""


def op_type(entry: Mapping[str, Any]) -> str:
    """The op type of a layer or operation.

    >>> op_type({"module": "keras.src.ops.numpy", "class_name": "Add"})
    'ops.Add'
    >>> op_type({"class_name": "Dense", "registered_name": "mine>Dense"})
    'mine>Dense'
    """
    name = class_of(entry)
    if not is_layer(entry):
        return f"ops.{name}"
    registered, module = entry.get("registered_name"), entry.get("module")
    own = isinstance(module, str) and module.partition(".")[0] not in _OF_KERAS
    if isinstance(registered, str) and (">" in registered or own):
        return registered
    return f"{module}.{name}" if own else name


def layer_class(type: str) -> str:
    """The class of a layer or operation of an op type.

    >>> [layer_class(name) for name in ("ops.Add", "mine>Dense", "Dense")]
    ['Add', 'Dense', 'Dense']
    """
    return type.rpartition(">")[2].rpartition(".")[2]
