"""`rules`, `coverage`, and rules of one's own for `check` and `convert`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from mapping.toys import A, B, chain, toys

import amanda
from amanda.mapping import Decline, RuleSet
from amanda.mapping.rules import protobuf

if TYPE_CHECKING:
    from tests.cli.conftest import Call

MANIFEST = {"from": "toy/a/1..20", "to": "toy/b/1", "both": True}
OWN = """\
source: toy/a
target: toy/b
tags: [mine]
rules: |
  Relu(x)  <=>  same(x)
  Drop(x, ratio=k)  =>  soft(x, axes=only(k))
"""


class Names:
    """A namespace of which only one version and its names are used."""

    def __init__(self, path: str, version: str, ops: list[str]) -> None:
        self.path, self.version, self.ops = path, version, ops

    def versions(self) -> list[str]:
        return [self.version]

    def at(self, version: str, **_: Any) -> Any:
        return Names(self.path, version, self.ops)

    @property
    def name(self) -> str:
        return f"{self.path}/{self.version}"

    def __iter__(self) -> Any:
        return iter(self.ops)

    def __contains__(self, op: object) -> bool:
        return op in self.ops

    def __getitem__(self, op: str) -> str:
        return op

    def signature(self, op: str) -> Any:
        kept = A.get(op)
        return kept[-1] if kept else B.get(op)


@pytest.fixture(autouse=True)
def _toys(host: amanda.Host) -> None:
    from amanda.files.text.formats import YamlFormat

    host.register_format("yaml", YamlFormat(), manifest={"suffixes": [".yaml"]})
    host.register_mapping("toys", toys(), manifest=MANIFEST)
    for path, version, ops in (("toy/a", "13", [*A]), ("toy/b", "1", [*B])):
        names = Names(path, version, ops)
        host.register_namespace(path, names, manifest={"versions": [version]})


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "model.yaml"
    graph = chain(("Relu", {}), ("Gemm", {}), ("Drop", {"ratio": 1}))
    graph["Gemm_1"].add_input(graph.parameters[0])
    amanda.save(graph, file)
    return file


@pytest.fixture
def own(tmp_path: Path) -> Path:
    file = tmp_path / "own.yaml"
    file.write_text(OWN)
    return file


def test_the_mappings_that_there_are(call: Call) -> None:
    ended = call("rules")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == (
        "mapping  left   right  rows  patterns  functions\n"
        "toys     toy/a  toy/b    16         2          1\n"
    )


def test_lists_and_searches(call: Call) -> None:
    ended = call("rules", "toys", "--op", "dot")
    assert ended.out == (
        "rule           what\n"
        "toys.rules:19  Gemm(a, b, c)  <=  plus(dot(a, b), c)  if rank(a) == 2\n"
        "toys.rules:20  Gemm(a, b, c, transB=1)  <=  "
        "plus(dot(a, swap(b, order=[1, 0])), c)  if rank(a) == 2\n"
        "\n"
        "2 of 19 rules of toys\n"
    )
    assert call("rules", "toys", "--search", "TRAILING").out.count("\n") == 4
    assert call("rules", "toys", "--op", "Nope").code == 1
    assert call("rules", "toys", "--json").json["count"] == 19
    found = call("rules", "toys", "--tag", "toys", "--json").json["rules"]
    assert len(found) == 18  # of toys.rules


def test_one_rule(call: Call) -> None:
    ended = call("rules", "toys", "--show", "toys.rules:6")
    assert ended.out == (
        "toy/a:  Softmax[13:](x, axis=a)\n"
        "toy/b:  soft(x, axes=only(a))\n"
        "runs: both ways\n"
        "where: toys.rules:6\n"
        "\n"
        "a sample to toy/b:\n"
        "  Softmax(sample:x) {'axis': 1}\n"
        "  becomes\n"
        "  soft(sample:x) {'axes': [1]}\n"
        "\n"
        "a sample to toy/a:\n"
        "  soft(sample:x) {'axes': [1]}\n"
        "  becomes\n"
        "  Softmax(sample:x) {'axis': 1}\n"
    )
    shown = call("rules", "toys", "--show", "toys:gemm")
    assert shown.out.startswith("Gemm  =>  gemm(), a function\nwhere: toys.py:")
    ended = call("rules", "toys", "--show", "toys.rules:66")
    assert ended.code == 2
    assert "toys has no rule 'toys.rules:66'" in ended.err


def test_exports(call: Call, tmp_path: Path) -> None:
    for form, suffix in (("yaml", "yaml"), ("proto", "pb"), ("text", "rules")):
        file = tmp_path / f"made.{suffix}"
        ended = call("rules", "toys", "--to", form, "--output", file)
        assert ended.out == f"19 rules are written as {file}\n"
        rules = RuleSet("again", "toy/a", "toy/b")
        rules.callables = dict(toys().rules.callables)
        rules.load(file)
        assert [r.full_text for r in rules.rows] == [
            r.full_text for r in toys().rules.rows
        ]
    written = protobuf.decode_file((tmp_path / "made.pb").read_bytes())
    assert written.functions[0].name == "gemm"
    said = call("rules", "toys", "--to", "yaml").out
    assert said == (tmp_path / "made.yaml").read_text()


def test_tests(call: Call) -> None:
    ended = call("rules", "toys", "--test")
    assert (ended.code, ended.err) == (0, "")
    assert "37 lenses: 0 break their laws" in ended.out
    data = call("rules", "toys", "--test", "--json").json
    assert data["samples"] > 15
    assert data["not_back"] == []
    rules = toys().rules
    directions = {
        (row.id, to)
        for row in rules.rows
        for to, forward in ((rules.right, True), (rules.left, False))
        if row.runs(forward)
    }
    ways = {True: rules.right, False: rules.left}
    directions |= {(f.id, ways[f.forward]) for f in rules.functions}
    assert {(each["rule"], each["to"]) for each in data["tests"]} == directions
    for each in data["tests"]:
        assert each["sample"] if each["result"] == "passed" else each["why"]
        line = f"{each['result']}: {each['rule']}, to {each['to']}: {each['sample']}"
        assert line.rstrip() in ended.out


def test_a_lens_of_one_way_breaks_no_law(call: Call, host: amanda.Host) -> None:
    mapping = toys()
    mapping.rules.lens("one_way", lambda v: v, _decline, lambda _: (3,), "one way")
    host.register_mapping("toys", mapping, manifest=MANIFEST, replace=True)
    ended = call("rules", "toys", "--test")
    assert (ended.code, ended.err) == (0, "")
    assert "38 lenses: 0 break their laws" in ended.out


def _decline(_: object) -> object:
    raise Decline("it has no way back")


def test_a_lens_that_breaks_its_laws_is_told(call: Call, host: amanda.Host) -> None:
    mapping = toys()
    mapping.rules.lens(
        "off", lambda v: v + 1, lambda v: v, lambda r: (3,), "off by one"
    )
    host.register_mapping("toys", mapping, manifest=MANIFEST, replace=True)
    ended = call("rules", "toys", "--test")
    assert ended.code == 1
    assert "  off: 3 becomes 4, but not the second time\n" in ended.out


def test_rules_of_ones_own(call: Call, model: Path, own: Path, tmp_path: Path) -> None:
    target = tmp_path / "made.yaml"
    assert call("convert", model, target, "--to", "toy/b").code == 1
    asked = ("convert", model, target, "--to", "toy/b", "--rules", own, "--trace")
    ended = call(*asked)
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0].split() == ["op", "name", "rule", "file", "and", "line"]
    assert lines[1].split() == ["Relu", "Relu_0", "own.yaml:5", "own.yaml:5"]
    assert lines[2].split()[:3] == ["Gemm", "Gemm_1", "toys:gemm"]
    assert lines[2].split()[3].startswith("toys.py:")
    assert lines[3].split() == ["Drop", "Drop_2", "own.yaml:6", "own.yaml:6"]
    assert [op.type for op in amanda.load(target)] == ["same", "dot", "soft"]
    [[first, *_]] = call(*asked, "--json").json["trace"]
    assert first == {
        "op": "Relu", "name": "Relu_0", "rule": "own.yaml:5", "place": "own.yaml:5",
    }  # fmt: skip
    # they are there for that call only
    assert call("convert", model, target, "--to", "toy/b").code == 1


def test_check_takes_them_too(call: Call, model: Path, own: Path) -> None:
    assert call("check", model, "--for", "toy/b").code == 1
    ended = call("check", model, "--for", "toy/b", "--rules", own)
    assert (ended.code, ended.err) == (0, "")
    assert "(by (own.yaml))" in ended.out


def test_rules_are_in_front_in_lists(call: Call, own: Path) -> None:
    found = call("rules", "toys", "--rules", own, "--tag", "mine", "--json").json
    assert [rule["id"] for rule in found["rules"]] == ["own.yaml:5", "own.yaml:6"]


def test_rules_between_two_that_nothing_maps(
    call: Call, host: amanda.Host, model: Path, own: Path, tmp_path: Path
) -> None:
    host.unregister("mappings", "toys")
    target = tmp_path / "made.yaml"
    own.write_text(f"{OWN}  Gemm(a, b)  =>  dot(a, b)\n")
    asked = ("convert", model, target, "--to", "toy/b", "--rules", own)
    assert (call(*asked).code, call(*asked).err) == (0, "")
    assert [op.type for op in amanda.load(target)] == ["same", "dot", "soft"]


def test_plain_text_does_not_say_enough(
    call: Call, model: Path, tmp_path: Path
) -> None:
    plain = tmp_path / "own.rules"
    plain.write_text("Relu(x)  =>  same(x)\n")
    ended = call("check", model, "--for", "toy/b", "--rules", plain)
    assert ended.code == 1
    assert "plain text does not name its frameworks" in ended.err
    broken = tmp_path / "broken.yaml"
    broken.write_text(OWN.replace("only(k)", "onyl(k)"))
    ended = call("check", model, "--for", "toy/b", "--rules", broken)
    assert "no lens is called 'onyl'" in ended.err
    assert "broken.yaml:6:" in ended.err


def test_coverage(call: Call) -> None:
    ended = call("coverage")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == (
        "toy/a/13 -> toy/b/1: 15 ops: 13 row, 1 function, 1 gap\n"
        "toy/b/1 -> toy/a/13: 17 ops: 13 row, 4 gap\n"
    )
    ended = call("coverage", "toy/b", "toy/a", "--gaps")
    assert [line.split() for line in ended.out.splitlines()[1:5]] == [
        ["dot", "gap"], ["fused", "gap"], ["swap", "gap"], ["three", "gap"],
    ]  # fmt: skip
    rows = {
        op["op"]: op for op in call("coverage", "toy/b", "toy/a", "--json").json["ops"]
    }
    assert rows["plus"]["rules"] == {"row": 1, "pattern": 2, "function": 0}
    assert call("coverage", "toy/b").code == 2
    assert call("coverage", "toy/b", "toy/b").code == 1


def test_pages_of_coverage(call: Call, tmp_path: Path) -> None:
    ended = call("coverage", "--write", tmp_path / "pages")
    assert ended.out == f"{tmp_path / 'pages' / 'toys.md'} is written\n"
    page = (tmp_path / "pages" / "toys.md").read_text()
    assert "| toy/a/13 | toy/b/1 | 15 | 13 | 0 | 1 | 0 | 0 | 1 |\n" in page
    assert "| `plus` | row, 2 patterns |\n" in page
