"""Cross-layer equalization: channels of layers in a chain get similar ranges.

Between two layers, with nothing but positively homogeneous ops (Nagel et al. 2019), the
channels of the first may be divided by factors that the weights of the second are
multiplied by: the model computes the same, and one scale suits all channels.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from amanda.graph import Graph, Op
from amanda.tensors import Tensor
from amanda_tools.analysis.layouts import expand_layout
from amanda_tools.analysis.selection import is_float_tensor

__all__ = ["equalize"]

_HOMOGENEOUS: Final = frozenset({"relu", "leaky_relu", "max_pool", "avg_pool",
                                 "global_avg_pool", "identity"})  # fmt: skip
"""f(s x) = s f(x) for s > 0, each channel on its own."""
_ROUNDS: Final = 3
_SMALLEST: Final = 1e-8
Array = np.ndarray[Any, Any]


class _Pair(NamedTuple):
    """Weights and biases that channels run through, one layer after the other."""

    first: Op
    outputs: int
    """The axis of the channels in the first weight."""
    biases: tuple[Op, ...]
    second: Op
    inputs: int
    """The axis of the channels in the second weight."""


def equalize(graph: Graph) -> int:
    """Equalize the layers of a graph, in place; returns how many pairs there are."""
    pairs = [pair for op in graph for pair in [_pair_after(op)] if pair is not None]
    for _ in range(_ROUNDS):
        for pair in pairs:
            _equalize_pair(pair)
    return len(pairs)


def _equalize_pair(pair: _Pair) -> None:
    first, second = (_array(op) for op in (pair.first, pair.second))
    one, other = _ranges(first, pair.outputs), _ranges(second, pair.inputs)
    is_used = (one > _SMALLEST) & (other > _SMALLEST)
    factors = np.where(is_used, np.sqrt(one * np.where(is_used, other, 1)) /
                       np.where(is_used, other, 1), 1.0)  # fmt: skip
    _scale(pair.first, pair.outputs, 1 / factors)
    for bias in pair.biases:
        _scale(bias, 0, 1 / factors)
    _scale(pair.second, pair.inputs, factors)


def _array(op: Op) -> Array:
    found: Array = op.attrs["value"].numpy()
    return found


def _ranges(weight: Array, axis: int) -> Array:
    others = tuple(i for i in range(weight.ndim) if i != axis)
    found: Array = np.abs(weight).max(axis=others, initial=0.0).astype("float64")
    return found


def _scale(constant: Op, axis: int, factors: Array) -> None:
    array = _array(constant)
    shape = [1] * array.ndim
    shape[axis] = -1
    scaled = (array * factors.reshape(shape)).astype(array.dtype)
    constant.attrs["value"] = Tensor.of(scaled)


def _pair_after(op: Op) -> _Pair | None:
    """An op and the only layer that reads its channels."""
    outputs, weight = _weight(op, "O")
    if weight is None or outputs is None:
        return None
    biases = []
    if len(op.inputs) > 2 and op.inputs[2] is not None:
        biases.append(op.inputs[2].op)
    at = op
    while True:
        users = list(at.outputs[0].users)
        if len(users) != 1 or users[0].op is op.graph:
            return None
        at = users[0].op
        addend = _vector_addend(at)
        if addend is not None and at.type == "add":
            biases.append(addend)
        elif at.type not in _HOMOGENEOUS:
            break
    inputs, second = _weight(at, "I")
    if second is None or inputs is None or users[0].index != 0 or second is weight:
        return None
    size = _array(weight).shape[outputs]
    is_alike = _array(second).shape[inputs] == size
    is_own = all(b.is_constant and len(b.output.users) == 1 for b in biases)
    if not is_alike or not is_own or any(_array(b).shape != (size,) for b in biases):
        return None
    return _Pair(weight, outputs, tuple(biases), second, inputs)


def _vector_addend(op: Op) -> Op | None:
    constants = [p.op for p in op.inputs if p is not None and p.op.is_constant]
    found = constants[0] if len(constants) == 1 else None
    return found if found is not None and _array(found).ndim == 1 else None


def _weight(op: Op, letter: str) -> tuple[int | None, Op | None]:
    """The axis of output or input channels of a layer, and its own constant weight.

    A depthwise convolution has its channels, inputs and outputs, along one axis."""
    port = op.inputs[1] if len(op.inputs) > 1 else None
    if op.type not in ("conv", "matmul", "linear") or port is None:
        return None, None
    if not port.op.is_constant or not is_float_tensor(port) or len(port.users) != 1:
        return None, None
    shape = _array(port.op).shape
    if op.type != "conv":
        return ("IO".index(letter), port.op) if len(shape) == 2 else (None, None)
    layout = str(op.attrs.get("kernel_layout", "OI*"))
    letters = expand_layout(layout, len(shape))
    groups = int(op.attrs.get("groups", 1))
    if groups == 1:
        return letters.index(letter), port.op
    is_depthwise = shape[letters.index("O")] == groups == groups * shape[
        letters.index("I")
    ]  # fmt: skip
    return (letters.index("O"), port.op) if is_depthwise else (None, None)
