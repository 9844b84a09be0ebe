"""Sequences, optionals and strings, through the hub and on onnxruntime."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import amanda
from amanda_onnx_conformance import cases, run_case

onnx = pytest.importorskip("onnx")

PATTERN = (
    "sequence_(insert|map|model)|split_to_sequence|optional|regex|if_seq|loop13_seq"
    "|loop16_seq|string_(concat|split|normalizer)|strnormalizer|identity_(seq|opt)"
)
PASSES = 55


def test_the_cases_of_the_project_pass():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = [run_case(*case) for case in list(cases(pattern=PATTERN))]
    assert [each for each in made if each.status != "pass"] == []
    assert len(made) >= PASSES


def model(nodes, inputs, outputs, opset=20):
    h = onnx.helper
    graph = h.make_graph(nodes, "g", inputs, outputs)
    return h.make_model(graph, opset_imports=[h.make_opsetid("", opset)])


def info(name, dtype, shape):
    return onnx.helper.make_tensor_value_info(name, dtype, shape)


FLOAT, TEXT, INT = (getattr(onnx.TensorProto, t) for t in ("FLOAT", "STRING", "INT64"))
node = onnx.helper.make_node


def sequences():
    """x and its double, the first taken out, what is left joined."""
    return model(
        [
            node("Add", ["x", "x"], ["xx"]),
            node("SequenceConstruct", ["x", "xx", "x"], ["s"]),
            node("SequenceErase", ["s", "zero"], ["t"]),
            node("SequenceInsert", ["t", "xx"], ["u"]),
            node("SequenceLength", ["u"], ["n"]),
            node("SequenceAt", ["u", "zero"], ["first"]),
            node("ConcatFromSequence", ["u"], ["y"], axis=0),
        ],
        [info("x", FLOAT, [2]), info("zero", INT, [])],
        [info("y", FLOAT, [6]), info("n", INT, []), info("first", FLOAT, [2])],
    )


def split():
    return model(
        [
            node("SplitToSequence", ["x", "sizes"], ["s"], axis=0),
            node("ConcatFromSequence", ["s"], ["y"], axis=0),
            node("SequenceEmpty", [], ["e"], dtype=FLOAT),
            node("SequenceInsert", ["e", "x"], ["f"]),
            node("ConcatFromSequence", ["f"], ["z"], axis=0, new_axis=1),
        ],
        [info("x", FLOAT, [3]), info("sizes", INT, [2])],
        [info("y", FLOAT, [3]), info("z", FLOAT, [1, 3])],
    )


def texts():
    return model(
        [
            node("RegexFullMatch", ["x"], ["m"], pattern="a.*"),
            node("StringConcat", ["x", "x"], ["c"]),
            node("StringSplit", ["x"], ["p", "k"], delimiter=" ", maxsplit=1),
        ],
        [info("x", TEXT, [3])],
        [info("m", onnx.TensorProto.BOOL, [3]),
         info("c", TEXT, [3]), info("p", TEXT, [3, None]), info("k", INT, [3])],
    )  # fmt: skip


def numbers():
    return model(
        [node("Cast", ["x"], ["f"], to=FLOAT), node("Cast", ["f"], ["y"], to=TEXT)],
        [info("x", TEXT, [3])],
        [info("f", FLOAT, [3]), info("y", TEXT, [3])],
    )


WORDS = np.array(["a b c", "b", "ax"], object)
CASES = {
    "sequences": (sequences, [np.float32([1, 2]), np.array(0)]),
    "split": (split, [np.float32([1, 2, 3]), np.int64([1, 2])]),
    "texts": (texts, [WORDS]),
    "numbers": (numbers, [np.array(["1.5", "-2.25", "1e-3"], object)]),
}


@pytest.mark.parametrize("name", CASES)
def test_there_and_back_is_the_same_to_onnxruntime(name, tmp_path):
    """The model, what came back from the hub, and the hub itself."""
    runtime = pytest.importorskip("onnxruntime")
    make, feeds = CASES[name]
    given = make()
    given.ir_version = 10
    back = amanda.convert(amanda.convert(amanda.load(given), "std"), "onnx@20")
    assert {op.type for op in back} >= {n.op_type for n in given.graph.node}
    amanda.save(back, tmp_path / "back.onnx")
    fed = dict(zip([i.name for i in given.graph.input], feeds, strict=True))
    wanted, again = (
        runtime.InferenceSession(source).run(None, fed)
        for source in (given.SerializeToString(), str(tmp_path / "back.onnx"))
    )
    hub = amanda.compile(amanda.load(given), "numpy")(feeds).values()
    for rows in (again, hub):
        for got, want in zip(rows, wanted, strict=True):
            same(got, want)


def same(got, want):
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape
    assert got.tolist() == want.tolist()


def test_a_handle_from_before_the_conversion_finds_its_value():
    """By whoever converted it: the backend's way, or the caller."""
    graph = amanda.load(sequences())
    [handle] = [op.output for op in graph if op.type == "Add"]
    feeds = [np.float32([1, 2]), np.array(0)]
    for compiled in (
        amanda.compile(graph, "numpy"),
        amanda.compile(amanda.convert(graph, "std"), "numpy"),
    ):
        compiled(feeds)
        assert compiled[handle].tolist() == [2, 4]
