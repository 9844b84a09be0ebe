"""The data of the page of a graph, its overlays, and that no name can become code."""

from __future__ import annotations

import itertools
import json
import re
import sys
from base64 import b64encode
from collections import Counter
from hashlib import sha256
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import amanda
from amanda.cli import run_command_line
from amanda.errors import FormatError
from amanda.graph import Graph, ScopeTable
from amanda.host import use_host
from amanda_inspect import Overlay, diff, read_overlay, view
from amanda_inspect.viewer.layers import Box, place_boxes
from amanda_inspect.viewer.levels import find_repeats
from amanda_inspect.viewer.nodes import Kind, Node, build_tree, walk
from amanda_inspect.viewer.targets import gap_overlay, placement_overlay
from amanda_std import ops

HOSTILE = (
    "</script><script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u2028 & {data}"
)


def chain(names: list[str], type: str = "Relu") -> Graph:
    graph = Graph("amanda/onnx/18", name="chain")
    value: Any = graph.parameter("float32[2]", "x")
    for name in names:
        value = graph.add(type, [value], name=name).output
        value.type = "float32[2]"
    graph.result(value, "y")
    return graph


def outline(node: Node) -> Any:
    if not node.children:
        return node.label
    return {node.label: [outline(child) for child in node.children]}


def embedded(html: str) -> Any:
    found = re.search(r'id="graph-data">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_scopes_of_names_are_groups() -> None:
    tree = build_tree(chain(["a/b/one", "a/b/two", "a/three", "c/d/four", "five"]))
    assert outline(tree) == {
        "chain": ["x", {"a": [{"b": ["one", "two"]}, "three"]}, "c/d/four", "five", "y"]
    }


def test_modules_come_before_names() -> None:
    graph = chain(["one", "two", "three"])
    table = ScopeTable()
    for name in ("one", "two"):
        table.add(name, "relu", ("", "net.act"), ("Net", "ReLU"), "net.py:3")
    tree = build_tree(graph, table)
    assert outline(tree) == {"chain": ["x", {"net/act": ["one", "two"]}, "three", "y"]}


def test_an_op_without_a_scope_is_with_its_neighbors() -> None:
    graph = chain(["a/one", "a/two", "a/three"])
    graph.ops["a/two"].name = None
    assert outline(build_tree(graph)) == {
        "chain": ["x", {"a": ["one", "", "three"]}, "y"]
    }


def test_bodies_and_functions_are_groups() -> None:
    graph = Graph("amanda/onnx/18", name="root")
    flag = graph.parameter("bool[]", "flag")
    x = graph.parameter("float32[2]", "x")
    bodies = {}
    for key, kind in (("then_branch", "Relu"), ("else_branch", "Tanh")):
        body = Graph("amanda/onnx/18", outer=graph)
        body.result(body.add(kind, [x], name=kind).output, "y")
        bodies[key] = body
    op = graph.add("If", [flag], name="choice", bodies=bodies)
    graph.result(op.output, "z")
    graph.add_function("helper", chain(["inner"]))
    tree = build_tree(graph)
    assert outline(tree) == {
        "root": [
            "flag", "x",
            {"choice": [
                {"then_branch": ["Relu", "y"]}, {"else_branch": ["Tanh", "y"]},
            ]},
            "z", {"functions": [{"helper": ["x", "inner", "y"]}]},
        ]
    }  # fmt: skip
    data = view(graph).data
    names = [data["strings"][n] for n in data["label"]]
    captured = data["inputs"][names.index("Relu")]
    assert names[captured[0]] == "x"


def test_long_levels_are_divided() -> None:
    """No group has more than 200 children, and no op is lost."""
    for kinds in (
        ["Relu"] * 5000,
        ["Relu", "Tanh", "Abs", "Neg", "Exp", "Log", "Sin"] * 70,
    ):
        graph = Graph("amanda/onnx/18", name="flat")
        value: Any = graph.parameter("float32[2]", "x")
        for i, kind in enumerate(kinds):
            value = graph.add(kind, [value], name=f"n{i}").output
        graph.result(value, "y")
        nodes = list(walk(build_tree(graph)))
        counts = Counter(node.kind for node in nodes)
        assert counts[Kind.OP] == len(kinds)
        assert max(len(node.children) for node in nodes) <= 200
    blocks = [n for n in nodes if n.label.startswith("block ")]
    assert {len(block.children) for block in blocks} == {7}
    assert len(blocks) == 70


def test_repeats_are_the_shortest_period() -> None:
    period = [str(i) for i in range(9)]
    assert find_repeats(["a", *period * 5, "b", "c"]) == [1, 10, 19, 28, 37, 46]
    assert find_repeats([str(i) for i in range(300)]) == []


def test_edges_types_and_definitions() -> None:
    graph = Graph("amanda/onnx/18", name="g")
    x = graph.parameter("float32[1, 4]", "x")
    w = graph.constant(np.arange(16, dtype="float32").reshape(4, 4), name="w")
    op = graph.add("Gemm", [x, w.output], {"transB": 1}, name="gemm")
    op.output.type = "float32[1, 4]"
    graph.result(op.output, "y")
    data = view(graph).data
    text = data["strings"].__getitem__
    names = [text(n) for n in data["name"]]
    at = names.index("gemm")
    rows = [data["inputs"][at][i : i + 3] for i in (0, 3)]
    assert [(names[a], text(name)) for a, _, name in rows] == [("x", "A"), ("w", "B")]
    assert [text(n) for n in data["outputs"][at]] == ["Y", "float32[1, 4]"]
    assert [text(n) for n in data["attributes"][at]] == ["transB", "1"]
    entry = data["definitions"]["amanda/onnx/18:Gemm"]
    assert entry["signature"] == op.definition.signature
    weight = data["weights"][names.index("w")]
    assert sum(weight["counts"]) == 16
    assert (weight["least"], weight["largest"], weight["zeros"]) == (0.0, 15.0, 1)


def test_histograms_stop_at_the_limit() -> None:
    graph = Graph("amanda/onnx/18")
    for size in (20, 30):
        tensor = np.ones(size, dtype="float32")
        graph.result(graph.constant(tensor, name=f"w{size}").output, f"y{size}")
    weights = list(view(graph, max_elements=25).data["weights"].values())
    assert weights[0]["counts"] == [20]
    assert "limit" in weights[1]["why"]
    assert "counts" not in weights[1]


def test_source_ops_are_beside_those_made_from_them() -> None:
    source = chain(["first", "second"])
    made = amanda.convert(source, "amanda/std/1")
    data = view(made, source=source).data
    rows = {tuple(names) for _, names in data["made"].values()}
    assert rows == {("first",), ("second",)}
    assert data["sources"]["first"]["type"] == "Relu"
    assert data["sources"]["second"]["inputs"] == [["X", "first"]]


class Elements(HTMLParser):
    """The elements and attributes that a browser sees."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.handlers: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.handlers += [key for key, _ in attrs if key.startswith("on")]


def elements(html: str) -> Elements:
    found = Elements()
    found.feed(html)
    return found


def test_no_name_becomes_code() -> None:
    plain = view(chain(["a"]), title="t")
    graph = chain(["a"], type=HOSTILE)
    graph.ops["a"].attrs[HOSTILE] = HOSTILE
    graph.ops["a"].name = HOSTILE
    graph.name = graph.parameters[0].name = HOSTILE
    page = view(
        graph, title=HOSTILE, overlays=[Overlay(HOSTILE, {HOSTILE: 1.0}, HOSTILE)]
    )
    assert elements(page.html).tags == elements(plain.html).tags
    assert not elements(page.html).handlers
    assert HOSTILE in embedded(page.html)["strings"]
    frame = elements(page._repr_html_())
    assert frame.tags == {"iframe": 1}
    assert not frame.handlers


def test_the_page_loads_nothing() -> None:
    html = view(chain(["a"])).html
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    scripts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    digest = b64encode(sha256(scripts[0].encode()).digest()).decode()
    assert len(scripts) == 1
    assert f"default-src 'none'; script-src 'sha256-{digest}';" in policy[1]
    assert "unsafe" not in policy[1]
    assert not re.search(r'(src|href)="', html)
    assert "sourceMappingURL" not in html


def test_the_library_is_the_one_that_is_documented() -> None:
    folder = files("amanda_inspect.viewer") / "assets"
    digest = sha256((folder / "dagre.min.js").read_bytes()).hexdigest()
    assert digest in (folder / "README.md").read_text()
    licence = (folder / "dagre.LICENSE").read_text()
    assert "Permission is hereby granted, free of charge" in licence
    assert licence in view(chain(["a"])).html


def test_overlays_of_files(tmp_path: Path) -> None:
    graph = chain(["a", "b"])
    graph.add("Abs", [graph.parameters[0]])
    path = tmp_path / "profile.json"
    path.write_text(json.dumps({
        "overlay": 1, "name": "time", "unit": "ms",
        "ops": {"a": 1.5, "Abs #2": 2, "gone": 3}, "notes": {"a": "slow"},
    }))  # fmt: skip
    data = view(graph, overlays=[read_overlay(path)]).data
    (placed,) = data["overlays"]
    names = {data["strings"][data["type"][i]]: v for i, v in placed["values"].items()}
    assert names == {"Relu": 1.5, "Abs": 2}
    assert (placed["unplaced"], list(placed["notes"].values())) == (1, ["slow"])
    assert (placed["kind"], placed["unit"]) == ("number", "ms")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "cannot be read"),
        ("[1]", "is no overlay"),
        ('{"overlay": 2, "ops": {}}', "is no overlay"),
        ('{"overlay": 1}', "is no valid overlay"),
        ('{"overlay": 1, "ops": {"a": NaN}}', "is no valid overlay"),
        ('{"overlay": 1, "ops": {"a": 1, "b": "x"}}', "is no valid overlay"),
        ('{"overlay": 1, "ops": {"a": 1}, "aggregate": "mean"}', "is no valid overlay"),
        ('{"verb": "bisect", "errors": [{}]}', "is no answer of"),
    ],
)
def test_files_that_are_no_overlays(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(FormatError, match=words):
        read_overlay(path)


def test_errors_of_bisect_are_an_overlay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = []
    for epsilon in (1e-5, 0.1):
        graph = Graph("amanda/std/1")
        x = graph.parameter("float32[4, 8]", "x")
        graph.result(ops.exp(ops.layer_norm(ops.tanh(x), epsilon=epsilon)), "y")
        amanda.save(graph, tmp_path / f"{epsilon}.amanda")
        files.append(str(tmp_path / f"{epsilon}.amanda"))
    code = run_command_line(
        ["bisect", *files, "--backend", "numpy", "--random", "1", "--json"]
    )
    assert code == 5
    path = tmp_path / "errors.json"
    path.write_text(capsys.readouterr().out)
    data = view(amanda.load(files[1]), overlays=[read_overlay(path)]).data
    (placed,) = data["overlays"]
    (at,) = placed["values"]
    assert data["strings"][data["type"][at]] == "layer_norm"
    assert (placed["name"], placed["unplaced"]) == ("error", 0)


def test_differences_with_removed_ops() -> None:
    before, after = chain(["a", "b", "c"]), chain(["a", "b", "c"])
    before.add("Sqrt", [before.ops["b"].output], name="gone")
    after.ops["c"].attrs["alpha"] = 2.0
    page = view(after, difference=diff(before, after))
    (placed,) = page.data["overlays"]
    text = page.data["strings"].__getitem__
    classes = {text(page.data["name"][i]): v for i, v in placed["values"].items()}
    assert classes == {"c": "changed", "gone": "removed"}
    at = page.data["kind"].index(int(Kind.REMOVED))
    assert text(page.data["name"][page.data["inputs"][at][0]]) == "b"


def test_gaps_of_a_namespace_and_refusals_of_a_backend() -> None:
    graph = chain(["a", "b"])
    strange = graph.add("NoSuchOp", [graph.ops["b"].output], name="strange")
    graph.result(strange.output, "z")
    found = gap_overlay(graph, "amanda/std/1")
    assert {getattr(op, "name", op): v for op, v in found.ops.items()} == {
        "strange": "gap"
    }
    assert all(found.notes.values())
    assert gap_overlay(chain(["a"]), "numpy").ops == {}


def test_placement_on_one_backend() -> None:
    found = placement_overlay(chain(["a", "b"]), "numpy")
    assert {op.name: v for op, v in found.ops.items()} == {"a": "numpy", "b": "numpy"}


class Half:
    """A backend of the hub that lacks an op."""

    name, namespace = "half", "amanda/std/1"

    def devices(self) -> list[str]:
        return ["cpu"]

    def takes(self, op: Any) -> object:
        return op.type != "tanh" or "it has no tanh"

    def compile(self, graph: Graph, device: str | None, options: Any) -> Any:
        compiled = amanda.compile(graph, "numpy")
        return lambda feeds, out=None: list(compiled(list(feeds.values())).values())


def test_placement_on_two_backends() -> None:
    graph = chain(["a", "b"])
    graph.ops["b"].type = "Tanh"
    host = amanda.Host()
    host.register("backends", "half", Half())
    with use_host(host):
        found = placement_overlay(graph, "half", ["numpy"])
    assert found.ops == {"a": "half", "b": "numpy"}
    assert "it has no tanh" in found.notes["b"]


def test_verb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    amanda.save(chain(["s/a", "s/b"]), "model.amanda")
    assert (
        run_command_line(["view", "model.amanda", "--for", "amanda/std/1", "--json"])
        == 0
    )
    answer = json.loads(capsys.readouterr().out)
    size = (tmp_path / "model.amanda.html").stat().st_size
    assert answer == {
        "schema": 1, "verb": "view", "exit_code": 0, "file": "model.amanda",
        "format": "amanda", "namespace": "amanda/onnx/18", "nodes": 6,
        "written": [{"kind": "page", "path": "model.amanda.html", "bytes": size}],
        "overlays": [{"name": "gaps for amanda/std/1", "placed": 0, "unplaced": 0}],
    }  # fmt: skip
    assert run_command_line(["view", "model.amanda", "--fallback", "numpy"]) == 2
    assert capsys.readouterr().err == (
        "amanda view: --fallback needs --backend\n  got:      numpy\n"
    )


def test_verb_against_another_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, kinds in (("old", ["a", "b"]), ("new", ["a", "b", "c"])):
        amanda.save(chain(kinds), tmp_path / f"{name}.amanda")
    page = tmp_path / "page.html"
    arguments = ["--against", str(tmp_path / "old.amanda"), "-o", str(page)]
    assert run_command_line(["view", str(tmp_path / "new.amanda"), *arguments]) == 0
    assert capsys.readouterr().out.endswith("\n  difference: 1 ops\n")
    (placed,) = embedded(page.read_text())["overlays"]
    assert list(placed["values"].values()) == ["added"]


def test_a_scope_of_one_op_and_its_weights_is_no_group() -> None:
    graph = Graph("amanda/onnx/18", name="g")
    x = graph.parameter("float32[1, 4]", "x")
    w = graph.constant(np.ones((4, 4), "float32"), name="net/fc/w")
    value = graph.add("MatMul", [x, w.output], name="net/fc/product").output
    graph.result(graph.add("Relu", [value], name="net/relu").output, "y")
    tree = build_tree(graph)
    assert outline(tree) == {"g": ["x", {"net": ["w", "fc/product", "relu"]}, "y"]}


def test_pictures(tmp_path: Path) -> None:
    """Each visible op is a box, each edge a curve; deeper groups are closed."""
    graph = chain(["a/one", "a/two", HOSTILE, "b/one", "b/two"])
    page = view(graph)
    for depth, nodes, edges in ((1, 5, 4), (2, 7, 6), (None, 7, 6)):
        root = ET.fromstring(page.svg(depth))
        space = "{http://www.w3.org/2000/svg}"
        groups = root.findall(f"{space}g")
        assert sum(g.get("class") in ("n", "p") for g in groups) == nodes
        assert len(root.findall(f"{space}path")) == edges
    assert elements(page.svg()).tags["script"] == 0


def test_edges_of_pictures_lead_down() -> None:
    boxes = {i: Box(20, 10) for i in range(6)}
    edges = [(0, 1), (1, 2), (0, 2), (2, 5), (4, 5), (1, 3)]
    layers = place_boxes(boxes, [*edges, (3, 1)])
    assert all(boxes[a].y < boxes[b].y for a, b in edges)
    assert len(layers.ways[0, 2]) == 1
    assert boxes[4].y == boxes[2].y
    rows: dict[float, list[Box]] = {}
    for box in boxes.values():
        rows.setdefault(box.y, []).append(box)
    for row in rows.values():
        row.sort(key=lambda box: box.x)
        assert all(b.x - a.x >= 20 for a, b in itertools.pairwise(row))
        assert all(box.x - 10 >= 0 and box.x + 10 <= layers.width for box in row)


def test_model_explorer() -> None:
    """As its own classes read it: ids are unique, edges lead to nodes of the graph."""
    graph = chain(["a/one", "a/two", "three"])
    flag = graph.parameter("bool[]", "flag")
    body = Graph("amanda/onnx/18", outer=graph)
    body.result(body.add("Tanh", [graph.parameters[0]], name="inner").output, "z")
    graph.add("If", [flag], {"n": 1}, name="choice", bodies={"then_branch": body})
    found = view(graph).model_explorer()
    assert [g["id"] for g in found["graphs"]] == ["chain/#0", "choice/then_branch/#8"]
    top, inner = ({n["id"]: n for n in g["nodes"]} for g in found["graphs"])
    assert len(top) == len(found["graphs"][0]["nodes"])
    by_name = {node["attrs"][0]["value"]: node for node in top.values()}
    assert by_name["a/two"]["namespace"] == "a"
    (edge,) = by_name["a/two"]["incomingEdges"]
    assert top[edge["sourceNodeId"]]["attrs"][0]["value"] == "a/one"
    assert by_name["choice"]["subgraphIds"] == ["choice/then_branch/#8"]
    assert {"key": "n", "value": "1"} in by_name["choice"]["attrs"]
    assert by_name["a/one"]["outputsMetadata"][0]["attrs"] == [
        {"key": "tensor_name", "value": "Y"},
        {"key": "tensor_shape", "value": "float32[2]"},
    ]
    assert next(node["incomingEdges"] for node in inner.values()) == []


def test_verb_writes_what_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    amanda.save(chain(["s/a", "s/b"]), "model.amanda")
    options = ["--svg", "m.svg", "--depth", "1", "--model-explorer", "m.json"]
    assert run_command_line(["view", "model.amanda", *options, "--json"]) == 0
    written = json.loads(capsys.readouterr().out)["written"]
    assert [row["kind"] for row in written] == ["svg", "model_explorer"]
    assert {p.name for p in tmp_path.iterdir()} == {"model.amanda", "m.svg", "m.json"}
    assert json.loads(Path("m.json").read_text())["label"] == "model.amanda"
    assert run_command_line(["view", "model.amanda", "--depth", "1"]) == 2


def test_netron(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    amanda.save(chain(["a"]), "model.amanda")
    monkeypatch.setitem(sys.modules, "netron", None)
    assert run_command_line(["view", "model.amanda", "--netron"]) == 3
    error = capsys.readouterr().err
    assert error.startswith("amanda view: Netron is not installed\n")
    assert "pip install netron" in error
    calls: list[str] = []
    netron = ModuleType("netron")
    netron.start, netron.wait = calls.append, lambda: calls.append("wait")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "netron", netron)
    assert run_command_line(["view", "model.amanda", "--netron"]) == 0
    assert calls == ["model.amanda", "wait"]
    assert not Path("model.amanda.html").exists()
