"""Every call into a plug-in: what it raises is an error that names the plug-in.

SystemExit and other exceptions without the base class Exception must not end a call as
if it had succeeded; only KeyboardInterrupt passes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

import pytest

import amanda
from amanda.errors import AmandaError, PluginBrokenError
from amanda.graph import Graph
from amanda.host import Host

np = pytest.importorskip("numpy")


class Refusal(BaseException):
    """An exception that is no Exception."""


RAISED = [SystemExit(0), GeneratorExit(), Refusal("no"), KeyError("x")]


class Plugin:
    """Every kind of plug-in at once; the method called `fails` raises."""

    name = "evil"
    namespace = "test/a/1"

    def __init__(self, fails, error):
        self.fails, self.error = fails, error

    def _run(self, what, result):
        if what == self.fails:
            raise self.error
        return result

    def read(self, path):
        return self._run("read", graph_of("test/a/1"))

    def write(self, graph, path):
        return self._run("write", None)

    def apply(self, graph, to, keep_foreign=False, gap_met=None):
        return self._run("apply", graph_of(to))

    def devices(self):
        return self._run("devices", ["cpu"])

    def states(self):
        return self._run("states", [])

    def takes(self, op):
        return self._run("takes", True)

    def compile(self, graph, device, options):
        return self._run("compile", Program(self))

    def versions(self):
        return self._run("versions", ["1"])

    def at(self, version, assume=False):
        return self._run("at", Names())

    def change(self, graph):
        return self._run("change", 0)


class Program:
    def __init__(self, plugin):
        self._plugin = plugin

    def __call__(self, feeds, out=None):
        return self._plugin._run("call", [*feeds.values()])

    @property
    def state(self):
        return self._plugin._run("state", None)

    def plan(self):
        return self._plugin._run("plan", "nothing")


class Names(dict):
    name = "test/a/1"


class Picky:
    """A backend that takes nothing, so that a fallback is needed."""

    name = "picky"
    namespace = "test/a/1"

    def devices(self):
        return ["cpu"]

    def takes(self, op):
        return "never"

    def compile(self, graph, device, options):
        raise AssertionError


def graph_of(namespace):
    graph = Graph(namespace)
    x = graph.parameter(amanda.parse_type("float32[2]"), "x")
    graph.result(graph.add("same", [x]).output, "y")
    return graph


def host_with(fails, error):
    plugin = Plugin(fails, error)
    host = Host(())
    host.register_format("evil", plugin, manifest={"suffixes": [".evil"]})
    ends = {"from": "test/b/1", "to": "test/a/1"}
    host.register_mapping("evil", plugin, manifest=ends)
    host.register_backend("evil", plugin)
    host.register_backend("picky", Picky)
    host.register_namespace("test/a", plugin)
    host.register_pass("evil", plugin.change)
    return host


X = [np.ones(2, "float32")]


def run(host, path):
    return amanda.compile(graph_of("test/a/1"), "evil", host=host)(X)


def run_with_fallback(host, path):
    compiled = amanda.compile(graph_of("test/a/1"), "picky", None, "evil", host=host)
    return compiled(X)


def plan_for_backend(host, path):
    return amanda.api.conversion.plan(graph_of("test/a/1"), "evil", host=host).is_clear


CALLS = [
    ("read", lambda host, path: amanda.load(path, host=host)),
    ("write", lambda host, path: amanda.save(graph_of("test/a/1"), path, host=host)),
    (
        "apply",
        lambda host, _: amanda.convert(graph_of("test/b/1"), "test/a", host=host),
    ),
    ("takes", plan_for_backend),
    ("takes", run),
    ("takes", run_with_fallback),
    ("compile", run),
    ("compile", run_with_fallback),
    ("call", run),
    ("call", run_with_fallback),
    ("state", run),
    ("state", run_with_fallback),
    (
        "plan",
        lambda host, _: amanda.compile(graph_of("test/a/1"), "evil", host=host).plan(),
    ),
    (
        "call",
        lambda host, _: amanda.Session(graph_of("test/a/1"), "evil", host=host).run(
            ["y"], X
        ),
    ),
    ("versions", lambda host, _: amanda.namespace("test/a", host=host)),
    ("at", lambda host, _: amanda.namespace("test/a@1", host=host)),
    (
        "change",
        lambda host, _: amanda.improve(graph_of("test/a/1"), "evil", host=host),
    ),
]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(
    ("fails", "call"), CALLS, ids=[f"{f}-{i}" for i, (f, _) in enumerate(CALLS)]
)
def test_what_a_plugin_raises_names_it(fails, call, error, tmp_path):
    path = tmp_path / "a.evil"
    path.write_text("evil")
    call(host_with("nothing", error), path)  # the call itself is right
    with pytest.raises(AmandaError) as caught:
        call(host_with(fails, error), path)
    assert " of this program failed while " in caught.value.message
    assert caught.value.got.startswith(type(error).__name__)
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(("fails", "call"), CALLS[:4])
def test_an_interrupt_passes(fails, call, tmp_path):
    path = tmp_path / "a.evil"
    path.write_text("evil")
    with pytest.raises(KeyboardInterrupt):
        call(host_with(fails, KeyboardInterrupt()), path)


@pytest.mark.parametrize("garbage", [None, 3, [], "text", object()])
def test_a_dictionary_that_is_none_is_named(garbage):
    class Odd(Plugin):
        def at(self, version, assume=False):
            return garbage

    host = Host(())
    host.register_namespace("test/a", Odd("nothing", None))
    with pytest.raises(PluginBrokenError) as caught:
        amanda.namespace("test/a", host=host)
    assert caught.value.message == (
        "namespace 'test/a' of this program returned no dictionary for test/a/1"
    )


# -- formats that do not load --------------------------------------------------------


BROKEN = "raise SystemExit(0)"
FORMAT = """
    import amanda

    class Format:
        def read(self, path):
            return amanda.Graph(name="read")

        def write(self, graph, path):
            path.write_text("written")
