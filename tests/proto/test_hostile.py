"""Small files that claim to be large, deep or circular: refused at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from amanda.errors import AmandaError, FormatError
from amanda.files.binary import codec
from amanda.files.binary.messages import message_classes

HUGE = 10**13
MANY = 20_000


def model(**parts: Any) -> Any:
    """A file with a root graph that has one op, and what is given besides."""
    made = message_classes()["Model"](magic="amanda/graph", major=1, **parts)
    made.graphs.add().ops.add(name="first", outputs=[0])
    return made


def refused(made: Any, message: str, **parts: str) -> None:
    data = made if isinstance(made, bytes) else made.SerializeToString()
    started = time.process_time()
    with pytest.raises(FormatError) as caught:
        codec.loads(data)
    assert time.process_time() - started < 2
    assert caught.value.message == message
    assert caught.value.where is not None
    for name, text in parts.items():
        assert getattr(caught.value, name) == text


def op(made: Any, **parts: Any) -> Any:
    return made.graphs[0].ops.add(**parts)


def test_values_that_are_not_there() -> None:
    gone = "a reference to something that is not there"
    for parts in ({"inputs": [2]}, {"inputs": [HUGE]}, {"type": 1}, {"outputs": [1]},
                  {"control": [2]}, {"control": [0]}, {"namespace": 9}):  # fmt: skip
        made = model()
        op(made, **parts)
        refused(made, gone)
    made = model()
    made.graphs[0].results.add(value=2)
    refused(made, gone)


def test_the_place_is_told() -> None:
    made = model()
    op(made, name="second", inputs=[3])
    data = made.SerializeToString()
    start = data.index(b"second") - 4
    refused(
        made,
        "a reference to something that is not there",
        where=f"byte {start}, graph 0, op 1",
    )
    made.graphs[0].ops[1].inputs[0] = 1
    made.graphs[0].ops[1].name = "first"
    start = made.SerializeToString().rindex(b"first") - 4
    refused(
        made,
        "graph (unnamed) has an op named 'first' already",
        where=f"byte {start}, graph 0, op 1",
    )


def test_attributes_that_lack_something() -> None:
    for attr, message in {
        (("name", 1),): "an attribute has no value that this version supports",
        (("none", True),): "no name has the number 0",
        (("name", 2), ("none", True)): "no name has the number 2",
        (("name", 1), ("list", HUGE)): "a list or map lacks items",
        (("name", 1), ("type", 0)): "no entry of the file has the number 0",
        (("name", 1), ("tensor", HUGE)): f"no entry of the file has the number {HUGE}",
        (("name", 1), ("integer", 1), ("integers", (1,))): (
            "an attribute has two values"
        ),
        (("name", 1), ("large", b"\1" * 40)): (
            "an attribute with an absurdly large number"
        ),
        (("name", 1), ("dtype", "float7")): "no such element type",
    }.items():
        made = model(strings=["a"])
        op(made).attrs.add(**dict(attr))
        refused(made, message)
    made = model(strings=["a"])
    made.graphs[0].ops[0].attrs.add(name=1, none=True)
    made.graphs[0].ops[0].attrs.add(name=1, none=True)
    refused(made, "two values of the name 'a'")


def test_deep_attributes() -> None:
    made = model(strings=["a"])
    attrs = op(made).attrs
    attrs.add(name=1, list=1)
    for _ in range(MANY):
        attrs.add(list=1)
    refused(made, "an attribute is nested too deeply", expected="at most 100 levels")


def test_absurd_tensors() -> None:
    made = model()
    made.tensors.add(dtype="float32", shape=[HUGE])
    refused(
        made,
        f"the data of a tensor float32[{HUGE}] is not as long as that",
        expected=f"{4 * HUGE} bytes",
        got="0 bytes",
    )
    for dtype, shape, data, message in (
        ("string", [1 << 60], bytes(8), "the strings of a tensor do not fill its data"),
        ("string", [1], b"\xff" * 8, "the strings of a tensor do not fill its data"),
        ("float32", [1] * 65, bytes(4), "too many dims for an array"),
        ("float32", [1 << 63], b"", "a dim is out of range"),
        ("float32", [0, 1 << 40, 1 << 40], b"?", "the data of a tensor float32"
         "[0, 1099511627776, 1099511627776] is not as long as that"),
        ("resource", [], b"", "elements of type resource have no fixed width"),
    ):  # fmt: skip
        made = model()
        made.tensors.add(dtype=dtype, shape=shape, data=data)
        refused(made, message)
    made = model()
    made.tensors.add(dtype="int8", key="w")
    refused(made, "the data of a tensor is in another file")
    made = model()
    made.tensors.add(dtype="int8", data=b"1", splat=b"1")
    refused(made, "a tensor has its data twice")


def test_graphs_that_hold_each_other() -> None:
    made = model()
    op(made, graph=1)
    op(made, graph=1)
    made.graphs.add()
    refused(made, "graph 1 of the file is held twice")
    made = model()
    made.graphs.add().ops.add(graph=1)
    refused(made, "nothing holds graph 1 of the file")
    for inner in (0, 1, 2, HUGE):
        made = model()
        op(made, graph=1)
        made.graphs.add().ops.add().bodies.add(graph=inner)
        refused(made, f"graph 1 of the file cannot hold graph {inner}")
    made = model()
    made.graphs.add().functions.add(name="f", graph=1)
    op(made, graph=1)
    refused(made, "only the first graph of a file has functions and entries")


def test_captures_of_what_is_not_around() -> None:
    for graph, value in ((0, 1), (0, 0), (0, 9), (1, 1), (2, 1), (HUGE, 1)):
        made = model()
        made.graphs[0].ops[0].bodies.add(graph=1)
        op(made).bodies.add(graph=2)
        made.graphs.add().captures.add(graph=graph, value=value)
        made.graphs.add().ops.add(outputs=[0])
        with pytest.raises(FormatError):
            codec.loads(made.SerializeToString())
    made = model()
    op(made, bodies=[{"graph": 1}], outputs=[0])
    made.graphs.add().captures.add(graph=0, value=1)
    refused(made, "a captured value does not stand before the graph that reads it")
    made.graphs[1].captures[0].value = 2
    assert codec.loads(made.SerializeToString())[1].bodies[""].captures == []


def test_edges_that_run_backwards() -> None:
    made = model()
    op(made, name="second", inputs=[0])
    made.graphs[0].ops.add(name="third", outputs=[0])
    made.graphs[0].late_inputs.add(op=1, input=0, value=1)
    refused(made, "op 'second' waits for a later op")
    made = model()
    op(made, name="second")
    made.graphs[0].late_signals.add(op=0, first=1)
    refused(made, "op 'first' waits for a later op")


def test_texts_that_nest() -> None:
    for text in ("sequence<" * MANY, "float32[" + "(" * MANY, "?[" + "9" * MANY + "]"):
        made = model(types=[text])
        with pytest.raises(FormatError) as caught:
            codec.loads(made.SerializeToString())
        assert str(caught.value.where).startswith("type 1 of the file, column ")


def test_lengths_that_reach_far() -> None:
    far = b"\x80\xc8\xaf\xa0\x25"  # ten billion
    whole = model().SerializeToString()
    head = whole[:18]
    for data in (
        head + b"\x22" + far + b"x",
        head + b"\x3a" + far + b"\x7a",
        head + b"\x3a\x09\x7a" + far + b"\x12\x01a",
        head + b"\x3a\x0b\x7a\x09\x12" + far + b"abc",
        head + b"\x3a\x0b\x7a\x09\x1a" + far + b"\x01\x01\x01",
        head + b"\x3a\x0b\x7a\x09\x2a" + far + b"abc",
        head + b"\x32\x07\x22" + far + b"a",
    ):
        with pytest.raises(FormatError) as caught:
            codec.loads(data)
        assert caught.value.where is not None


CASES: dict[str, Callable[[Any, Any, int], object]] = {
    "deep": lambda _, body, i: body.ops.add(graph=i + 1),
    "deep bodies": lambda _, body, i: body.ops.add().bodies.add(graph=i + 1),
    "wide": lambda made, _, i: made.graphs[0].ops.add(graph=i + 1),
    "functions": lambda made, _, i: made.graphs[0].functions.add(
        name=str(i), graph=i + 1
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_very_many_graphs_are_fine(case: str) -> None:
    made = model()
    body = made.graphs[0]
    for i in range(3000):
        CASES[case](made, body, i)
        body = made.graphs.add()
    data = made.SerializeToString()
    assert codec.dumps(codec.loads(data)) == codec.dumps(codec.loads(data))


LIMITED = """
import resource, sys
from amanda.errors import AmandaError
from amanda.files.binary import archive, codec
codec.loads(codec.dumps(codec.Graph()))
limit = 600 << 20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
read = archive.loads if sys.argv[1] == "zip" else codec.loads
for line in sys.stdin:
    data = bytes.fromhex(line)
    try:
        read(data)
    except AmandaError as error:
        print(error.message)
    else:
        print("read")
