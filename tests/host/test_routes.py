"""Routes over installed mappings, and conversion along them."""

from __future__ import annotations

import pytest

import amanda
from amanda.dictionary import parse_name, parse_span
from amanda.errors import ConversionError, NamespaceError, PluginBrokenError, UsageError
from amanda.graph import Graph
from amanda.host import Host
from amanda.mapping import Gap, MappingLink, find_route, gap_error


def links(*rows: str) -> list[MappingLink]:
    made = []
    for row in rows:
        key, _, ends = row.partition(": ")
        source, target = ends.split(" -> ")
        made.append(MappingLink(key, parse_span(source), parse_span(target)))
    return made


HOUSE = links(
    "onnx: onnx@1..18 -> std@1",
    "onnx-back: std@1 -> onnx@7..18",
    "tf: tensorflow@1..2 -> std@1",
    "tf-back: std@1 -> tensorflow@1.13..2",
    "steps: onnx@19..28 -> onnx@18",
    "legacy: std@1 -> old/thing/3",
)


def test_no_route_leads_on_from_a_place_to_arrive_at() -> None:
    found = links("a: tensorflow@1 -> vendor@1", "b: vendor@1 -> onnx@18")
    through = [found[0]._replace(transit=False), found[1]]
    start, goal = parse_name("tensorflow@1"), parse_span("onnx")
    assert len(find_route(start, goal, found).steps) == 2
    with pytest.raises(ConversionError, match="no installed mappings lead"):
        find_route(start, goal, through)
    assert len(find_route(start, parse_span("vendor@1"), through).steps) == 1
    assert len(find_route(parse_name("vendor@1"), goal, through).steps) == 1


@pytest.mark.parametrize(
    ("start", "goal", "route"),
    [
        ("onnx@18", "onnx@18", "amanda/onnx/18, as it is"),
        ("onnx@18", "onnx", "amanda/onnx/18, as it is"),
        ("onnx@13", "std", "amanda/onnx/13 -> amanda/std/1 (by onnx)"),
        (
            "tensorflow@1.13.1",
            "onnx",
            "amanda/tensorflow/1.13.1 -> amanda/std/1 (by tf) "
            "-> amanda/onnx/18 (by onnx-back)",
        ),
        (
            "tensorflow@1.13.1",
            "onnx@8..12",
            "amanda/tensorflow/1.13.1 -> amanda/std/1 (by tf) "
            "-> amanda/onnx/12 (by onnx-back)",
        ),
        (
            "onnx@22",
            "old/thing@3",
            "amanda/onnx/22 -> amanda/onnx/18 (by steps) -> amanda/std/1 (by onnx) "
            "-> old/thing/3 (by legacy)",
        ),
    ],
)
def test_routes(start, goal, route):
    assert str(find_route(parse_name(start), parse_span(goal), HOUSE)) == route


def test_versions_that_are_known_choose_within_a_span():
    known = {"amanda/onnx": ["9", "11", "11.5rc1", "30"]}
    route = find_route(parse_name("tensorflow@2"), parse_span("onnx"), HOUSE, known)
    assert route.target == "amanda/onnx/11"


def test_the_shortest_route_wins_then_the_first_by_name():
    rows = links(
        "a: x/x@1 -> x/y@1",
        "b: x/y@1 -> x/z@1",
        "d: x/x@1 -> x/z@1",
        "c: x/x@1 -> x/z@1",
    )
    route = find_route(parse_name("x/x@1"), parse_span("x/z"), rows)
    assert [step.mapping for step in route.steps] == ["c"]


def test_circles_end():
    rows = links("a: x/x -> x/y", "b: x/y -> x/x")
    with pytest.raises(ConversionError):
        find_route(parse_name("x/x@1"), parse_span("x/z"), rows)


