"""Models at other opsets: equal results on onnx's reference evaluator."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.backend.test.loader import load_model_tests
from onnx.reference import ReferenceEvaluator

import amanda
from amanda.cli import run_command_line
from amanda.mapping import RuleSet
from amanda.scoreboard import difference
from amanda_onnx.format import Format
from amanda_onnx.mapping import MAPPING
from amanda_onnx.mapping.opset_conversion import MAPPING_OF_OPSETS, OpsetMapping
from amanda_onnx_conformance import draws_random_numbers, to_array

CODEC = Format()
LIGHT = Path(onnx.__file__).parent / "backend/test/data/light/light_resnet50.onnx"
info = helper.make_tensor_value_info


def moved(proto, opset):
    """A model at another opset; None where some op cannot go there."""
    graph = proto if isinstance(proto, amanda.Graph) else CODEC.read(proto)
    done = MAPPING_OF_OPSETS.conversion(graph, f"amanda/onnx/{opset}")
    return None if done.report.gaps else done.graph


def message(graph):
    proto = onnx.load_model_from_string(CODEC.dumps(graph))
    onnx.checker.check_model(proto)
    return proto


def cases(step):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = load_model_tests(kind="node")
    for case in sorted(found, key=lambda case: case.name)[::step]:
        graph = CODEC.read(case.model)
        if (
            case.data_sets
            and not draws_random_numbers(graph)
            and "bernoulli" not in case.name
        ):
            feeds = [to_array(value) for value in case.data_sets[0][0]]
            names = [each.name for each in case.model.graph.input]
            yield case, graph, dict(zip(names, feeds, strict=True))


def evaluated(proto, feeds):
    """None where onnx's evaluator has no such version of an op, or fails on it."""
    try:
        return ReferenceEvaluator(proto).run(None, feeds)
    except Exception:  # noqa: BLE001  its errors have no common base
        return None


@pytest.mark.most_cases(2)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("goal", "least"), [(9, 5), (13, 30), (18, 40), (21, 45), (28, 45)]
)
def test_results_stay(goal, least):
    """Models of every kind of op, down and up, and from there to the newest one."""
    same = 0
    for case, graph, feeds in cases(31 if goal > 12 else 61):
        want = evaluated(case.model, feeds)
        made = moved(graph, goal)
        if want is None or made is None or "_training_" in case.name:
            continue
        proto = message(made)
        versions = {e.domain: e.version for e in proto.opset_import}
        assert versions.get("", goal) == goal
        got = evaluated(proto, feeds)
        again = moved(made, 27)
        back = None if again is None else evaluated(message(again), feeds)
        for found in (got, back):
            if found is not None:
                why = difference(found, want, max(case.rtol, 1e-3), case.atol)
                assert why is None, (case.name, why)
                same += 1
    assert same >= 2 * least


def model(nodes, opset, inputs, outputs, weights=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


X, Y = info("x", 1, [2, 3]), info("y", 1, ["p", "q"])


def test_what_did_not_change_stays():
    """Names, order and attributes; a default that is another one now is written out."""
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="first"),
        helper.make_node("Flatten", ["a"], ["b"], name="second", axis=1),
        helper.make_node("LeakyRelu", ["b"], ["y"], name="third"),
    ]
    made = message(moved(model(nodes, 12, [X], [Y]), 22))
    assert list(made.graph.node) == nodes
    assert made.ir_version == 10


def test_what_changed_goes_alone():
    axes = helper.make_node("Squeeze", ["x"], ["a"], name="squeezed", axes=[0])
    proto = model(
        [helper.make_node("Relu", ["x"], ["r"], name="r"), axes,
         helper.make_node("Softmax", ["a"], ["y"], name="s")],
        11, [info("x", 1, [1, 2, 3, 4])], [info("y", 1, [2, 3, 4])],
    )  # fmt: skip
    proto.graph.node[1].input[0] = "r"
    made = message(moved(proto, 13))
    assert made.graph.node[0] == proto.graph.node[0]
    squeezed = next(node for node in made.graph.node if node.name == "squeezed")
    assert squeezed.op_type == "Squeeze"
    assert len(squeezed.input) == 2
    assert list(squeezed.output) == ["a"]
    assert made.graph.output == proto.graph.output
    x = np.random.default_rng(0).random((1, 2, 3, 4), "float32")
    grown = np.exp(x[0])  # opset 11 takes all axes from the first on at once
    want = grown / grown.sum((1, 2), keepdims=True)
    np.testing.assert_allclose(evaluated(made, {"x": x})[0], want, rtol=1e-5)


def test_axes_from_the_end_are_counted_from_the_front():
    node = helper.make_node("Gather", ["x", "i"], ["y"], axis=-1)
    index = helper.make_tensor("i", 7, [2], [2, 0])
    made = message(moved(model([node], 13, [X], [Y], [index]), 10))
    assert made.graph.node[0].attribute[0].i == 1


def test_words_that_an_older_opset_does_not_know():
    pads = helper.make_tensor("p", 7, [4], [0, 1, 0, 1])
    node = helper.make_node("Pad", ["x", "p"], ["y"], mode="wrap")
    proto = model([node], 19, [X], [Y], [pads])
    made = moved(proto, 18)
    x = np.arange(6, dtype="f").reshape(2, 3)
    want = evaluated(proto, {"x": x})[0]
    assert want.tolist()[0] == [2, 0, 1, 2, 0]
    if made is not None:
        assert evaluated(message(made), {"x": x})[0].tolist() == want.tolist()


