"""`show`: whole when it is small, folded when it is large, one op when asked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import amanda
from amanda.cli.verbs.show import FEW
from amanda.files.text import readable

if TYPE_CHECKING:
    from tests.cli.conftest import Call


def chain(length: int) -> amanda.Graph:
    graph = amanda.Graph("amanda/onnx/18", name="chain")
    value: amanda.OutputPort = graph.parameter(name="x")
    for i in range(length):
        value = graph.add("Relu", [value], name=f"relu{i}").output
    graph.result(value, name="y")
    return graph


def saved(graph: amanda.Graph, folder: Path) -> Path:
    file = folder / "graph.ampb"
    amanda.save(graph, file)
    return file


def test_a_small_graph_is_shown_whole(call: Call, model: Path) -> None:
    ended = call("show", model)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == SMALL


SMALL = """\
amanda 1

graph %small in "amanda/onnx/18" ($x: float32[batch, 4]) -> (y) {
  imports {ai.onnx: 18}
  %weight = tensor<float32[4, 2]>(splat 1.0)
  %product = MatMul($x, %weight)
  %chosen = If($x)
    body then () -> (_) {
      %0 = Relu(^%product)
      return %0
    }
    body else () -> (_) {
      %0 = Neg(^%product)
      return %0
    }
  return %chosen
  entry serve (input=$x) -> (scores=%chosen)
  function twice %twice () -> () {
  }
}
"""


def test_in_full_it_can_be_read_back(call: Call, tmp_path: Path) -> None:
    graph = chain(300)
    graph["relu7"].attrs["long"] = "a" * 1000
    text = call("show", saved(graph, tmp_path), "--full").out
    assert readable.loads(text).same_as(graph)


def test_a_large_graph_is_folded(call: Call, tmp_path: Path) -> None:
    file = saved(chain(5000), tmp_path)
    lines = call("show", file).out.splitlines()
    assert len(lines) < FEW + 10
    assert "  ... 4,960 more ops ..." in lines
    assert lines[3].startswith("  %relu0 = Relu")
    assert lines[-3].startswith("  %relu4999 = Relu")
    assert len(call("show", file, "--full").out.splitlines()) > 5000


def test_a_large_graph_of_graphs_is_folded_too(call: Call, tmp_path: Path) -> None:
    root = graph = amanda.Graph()
    for i in range(2000):
        graph = graph.add_graph(amanda.Graph(name=f"level{i}"))
    file = saved(root, tmp_path)
    assert len(call("show", file).out.splitlines()) < 10
    assert len(call("show", file, "--depth", 9).out.splitlines()) < 50
    assert "level1999" in call("show", file, "--full").out


def test_depth(call: Call, model: Path) -> None:
    assert "Neg" in call("show", model, "--depth", "1").out
    outer = call("show", model, "--depth", "0").out
    assert "Neg" not in outer
    assert "MatMul" in outer
    assert call("show", model, "--depth", "-1").code == 2
    ended = call("show", model, "--depth", "1", "--full")
    told = "amanda show: --full and --depth exclude each other\n"
    assert (ended.code, ended.err) == (2, told)


def test_as_json(call: Call, model: Path) -> None:
    answer = call("show", model, "--json").json
    assert list(answer) == ["schema", "verb", "exit_code", "file", "format", "text"]
    assert answer["text"] + "\n" == SMALL


def test_one_op(call: Call, model: Path) -> None:
    ended = call("show", model, "--op", "product")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == PRODUCT


PRODUCT = """\
op         MatMul 'product'
in         small
namespace  amanda/onnx/18

input  from    type
#0     x       float32[batch, 4]
#1     weight  float32[4, 2]

output  type  to
#0      ?     Relu #0 (input 0), Neg #0 (input 0)
"""


def test_one_op_as_json(call: Call, model: Path) -> None:
    (op,) = call("show", model, "--op", "weight", "--json").json["ops"]
    assert op == {
        "name": "weight",
        "type": "constant",
        "namespace": "amanda/core/1",
        "path": ["small"],
        "inputs": [],
        "outputs": [
            {
                "name": None,
                "type": "float32[4, 2]",
                "to": ["product (input 1)"],
                "marks": [],
            }
        ],
        "attributes": {"value": "tensor float32[4, 2], 32 bytes"},
        "bodies": {},
        "after": [],
        "before": [],
        "made_by": None,
        "made_from": [],
        "modules": [],
        "classes": [],
        "line": None,
    }


def test_every_op_of_the_name_is_shown(call: Call, tmp_path: Path) -> None:
    graph = chain(2)
    inner = graph.add_graph(amanda.Graph(name="inner"))
    first, then = inner.add("Abs", name="relu0"), inner.add("Log", name="log")
    inner.control(first, then)
    first.attrs["long"] = "a" * 1000
    file = saved(graph, tmp_path)
    out = call("show", file, "--op", "relu0").out
    assert "op         Relu 'relu0'\nin         chain\n" in out
    assert "op         Abs 'relu0'\nin         chain / inner\n" in out
    assert "before     log\n" in out
    assert "... (1002 characters)" in out
    assert "a" * 1000 in call("show", file, "--op", "relu0", "--full").out


def test_an_op_that_is_not_there(call: Call, model: Path) -> None:
    ended = call("show", model, "--op", "prodct")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == (
        "amanda show: no op is named 'prodct'\n"
        f"  who:      {model}\n"
        "  to do:    did you mean 'product'?\n"
    )
