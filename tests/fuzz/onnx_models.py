"""ONNX models to break: one for every case of onnx's operator tests, and mutations."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed")

__all__ = ["operator_models", "mutate_model"]

LARGEST = 4096  # bytes of a model that is mutated
INTEGERS = (
    0, 1, -1, 2, 3, -2, 7, 64, 255, 256, 1 << 16, 1 << 31, -(1 << 31), 1 << 40,
    (1 << 63) - 1, -(1 << 63), 1 << 62, 1 << 27, 100_000,
)  # fmt: skip
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e30, 1e-30, float("inf"), float("nan"), -3.5)
STRINGS = (b"", b"\xff\xfe", b"linear", b"NOTSET", b"(a|a)*b", b"a" * 300, b"\x00")


@cache
def operator_models() -> tuple[bytes, ...]:
    """The small models of onnx's operator tests, with and without constant inputs."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    found = []
    for case in cases:
        found.append(case.model.SerializeToString())
        if case.data_sets:
            found.append(_with_constants(case.model, case.data_sets[0][0]))
    return tuple(raw for raw in found if 0 < len(raw) <= LARGEST)


def _with_constants(model: Any, arrays: Any) -> bytes:
    """A model whose inputs after the first are constants."""
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    inputs = list(fixed.graph.input)
    del fixed.graph.input[:]
    fixed.graph.input.extend(inputs[:1])
    for info, array in list(zip(inputs, arrays, strict=False))[1:]:
        if isinstance(array, np.ndarray):
            fixed.graph.initializer.append(
                onnx.numpy_helper.from_array(array, info.name)
            )
        elif isinstance(array, onnx.TensorProto):
            array.name = info.name
            fixed.graph.initializer.append(array)
        else:
            fixed.graph.input.append(info)
    return fixed.SerializeToString()  # type: ignore[no-any-return]


def mutate_model(data: bytes, good: list[bytes], choose: random.Random) -> bytes:
    """A model with one to three changes that leave it a valid message."""
    model = onnx.ModelProto.FromString(data)
    for _ in range(choose.choice([1, 1, 2, 3])):
        choose.choice(_CHANGES)(model, good, choose)
    return model.SerializeToString()  # type: ignore[no-any-return]


def _node(model: Any, choose: random.Random) -> Any:
    return choose.choice(model.graph.node) if model.graph.node else None


def _attribute(model: Any, good: list[bytes], choose: random.Random) -> None:
    """An attribute gets another value, or another kind."""
    node = _node(model, choose)
    if node is None or not node.attribute:
        return
    attribute = choose.choice(node.attribute)
    kind = choose.choice([attribute.type, attribute.type, choose.randrange(1, 9)])
    name = attribute.name
    attribute.Clear()
    attribute.name, attribute.type = name, kind
    many = choose.choice([0, 1, 2, 3, 4, 8])
    match kind:
        case 1:
            attribute.f = choose.choice(FLOATS)
        case 2:
            attribute.i = choose.choice(INTEGERS)
        case 3:
            attribute.s = choose.choice(STRINGS)
        case 4:
            attribute.t.CopyFrom(_tensor(choose))
        case 6:
            attribute.floats.extend(choose.choices(FLOATS, k=many))
        case 7:
            attribute.ints.extend(choose.choices(INTEGERS, k=many))
        case 8:
            attribute.strings.extend(choose.choices(STRINGS, k=many))


def _tensor(choose: random.Random) -> Any:
    shape = choose.choice([(), (0,), (1,), (2,), (3,), (1, 1), (2, 3), (1, 2, 2)])
    kind = choose.choice(["float32", "int64", "int32", "bool", "uint8", "float64"])
    if kind in ("float32", "float64"):
        pool: Any = FLOATS
    else:
        pool = (
            [n for n in INTEGERS if abs(n) < 1 << 31] if kind == "int32" else INTEGERS
        )
    count = int(np.prod(shape))
    values = choose.choices(
        [0, 1, 1, 2] if kind in ("bool", "uint8") else pool, k=count
    )
    return onnx.numpy_helper.from_array(np.array(values, kind).reshape(shape), "t")


def _add_attribute(model: Any, good: list[bytes], choose: random.Random) -> None:
    """An attribute of another node comes, or one goes."""
    node, other = _node(model, choose), onnx.ModelProto.FromString(choose.choice(good))
    if node is None:
        return
    if node.attribute and choose.random() < 0.5:
        del node.attribute[choose.randrange(len(node.attribute))]
    elif other.graph.node and other.graph.node[0].attribute:
        node.attribute.append(choose.choice(other.graph.node[0].attribute))


