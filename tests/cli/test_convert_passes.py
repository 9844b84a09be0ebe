"""Passes that `convert` and `check` apply on the way."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from mapping.toys import chain, lines, toys

import amanda
from amanda.errors import PluginBrokenError, UsageError
from amanda.graph import Graph
from amanda.passes import Pipeline

if TYPE_CHECKING:
    from tests.cli.conftest import Call

MAPPING = {"from": "toy/a/1..20", "to": "toy/b/1", "both": True}


def drop_same(graph: Graph) -> int:
    """Remove every `same` of toy b."""
    found = [op for op in graph if op.type == "same"]
    for op in found:
        graph.replace(op, [op.inputs[0]])
    return len(found)


def merge_relu(graph: Graph) -> int:
    """One `relu` in place of two."""
    for op in graph:
        source = op.inputs[0]
        if op.type == source.op.type == "relu":
            graph.replace(op, [source])
            return 1
    return 0


def model() -> Graph:
    return chain(("relu", {}), ("same", {}), ("relu", {}), namespace="toy/b/1")


@pytest.fixture
def toy_host(host: amanda.Host) -> amanda.Host:
    """A host with a pipeline for toy b that conversions apply."""
    from amanda.files.text.formats import YamlFormat

    host.register_format("yaml", YamlFormat(), manifest={"suffixes": [".yaml"]})
    host.register_mapping("toys", toys(), manifest=MAPPING)
    manifest = {"namespace": "toy/b/1", "conversions": True}
    host.register_pass("tidy", Pipeline(drop_same), manifest=manifest)
    return host


def add_merge(host: amanda.Host) -> None:
    manifest = {"namespace": "toy/b/1", "pipelines": ["tidy"]}
    host.register_pass("merge", merge_relu, manifest=manifest)


@pytest.mark.parametrize(
    ("options", "ops", "passes"),
    [
        ([], ["Relu", "Relu"], {"drop_same": 1}),
        (["--no-passes"], ["Relu", "Identity", "Relu"], {}),
        (["--passes", "tidy"], ["Relu", "Relu"], {"drop_same": 1}),
        (["--keep-foreign"], ["Relu", "Relu"], {"drop_same": 1}),
    ],
)
def test_options(
    call: Call, toy_host: amanda.Host, tmp_path: Path, options: Any, ops: Any,
    passes: Any,
) -> None:  # fmt: skip
    source, target = tmp_path / "source.yaml", tmp_path / "target.yaml"
    amanda.save(model(), source)
    ended = call("convert", source, target, "--to", "toy/a@13", "--json", *options)
    assert ended.json["steps"][0]["passes"] == passes
    assert [op.type for op in amanda.load(target)] == ops
    if "--keep-foreign" not in options:
        ended = call("check", source, "--for", "toy/a@13", "--json", *options)
        assert ended.json["steps"][0]["passes"] == passes


def test_the_report_names_what_passes_changed(
    call: Call, toy_host: amanda.Host, tmp_path: Path
) -> None:
    source, target = tmp_path / "source.yaml", tmp_path / "target.yaml"
    amanda.save(model(), source)
    ended = call("convert", source, target, "--to", "toy/a@13")
    assert ended.out.splitlines()[0] == (
        "toy/b/1 -> toy/a/13: 2 mapped; passes before: drop_same 1"
    )


def test_a_plugin_adds_a_pass_to_a_pipeline(toy_host: amanda.Host) -> None:
    add_merge(toy_host)
    graph = model()
    reports: list[Any] = []
    made = amanda.convert(graph, "toy/a@13", passes=["tidy"], reports=reports)
    assert [op.type for op in made] == ["Relu"]
    assert reports[0].passes == {"drop_same": 1, "merge": 1}
    assert lines(graph) == lines(model())  # the caller's graph stays
    found = amanda.plan(graph, "toy/a@13", passes=["tidy"])
    assert found.reports[0].passes == reports[0].passes
    assert amanda.improve(graph, "tidy").changes == reports[0].passes


def test_by_default_the_function_applies_none(toy_host: amanda.Host) -> None:
    assert len(amanda.convert(model(), "toy/a@13")) == 3


def test_a_copy_in_the_same_namespace_stays_as_it_is(
    call: Call, toy_host: amanda.Host, tmp_path: Path
) -> None:
    source, target = tmp_path / "source.yaml", tmp_path / "target.yaml"
    amanda.save(model(), source)
    for options in (["--to", "toy/b@1"], []):
        assert call("convert", source, target, *options).code == 0
        assert target.read_bytes() == source.read_bytes()


def test_invalid_options(call: Call, toy_host: amanda.Host, tmp_path: Path) -> None:
    source = tmp_path / "source.yaml"
    amanda.save(model(), source)
    convert = ("convert", source, tmp_path / "target.yaml", "--to", "toy/a@13")
    ended = call(*convert, "--passes", "tidy", "--no-passes")
    assert "--passes and --no-passes exclude each other; give one" in ended.err
    ended = call(*convert, "--passes", "tidi")
    assert "did you mean 'tidy'?" in ended.err
    toy_host.register_pass("other", drop_same, manifest={"namespace": "toy/c"})
    for verb in (convert, ("check", source, "--for", "toy/a@13")):
        assert "the pass 'other' is for no" in call(*verb, "--passes", "other").err


def test_a_pass_for_no_graph_on_the_route(toy_host: amanda.Host) -> None:
    toy_host.register_pass("other", drop_same, manifest={"namespace": "toy/c"})
    with pytest.raises(UsageError) as caught:
        amanda.convert(model(), "toy/a@13", passes=["other"])
    assert str(caught.value) == (
        "the pass 'other' is for no graph on the way\n"
        "  expected: toy/c\n"
        "  got:      toy/b/1 -> toy/a/13 (by toys)"
    )


def test_a_fault_in_a_pipeline_names_the_plugin(toy_host: amanda.Host) -> None:
    def broken(graph: Graph) -> int:
        raise RuntimeError("oops")

    toy_host.register_pass("bad", Pipeline(broken))
    with pytest.raises(PluginBrokenError, match="oops"):
        amanda.improve(model(), "bad")
