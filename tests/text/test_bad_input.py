"""Wrong and hostile documents: what is said, and where."""

from __future__ import annotations

import json
import time
from types import ModuleType

import pytest
import yaml

from amanda.errors import AmandaError, FormatError, LimitError
from amanda.files.text import json_form, readable, yaml_form
from amanda.files.text.syntax import yaml_parser


def refusal(form: ModuleType, text: str | bytes) -> FormatError:
    start = time.process_time()
    with pytest.raises(FormatError) as caught:
        form.loads(text, "net")
    assert time.process_time() - start < 10
    return caught.value


def test_a_message_in_full() -> None:
    text = """\
graph:
  ops:
    a:
      output_ports: [x, y]
  edges:
    - a.z -> b.0
"""
    assert str(refusal(yaml_form, text)) == (
        "op 'a' has no output port 'z'\n"
        "  where:    net, line 6, column 7\n"
        "  expected: x, y, ^control"
    )


@pytest.mark.parametrize(
    ("text", "message", "line", "column"),
    [
        ("graph: [1]", "this must be a map", 1, 1),
        ("graph:\n  ops: 3", "this must be a list", 2, 3),
        ("graph:\n  ops:\n    a: {shape: 1}", "no field 'shape'", 3, 9),
        ("graph:\n  ops:\n  - name: a\n  - name: a", "two ops have the name 'a'", 4, 5),
        ("a:\n  name: b", "two names for one thing", 2, 3),
        ("graph: {ops: {a: {output_ports: x}}}", "this must be a list", 1, 19),
        ("graph: {ops: {a: {output_ports: [{nome: x, type: y}]}}}", "'nome'", 1, 35),
        ("graph: {ops: {a: {type: 3}}}", "this must be text", 1, 19),
        ("graph: {edges: [a.0]}", "this is not an edge", 1, 17),
        ("graph: {edges: [a -> b]}", "the end of an edge is not an address", 1, 17),
        ("graph: {edges: [a.0 -> b.0]}", "no op 'a' in this graph", 1, 17),
        ("graph: {edges: [{output_port: a.0}]}", "an edge without `input_port`", 1, 17),
        ("graph: {attrs: {a: !shape [-1]}}", "a dim is out of range", 1, 17),
        ("graph: {attrs: {a: !dtype float3}}", "no such element type", 1, 17),
        ("graph: {attrs: {a: !bytes '?'}}", "the bytes are not base64", 1, 17),
        ("graph: {attrs: {a: !colour red}}", "no kind of value is called", 1, 17),
        ("amanda: 1\ngraph:\n  input_ports: [x: f3]", "no such element type", 3, 17),
        ("amanda: 2\ngraph: {}", "written by a newer Amanda", 1, 1),
        ("amanda: x\ngraph: {}", "the version of the schema is a number", 1, 1),
        ("amanda: 1", "the document holds no graph", 1, 1),
        ("amanda: 1\ngraph: {}\ngrphs: []", "'grphs' means nothing here", 3, 1),
        ("a: {}\nb: {}", "the document is not one graph, op or edge", 1, 1),
        ("a:\n  type: x\n  type: y", "the key 'type' stands twice", 3, 3),
        ("a: ]", "the text is not YAML", 1, 4),
        ("", "the document is empty", None, None),
        ("a: &x 1", "anchors and aliases", 1, 4),
        ("a: !!python/object:os.system x", "means nothing here", 1, 4),
        ("a: 1\n---\nb: 1", "a second document in one text", 2, 1),
        ("a: 1e999", "a number out of range", 1, 4),
        ("? [a]\n: b", "a key is a list or map", 1, 3),
    ],
)
def test_yaml_is_refused_with_its_place(
    text: str, message: str, line: int | None, column: int | None
) -> None:
    error = refusal(yaml_form, text)
    assert message in error.message
    place = "net" if line is None else f"net, line {line}, column {column}"
    assert error.where in (place, f"{place} (column 1)")


@pytest.mark.parametrize(
    ("text", "message", "where"),
    [
        ('{"graph": {"ops": {"a": {}}, "x": 1}}', "no field 'x'", "line 1, column 30"),
        (
            '{"graph":\n {"attrs": {"a": {"$dtype": 1}}}}',
            "is written as text",
            "line 2",
        ),
        ('{"graph": {"name": "a", "name": "b"}}', "the key 'name' stands twice", "25"),
        ('{"graph": ', "the text is not JSON", "line 1, column 11"),
        ('{"graph": {},}', "the text is not JSON", "line 1, column 14"),
        ('{"graph": {"attrs": {"a": NaN}}}', "the text is not JSON", "column 27"),
        ('{"graph": {"attrs": {"a": 1e999}}}', "a number out of range", "column 27"),
        ('{"graph": {"attrs": {"$a": 1, "b": 2}}}', "stands alone", "column 21"),
        ('"a.b', "a text has no end", "line 1, column 1"),
        ('{"a": 1} 2', "the text is not JSON", "column 10"),
        ('{"a": "\\q"}', "a wrong escape", "column 7"),
    ],
)
def test_json_is_refused_with_its_place(text: str, message: str, where: str) -> None:
    error = refusal(json_form, text)
    assert message in error.message
    assert where in str(error.where)


