"""Sample plug-ins, really built and installed, each in a process that has them all."""

from __future__ import annotations

import re
import sys

import pytest

HOST = "from amanda.host import Host\nhost = Host()\n"
TELL = """
import amanda
try:
    {action}
except amanda.AmandaError as error:
    print(type(error).__name__)
    print(error)
"""


def test_listing_imports_no_plugin(ask):
    told = ask(
        HOST + "import sys\n"
        "print(host.names('backends'))\n"
        "print(host.names('passes'))\n"
        "for info in host.plugins(): info.state, info.why\n"
        "print([name for name in sys.modules if name.startswith('amanda_sample')])\n"
        "print('pluggy' in sys.modules, 'numpy' in sys.modules)"
    )
    assert told.splitlines() == [
        "['sample-absent', 'sample-good', 'sample-leaves', 'sample-nothing', "
        "'sample-old', 'sample-shapeless', 'sample-unmade']",
        "['inline', 'sample-one', 'sample-same', 'sample-slow', 'sample-sound', "
        "'sample-two']",
        "[]",
        "False False",
    ]


def test_choosing_imports_the_one(ask):
    told = ask(
        HOST + "import sys\n"
        "print(host.get('backends', 'sample-good').name)\n"
        "print([name for name in sys.modules if name.startswith('amanda_sample')])"
    )
    assert told.splitlines() == ["sample-good", "['amanda_sample_good']"]


def test_every_plugin_is_told_with_its_state(ask):
    told = ask(
        HOST + "for info in host.plugins():\n"
        "    print(f'{info.dist} {info.version} {info.state}: {info.why}')"
    )
    lines = [line for line in told.splitlines() if line.startswith("amanda-sample")]
    assert lines == [
        "amanda-sample-broken 1.0 found: ",
        "amanda-sample-good 1.0 found: ",
        "amanda-sample-hooks 1.0 broken: hook 'befor_load': there is no hook "
        "'befor_load'; there are before_load, after_load, before_save, after_save, "
        "before_convert, after_convert, gap_met, find_input_ranges, before_compile, "
        "after_compile, before_run, after_run, plugin_faulted",
        "amanda-sample-manifest 1.0 broken: format 'sample-manifest': its "
        "amanda-plugin.toml is faulty: [formats.sample-manifest]: 'suffix' is not a "
        "field; did you mean 'suffixes'?; [formats.sample-manifest]: tier: must be one "
        "of stable, beta, experimental; [formats.sample-manifset] is not an entry "
        "point of this distribution; [formats.sample-manifset]: suffixes: 'sample' is "
        "not a suffix such as '.onnx'",
        "amanda-sample-old 0.9 incompatible: backend 'sample-old': made for "
        "amanda-core <0.0.1; this is 0.1.0",
        "amanda-sample-one 1.0 clash: pass 'sample-same' is also in amanda-sample-two",
        "amanda-sample-slow 1.0 found: ",
        "amanda-sample-two 1.0 clash: pass 'sample-same' is also in amanda-sample-one",
    ]


@pytest.mark.parametrize(
    ("name", "got"),
    [
        ("absent", "does not load: ModuleNotFoundError: No module named 'nothing_like"),
        ("leaves", "does not load: SystemExit: 3"),
        ("nothing", "does not load: AttributeError: module 'amanda_sample_broken' has"),
        (
            "shapeless",
            "is no backend: it has no namespace, no devices(), no takes(), no",
        ),
        ("unmade", "does not load: RuntimeError: no licence found"),
    ],
)
def test_a_broken_entry_is_named_and_hurts_nobody(ask, name, got):
    action = f"host.get('backends', 'sample-{name}')"
    told = ask(
        HOST
        + TELL.format(action=action) * 2
        + "print(host.get('passes', 'sample-sound')(5), host.find('backends', "
        f"'sample-{name}').state)"
    )
    lines = told.splitlines()
    assert lines[0] == "PluginBrokenError"
    assert lines[1] == (
        f"backend 'sample-{name}' of amanda-sample-broken 1.0 cannot be used"
    )
    assert lines[3].startswith(f"  got:      {got}")
    assert lines[4] == (
        "  to do:    reinstall or upgrade amanda-sample-broken, or report this to its "
        "authors"
    )
    assert lines[5:10] == lines[:5]  # told the same way again
    assert lines[10] == "5 broken"


def test_an_incompatible_one_is_told_before_import(ask):
    told = ask(HOST + TELL.format(action="host.get('backends', 'sample-old')"))
    assert told.splitlines() == [
        "PluginIncompatibleError",
        "backend 'sample-old' of amanda-sample-old 0.9 is incompatible with this "
        "version of Amanda",
        "  got:      made for amanda-core <0.0.1; this is 0.1.0",
        "  to do:    pip install --upgrade amanda-sample-old amanda-core",
    ]


def test_a_clash_is_an_error_only_when_asked_for(ask):
    told = ask(
        HOST
        + "print(host.get('passes', 'sample-one')(0))\n"
        + TELL.format(action="host.get('passes', 'sample-same')")
        + "print(host.get('passes', 'amanda-sample-two:sample-same')(0))"
    )
    assert told.splitlines() == [
        "one",
        "PluginClashError",
        "pass 'sample-same' is claimed by amanda-sample-one and amanda-sample-two",
        "  to do:    choose amanda-sample-one:sample-same or "
        "amanda-sample-two:sample-same",
        "two",
    ]


