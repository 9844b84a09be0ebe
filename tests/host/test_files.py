"""Loading and saving: which format it is, and what is told when none is."""

from __future__ import annotations

import re

import pytest

import amanda
from amanda.errors import (
    FormatError,
    PluginBrokenError,
    PluginClashError,
    PluginIncompatibleError,
    UnknownFormatError,
    UsageError,
)
from amanda.graph import Graph
from amanda.host import Host


class Format:
    """Reads into a graph that is named by the format."""

    def __init__(self, name):
        self.name = name

    def read(self, source, **options):
        return Graph(name=self.name, **options)

    def write(self, graph, path):
        path.write_text(f"{self.name}: {graph.name}")


class Base:
    pass


class Derived(Base):
    pass


HERE = Base.__module__
MANIFESTS = {
    "plain": {"suffixes": [".plain", ".json"]},
    "long": {"suffixes": [".graph.json"]},
    "magic": {"magic": ["4d41474943"], "suffixes": [".mg"]},
    "zip-a": {"magic": ["504b+61@4"], "suffixes": [".za", ".zab"]},
    "zip-b": {"magic": ["504b"], "suffixes": [".zb", ".zab"]},
    "folder": {"directories": ["model.txt", "more/model.txt"]},
    "stem": {"stems": [".index"]},
    "base": {"objects": [f"{HERE}.Base"]},
    "derived": {"objects": [f"{HERE}.Derived"]},
    "spaced": {"namespace": "some/space/1..3", "suffixes": [".spaced"]},
}


@pytest.fixture
def host() -> Host:
    made = Host(())
    for name, manifest in MANIFESTS.items():
        made.register_format(name, Format(name), manifest=manifest)
    return made


@pytest.mark.parametrize(
    ("file", "content", "format", "read_by"),
    [
        ("a.plain", b"x", None, "plain"),
        ("A.PLAIN", b"x", None, "plain"),
        ("a.json", b"x", None, "plain"),
        ("a.graph.json", b"x", None, "long"),
        ("a.plain", b"MAGIC...", None, "magic"),
        ("no suffix", b"MAGIC", None, "magic"),
        ("a.plain", b"MAGIC", "plain", "plain"),
        ("a.zb", b"PK..a", None, "zip-b"),
        ("a.za", b"PK..b", None, "zip-b"),
        ("a.za", b"PK..a", None, "zip-a"),
        ("a.other", b"PK..a", None, "zip-a"),
        ("a.zab", b"PK..a", None, "zip-a"),
    ],
)
def test_explicit_then_magic_then_suffix(
    host, tmp_path, file, content, format, read_by
):
    path = tmp_path / file
    path.write_bytes(content)
    assert amanda.load(path, format, host=host).name == read_by
    assert amanda.load(str(path), format, host=host).name == read_by


def test_live_objects_go_by_the_nearest_type(host):
    assert amanda.load(Base(), host=host).name == "base"
    assert amanda.load(Derived(), host=host).name == "derived"
    assert amanda.load(type("More", (Base,), {})(), host=host).name == "base"
    assert amanda.load(3, "plain", host=host).name == "plain"


def test_live_objects_go_by_the_documented_name_too(host):
    import logging

    host.register_format("log", Format("log"), manifest={"objects": ["logging.Logger"]})
    thing = logging.getLogger("x")
    assert amanda.load(thing, host=host).name == "log"
    alias = {"objects": ["logging.handlers.RotatingFileHandler.nothing", "gone.Logger"]}
    host.register_format("log", Format("log"), manifest=alias, replace=True)
    with pytest.raises(UnknownFormatError) as caught:
        amanda.load(thing, host=host)
    assert str(caught.value).startswith(
        "no installed format reads an object of type logging.Logger\n"
        "  to do:    give a path, name the format, or install its plug-in\n"
        f"  - base: {HERE}.Base\n"
    )


def test_folders_go_by_what_is_in_them(host, tmp_path):
    (tmp_path / "more").mkdir()
    with pytest.raises(FormatError) as caught:
        amanda.load(tmp_path, host=host)
    assert str(caught.value) == (
        f"{tmp_path} is a folder, and no installed format reads it\n"
        "  to do:    name the file in it, or a format that reads folders\n"
        "  - folder: model.txt more/model.txt"
    )
    (tmp_path / "more" / "model.txt").touch()
    assert amanda.load(tmp_path, host=host).name == "folder"


def test_a_path_without_a_file_goes_by_the_file_whose_stem_it_is(host, tmp_path):
    (tmp_path / "model.ckpt-100.index").write_bytes(b"x")
    assert amanda.load(tmp_path / "model.ckpt-100", host=host).name == "stem"
    with pytest.raises(FormatError, match="there is no file"):
        amanda.load(tmp_path / "model.ckpt-10", host=host)


def test_what_cannot_be_read_is_told(host, tmp_path):
    (tmp_path / "model.plain").touch()
    for path, told in (
        (
            tmp_path / "modle.plain",
            f"there is no file {tmp_path}/modle.plain\n"
            f"  to do:    did you mean '{tmp_path}/model.plain'?",
        ),
        (
            tmp_path / "no" / "a.plain",
            f"there is no file {tmp_path}/no/a.plain, and no such folder",
        ),
        (
            tmp_path / "model.plain",
            f"{tmp_path}/model.plain is empty\n  expected: a model",
        ),
    ):
        with pytest.raises(FormatError) as caught:
            amanda.load(path, host=host)
        assert str(caught.value) == told
    with pytest.raises(FormatError, match="is not a regular file"):
        amanda.load("/dev/null", host=host)
    with pytest.raises(UsageError, match=re.escape(r"'a\x00b' is no path")):
        amanda.load("a\0b", host=host)