HEAD = "amanda 1\ngraph ($x) -> (y) {\n"


@pytest.mark.parametrize(
    ("text", "expected", "line", "column"),
    [
        ("", "`amanda 1` at the start", 1, 1),
        ("amanda", "the number of a version", 1, 7),
        (
            HEAD,
            "an op, `attrs`, `imports`, `body`, `function`, `entry`, `return` or `}`",
            3,
            1,
        ),
        (HEAD + "%a", "`=`", 3, 3),
        (HEAD + "%a = relu", "`(`", 3, 10),
        (HEAD + "%a = relu(%x", "`)`", 3, 13),
        (HEAD + "%a = relu(3)", "a value such as %op or $input", 3, 11),
        (HEAD + "%a = relu() {a}", "`:`", 3, 15),
        (HEAD + "%a = relu() {a: }", "a value", 3, 17),
        (HEAD + "return", "result 1 of 1, or `_`", 3, 7),
        (HEAD + "return $x } x", "the end of the text", 3, 13),
        (HEAD + "... 3 more ops ...", "an op, ", 3, 1),
    ],
)
def test_the_readable_form_says_what_it_expected(
    text: str, expected: str, line: int, column: int
) -> None:
    error = refusal(readable, text)
    assert (error.expected or "").startswith(expected)
    assert error.where == f"net, line {line}, column {column}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("amanda 2", "written by a newer Amanda"),
        (HEAD + "%1 = relu()", "an op without a name is called by its position"),
        (HEAD + "%a = relu() %a = relu() return %a }", "two ops have the name 'a'"),
        (HEAD + "return %b }", "no op 'b' in this graph"),
        (HEAD + "return $x, $x }", "more results than the graph has"),
        (HEAD + "return ^$x }", "starts outside of all graphs"),
        (HEAD + "%a = f(%a) return %a }", "would depend on itself"),
        (HEAD + "%a = f() {a: 1, a: 2}", "stands twice in one map"),
        (HEAD + "%a = f() {a: float3}", "no such element type"),
        (HEAD + "%a = f() {a: tensor<float32[2]>(1.0)}", "out of range"),
        (HEAD + "%a = f() : float32[", "cannot be read as a type"),
        (HEAD + "body then () -> () {", "a body without an op before it"),
        (HEAD + "%a = f($x) graph () -> () {", "another number of inputs"),
        (HEAD + '%a = f() {a: "\\ud800"}', "no character is written"),
        (HEAD + "`", "these characters mean nothing here"),
    ],
)
def test_the_readable_form_refuses(text: str, message: str) -> None:
    assert message in refusal(readable, text).message


def test_a_shortened_text_says_why_it_cannot_be_loaded() -> None:
    error = refusal(readable, HEAD + "... 3 more ops ...")
    assert error.hint == "this text was shortened for reading and cannot be loaded"


@pytest.mark.parametrize("loader", ["CSafeLoader", "SafeLoader"])
def test_half_surrogate_pairs(loader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_parser, "_LOADER", getattr(yaml, loader))
    for form in (json_form, yaml_form):
        for text in ('{"graph": {"name": "\\ud83d"}}', '{"graph": {"\\uD83D": 1}}'):
            error = refusal(form, text)
            assert "surrogate" in error.message or "invalid Unicode" in error.message
    whole = json_form.loads('{"graph": {"name": "\\ud83d\\ude00"}}')
    assert whole.name == "\U0001f600"


@pytest.mark.parametrize("form", [yaml_form, json_form, readable])
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"a: \xff", "not UTF-8"),
        ("a: '\ud800'".encode("utf-8", "surrogatepass"), "UTF-8"),
    ],
)
def test_bytes_that_are_no_text(form: ModuleType, data: bytes, message: str) -> None:
    error = refusal(form, data)
    assert message in error.message
    assert error.where == "net, line 1, column 4" or "column" in str(error.where)


# -- hostile ---------------------------------------------------------------------------


@pytest.mark.parametrize("count", [256, 10**12, 10**3000, -1])
def test_absurd_port_counts(count: int) -> None:
    error = refusal(yaml_form, f"graph: {{ops: {{a: {{output_ports: {count}}}}}}}")
    assert isinstance(error, LimitError)
    assert error.where == "net, line 1, column 19"
    assert len(str(error)) < 400


def billion(opening: str) -> str:
    return opening * 1_000_000


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (yaml_form, "[" * 100_000),
        (yaml_form, "{a: " * 100_000),
        (json_form, billion("[")),
        (json_form, '{"graph":' + billion('{"ops":{"a":{"bodies":{"b":')),
        (readable, "amanda 1 graph () -> () { attrs {a: " + billion("[")),
    ],
)
def test_nesting_is_bounded(form: ModuleType, text: str) -> None:
    assert isinstance(refusal(form, text), LimitError)


