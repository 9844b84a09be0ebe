"""The dictionary of OpenVINO beside what OpenVINO itself makes of its ops."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import amanda
from amanda.dictionary import OpDef
from amanda.graph import Graph
from amanda.types import DType, Shape

# it forks to send a report when it is imported, which other libraries here forbid
sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
openvino = pytest.importorskip("openvino", reason="needs openvino, to compare with")

from openvino import opset16  # noqa: E402
from openvino.utils.node_factory import NodeFactory  # noqa: E402

from amanda_dictionaries_dev.openvino.cpp_headers import (  # noqa: E402
    OpClass,
    read_constructors,
    read_opsets,
)
from amanda_dictionaries_dev.openvino.python_builders import read_builders  # noqa: E402

PACKAGE = Path(openvino.__file__).parent
INCLUDE = PACKAGE / "include" / "openvino"
OPSETS = range(1, 18)
# those that are not made from inputs and attributes alone
HELD_BACK = {"Assign", "Constant", "If", "Loop", "ReadValue", "TensorIterator"}


def dictionary(opset: int) -> Any:
    return amanda.namespace(f"openvino@{opset}")


def entries() -> Iterator[tuple[int, OpDef]]:
    """Each entry that any opset has, once, with the first opset that has it."""
    seen = set()
    for opset in OPSETS:
        for entry in dictionary(opset).values():
            key = entry.name, entry.tag("class")
            if key not in seen:
                seen.add(key)
                yield opset, entry


def table(opset: int) -> dict[str, str]:
    """Ops and namespaces of classes in the table of an opset, read line by line."""
    found = {}
    file = INCLUDE / "opsets" / f"opset{opset}_tbl.hpp"
    for line in file.read_text(encoding="utf-8").splitlines():
        if line.startswith("_OPENVINO_OP_REG("):
            row, _, _ = line[len("_OPENVINO_OP_REG(") :].partition(")")
            name, space = row.split(", ")
            found[name] = space.removeprefix("ov::op::")
    return found


# -- what there is ---------------------------------------------------------------------


@pytest.mark.parametrize("opset", OPSETS)
def test_an_opset_has_what_its_table_lists(opset: int) -> None:
    held = {entry.name: entry.tag("class") for entry in dictionary(opset).values()}
    assert held == table(opset)


def test_all_classes_are_there() -> None:
    pairs = {(name, kind) for n in OPSETS for name, kind in table(n).items()}
    assert len(pairs) == 245
    assert {(entry.name, entry.tag("class")) for _, entry in entries()} == pairs


def test_nothing_in_the_headers_is_missed() -> None:
    keys = {key for found in read_opsets(PACKAGE / "include").values() for key in found}
    assert keys - read_constructors(PACKAGE / "include").keys() == set()
    assert len({(b.opset, b.op) for b in read_builders(PACKAGE)}) >= 228


def test_builders_name_as_many_inputs_as_constructors_take() -> None:
    taken = read_constructors(PACKAGE / "include")
    tables = read_opsets(PACKAGE / "include")
    compared = 0
    for builder in read_builders(PACKAGE):
        key = next(key for key in tables[builder.opset] if key.op == builder.op)
        if any(port.repeats for port in builder.inputs):
            continue
        most = max(len(inputs) for inputs in taken[key])
        # those of later releases, which builders do not have yet
        late = {
            "ScaledDotProductAttention": 1,
            "LSTMCell": key == OpClass("LSTMCell", "v0"),
        }
        assert len(builder.inputs) + late.get(key.op, 0) == most, key
        compared += 1
    assert compared > 220


# -- what the library makes ------------------------------------------------------------

VALUES: dict[str, Any] = {
    "bool": False,
    "dtype": "f32",
    "float": 1.0,
    "float[]": [1.0],
    "int": 1,
    "int[]": [1, 1],
    "string": "",
    "string[]": ["tanh"],
}
TYPES = ("f32", "i64", "boolean", "string", "u8", "i32")


def fillings(count: int) -> Iterator[list[str]]:
    """Element types to try for the inputs of an op."""
    yield from ([kind] * count for kind in TYPES)
    for at in range(1, count):
        for first, rest in (("f32", "i64"), ("f32", "i32"), ("i64", "f32")):
            yield [first] * at + [rest] * (count - at)
    yield ["boolean", *["f32"] * (count - 1)]


@cache
def parameter(kind: str) -> Any:
    shape = openvino.PartialShape.dynamic()
    return openvino.op.Parameter(getattr(openvino.Type, kind), shape).output(0)


def made(opset: int, entry: OpDef) -> Any:
    """The op with all of its inputs, or None where the library takes none of them."""
    attrs = {
        attr.name: attr.allowed[0] if attr.allowed else VALUES[attr.kind]
        for attr in entry.attrs
        if attr.required and attr.kind != "shape"
    }
    count = 2 if any(port.repeats for port in entry.inputs) else len(entry.inputs)
    factory = NodeFactory(f"opset{opset}")
    for kinds in fillings(count):
        for given in (kinds, kinds[:-1]):
            try:
                return factory.create(entry.name, list(map(parameter, given)), attrs)
            except RuntimeError:
                continue
    return None


def test_nodes_have_as_many_outputs_as_entries() -> None:
    """The number of outputs stands in no table of OpenVINO: it is seen."""
    compared = 0
    for opset, entry in entries():
        if entry.name in HELD_BACK:
            continue
        node = made(opset, entry)
        if node is None:
            continue
        compared += 1
        count = node.get_output_size()
        if any(port.form == "optional" for port in entry.outputs):
            assert 1 <= count <= len(entry.outputs), entry
        elif any(port.repeats for port in entry.outputs):
            assert entry.name in ("Split", "VariadicSplit")
        else:
            assert count == len(entry.outputs), entry
    assert compared >= 225


def test_every_word_of_an_enumeration_is_found() -> None:
    """As many words as the enumeration has members that are no other name of one."""
    sizes = enumerations()
    compared = 0
    for opset, entry in entries():
        for attr in entry.attrs:
            if not attr.allowed or entry.name in HELD_BACK:
                continue
            node = NodeFactory(f"opset{opset}").create(entry.name)
            with pytest.raises(RuntimeError) as caught:
                node.set_attribute(attr.name, "no_such_word")
            told = re.search(r"enum ([\w:]+)", str(caught.value))
            assert told is not None
            name = told[1].rpartition("::")[2]
            assert len(attr.allowed) in sizes[name], (entry.name, attr)
            for word in attr.allowed:
                node.set_attribute(attr.name, word)
                assert node.get_attributes()[attr.name] == word
            compared += 1
    assert compared > 80


def enumerations() -> dict[str, set[int]]:
    """How many members enumerations have; several ops have one of the same name."""
    found: dict[str, set[int]] = {}
    for file in (INCLUDE / "op").rglob("*.hpp"):
        text = re.sub(r"//[^\n]*", "", file.read_text(encoding="utf-8"))
        for name, body in re.findall(
            r"enum class (?:\w+ )?(\w+)[^{;]*\{([^}]*)\}", text
        ):
            members = [part.strip() for part in body.split(",") if part.strip()]
            values = {m.partition("=")[0].strip(): m.partition("=")[2] for m in members}
            own = [m for m, value in values.items() if value.strip() not in values]
            found.setdefault(name, set()).add(len(own))
    return found


# -- graphs ----------------------------------------------------------------------------


def network() -> Graph:
    """A convolution, its relu, the two largest values along an axis."""
    graph = Graph("amanda/openvino/16")
    image = graph.add(
        "Parameter", attrs={"shape": Shape([1, 3, 8, 8]), "element_type": DType("f32")}
    )
    kernel = graph.add(
        "Parameter", attrs={"shape": Shape([4, 3, 3, 3]), "element_type": DType("f32")}
    )
    sides = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1]}
    convolution = graph.add(
        "Convolution", [image.output, kernel.output], {**sides, "dilations": [1, 1]}
    )
    relu = graph.add("Relu", [convolution.output])
    count = graph.add(
        "Parameter", attrs={"shape": Shape([]), "element_type": DType("i64")}
    )
    attrs = {"axis": 1, "mode": "max", "sort": "value"}
    largest = graph.add("TopK", [relu.output, count.output], attrs, outputs=2)
    graph.add("Result", [largest.outputs[0]])
    return graph


def test_a_graph_without_fault() -> None:
    assert dictionary(16).validate(network()) == []


def test_faults_are_found() -> None:
    graph = network()
    ops = {op.type: op for op in graph}
    ops["TopK"].attrs["sort"] = "size"
    del ops["Convolution"].attrs["strides"]
    ops["Convolution"].attrs["group"] = 2
    ops["Relu"].type = "Reverse"  # of opset1 alone
    kinds = sorted(problem.kind for problem in dictionary(16).validate(graph))
    assert kinds == [
        "attribute value",
        "missing attribute",
        "unknown attribute",
        "unknown op",
    ]


def test_a_model_of_the_library() -> None:
    """What OpenVINO's own builders make is what the dictionary says it is."""
    image = opset16.parameter([1, 3, 8, 8], openvino.Type.f32)
    kernel = opset16.parameter([4, 3, 3, 3], openvino.Type.f32)
    ones = [1, 1]
    value = opset16.convolution(image, kernel, ones, ones, ones, ones)
    value = opset16.max_pool(value, [2, 2], ones, [0, 0], [0, 0], [2, 2]).output(0)
    value = opset16.transpose(value, opset16.constant([0, 2, 3, 1]))
    value = opset16.interpolate(
        value, opset16.constant([1, 4, 4, 4]), "linear", "sizes"
    )
    value = opset16.softmax(value, 1)
    halves = opset16.split(value, opset16.constant(2), 2)
    results = [opset16.result(half) for half in halves.outputs()]
    model = openvino.Model(results, [image, kernel])
    graph = Graph("amanda/openvino/16")
    values: dict[Any, Any] = {}
    for node in model.get_ordered_ops():
        if node.get_type_name() == "Constant":  # its content is no attribute there
            values[node.output(0)] = graph.parameter()
            continue
        op = graph.add(
            node.get_type_name(),
            [values[i.get_source_output()] for i in node.inputs()],
            converted(node),
            outputs=node.get_output_size(),
            namespace=f"amanda/openvino/{node.get_type_info().version_id[5:]}",
        )
        values.update(zip(node.outputs(), op.outputs, strict=True))
    assert dictionary(16).validate(graph) == []
    assert len({op.namespace for op in graph}) > 3  # classes of several opsets


def converted(node: Any) -> dict[str, Any]:
    """The attributes of a node, with element types and shapes as such."""
    entry = dictionary(int(node.get_type_info().version_id[5:]))[node.get_type_name()]
    read = {"dtype": DType, "shape": Shape}
    return {
        name: read.get(entry.attr(name).kind, lambda value: value)(value)
        for name, value in node.get_attributes().items()
    }