def test_an_unknown_suffix_is_told_with_those_there_are(host, tmp_path):
    path = tmp_path / "a.what"
    path.write_text("x")
    formats = (
        "  to do:    name the format, or install the plug-in that has it\n"
        "  - long: .graph.json\n"
        "  - magic: .mg\n"
        "  - plain: .plain .json\n"
        "  - spaced: .spaced\n"
        "  - zip-a: .za .zab\n"
        "  - zip-b: .zb .zab"
    )
    with pytest.raises(UnknownFormatError) as caught:
        amanda.load(path, host=host)
    assert str(caught.value) == f"no installed format reads 'a.what'\n{formats}"
    with pytest.raises(UnknownFormatError) as caught:
        amanda.save(Graph(), tmp_path / "b.what", host=host)
    assert str(caught.value) == f"no installed format writes 'b.what'\n{formats}"


def test_several_that_take_a_file_are_told(host, tmp_path):
    with pytest.raises(PluginClashError) as caught:
        amanda.save(Graph(), tmp_path / "a.zab", host=host)
    assert str(caught.value) == (
        "'a.zab' is written by several formats: format 'zip-a' of this program, "
        "format 'zip-b' of this program\n"
        "  to do:    choose a format: program:zip-a or program:zip-b"
    )
    amanda.save(Graph(), tmp_path / "a.zab", "zip-b", host=host)


def test_saving_goes_by_suffix_or_name(host, tmp_path):
    graph = Graph(name="g")
    amanda.save(graph, tmp_path / "a.graph.json", host=host)
    assert (tmp_path / "a.graph.json").read_text() == "long: g"
    amanda.save(graph, str(tmp_path / "a.any"), format="magic", host=host)
    assert (tmp_path / "a.any").read_text() == "magic: g"
    with pytest.raises(UsageError, match="save does not take this argument"):
        amanda.save("graph", tmp_path / "a.plain", host=host)


def test_a_format_takes_graphs_of_its_namespace(host, tmp_path):
    path = tmp_path / "a.spaced"
    amanda.save(Graph("some/space/2"), path, host=host)
    with pytest.raises(FormatError) as caught:
        amanda.save(Graph("some/space/4"), path, host=host)
    assert str(caught.value) == (
        "format 'spaced' of this program does not write graphs of this namespace\n"
        "  expected: some/space/1..3\n"
        "  got:      some/space/4\n"
        "  to do:    amanda.convert(graph, 'some/space/1..3') first"
    )


def test_events_are_told(host, tmp_path):
    heard = []
    for hook in ("before_load", "after_load", "before_save", "after_save"):
        host.register_hook(hook, lambda hook=hook, **event: heard.append((hook, event)))
    path = tmp_path / "a.plain"
    amanda.save(Graph(name="g"), path, host=host)
    graph = amanda.load(path, host=host)
    assert [hook for hook, _ in heard] == [
        "before_save",
        "after_save",
        "before_load",
        "after_load",
    ]
    assert heard[1][1]["path"] == str(path)
    assert heard[3][1]["graph"] is graph


class Odd:
    def __init__(self, **doings):
        self.__dict__.update(doings)


def raising(error):
    def fail(*arguments, **options):
        raise error

    return fail


@pytest.mark.parametrize(
    ("format", "kind", "told"),
    [
        (
            Odd(read=raising(ValueError("byte 7"))),
            PluginBrokenError,
            "format 'odd' of this program failed while reading {}\n"
            "  got:      ValueError: byte 7\n"
            "  to do:    if the input is fine, correct what this program registered",
        ),
        (
            Odd(read=raising(PermissionError(13, "Permission denied"))),
            FormatError,
            "failed while reading {}\n  got:      permission denied",
        ),
        (
            Odd(read=lambda source: 3),
            PluginBrokenError,
            "format 'odd' of this program returned no graph from reading\n"
            "  got:      int",
        ),
        (
            Odd(write=raising(KeyError("x"))),
            FormatError,
            "format 'odd' of this program only writes, so it cannot read {}",
        ),
        (Odd(read=raising(FormatError("line 3"))), FormatError, "line 3"),
    ],
)
def test_a_format_that_fails_is_named(tmp_path, format, kind, told):
    host = Host(())
    host.register_format("odd", format, manifest={"suffixes": [".odd"]})
    path = tmp_path / "a.odd"
    path.write_text("x")
    with pytest.raises(kind) as caught:
        amanda.load(path, host=host)
    assert str(caught.value) == told.format(path)


def test_a_format_that_only_reads_is_told(tmp_path):
    host = Host(())
    host.register_format("in", Odd(read=len), manifest={"suffixes": [".in"]})
    with pytest.raises(FormatError, match="only reads, so it cannot write"):
        amanda.save(Graph(), tmp_path / "a.in", host=host)


def test_a_faulty_one_gives_way_and_is_told_when_alone(site, tmp_path):
    manifest = "manifest = 1\n[formats.{}]\nsuffixes = ['.xyz']\n"
    site.add(
        "amanda-old",
        "[amanda.formats]\nxyz = amanda_old:F\n",
        "1/0",
        needs="amanda-core>=99",
        manifest=manifest.format("xyz"),
    )
    path = tmp_path / "a.xyz"
    path.write_text("x")
    host = site.host()
    with pytest.raises(PluginIncompatibleError, match="format 'xyz' of amanda-old"):
        amanda.load(path, host=host)
    host.register_format("other", Format("other"), manifest={"suffixes": [".xyz"]})
    assert amanda.load(path, host=host).name == "other"
