"""Discovery, choosing and registering, with distributions made by hand."""

from __future__ import annotations

import sys
import threading
from importlib.metadata import EntryPoint

import pytest

from amanda.errors import (
    PluginBrokenError,
    PluginClashError,
    PluginError,
    PluginIncompatibleError,
    PluginMissingError,
    UsageError,
)
from amanda.host import KINDS, Host, default_host

BACKEND = """
class Backend:
    name = "fast"
    namespace = "some/thing/1"
    def devices(self): return ["cpu"]
    def takes(self, op): return True
    def compile(self, graph, device, options): return lambda feeds, out=None: []
"""
FAST = "[amanda.backends]\nfast = {module}:Backend\n"


def told(action, kind=PluginError) -> str:
    with pytest.raises(kind) as caught:
        action()
    return str(caught.value)


# Discovery


def test_damaged_metadata_hurts_nobody_else(site):
    site.add("amanda-good", FAST.format(module="amanda_good"), BACKEND)
    site.add("amanda-torn", "[amanda.passes]\nno equals sign\nkept = amanda_torn:f\n")
    bytes_ = site.add("amanda-bytes") / "entry_points.txt"
    bytes_.write_bytes(b"\xff\xfe[amanda.passes]")
    lost = site.add("amanda-lost", "[amanda.passes]\nlost = amanda_lost:f\n")
    (lost / "METADATA").unlink()
    site.add("other", "not an entry point file\x00\n[broken")
    site.add("amanda-typo", "[amanda.backend]\nx = amanda_typo:x\n")
    host = site.host()
    infos = {info.dist: info for info in host.plugins()}
    assert infos["amanda-good"].state == "found"
    assert infos["amanda-torn"].why == (
        "its entry_points.txt has 'no equals sign' in line 2, "
        "not name = module:attribute"
    )
    assert infos["amanda-torn"].entries[0].name == "kept"
    assert "amanda-bytes" in infos
    assert infos["amanda-bytes"].why.startswith("its entry_points.txt cannot be read")
    assert infos["amanda-lost"].why.endswith(
        "its METADATA is missing or unreadable; reinstall it"
    )
    assert (
        "there is no group 'amanda.backend'; the groups are" in infos["amanda-typo"].why
    )
    assert "other" not in infos
    assert host.get("backends", "fast").name == "fast"
    text = told(lambda: host.get("passes", "lost"), PluginBrokenError)
    assert "its METADATA is missing or unreadable; reinstall it" in text


def test_the_first_of_a_name_on_the_path_counts(site, tmp_path, monkeypatch):
    site.add("amanda-twice", "[amanda.passes]\nold = amanda_twice:f\n")
    other = tmp_path / "other"
    info = other / "Amanda_Twice-2.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: amanda-twice\nVersion: 2"
    )
    monkeypatch.syspath_prepend(str(other))
    assert "old" not in site.host().names("passes")


def test_entry_points_by_hand():
    points = [
        EntryPoint("upper", "amanda.host._kinds:kind_of", "amanda.passes"),
        EntryPoint("main", "amanda.cli:main", "console_scripts"),
    ]
    host = Host(points)
    assert [entry.name for entry in host.entries()] == ["upper"]
    assert host.get("passes", "upper")("amanda.passes") == "passes"


def test_a_value_that_is_no_target_is_told():
    host = Host([EntryPoint("odd", "not a module!", "amanda.passes")])
    assert host.names("passes") == ["odd"]
    text = told(lambda: host.get("passes", "odd"))
    assert "its entry point 'not a module!' is not module:attribute" in text


def test_refresh_finds_what_was_installed_meanwhile(site):
    host = Host(only="none, amanda-late, amanda-early")
    assert "late" not in host.names("passes")
    site.add("amanda-late", "[amanda.passes]\nlate = amanda_late:f\n", "f = len")
    assert "late" not in host.names("passes")
    host.refresh()
    assert host.get("passes", "late") is len


# Choosing


def test_what_is_missing_is_told_with_what_is_there(site):
    site.add("amanda-a", FAST.format(module="amanda_a"), BACKEND)
    site.add("amanda-b", "[amanda.formats]\nonyx = amanda_b:f\n")
    host = site.host()
    assert told(lambda: host.get("backends", "fats")) == (
        "no backend 'fats' is installed\n"
        "  expected: one of fast\n"
        "  to do:    did you mean 'fast'?"
    )
    assert told(lambda: host.get("backends", "onyx")).endswith(
        "to do:    'onyx' is installed as a format only"
    )
    assert told(lambda: host.get("mappings", "torch")) == (
        "no mapping 'torch' is installed\n"
        "  to do:    `amanda plugins` lists what is installed"
    )
    assert told(lambda: host.get("mappings", "?!")).endswith(
        "`amanda plugins` lists what is installed"
    )


def test_an_unknown_kind_is_told():
    text = told(lambda: Host(()).names("backend"), UsageError)
    assert text.startswith("there is no kind of plug-in 'backend'")
    assert all(kind in text for kind in KINDS)


def test_one_distribution_can_clash_with_itself():
    points = [EntryPoint("x", "a:b", "amanda.passes")] * 2
    text = told(lambda: Host(points).get("passes", "x"), PluginClashError)
    assert text == (
        "pass 'x' is claimed by unknown, twice\n  to do:    report this to unknown"
    )