def test_a_slow_one_is_told_while_and_after_it_imports(ask):
    told = ask(
        HOST + "host.get('passes', 'sample-slow')\n"
        "info = next(i for i in host.plugins() if i.dist == 'amanda-sample-slow')\n"
        "print(info.state, info.why)",
        AMANDA_SLOW_SECONDS="0.1",
    )
    what = "pass 'sample-slow' of amanda-sample-slow 1.0"
    some_time = re.sub(r"took \d\.\d s", "took some time", told)
    assert some_time.splitlines() == [
        "slow pass 'sample-slow' took some time to import",
        f"{what} is still importing after 0.1 s; `amanda plugins --probe` looks closer",
        f"{what} is slow: took some time to import",
    ]


def test_only_those_named_are_let_in(ask):
    code = HOST + (
        "print(host.names('passes'), host.names('formats')[0])\n"
        "print([(i.dist, i.why) for i in host.plugins() if i.state == 'off' and "
        "i.dist.startswith('amanda-sample')][-1])\n"
        "print(host.notices())"
    )
    told = ask(code, AMANDA_PLUGINS="sample-one, Amanda_Sample.Slow, nonsense")
    passes, off, notices, warning = told.splitlines()
    assert passes == "['inline', 'sample-one', 'sample-same', 'sample-slow'] amanda"
    assert off == "('amanda-sample-two', 'left out by AMANDA_PLUGINS')"
    assert warning in notices
    assert warning.startswith(
        "AMANDA_PLUGINS names 'nonsense', which is no installed plug-in; there are: "
    )
    none = ask(HOST + "print(host.names('backends'))", AMANDA_PLUGINS="none")
    assert none == "[]\n"


def test_who_is_left_out_is_told(ask):
    action = "host.get('backends', 'sample-good')"
    told = ask(HOST + TELL.format(action=action), AMANDA_PLUGINS="none")
    assert told.splitlines() == [
        "PluginMissingError",
        "no backend 'sample-good' is installed",
        "  to do:    amanda-sample-good has it, but AMANDA_PLUGINS leaves it out",
    ]


def test_listeners_are_called_and_bad_ones_named(ask, tmp_path):
    path = tmp_path / "a.good"
    path.write_text("GOOD:five")
    told = ask(
        f"""
        import amanda, sys
        print(amanda.load({str(path)!r}).name, amanda.load({str(path)!r}).name)
        import amanda_sample_hooks
        print(*amanda_sample_hooks.heard, sep="\\n")
        print("amanda_sample_hooks.never" in sys.modules)
        """
    )
    dist = "amanda-sample-hooks"
    asks = "takes (graph, colour), but after_load gives by name: source, format, graph"
    fails = "raised in after_load: ValueError: a listener with a fault"
    assert told.splitlines() == [
        "five five",
        f"{dist} hooks after_load.asks: {asks}",
        "sample-good: five",
        f"{dist} hooks after_load.fails: {fails}",
        "sample-good: five",
        "False",
        f"hook 'after_load.asks' of {dist} 1.0: {asks}",
        f"hook 'after_load.fails' of {dist} 1.0: {fails}",
    ]


def test_a_backend_is_found_and_runs(ask):
    told = ask(
        """
        import amanda, numpy
        graph = amanda.Graph("sample/good/1")
        x = graph.parameter(amanda.parse_type("float32[n]"), name="x")
        graph.result(graph.add("negate", [x], name="minus").output, "y")
        feed = numpy.array([1, 2], "float32")
        print(amanda.run(graph, {"x": feed}, backend="sample-good:cpu"))
        print(amanda.run(graph, [feed], backend="amanda-sample-good:sample-good"))
        compiled = amanda.compile(graph, "sample-good", "cpu")
        print(compiled, compiled.device)
        """
    )
    assert told.splitlines() == [
        "{'y': array([-1., -2.], dtype=float32)}",
        "{'y': array([-1., -2.], dtype=float32)}",
        "<compiled by sample-good on cpu: (x: float32[n]) -> (y)> cpu",
    ]


@pytest.mark.parametrize(
    ("manner", "limit", "state", "why"),
    [
        ("0", 30, "usable", ""),
        ("60", 1, "hangs", "pass 'sample-slow' was still busy after 1 s"),
        ("crash", 30, "crashes", "pass 'sample-slow' ended the process by SIGABRT"),
        ("soon", 30, "broken", "pass 'sample-slow': does not load: ValueError: could"),
    ],
)
def test_a_probe_survives_what_the_plugin_does(ask, manner, limit, state, why):
    if manner == "crash" and sys.platform == "win32":
        pytest.skip("signals are told otherwise here")
    told = ask(
        HOST + f"info = host.probe('sample-slow', {limit})\n"
        "print(info.state, info.why, sep='\\n')",
        SAMPLE_SLOW=manner,
    )
    first, second = told.splitlines()[:2]
    assert first == state
    assert second.startswith(why)


def test_a_probe_tells_of_every_entry(ask):
    told = ask(HOST + "info = host.probe('amanda-sample-broken')\nprint(info.why)")
    assert told.count("does not load") == 4
    assert "is no backend: it has no namespace" in told
    assert "sample-sound" not in told
