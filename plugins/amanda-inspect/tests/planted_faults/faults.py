"""Kinds of faults, and where in a graph of any framework each can be planted.

A fault changes one op of a model file so that the model still loads, as an error of an
exporter or a rule would.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from random import Random
from typing import Any, Final, NamedTuple

import numpy as np

from amanda import Graph, Op, OutputPort, Tensor, TensorType

__all__ = ["CASTS", "KINDS", "Plant", "plant_fault"]

PRODUCTS: Final = {
    "Conv", "Gemm", "MatMul", "Conv2D", "BatchMatMulV2", "conv", "matmul",
    "aten.conv2d.default", "aten.linear.default", "aten.addmm.default",
    "aten.matmul.default",
}  # fmt: skip
"""Ops whose weights are changed."""
COMMUTATIVE: Final = {
    "Add", "AddV2", "Mul", "add", "multiply", "aten.add.Tensor", "aten.add_.Tensor",
    "aten.mul.Tensor",
}  # fmt: skip
AXES: Final = {
    "Softmax": "axis", "LogSoftmax": "axis", "LayerNormalization": "axis",
    "softmax": "axes", "log_softmax": "axes", "layer_norm": "axes",
    "aten.softmax.int": "dim", "aten.log_softmax.int": "dim",
}  # fmt: skip
"""The attribute with the axis, the last one by default."""
TENSORFLOW: Final = "amanda/tensorflow"  # whose Softmax has no axis
TRANSPOSES: Final = {"Transpose", "transpose", "aten.transpose.int"}
RESHAPES: Final = {
    "Reshape", "reshape", "aten.reshape.default", "aten.view.default",
}  # fmt: skip
EPSILONS: Final = {
    "BatchNormalization": "epsilon", "LayerNormalization": "epsilon",
    "batch_norm": "epsilon", "layer_norm": "epsilon",
    "aten.batch_norm.default": "eps", "aten.layer_norm.default": "eps",
}  # fmt: skip
WRONG_EPSILON: Final = 1e-3
"""The default of Keras, where those of PyTorch and BERT are 1e-5 and 1e-12."""
CASTS: Final = {"Cast", "astype", "aten.to.dtype"}
PADS: Final = {"pads", "padding"}


class Plant(NamedTuple):
    """A fault as it was planted."""

    kind: str
    text: str
    expected: frozenset[str]
    """The names of ops any of which is right: of one op, but for a dropped cast, which
    is no op of the file any more, of those on both sides of it."""


Site = tuple[str, frozenset[str], Callable[[], None]]
"""What is changed, the ops that then err, and the change."""


def plant_fault(graph: Graph, kind: str, random: Random) -> Plant:
    """Plant a fault of a kind in a graph, at a place drawn from all possible ones."""
    sites = [site for op in _all_ops(graph) for site in KINDS[kind](op, random)]
    if not sites:
        raise LookupError(f"no op of this graph can have a {kind}")
    text, expected, change = random.choice(sites)
    change()
    return Plant(kind, text, expected)


def _all_ops(graph: Graph) -> Iterator[Op]:
    """The ops of a graph, and of the bodies in it, that a result depends on."""
    for op in graph:
        if op.name is not None and not op.name.startswith("save/"):
            yield op
        for body in op.bodies.values():
            yield from _all_ops(body)


def _weight_sites(op: Op, random: Random) -> Iterator[Site]:
    """One element of a weight, changed by as much as the largest element."""
    for i, value in enumerate(op.inputs if op.type in PRODUCTS else ()):
        holder = None if value is None else value.op
        if holder is None or not _is_weight(holder) or len(value.users) != 1:
            continue

        def change(holder: Op = holder) -> None:
            key, tensor = _weight(holder)
            array = np.array(tensor.numpy())
            place = tuple(random.randrange(size) for size in array.shape)
            array[place] += np.abs(array).max()
            holder.attrs[key] = Tensor.of(array)

        yield f"weight {i} of {op.label}", frozenset([op.name or ""]), change


def _is_weight(op: Op) -> bool:
    found = _weight(op)
    return (
        not op.inputs
        and found is not None
        and len(found[1].shape) > 1
        and str(found[1].dtype) == "float32"
    )


def _weight(op: Op) -> Any:
    """The attribute that holds the elements of a weight, and these."""
    tensors = [(key, v) for key, v in op.attrs.items() if isinstance(v, Tensor)]
    return tensors[0] if len(tensors) == 1 else None


def _pad_sites(op: Op, random: Random) -> Iterator[Site]:
    """Padding at the beginning of each axis that is at its end instead."""
    name = frozenset([op.name or ""])
    for key in PADS & op.attrs.keys():
        pads = _move_pads(op.attrs[key])
        if pads is not None:
            change = partial(op.attrs.update, {key: pads})
            yield f"{key} of {op.label}", name, change
    if op.type in ("Pad", "PadV2") and op.inputs[1] is not None:
        holder = op.inputs[1].op
        if holder.is_constant and len(op.inputs[1].users) == 1:
            pads = _move_pads(holder.attrs["value"].numpy().tolist())
            if pads is not None:
                moved = Tensor.of(np.asarray(pads, "int32"))
                yield (
                    f"pads of {op.label}",
                    name,
                    lambda: holder.attrs.update({"value": moved}),
                )


def _move_pads(pads: Any) -> Any:
    """Pads, one moved from the beginning to the end of each axis; None without any."""
    if isinstance(pads, str) or len(pads) < 2:
        return None
    if isinstance(pads[0], list | tuple):  # pairs, by axis
        moved = [[a - 1, b + 1] if a else [a, b] for a, b in pads]
    elif len(pads) == 4:  # all at the beginnings, then all at the ends
        half = len(pads) // 2
        moved = [n - 1 if n else n for n in pads[:half]]
        moved += [n + (1 if pads[i] else 0) for i, n in enumerate(pads[half:])]
    else:
        return None  # the same at both ends
    return (
        moved
        if moved != [list(p) if isinstance(p, tuple) else p for p in pads]
        else None
    )


def _swap_sites(op: Op, random: Random) -> Iterator[Site]:
    """Two inputs of one type, exchanged."""
    values = () if op.type in COMMUTATIVE or op.bodies else op.inputs
    for i, a in enumerate(values):
        for j, b in enumerate(values[:i]):
            if a is None or b is None or a is b or not _have_one_type(a, b):
                continue

            def change(i: int = i, j: int = j, a: Any = a, b: Any = b) -> None:
                op.input_ports[i].connect(b)
                op.input_ports[j].connect(a)

            name = frozenset([op.name or ""])
            yield f"inputs {j} and {i} of {op.label}", name, change


def _have_one_type(a: OutputPort, b: OutputPort) -> bool:
    kinds = a.type, b.type
    return (
        all(isinstance(k, TensorType) and k.shape.has_rank for k in kinds)
        and str(kinds[0]) == str(kinds[1])
        and str(kinds[0]).startswith("float")
        and not str(kinds[0]).endswith("[]")
        and "..." not in str(kinds[0])
    )


def _axis_sites(op: Op, random: Random) -> Iterator[Site]:
    """The last axis but one in place of the last, or no transposition."""
    name = frozenset([op.name or ""])
    has_axis = op.type in AXES and not (op.namespace or "").startswith(TENSORFLOW)
    if has_axis:
        key = AXES[op.type or ""]
        axis = [-2] if key == "axes" else -2
        if op.type == "layer_norm":
            axis = [-2, -1]
        yield f"{key} of {op.label}", name, lambda: op.attrs.update({key: axis})
    users = {user.type for port in op.outputs for user in port.user_ops}
    if op.type in TRANSPOSES and users and users <= RESHAPES:
        yield f"permutation of {op.label}", name, lambda: _remove_transposition(op)


def _remove_transposition(op: Op) -> None:
    """Make a transposition one that leaves axes in their order."""
    if "dim0" in op.attrs:
        op.attrs["dim1"] = op.attrs["dim0"]
    elif "perm" in op.attrs:
        op.attrs["perm"] = sorted(op.attrs["perm"])
    else:
        perm = op.inputs[1]
        assert perm is not None
        assert op.graph is not None
        order = np.sort(perm.op.attrs["value"].numpy())
        op.input_ports[1].connect(op.graph.constant(Tensor.of(order)).output)


def _epsilon_sites(op: Op, random: Random) -> Iterator[Site]:
    key = EPSILONS.get(op.type or "")
    if key is not None:
        name = frozenset([op.name or ""])
        wrong = {key: WRONG_EPSILON}
        yield f"{key} of {op.label}", name, lambda: op.attrs.update(wrong)


def _cast_sites(op: Op, random: Random) -> Iterator[Site]:
    """A cast to float16 and back, left out."""
    users = _readers(op) if op.type in CASTS else []
    if len(users) != 1 or op.inputs[0] is None:
        return
    back = users[0]
    target = str(op.output.type).partition("[")[0], op.attrs.get("to")
    if back.type != op.type or "float16" not in (*target, str(op.attrs.get("DstT"))):
        return
    value = op.inputs[0]
    both = frozenset(each.name or "" for each in (value.op, *_readers(back)))
    assert op.graph is not None
    yield op.label, both, lambda: op.graph.replace_uses(back.output, value)


def _readers(op: Op) -> list[Op]:
    """The ops that compute with the output of an op."""
    users = op.output.user_ops
    return [
        each for each in users if "_assert_tensor_metadata" not in (each.type or "")
    ]


KINDS: Final[Mapping[str, Callable[[Op, Random], Iterator[Site]]]] = {
    "changed weight": _weight_sites,
    "wrong pad": _pad_sites,
    "swapped operands": _swap_sites,
    "lost axis": _axis_sites,
    "wrong epsilon": _epsilon_sites,
    "dropped cast": _cast_sites,
}