"""


def test_in_little_memory(alone: Callable[..., str]) -> None:
    """The worst claims in a process that may not have more than 600 MB."""
    far = b"\x80\xc8\xaf\xa0\x25"
    claims = []
    made = model(strings=["a"])
    op(made).attrs.add(name=1, list=HUGE)
    claims.append(made.SerializeToString())
    made = model()
    made.tensors.add(dtype="float64", shape=[HUGE])
    claims.append(made.SerializeToString())
    made = model()
    made.tensors.add(dtype="string", shape=[HUGE], data=b"x" * 100)
    claims.append(made.SerializeToString())
    head = model().SerializeToString()[:18]
    claims += [head + b"\x22" + far, head + b"\x3a" + far, head + b"\x32" + far]
    lines = "\n".join(data.hex() for data in claims)
    answers = alone(LIMITED, "pb", stdin=lines).splitlines()
    assert len(answers) == len(claims)
    assert "read" not in answers


def test_errors_are_of_ours_for_every_prefix() -> None:
    made = model(strings=["a", "b"], types=["float32[2]"])
    op(made, name="x", type=1, inputs=[1], outputs=[1], namespace=2).attrs.add(
        name=1, integers=[1, 2]
    )
    made.tensors.add(dtype="int8", shape=[3], data=b"abc")
    data = made.SerializeToString()
    codec.loads(data)
    for size in range(len(data)):
        try:
            codec.loads(data[:size])
        except AmandaError:
            continue
        assert size >= 18, "a file without its version was read"
