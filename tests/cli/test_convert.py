"""`check` and `convert`: what stops a model, and what it becomes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from mapping.toys import chain, lines, toys

import amanda
from amanda.graph import Graph
from amanda.testing import MappingSample, MappingSuite

if TYPE_CHECKING:
    from tests.cli.conftest import Call

MANIFEST = {"from": "toy/a/1..20", "to": "toy/b/1", "both": True}


@pytest.fixture
def toy_host(host: amanda.Host) -> amanda.Host:
    """A host with the core's formats and the toys."""
    from amanda.files.text.formats import YamlFormat

    host.register_format("yaml", YamlFormat(), manifest={"suffixes": [".yaml"]})
    host.register_mapping("toys", toys(), manifest=MANIFEST)
    return host


def saved(graph: Graph, folder: Path) -> Path:
    file = folder / "model.yaml"
    amanda.save(graph, file)
    return file


def strange() -> Graph:
    graph = chain(("Odd", {"k": 1}), ("Conv", {"auto": "SAME"}), ("Relu", {}))
    x = graph.parameters[0]
    then = Graph(outer=graph)
    then.result(then.add("Odder", [x], name="inner").output)
    other = Graph(outer=graph)
    other.result(x)
    op = graph.add("If", [x], name="if", bodies={"then": then, "else": other})
    graph.result(op.output, "z")
    return graph


CLEAR = """\
route: toy/a/13 -> toy/b/1 (by toys)
toy/a/13 -> toy/b/1: 2 mapped

memory:
what            bytes  at
weights         0
values at once  72     soft 'Softmax_1'

{file} can go to toy/b@1
"""

STOPPED = """\
route: toy/a/13 -> toy/b/1 (by toys)
toy/a/13 -> toy/b/1: 1 mapped, 3 without a mapping

3 ops have no mapping:
  Odd, op 'Odd_0'
    no rule maps it
  Conv, op 'Conv_1'
    toys.rules:10: auto: 'SAME' is not 'NOTSET'
  Odder, op 'inner' in the body 'then' of 'if'
    no rule maps it
"""


def test_a_model_that_can_go(call: Call, toy_host: amanda.Host, tmp_path: Path) -> None:
    file = saved(chain(("Relu", {}), ("Softmax", {})), tmp_path)
    ended = call("check", file, "--for", "toy/b@1")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == CLEAR.format(file=file)


def test_every_op_that_stops_it(
    call: Call, toy_host: amanda.Host, tmp_path: Path
) -> None:
    file = saved(strange(), tmp_path)
    ended = call("check", file, "--for", "toy/b@1")
    assert (ended.code, ended.err) == (1, "")
    assert ended.out.startswith(STOPPED)
    assert ended.out.endswith(f"\n{file} cannot go to toy/b@1\n")
    told = call("check", file, "--for", "toy/b@1", "--json").json
    assert [gap["op"] for gap in told["gaps"]] == ["Odd", "Conv", "Odder"]
    assert told["route"] == [{"by": "toys", "from": "toy/a/13", "to": "toy/b/1"}]
    assert told["steps"][0]["rules"] == {"toys.rules:16": 1}
    full = call("check", file, "--for", "toy/b@1", "--full").out
    assert "    to begin with: Odd(x0, k=k)  <=>  ...(x0, k=k)\n" in full


class Picky:
    """A backend that takes no `soft`."""

    name = "picky"
    namespace = "toy/b/1"

    def devices(self) -> list[str]:
        return ["here"]

    def takes(self, op: Any) -> Any:
        return op.type != "soft" or "soft is too hard"

    def compile(self, graph: Graph, device: str | None, options: Any) -> Any:
        raise AssertionError("nobody runs anything")


def test_for_a_backend(call: Call, toy_host: amanda.Host, tmp_path: Path) -> None:
    toy_host.register_backend("picky", Picky())
    file = saved(chain(("Relu", {}), ("Softmax", {})), tmp_path)
    ended = call("check", file, "--for", "picky")
    assert (ended.code, ended.err) == (1, "")
    assert ended.out.splitlines()[2:5] == [
        "",
        "the backend picky does not take:",
        "  soft 'Softmax_1': soft is too hard",
    ]
    file = saved(chain(("Relu", {})), tmp_path)
    assert call("check", file, "--for", "picky:here").code == 0


def test_gaps_and_refusals_are_listed_together(
    call: Call, toy_host: amanda.Host, tmp_path: Path
) -> None:
    """What the backend refuses after a gap, and in bodies, is no secret until then."""
    toy_host.register_backend("picky", Picky())
    graph = chain(("Odd", {}), ("Softmax", {}), ("Relu", {}))
    then = Graph(outer=graph)
    then.result(then.add("Softmax", [graph["Odd_0"].output], name="inner").output)
    other = Graph(outer=graph)
    other.result(other.add("Odd", [graph.parameters[0]], name="odd").output)
    op = graph.add("If", [graph.parameters[0]], bodies={"then": then, "else": other})
    graph.result(op.output, "z")
    ended = call("check", saved(graph, tmp_path), "--for", "picky", "--json")
    assert ended.code == 1
    gaps = [gap["where"] for gap in ended.json["gaps"]]
    assert gaps == ["op 'Odd_0'", "op 'odd' in the body 'else' of 'If'"]
    refused = [(each["label"], each["why"]) for each in ended.json["refusals"]]
    assert refused == [
        ("soft 'Softmax_1'", "soft is too hard"),
        ("soft 'inner'", "soft is too hard"),
    ]