def test_bodies_go_too():
    branches = [
        helper.make_graph(
            [helper.make_node("Unsqueeze", ["x"], [word], axes=[0])], word, [],
            [info(word, 1, [1, 2, 3])],
        )
        for word in ("t", "e")
    ]  # fmt: skip
    node = helper.make_node(
        "If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1]
    )
    proto = model([node], 12, [info("c", 9, []), X], [info("y", 1, [1, 2, 3])])
    made = message(moved(proto, 17))
    inner = made.graph.node[0].attribute[0].g.node
    assert "Unsqueeze" in [each.op_type for each in inner]
    x = np.ones((2, 3), "f")
    got = evaluated(made, {"c": np.array(True), "x": x})
    assert got[0].shape == (1, 2, 3)


def test_functions_go_too():
    imports = [helper.make_opsetid("", 12), helper.make_opsetid("acme", 1)]
    body = [helper.make_node("Relu", ["a"], ["b"])]
    function = helper.make_function("acme", "twice", ["a"], ["b"], body, imports)
    graph = helper.make_graph(
        [helper.make_node("twice", ["x"], ["y"], domain="acme")], "g", [X], [Y]
    )
    proto = helper.make_model(graph, functions=[function], opset_imports=imports)
    made = message(moved(proto, 20))
    versions = {e.domain: e.version for e in made.functions[0].opset_import}
    assert versions == {"": 20, "acme": 1}


def test_every_op_that_cannot_go_is_told():
    node = helper.make_node("Einsum", ["x", "x"], ["y"], equation="ij,ij->i")
    text = helper.make_node("StringSplit", ["z"], ["p", "n"])
    ends = [info("n", 7, [2])]
    proto = model([node, text], 20, [X, info("z", 8, [2])], [Y, *ends])
    done = MAPPING_OF_OPSETS.conversion(CODEC.read(proto), "amanda/onnx/18")
    assert [gap.op for gap in done.report.gaps] == ["StringSplit"]
    kept = MAPPING_OF_OPSETS.conversion(
        CODEC.read(proto), "amanda/onnx/18", keep_foreign=True
    )
    assert [op.own_namespace for op in kept.graph if op.type == "StringSplit"] == [
        "amanda/onnx/20"
    ]


def test_the_route_is_direct():
    graph = amanda.Graph("amanda/onnx/18")
    steps = amanda.plan(graph, "onnx@13").steps
    assert [step.mapping for step in steps] == ["onnx-opset"]


def test_meanings_change_where_rules_say_so():
    assert MAPPING_OF_OPSETS.changed_at("Softmax") == (13,)
    assert MAPPING_OF_OPSETS.changed_at("Reshape") == (5,)  # 14 only adds an attribute
    assert 16 in MAPPING_OF_OPSETS.changed_at("RoiAlign")


def test_rules_between_opsets_come_before_the_hub():
    rules = RuleSet("softmax", "amanda/onnx", "amanda/onnx")
    rules.equations(
        "Softmax[:12](x, axis=a) => Softmax[13:](x, axis=a) if rank(x) == 2"
    )
    mapping = OpsetMapping("opsets", MAPPING, rules=rules)
    for shape, by in (([2, 3], "by a rule between versions"), ([2, 3, 4], "through")):
        node = helper.make_node("Softmax", ["x"], ["y"], axis=1)
        proto = model([node], 9, [info("x", 1, shape)], [info("y", 1, shape)])
        done = mapping.conversion(CODEC.read(proto), "amanda/onnx/18")
        assert not done.report.gaps
        [(used, count)] = done.report.rules.items()
        assert used.startswith(f"Softmax: {by}")
        assert count == 1


def test_the_verb(tmp_path, capsys):
    out = tmp_path / "out.onnx"
    assert run_command_line(["opset", str(LIGHT), "13", "-o", str(out)]) == 0
    assert "is written" in capsys.readouterr().out
    proto = onnx.load(out)
    onnx.checker.check_model(proto)
    before = [node.op_type for node in onnx.load(LIGHT).graph.node]
    assert [node.op_type for node in proto.graph.node if node.op_type in before]
    assert proto.opset_import[0].version == 13
    arguments = ["opset", str(LIGHT), "4", "-o", str(tmp_path / "no.onnx")]
    assert run_command_line(arguments) == 1
    assert not (tmp_path / "no.onnx").exists()
    assert "BatchNormalization" in capsys.readouterr().out
    assert run_command_line(["opset", str(LIGHT), "-o", str(out)]) == 2


def test_every_version_is_tried(tmp_path, capsys):
    path = tmp_path / "a.onnx"
    onnx.save(model([helper.make_node("Gelu", ["x"], ["y"])], 20, [X], [Y]), path)
    assert run_command_line(["opset", str(path)]) == 0
    told = capsys.readouterr().out
    rows = {line.split()[0]: line.split()[1:] for line in told.splitlines()[1:29]}
    assert rows["20"] == ["yes", "0"]
    assert rows["19"][0] == "yes"
    assert int(rows["19"][1]) == 1
