"""Weights of programs that are written: parameters and buffers, with their names.

The weights of a layer have the names that `torch.nn` gives them, in one module: those
of an `aten.conv2d` are `layer1.conv.weight` and `layer1.conv.bias`, also where another
framework calls them `onnx::Conv_26`, or fused two layers.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from amanda import namespace
from amanda.dictionary import CallLayout
from amanda.graph import CONSTANT, Graph, Op, OutputPort
from amanda.mapping import constant_of
from amanda.tensors import Tensor, contiguous_array
from amanda.types import TensorType
from amanda_torch.mapping.module_stacks import scope_of_name
from amanda_torch.mapping.weight_kinds import recurrent_names, usual_kind
from amanda_torch.records import (
    FROZEN,
    NODE_RECORDS,
    VALUE,
    WEIGHT_NOTE,
    WEIGHT_OF_PYTORCH,
)

__all__ = ["use_parameters"]

_SYNONYMS: Final = {
    "weight": ("W", "w", "kernel", "gamma", "scale", "weights", "embeddings"),
    "bias": ("B", "b", "beta", "biases"),
    "running_mean": ("moving_mean", "mean"),
    "running_var": ("moving_variance", "var"),
}
"""What other frameworks call the weights of layers."""

_GENERATED: Final = re.compile(
    r"onnx::.*|node_.*|val_\d+|_*\d+|.*_output_\d+|constant[_\d]*|.*Constant_\d+"
    r"|.*const_fold_opt__\d+|.*initializer_?\d*|[A-Z]\w*_\d+"
)
"""Names that exporters number."""


def use_parameters(graph: Graph) -> None:
    """Replace constants of the core by parameters, buffers and constants."""
    _use_linear_layers(graph)
    _transpose_constants(graph)
    targets = _Targets()
    constants = {
        op: tensor for op in graph
        if op.type == CONSTANT and (tensor := constant_of(op.output)) is not None
    }  # fmt: skip
    names = _names_of_layers(graph)
    for op, tensor in constants.items():
        own = op.name or op.output.name or ""
        usual = usual_kind(op.output, tensor, names.get(op, own))
        kind = str(op.attrs.get(WEIGHT_NOTE, usual))
        record = {"requires_grad": False} if kind == FROZEN else {}
        kind = "parameter" if kind == FROZEN else kind
        if op not in names and _is_generated(own) and not _is_of_pytorch(op):
            own = _name_from_use(op)
        target = targets.add(names.get(op) or own or kind)
        with graph.before(op):
            attrs = {"target": target, "kind": kind, VALUE: tensor}
            new = graph.add("get_attr", [], attrs)
        NODE_RECORDS.add(new, payload=record)
        new.output.type = tensor.type
        graph.replace_uses(op.output, new.output)
        graph.remove(op)
        graph.rename(new, graph.fresh_name(_PREFIX[kind] + target.replace(".", "_")))


def _is_of_pytorch(op: Op) -> bool:
    """Whether a constant is a weight of a program of PyTorch."""
    return op.provenance is not None and op.provenance.by == WEIGHT_OF_PYTORCH


def _use_linear_layers(graph: Graph) -> None:
    """Write products with matrices that are weights, and a bias, as linear layers."""
    for op in list(graph):
        if op.type not in _PRODUCTS:
            continue
        x, matrix = op.inputs
        tensor = None if matrix is None else constant_of(matrix)
        if x is None or matrix is None or tensor is None or len(tensor.shape) != 2:
            continue
        if tensor.dtype.kind != "float" or len(list(matrix.users)) > 1:
            continue
        if _is_of_pytorch(matrix.op):
            continue
        last, bias = _bias_of(op, tensor.shape[1])
        with graph.before(last):
            turned = graph.add("aten.t.default", [matrix])
            inputs = [x, turned.output] + ([bias] if bias is not None else [])
            new = graph.add("aten.linear.default", inputs)
        turned.output.type = TensorType(tensor.dtype, tensor.shape[::-1])
        new.output.type = last.output.type
        new.provenance = op.provenance
        name = op.name
        graph.replace(last, [new.output])
        if last is not op:
            graph.remove(op)
        graph.rename(new, name)


_PRODUCTS: Final = ("aten.matmul.default", "aten.mm.default")


def _bias_of(op: Op, size: int) -> tuple[Op, OutputPort | None]:
    """The op that adds a vector of weights to a product, and the vector."""
    users = list(op.output.users)
    then = users[0].op if len(users) == 1 else op
    if then.type != "aten.add.Tensor" or "alpha" in then.attrs:
        return op, None
    others = [v for v in then.inputs if v is not None and v is not op.output]
    tensor = constant_of(others[0]) if len(others) == 1 else None
    if tensor is None or tensor.shape != (size,) or tensor.dtype.kind != "float":
        return op, None
    return then, others[0]


def _transpose_constants(graph: Graph) -> None:
    """Store the transposed matrix where a constant is only read transposed."""
    for op in list(graph):
        if op.type != "aten.t.default":
            continue
        [value] = op.inputs
        tensor = None if value is None else constant_of(value)
        if value is None or tensor is None or len(list(value.user_ops)) > 1:
            continue
        if _is_of_pytorch(value.op):
            continue
        rows, columns = tensor.shape
        turned = Tensor.lazy(
            partial(_transpose_tensor, tensor), tensor.dtype, (columns, rows)
        )
        with graph.before(op):
            new = graph.constant(turned)
        new.output.type = turned.type
        name = value.op.name
        graph.replace_uses(op.output, new.output)
        graph.remove(op)
        graph.remove(value.op)
        graph.rename(new, name)


def _transpose_tensor(tensor: Tensor) -> Any:
    return contiguous_array(tensor.numpy().T)


# -- names -------------------------------------------------------------------------


def _names_of_layers(graph: Graph) -> dict[Op, str]:
    """Names for the weights of layers: those of `torch.nn`, in one module."""
    found: dict[Op, str] = {}
    count: dict[str, itertools.count[int]] = {}
    for op in graph:
        weights = _weights_of_layer(op)
        if not weights or next(iter(weights)) == "bias":
            continue
        owner = _owner(op, weights)
        if owner is None:
            base = (op.type or "").split(".")[1]
            number = next(count.setdefault(base, itertools.count()))
            owner = f"{base}_{number}" if number else base
        for port, weight in weights.items():
            own = weight.name or ""
            path, _, last = own.rpartition(".")
            is_own = path == owner and last not in _SYNONYMS.get(port, ())
            is_single = len(list(weight.output.users)) == 1
            is_free = is_single and weight not in found
            if is_free and not is_own and not _is_of_pytorch(weight):
                found[weight] = f"{owner}.{port}"
    return found


def _weights_of_layer(op: Op) -> dict[str, Op]:
    """The constants that an op reads as weights of a layer, by their names there."""
    if not (op.type or "").startswith("aten."):
        return {}
    dictionary: Any = namespace(op.namespace or "", assume=True)
    definition = dictionary.get(op.type or "")
    ports = [] if definition is None else [port.name for port in definition.inputs]
    if "params" in ports:
        return _weights_of_recurrent(op, definition)
    return {
        port: value.op for port, value in zip(ports, op.inputs, strict=False)
        if port in _SYNONYMS and value is not None and value.op.type == CONSTANT
    }  # fmt: skip


def _weights_of_recurrent(op: Op, definition: Any) -> dict[str, Op]:
    """The weights of recurrent layers by their names in `torch.nn`."""
    values = CallLayout(definition).arguments(op)["params"]
    names = recurrent_names(op.attrs, len(values))
    if any(value.op.type != CONSTANT for value in values):
        return {}
    return {name: v.op for name, v in zip(names, values, strict=False)}


def _owner(op: Op, weights: dict[str, Op]) -> str | None:
    """The module of a layer: that of the first of its weights with a name of its own,
    or that in the name of the op."""
    for port, weight in weights.items():
        path, _, last = re.sub(r"[/:]+", ".", weight.name or "").rpartition(".")
        if path and (last == port or last in _SYNONYMS.get(port, ())):
            return path
    names = [] if op.provenance is None else op.provenance.sources
    scopes = (scope_of_name(name) for name in (*names, op.name or ""))
    scope = next(filter(None, scopes), None)
    if scope is None and all(_is_generated(w.name or "") for w in weights.values()):
        return None
    if scope is None:
        return next(
            weight.name for weight in weights.values()
            if not _is_generated(weight.name or "")
        )  # fmt: skip
    return ".".join(scope)


def _is_generated(name: str) -> bool:
    """
    >>> [_is_generated(n) for n in ("onnx::Conv_26", "fc.weight", "val_3", "scale")]
    [True, False, True, False]
    """
    return not name or _GENERATED.fullmatch(name) is not None


def _name_from_use(op: Op) -> str:
    """A name for a weight without one: that of the module of its user and the port.

    `/layer1/conv/Conv`, an op in the module `layer1.conv`, has a `layer1.conv.weight`.
    """
    name = op.graph.namespace if op.graph else None
    dictionary: Any = namespace(name or "", assume=True)
    value, user = op.output, next(iter(op.output.user_ops), None)
    while user is not None and not user.name and len(user.outputs) == 1:
        value, user = user.output, next(iter(user.output.user_ops), None)
    if user is None or not user.name or isinstance(user, Graph):
        return ""
    definition, place = dictionary.get(user.type or ""), user.inputs.index(value)
    if definition is None or place >= len(definition.inputs):
        return ""
    scope = [part for part in re.split(r"[./:]+", user.name) if part]
    port = definition.inputs[place].name
    port = "constant" if port in _OPERANDS else port
    if len(scope) < 2 and _is_generated(user.name):
        return port
    return ".".join([*(scope[:-1] or scope), port])


_OPERANDS: Final = ("self", "other", "input", "mat2", "tensors", "condition")


_PREFIX = {
    "parameter": "p_", "buffer": "b_", "non_persistent_buffer": "b_", "constant": "c_",
}  # fmt: skip
"""What PyTorch puts before the names of weights in programs."""


class _Targets:
    """Names of weights as attributes of modules: `layer1.0.weight`."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._modules: set[str] = set()

    def add(self, name: str) -> str:
        """A free name; none is a part of another, of which it would be a module."""
        parts = [re.sub(r"\W", "_", part) for part in re.split(r"[./:]+", name)]
        stem = ".".join(filter(None, parts)) or "constant"
        names = itertools.chain([stem], (f"{stem}_{i}" for i in itertools.count(1)))
        found = next(name for name in names if self._is_free(name))
        self._used.add(found)
        self._modules |= set(_prefixes(found))
        return found

    def _is_free(self, name: str) -> bool:
        taken = name in self._used or name in self._modules
        return not taken and self._used.isdisjoint(_prefixes(name))


def _prefixes(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[:i]) for i in range(1, len(parts)))