@pytest.mark.parametrize(
    ("code", "got"),
    [
        ("class Halt(BaseException): pass\nraise Halt('now')", "Halt: now"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("import amanda_x", "AttributeError: "),
        ("def f(:", "SyntaxError: "),
        ("class E(Exception):\n  __str__ = None\nraise E", "E"),
        ("from amanda.errors import AmandaError\nraise AmandaError('so')", "so"),
    ],
)
def test_whatever_an_import_raises_is_a_fault_of_the_entry(site, code, got):
    site.add("amanda-x", "[amanda.passes]\nx = amanda_x:f\n", code)
    host = site.host()
    text = told(lambda: host.get("passes", "x"), PluginBrokenError)
    assert f"  got:      does not load: {got}" in text or f": {got}" in text
    assert "  where:    amanda_x:f" in text


def test_an_interrupt_is_nobodys_fault(site):
    site.add("amanda-x", "[amanda.passes]\nx = amanda_x:f\n", "raise KeyboardInterrupt")
    host = site.host()
    with pytest.raises(KeyboardInterrupt):
        host.get("passes", "x")
    assert host.find("passes", "x").state == "found"


def test_threads_import_once(site):
    code = "import time\ntime.sleep(0.05)\nmade = []\nclass Backend:\n" + "".join(
        f"    {line}\n" for line in BACKEND.strip().splitlines()[1:]
    )
    code += "    def __init__(self): made.append(1)\n"
    site.add(
        "amanda-x", FAST.format(module="amanda_x"), code.replace("        ", "    ")
    )
    host = site.host()
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(host.get("backends", "fast")))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len({id(each) for each in found}) == 1


def test_plugins_that_load_each_other_do_not_wait_for_ever(site):
    for one, other in (("a", "b"), ("b", "a")):
        site.add(
            f"amanda-{one}",
            f"[amanda.passes]\n{one} = amanda_{one}:f\n",
            f"""
            import time
            time.sleep(0.05)
            f = len
            from amanda.host import default_host
            import amanda_{other}
            """,
        )
    host = site.host()
    threads = [threading.Thread(target=host.get, args=("passes", n)) for n in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads)


# Registering


class Backend:
    name = "mine"
    namespace = "some/thing/1"

    def devices(self):
        return ["cpu"]

    def takes(self, op):
        return True

    def compile(self, graph, device, options):
        return lambda feeds, out=None: list(feeds.values())


def test_a_program_registers_its_own():
    host, other = Host(()), Host(())
    host.register_backend("mine", Backend, manifest={"doc": "My own"})
    assert isinstance(host.get("backends", "mine"), Backend)
    entry = host.find("backends", "mine")
    assert (entry.dist, entry.state, entry.manifest["doc"]) == (
        "program",
        "loaded",
        "My own",
    )
    assert repr(entry) == "<backend 'mine' of this program: loaded>"
    assert other.names("backends") == []
    assert host.probe("program").state == "loaded"
    host.unregister("backends", "mine")
    assert host.names("backends") == []
    text = told(lambda: host.unregister("backends", "mine"), PluginMissingError)
    assert text == "no backend 'mine' is registered"


def test_registering_twice_is_refused_unless_it_replaces():
    host = Host(())
    host.register_pass("p", len)
    text = told(lambda: host.register_pass("p", max), PluginClashError)
    assert text == (
        "pass 'p' is registered already\n"
        "  to do:    unregister it first, or pass replace=True"
    )
    host.register_pass("p", max, replace=True)
    assert host.get("passes", "p") is max


def test_registering_what_is_installed_is_a_clash_when_asked_for(site):
    site.add("amanda-a", "[amanda.passes]\np = amanda_a:f\n", "f = len")
    host = site.host()
    host.register_pass("p", max)
    text = told(lambda: host.get("passes", "p"), PluginClashError)
    assert "is claimed by amanda-a and program" in text
    assert host.get("passes", "program:p") is max
    assert host.get("passes", "amanda-a:p") is len


@pytest.mark.parametrize(
    ("kind", "thing", "options", "words"),
    [
        ("backends", object(), {}, "got:      has no name, no namespace, no devices()"),
        ("formats", object(), {}, "has neither read() nor write()"),
        ("hooks", lambda colour: 1, {}, "takes (colour), but h gives by name"),
        ("passes", len, {"manifest": {"dok": "x"}}, "'dok' is not a field"),
        ("mappings", len, {}, "has no 'from'"),
    ],
)
def test_what_does_not_fit_is_refused_at_once(kind, thing, options, words):
    name = "after_save" if kind == "hooks" else "h"
    with pytest.raises((PluginBrokenError, UsageError)) as caught:
        Host(()).register(kind, name, thing, **options)
    assert words.replace(" h ", f" {name} ") in str(caught.value)


def test_a_class_that_wants_arguments_is_refused():
    class Greedy(Backend):
        def __init__(self, size):
            pass

    text = told(lambda: Host(()).register_backend("g", Greedy), UsageError)
    assert text.startswith("backend 'g' cannot be created from its class")


def test_there_is_a_way_to_register_each_kind():
    for row in KINDS.values():
        name = row.one.replace(" ", "_")
        assert callable(getattr(Host, f"register_{name}"))


def test_the_default_host_is_made_once():
    assert default_host() is default_host()


def test_making_a_host_reads_nothing(monkeypatch):
    import importlib_metadata

    monkeypatch.setattr(importlib_metadata, "distributions", None)
    host = Host()
    with pytest.raises(TypeError):  # what a read would meet
        host.names("backends")


def test_incompatible_comes_before_import(site):
    site.add(
        "amanda-new",
        FAST.format(module="amanda_new"),
        "1/0",
        needs="Amanda_Core (>=99)",
    )
    host = site.host()
    entry = host.find("backends", "fast")
    assert entry.state == "incompatible"
    assert "amanda_new" not in sys.modules
    text = told(lambda: host.get("backends", "fast"), PluginIncompatibleError)
    assert "made for amanda-core >=99; this is 0.1.0" in text