def test_graphs_in_graphs_without_end() -> None:
    text = "amanda 1 graph () -> () {" + "%0 = _() graph () -> () {" * 50_000
    assert "cannot be read" in refusal(readable, text).message


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("[{graph: 0}]", "is only a pointer to another"),
        ("[{ops: {a: {graph: 0}}}]", "stands in two places"),
        ("[{ops: {a: {graph: 1}}}, {ops: {a: {graph: 0}}}]", "stands in two places"),
        ("[{}, {}]", "stands in no place"),
        ("[]", "no such graph in the table"),
    ],
)
def test_the_table_of_graphs_has_no_loops(table: str, message: str) -> None:
    text = f"amanda: 1\ngraph: {{ops: {{s: {{graph: 0}}}}}}\ngraphs: {table}"
    assert message in refusal(yaml_form, text).message


@pytest.mark.parametrize(
    "fields",
    [
        "shape: [1000000000], data: AAAA",
        "shape: [1000000000], values: [1.0]",
        "shape: [9999999999, 9999999999, 9999999999], data: AAAA",
        "shape: [-1], splat: 0.0",
        "shape: [x], splat: 0.0",
        "shape: [1], values: [1.0, 2.0]",
        "shape: [1], values: [x]",
        "shape: [1], values: [1.0], splat: 1.0",
        "shape: [1]",
        "shape: [1], data: '?'",
        "shape: [1], values: [1.0e+300]",
        "shape: [1], strings: [a]",
    ],
)
def test_tensors_that_cannot_be(fields: str) -> None:
    text = f"graph: {{attrs: {{w: !tensor {{dtype: float32, {fields}}}}}}}"
    assert str(refusal(yaml_form, text).where).startswith("net, line 1, column 17")


def test_ten_gigabytes_claimed_in_a_splat_cost_nothing() -> None:
    text = (
        "graph: {attrs: {w: !tensor {dtype: float32, shape: [2560000000], splat: 0.5}}}"
    )
    graph = yaml_form.loads(text)
    assert graph.attrs["w"].nbytes == 10_240_000_000
    assert yaml_form.loads(yaml_form.dumps(graph)).same_as(graph)


@pytest.mark.parametrize(
    "edges",
    [
        ["a.0 -> a.0"],
        ["a.0 -> b.0", "b.0 -> a.0"],
        ["a.^control -> b.^control", "b.0 -> a.0"],
    ],
)
def test_cycles(edges: list[str]) -> None:
    op = {"input_ports": 1, "output_ports": 1}
    text = json.dumps({"graph": {"ops": {"a": op, "b": op}, "edges": edges}})
    error = refusal(json_form, text)
    assert "would depend on itself" in error.message
    assert str(error.where).startswith("net, line 1")


@pytest.mark.parametrize("edge", ["a.0 -> b.0", "c.0 -> b.0"])
def test_a_second_edge_to_one_port(edge: str) -> None:
    text = f"""
graph:
  ops: {{a: {{output_ports: 1}}, c: {{output_ports: 1}}, b: {{input_ports: 1}}}}
  edges: [a.0 -> b.0, {edge}]
"""
    assert refusal(yaml_form, text).message == "a second edge ends at one input port"


def test_a_long_chain_in_the_wrong_order_takes_linear_time() -> None:
    count = 20_000
    op = {"input_ports": 1, "output_ports": 1}
    ops = {f"op{i}": op for i in range(count)}
    edges = [f"op{i + 1}.0 -> op{i}.0" for i in range(count - 1)]
    graph = json_form.loads(json.dumps({"graph": {"ops": ops, "edges": edges}}))
    assert next(iter(graph)).name == f"op{count - 1}"


@pytest.mark.parametrize(
    "end", ["." * 1_000_000, "../" * 300_000 + "a.0", "a" * 1_000_000]
)
def test_long_addresses(end: str) -> None:
    error = refusal(yaml_form, f"graph: {{ops: {{a: {{}}}}, edges: ['{end} -> a.0']}}")
    assert len(str(error)) < 500


def test_an_error_late_in_a_large_text_is_found_in_linear_time() -> None:
    ops = {f"op{i}": {"output_ports": 1} for i in range(30_000)}
    text = json.dumps({"graph": {"ops": {**ops, "last": {"odd": 1}}}})
    assert refusal(json_form, text).message == "an op or graph has no field 'odd'"


def test_what_a_graph_cannot_be_saved_with() -> None:
    graph = yaml_form.loads("graph: {}")
    deep: list[object] = []
    for _ in range(1000):
        deep = [deep]
    for value in (deep, "\ud800", object(), 2**300):
        graph.attrs["a"] = value
        for form in (yaml_form, json_form, readable):
            with pytest.raises(AmandaError):
                form.dumps(graph)
