"""What a file says of programs, nodes and values that no part of a graph stands for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from amanda.dictionary import CallLayout
from amanda.formatkit import FileRecords, any_of, dict_of, list_of, of_class
from amanda.graph import VALUE_NOTE, Op
from amanda.types import TensorType

__all__ = [
    "FROZEN", "INPUT_RECORDS", "MEMORY_NOTE", "NODE_RECORDS", "PADDING_NOTE",
    "PROGRAM_RECORDS", "VALUE", "WEIGHT_NOTE", "WEIGHT_OF_PYTORCH", "is_frozen",
    "is_number", "is_trained", "positional_names", "usual_groups",
]  # fmt: skip

VALUE: Final = VALUE_NOTE
"""The free note of a `get_attr` with its value, a Tensor."""

WEIGHT_NOTE: Final = "x-weight"
"""The free note of a constant of the hub with its kind in PyTorch: that of `get_attr`,
or `FROZEN`; absent where it follows from the value and the ops that read it."""
WEIGHT_OF_PYTORCH: Final = "weight of PyTorch"
"""What made a constant of the hub that is a weight of PyTorch: it keeps its name and
its form."""
FROZEN: Final = "frozen parameter"
"""A parameter that is not trained."""
PADDING_NOTE: Final = "x-padding-idx"
"""The free note of a gather of the hub that is an embedding: the row that is not
trained."""
MEMORY_NOTE: Final = "x-unknown-memory"
"""The free note of an op that reads the memory of a tensor, where a program does not
say how the tensor lies in it: the reason."""

_TEXT: Final = of_class(str)
_TEXTS: Final = list_of(_TEXT)
_ANY: Final = of_class(dict)

NODE_RECORDS: Final = FileRecords(
    "torch:node",
    {
        "metadata": dict_of(_TEXT),
        "values": list_of(any_of(_ANY, of_class(type(None)))),
        "groups": list_of(of_class(int)),
        "kinds": dict_of(_TEXT),
        "keywords": _TEXTS,
        "nulls": _TEXTS,
        "spread": of_class(bool),
        "single": of_class(bool),
        "payload": _ANY,
    },
)
"""Of an op.

- `values`: dtype, sizes, strides etc. of each output; the expression of a number
- `groups`: the length of each output that is a list, -1 for one value, where the
  definition says otherwise
- `kinds`: kinds of arguments that follow neither from value nor definition
- `keywords`: positional arguments that are passed by name
- `nulls`: arguments that are null, as they would be without
- `spread`: the values of a variadic port are arguments each, and not one list
- `single`: a higher-order op returns a tensor, not a tuple
- `payload`: of a `get_attr`, other fields of its entry in the archive
"""

INPUT_RECORDS: Final = FileRecords(
    "torch:port",
    {"value": _ANY, "spec": _ANY, "kind": _TEXT},
)
"""Of a parameter or result. `value`: as `values` of a node; `spec`: its role;
`kind`: that of its argument where it is not a tensor."""

PROGRAM_RECORDS: Final = FileRecords(
    "torch:program",
    {
        "torch_version": _TEXT, "schema_version": _ANY, "opset_version": _ANY,
        "range_constraints": _ANY, "guards_code": _TEXTS, "verifiers": _TEXTS,
        "module_call_graph": list_of(_ANY), "metadata": _ANY,
        "treespec_namedtuple_fields": _ANY, "inputs": _TEXTS, "constants": _ANY,
        "model": _TEXT, "members": _ANY, "payloads": _ANY, "single": of_class(bool),
        "hints": _ANY,
    },
)  # fmt: skip
"""Of a graph.

- `hints`: values of symbols to trace with
- `inputs`: the order of all inputs, where it is not that of the ops and parameters
- `constants`: inputs that are constant numbers, by name
- `members`, `payloads`: further members of the archive; entries of weights that no
  input of the program has
- `single`: of a body, as `single` of a node
"""


def positional_names(layout: CallLayout, arguments: Mapping[str, Any]) -> list[str]:
    """The names of the positional arguments of a call, in order.

    Those that the definition of the op does not name are `arg0`, `arg1` and so on.
    Without a definition and numbers, they are all arguments, as they are given.

    >>> positional_names(CallLayout(None), {"arg1": 0, "mode": "a", "arg0": None})
    ['arg0', 'arg1']
    """
    known = {*layout.ports, *layout.attrs}
    numbered = [name for name in arguments if name not in known and is_number(name)]
    if layout.op_def is None and not numbered:
        return list(arguments)
    return [*layout.positional, *sorted(numbered, key=lambda name: int(name[3:]))]


def is_number(name: str) -> bool:
    """Whether the name of an argument is its place: `arg0`."""
    return name.startswith("arg") and name[3:].isdecimal()


def usual_groups(layout: CallLayout, count: int) -> list[int]:
    """The lengths of the outputs of an op: one list if its definition has one.

    >>> from amanda.dictionary import parse_signature
    >>> usual_groups(CallLayout(parse_signature("split(x: tensor) -> (*tensor)")), 3)
    [3]
    """
    outputs = () if layout.op_def is None else layout.op_def.outputs
    is_list = len(outputs) == 1 and outputs[0].repeats and outputs[0].type != "any"
    return [count] if is_list else [-1] * count


def is_trained(op: Op) -> bool:
    """Whether gradients of the value of an op are wanted: of a parameter."""
    kind = op.attrs.get("kind") if op.type == "get_attr" else None
    type = op.output.type if kind == "parameter" else None
    is_float = isinstance(type, TensorType) and type.dtype.kind == "float"
    return is_float and not is_frozen(op)


def is_frozen(op: Op) -> bool:
    """Whether a file says that a parameter of floats is not trained."""
    return NODE_RECORDS.of(op).get("payload", {}).get("requires_grad") is False