"""
POINT = "[amanda.formats]\n{} = {}:Format\n"
TABLE = 'manifest = 1\n[formats.{}]\nsuffixes = [".tiny"]\nmagic = ["{}"]\n'


def add_format(site, dist, name, code, magic):
    module = dist.replace("-", "_")
    manifest = TABLE.format(name, magic)
    site.add(dist, POINT.format(name, module), code, manifest=manifest)


@pytest.mark.parametrize("names", [("tiny", "tiny"), ("a-tiny", "tiny")])
@pytest.mark.parametrize("magic", ["00", "00010203"])  # as good a match; a better one
def test_a_format_that_does_not_load_blocks_no_other(
    site, tmp_path, caplog, names, magic
):
    add_format(site, "amanda-broken", names[0], BROKEN, magic)
    add_format(site, "amanda-sound", names[1], FORMAT, "00")
    host = site.host()
    path = tmp_path / "m.tiny"
    path.write_bytes(b"\x00\x01\x02\x03")
    assert amanda.load(path, host=host).name == "read"
    amanda.save(Graph(), path, host=host)
    assert path.read_text() == "written"
    assert f"format '{names[0]}' of amanda-broken 1.0 is not used" in caplog.text
    assert "SystemExit" in caplog.text


def test_a_format_that_does_not_load_is_named_where_it_is_the_only_one(site, tmp_path):
    add_format(site, "amanda-broken", "tiny", BROKEN, "00")
    path = tmp_path / "m.tiny"
    path.write_bytes(b"\x00")
    for _ in range(2):
        with pytest.raises(PluginBrokenError, match="format 'tiny' of amanda-broken"):
            amanda.load(path, host=site.host())


# -- the command line, as a process --------------------------------------------------


def amanda_command(site, *arguments):
    """Runs `amanda`, with the distributions of the site only."""
    environment = {**os.environ, "PYTHONPATH": str(site.folder)}
    environment["AMANDA_PLUGINS"] = ",".join(site.names)
    command = [sys.executable, "-m", "amanda", *map(str, arguments)]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60
    )


def test_a_verb_with_a_broken_format_beside(site, tmp_path):
    add_format(site, "amanda-broken", "tiny", BROKEN, "00")
    add_format(site, "amanda-sound", "tiny", FORMAT, "00")
    path = tmp_path / "m.tiny"
    path.write_bytes(b"\x00\x01\x02\x03")
    done = amanda_command(site, "show", path, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["exit_code"] == 0
    assert "format 'tiny' of amanda-broken 1.0 is not used" in done.stderr


BACKEND = """
    import os

    class Program:
        def __call__(self, feeds, out=None):
            {call}
            return list(feeds.values())

    class Backend:
        name = "evil"
        namespace = "test/a/1"

        def devices(self):
            {devices}
            return ["cpu"]

        def takes(self, op):
            {takes}
            return True

        def compile(self, graph, device, options):
            return Program()
"""


def model(tmp_path):
    path = tmp_path / "m.yaml"
    amanda.save(graph_of("test/a/1"), path)
    return path


def add_backend(site, **code):
    lines = {"call": "pass", "devices": "pass", "takes": "pass", **code}
    manifest = 'manifest = 1\n[backends.evil]\nnamespace = "test/a/1"\n'
    points = "[amanda.backends]\nevil = amanda_evil:Backend\n"
    site.add(
        "amanda-evil",
        points,
        textwrap.dedent(BACKEND).format(**lines),
        manifest=manifest,
    )


@pytest.mark.parametrize(
    ("part", "verb", "code"),
    [
        ("call", ["run", "{model}", "--backend", "evil", "--random", "1"], 4),
        (
            "call",
            ["compare", "{model}", *["--backend", "evil"] * 2, "--random", "1"],
            4,
        ),
        ("takes", ["check", "{model}", "--for", "evil"], 3),
        ("devices", ["backends", "--load"], 1),
    ],
)
def test_a_plugin_that_exits_is_no_success(site, tmp_path, part, verb, code):
    add_backend(site, **{part: "raise SystemExit(0)"})
    path = model(tmp_path)
    done = amanda_command(site, *(word.format(model=path) for word in verb))
    assert done.returncode == code
    assert "backend 'evil' of amanda-evil 1.0 failed" in done.stderr + done.stdout
    assert "SystemExit: 0" in done.stderr + done.stdout


@pytest.mark.parametrize("printing", ["print('noise')", "os.system('echo noise')"])
def test_what_a_plugin_prints_is_not_in_the_answer(site, tmp_path, printing):
    add_backend(site, call=printing)
    verb = ["run", model(tmp_path), "--backend", "evil", "--random", "1"]
    plain = amanda_command(site, *verb)
    assert (plain.returncode, plain.stdout.count("noise")) == (0, 0)
    done = amanda_command(site, *verb, "--json")
    assert json.loads(done.stdout)["exit_code"] == 0
    assert "noise" in done.stderr


def test_a_hook_that_prints_is_named(site, tmp_path):
    code = "def note(graph):\n    print('noise')\n"
    site.add("amanda-loud", "[amanda.hooks]\nafter_load = amanda_loud:note\n", code)
    done = amanda_command(site, "show", model(tmp_path), "--json")
    assert json.loads(done.stdout)["exit_code"] == 0
    assert done.stderr == (
        "amanda: hook 'after_load' of amanda-loud 1.0 wrote to standard output:\n"
        "noise\n"
    )