@pytest.mark.parametrize(
    ("start", "goal", "message"),
    [
        (
            "jax@1",
            "std@1",
            "no installed mappings lead from amanda/jax/1 to amanda/std/1\n"
            "  to do:    pip install amanda-jax\n"
            "  - no installed mapping leads from amanda/jax/1\n"
            "  - to amanda/std/1 there is a mapping from amanda/onnx/1..18, "
            "amanda/tensorflow/1..2 only",
        ),
        (
            "onnx@13",
            "openvino",
            "no installed mappings lead from amanda/onnx/13 to amanda/openvino/*\n"
            "  to do:    `amanda plugin new NAME --kind mapping` begins a mapping\n"
            "  - from amanda/onnx/13 there is a mapping to amanda/std/1 only\n"
            "  - no installed mapping leads to amanda/openvino/*",
        ),
        (
            "tensorflow@3",
            "onnx@5",
            "no installed mappings lead from amanda/tensorflow/3 to amanda/onnx/5\n"
            "  to do:    pip install amanda-tf amanda-onnx\n"
            "  - tf maps only from amanda/tensorflow/1..2\n"
            "  - onnx-back maps only to amanda/onnx/7..18\n"
            "  - steps maps only to amanda/onnx/18",
        ),
    ],
)
def test_missing_mappings_are_named(start, goal, message, nothing_installed):
    with pytest.raises(ConversionError) as caught:
        find_route(parse_name(start), parse_span(goal), HOUSE)
    assert str(caught.value) == message


def test_gaps_are_told_all_at_once():
    gaps = [
        Gap("Foo", "Foo 'a'", ("axis is 7", "no bias"), nearest="Foo[13:](x)"),
        Gap("Bar", "Bar 'b'"),
    ]
    error = gap_error(gaps, "amanda/onnx/18", "amanda/std/1")
    assert str(error) == (
        "2 ops have no mapping from amanda/onnx/18 to amanda/std/1\n"
        "  to do:    map them by rules of your own, or keep them: keep_foreign=True\n"
        "  - Foo, Foo 'a': axis is 7; no bias (nearest: Foo[13:](x))\n"
        "  - Bar, Bar 'b': no rule maps it"
    )


# Conversion


class Renaming:
    """Maps ops by putting an ending to their type, those of one letter only."""

    def __init__(self, ending: str) -> None:
        self.ending = ending

    def apply(self, graph, to, *, keep_foreign, gap_met):
        result = graph.clone()
        result.namespace = to
        gaps = []
        for op in list(result):
            if len(op.type.partition("-")[0]) == 1:
                op.type += self.ending
            elif values := gap_met(
                op=op, why=("it is long",), build=result, inputs=op.inputs
            ):
                result.replace(op, values)
            elif not keep_foreign:
                gaps.append(Gap(op.type, op.label, ("it is long",)))
        if gaps:
            raise gap_error(gaps, graph.namespace, to)
        return result


@pytest.fixture
def host() -> Host:
    made = Host(())
    for name, source, target in (
        ("in", "a/a@1", "a/b@1"),
        ("out", "a/b@1", "a/c@1..3"),
    ):
        manifest = {"from": source, "to": target}
        made.register_mapping(name, Renaming(f"-{name}"), manifest=manifest)
    return made


@pytest.fixture
def graph() -> Graph:
    made = Graph("a/a/1")
    made.result(made.add("f", [made.parameter(name="x")], name="f").output, "y")
    return made


def test_conversion_follows_the_route(host, graph):
    heard = []
    host.register_hook("before_convert", lambda route: heard.append(str(route)))
    host.register_hook("after_convert", lambda result: heard.append(result.namespace))
    result = amanda.convert(graph, "a/c", host=host)
    assert result.namespace == "a/c/3"
    assert [op.type for op in result] == ["f-in-out"]
    assert [op.type for op in graph] == ["f"]
    assert heard == ["a/a/1 -> a/b/1 (by in) -> a/c/3 (by out)", "a/c/3"]
    assert amanda.plan(graph, "a/c@2", host=host).target == "a/c/2"