def test_a_name_of_a_backend_and_of_a_namespace(
    call: Call, toy_host: amanda.Host, tmp_path: Path
) -> None:
    toy_host.register_backend("toy/b", Picky())
    file = saved(chain(("Relu", {}), ("Softmax", {})), tmp_path)
    ended = call("check", file, "--for", "toy/b", "--json")
    assert (ended.code, ended.json["is_backend"]) == (1, True)
    assert ended.json["refused"] == ["soft 'Softmax_1': soft is too hard"]
    ended = call("check", file, "--to", "toy/b@1", "--json")
    assert (ended.code, ended.json["is_backend"]) == (0, False)
    for options in ([], ["--for", "toy/b", "--to", "toy/b"]):
        ended = call("check", file, *options)
        assert (ended.code, ended.err.splitlines()[0]) == (
            2, "amanda check: what the file is checked for is not clear",
        )  # fmt: skip


def test_convert(call: Call, toy_host: amanda.Host, tmp_path: Path) -> None:
    file, target = saved(chain(("Relu", {})), tmp_path), tmp_path / "out.yaml"
    ended = call("convert", file, target, "--to", "toy/b@1")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == (
        f"toy/a/13 -> toy/b/1: 1 mapped\n{file} is written as {target}\n"
    )
    assert lines(amanda.load(target)) == ["Relu_0 = relu(g:x)"]
    told = call("convert", target, file, "--to", "toy/a@12", "--json").json
    assert told["steps"][0]["mapped"] == 1
    assert amanda.load(file).namespace == "toy/a/12"


def test_nothing_is_written_while_there_are_gaps(
    call: Call, toy_host: amanda.Host, tmp_path: Path
) -> None:
    file, target = saved(strange(), tmp_path), tmp_path / "out.yaml"
    ended = call("convert", file, target, "--to", "toy/b@1")
    assert ended.code == 1
    assert ended.out.startswith(f"{file} is not converted; nothing is written\n\n3 ops")
    assert not target.exists()
    ended = call("convert", file, target, "--to", "toy/b@1", "--keep-foreign")
    assert ended.out.startswith("toy/a/13 -> toy/b/1: 2 mapped, 3 kept")
    kept = [op.type for op in amanda.load(target).walk() if op.own_namespace]
    assert kept == ["Odd", "Conv", "Odder"]


def test_a_format_may_ask_for_a_namespace(
    call: Call, toy_host: amanda.Host, tmp_path: Path
) -> None:
    from amanda.files.text.formats import YamlFormat

    manifest = {"suffixes": [".bee"], "namespace": "toy/b/1..3"}
    toy_host.register_format("bee", YamlFormat(), manifest=manifest)
    file, target = saved(chain(("Relu", {})), tmp_path), tmp_path / "out.bee"
    assert call("convert", file, target).code == 0
    assert amanda.load(target).namespace == "toy/b/1"
    same = tmp_path / "same.yaml"
    assert call("convert", file, same).out == f"{file} is written as {same}\n"


def test_no_route(call: Call, toy_host: amanda.Host, tmp_path: Path) -> None:
    file = saved(chain(("Relu", {})), tmp_path)
    ended = call("check", file, "--for", "toy/c@1")
    assert ended.code == 1
    assert ended.err.startswith(
        "amanda check: no installed mappings lead from toy/a/13"
    )


class TestToys(MappingSuite):
    """A mapping by rules passes what every mapping must."""

    mapping = "toys"

    def host(self) -> amanda.Host:
        host = amanda.Host(())
        host.register_mapping("toys", toys(), manifest=MANIFEST)
        return host

    def named(self, type: str, namespace: str) -> Graph:
        graph = chain((type, {}), namespace=namespace)
        graph.rename(next(iter(graph)), "one")
        return graph

    def samples(self) -> Any:
        ops = [("Relu", {}), ("Softmax", {"axis": 1}), ("Sum", {"keep": 0})]
        return {
            "inward": lambda: MappingSample(chain(*ops), "toy/b@1"),
            "outward": lambda: MappingSample(
                self.named("relu", "toy/b/1"),
                "toy/a@12",
                self.named("Relu", "toy/a/12"),
            ),
        }


@pytest.mark.parametrize(
    ("dim", "types"),
    [
        ("n=8", ["float32[8, ?]", "float32[8]", "float32[...]"]),
        ("x:1=width", ["float32[n, width]", "float32[n]", "float32[...]"]),
        ("x=2,3", ["float32[2, 3]", "float32[2]", "float32[...]"]),
        ("z=4,5", ["float32[n, ?]", "float32[n]", "float32[4, 5]"]),
    ],
)
def test_dims_of_inputs_get_sizes(
    call: Call, toy_host: amanda.Host, tmp_path: Path, dim: str, types: list[str]
) -> None:
    graph = Graph("toy/a/13")
    for text, name in (("[n, ?]", "x"), ("[n]", "y"), ("[...]", "z")):
        graph.parameter(amanda.parse_type(f"float32{text}"), name)
    graph.result(graph.parameters[1], "r")
    file, out = saved(graph, tmp_path), tmp_path / "out.yaml"
    assert call("convert", file, out, "--dim", dim).code == 0
    found = amanda.load(out, host=toy_host)
    assert [str(port.type) for port in found.parameters] == types
    ended = call("convert", file, out, "--dim", "m=1")
    assert ended.code == 2
    assert "expected: one of x:0, n, x:1, y:0, n" in ended.err