def _inputs(model: Any, good: list[bytes], choose: random.Random) -> None:
    """Inputs of a node are dropped, repeated, or exchanged."""
    node = _node(model, choose)
    if node is None:
        return
    names = list(node.input)
    match choose.randrange(4):
        case 0 if names:
            names.pop(choose.randrange(len(names)))
        case 1 if names:
            names.append(choose.choice(names))
        case 2 if names:
            names[choose.randrange(len(names))] = choose.choice(["", *names])
        case _:
            choose.shuffle(names)
    del node.input[:]
    node.input.extend(names)


def _outputs(model: Any, good: list[bytes], choose: random.Random) -> None:
    node = _node(model, choose)
    if node is not None and choose.random() < 0.5:
        node.output.append(f"more{len(node.output)}")
    elif node is not None and len(node.output) > 1:
        del node.output[-1]


def _type(model: Any, good: list[bytes], choose: random.Random) -> None:
    """A node becomes one of another type."""
    node, other = _node(model, choose), onnx.ModelProto.FromString(choose.choice(good))
    if node is not None and other.graph.node:
        node.op_type = other.graph.node[0].op_type
        node.domain = other.graph.node[0].domain


def _content(model: Any, good: list[bytes], choose: random.Random) -> None:
    """A constant gets other numbers or another shape."""
    if not model.graph.initializer:
        if model.graph.input:
            at = choose.randrange(len(model.graph.input))
            tensor = _tensor(choose)
            tensor.name = model.graph.input[at].name
            del model.graph.input[at]
            model.graph.initializer.append(tensor)
        return
    tensor = choose.choice(model.graph.initializer)
    if tensor.data_type == 7 and tensor.raw_data and choose.random() < 0.7:
        numbers = np.frombuffer(tensor.raw_data, "int64").copy()
        numbers[choose.randrange(len(numbers))] = choose.choice(INTEGERS)
        tensor.raw_data = numbers.tobytes()
        return
    name = tensor.name
    tensor.CopyFrom(_tensor(choose))
    tensor.name = name


def _change_declared_type(model: Any, good: list[bytes], choose: random.Random) -> None:
    """The declared type of an input or output changes."""
    values = [*model.graph.input, *model.graph.output]
    if not values:
        return
    value = choose.choice(values)
    kind = value.type.tensor_type
    match choose.randrange(5):
        case 0:
            kind.elem_type = choose.randrange(24)
        case 1:
            kind.shape.dim.add().dim_value = choose.choice(INTEGERS)
        case 2 if kind.shape.dim:
            choose.choice(kind.shape.dim).dim_value = choose.choice(INTEGERS)
        case 3 if kind.shape.dim:
            choose.choice(kind.shape.dim).dim_param = choose.choice(
                ["n", "", "\n", "m"]
            )
        case 4:
            value.type.ClearField("tensor_type")


def _names(model: Any, good: list[bytes], choose: random.Random) -> None:
    values = [*model.graph.input, *model.graph.output, *model.graph.initializer]
    if len(values) > 1:
        choose.choice(values).name = choose.choice(values).name


def _version(model: Any, good: list[bytes], choose: random.Random) -> None:
    if model.opset_import:
        model.opset_import[0].version = choose.choice([1, 6, 9, 13, 21, 99, 1 << 40])


def _join(model: Any, good: list[bytes], choose: random.Random) -> None:
    """Nodes of another model follow; they read results of this one."""
    other = onnx.ModelProto.FromString(choose.choice(good))
    made = [name for node in model.graph.node for name in node.output if name]
    for node in other.graph.node[:2] if made else ():
        more = model.graph.node.add()
        more.CopyFrom(node)
        more.name = ""
        del more.output[:]
        more.output.extend(
            f"j{len(model.graph.node)}_{i}" for i in range(len(node.output))
        )
        del more.input[:]
        more.input.extend(choose.choice([*made, ""]) for _ in node.input)
        if more.output:
            model.graph.output.add().name = more.output[0]


_CHANGES: list[Callable[[Any, list[bytes], random.Random], None]] = [
    _attribute, _attribute, _attribute, _add_attribute, _inputs, _outputs, _type,
    _content, _content, _content, _change_declared_type, _names, _version, _join,
]  # fmt: skip