class Listed:
    """A namespace whose versions are known when it is asked."""

    def __init__(self, *versions: str) -> None:
        self.found = versions

    def versions(self):
        if not self.found:
            raise NamespaceError("its file is not there")
        return self.found

    def at(self, version, *, assume=False):
        raise AssertionError(version)


def test_a_goal_is_asked_for_its_versions(host, graph):
    host.register("namespaces", "a/c", Listed("1", "2"))
    assert host.namespace_versions() == {"a/c": []}
    assert host.namespace_versions("a/c") == {"a/c": ["1", "2"]}
    assert amanda.convert(graph, "a/c", host=host).namespace == "a/c/2"
    host.register("namespaces", "a/c", Listed(), replace=True)
    assert amanda.convert(graph, "a/c", host=host).namespace == "a/c/3"


def test_conversion_to_where_it_is_gives_a_graph_of_its_own(host, graph):
    result = amanda.convert(graph, "a/a@1", host=host)
    assert result is not graph
    assert result.same_as(graph)
    assert amanda.plan(graph, "a/a", host=host).steps == ()


def test_gaps_are_an_error_unless_kept_or_filled(host, graph):
    graph.add("long", [], name="far")
    with pytest.raises(ConversionError) as caught:
        amanda.convert(graph, "a/b", host=host)
    assert "long, long 'far': it is long" in str(caught.value)
    kept = amanda.convert(graph, "a/b", keep_foreign=True, host=host)
    assert [op.type for op in kept] == ["f-in", "long"]
    host.register_hook("gap_met", lambda build, op: [build["f"].output])
    filled = amanda.convert(graph, "a/b", host=host)
    assert [op.type for op in filled] == ["f-in"]


def test_both_ways(host, graph):
    manifest = {"from": "a/d@1", "to": "a/a@1", "both": True}
    host.register_mapping("turn", Renaming("-turn"), manifest=manifest)
    result = amanda.convert(graph, "a/d", host=host)
    assert result.namespace == "a/d/1"


def test_a_mapping_that_breaks_its_contract_is_named(host, graph):
    class Bad:
        def __init__(self, answer):
            self.answer = answer

        def apply(self, graph, to, **options):
            return self.answer() if callable(self.answer) else self.answer

    manifest = {"from": "a/a@1", "to": "a/bad@1"}
    for answer, words in (
        (3, "mapping 'bad' of this program returned no graph from mapping"),
        (
            Graph("x/y/1"),
            "mapping 'bad' of this program returned a graph of another name",
        ),
        (
            lambda: 1 / 0,
            "mapping 'bad' of this program failed while mapping to a/bad/1",
        ),
    ):
        host.register_mapping("bad", Bad(answer), manifest=manifest, replace=True)
        with pytest.raises(PluginBrokenError) as caught:
            amanda.convert(graph, "a/bad", host=host)
        assert str(caught.value).startswith(words)


def test_faults_of_the_caller_are_told(host, graph):
    with pytest.raises(ConversionError, match="the graph has no namespace"):
        amanda.plan(Graph(), "a/b", host=host)
    with pytest.raises(UsageError, match="plan does not take this argument"):
        amanda.plan("a.onnx", "a/b", host=host)
    with pytest.raises(NamespaceError, match="is not the name of a namespace"):
        amanda.plan(graph, "a b", host=host)


def test_two_mappings_of_one_name_are_told_apart(site, graph):
    for name in ("one", "two"):
        site.add(
            f"amanda-{name}",
            f"[amanda.mappings]\nsame = amanda_{name}:M\n",
            "class M:\n    def apply(self, graph, to, **options):\n"
            f"        copy = graph.clone(); copy.namespace = to; copy.name = '{name}'\n"
            "        return copy\n",
            manifest=f"manifest=1\n[mappings.same]\nfrom='a/a/1'\nto='a/{name}/1'\n",
        )
    host = site.host()
    assert amanda.convert(graph, "a/two", host=host).name == "two"
    assert str(amanda.plan(graph, "a/one", host=host)) == (
        "a/a/1 -> a/one/1 (by amanda-one:same)"
    )
