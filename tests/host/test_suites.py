"""The conformance kit: that it counts, waives and reports, and that it finds faults."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import ClassVar

import pytest

import amanda
from amanda.errors import UsageError
from amanda.graph import Graph
from amanda.host import Host
from amanda.mapping import gap_error
from amanda.testing import (
    BackendSample,
    BackendSuite,
    FormatSuite,
    MappingSample,
    MappingSuite,
    PluginSuite,
    Suite,
    for_each,
    skip,
)

# The frame


class Sums(Suite):
    def cases(self):
        return ["one", "two"]

    def check_passes(self):
        assert self.folder.is_dir()

    def check_fails(self):
        raise ValueError("not yet")

    def check_skips(self):
        skip("not here")

    @for_each("cases")
    def check_each(self, case):
        assert case == "one"


class Waiving(Sums):
    xfails: ClassVar[dict[str, str]] = {
        "fails": "the library cannot, see issue 3",
        "each[two]": "it is odd",
    }


class Needless(Waiving):
    xfails: ClassVar[dict[str, str]] = {**Waiving.xfails, "passes": "it once failed"}


def outcomes(suite) -> dict[str, str]:
    return {check.name: check.outcome for check in suite.run().checks}


def test_every_check_is_told():
    report = Sums.run()
    assert outcomes(Sums) == {
        "passes": "passed",
        "fails": "failed",
        "skips": "skipped",
        "each[one]": "passed",
        "each[two]": "failed",
    }
    assert str(report) == "Sums: 4 checks ran, 2 failed, 1 skipped"
    assert not report.passed
    assert report.checks[1].why == "ValueError: not yet"


def test_a_waiver_is_a_reason_and_is_strict():
    report = Waiving.run()
    assert str(report) == "Waiving: 4 checks ran, 2 waived, 1 skipped"
    assert report.passed
    assert report.checks[1].why == "the library cannot, see issue 3"
    report = Needless.run()
    assert report.checks[0].outcome == "failed"
    assert report.checks[0].why == "passes, so its waiver (it once failed) must go"


def test_faulty_waivers_are_refused():
    with pytest.raises(UsageError) as caught:
        type("Bad", (Sums,), {"xfails": {"pases": "a good reason", "fails": "why"}})
    assert str(caught.value) == (
        "the waivers of Bad are faulty\n"
        "  expected: a reason for each of: passes, fails, skips, each\n"
        "  - 'pases' is no check\n"
        "  - 'fails' has no reason"
    )


def test_nothing_ran_is_not_passed():
    class Nothing(Suite):
        pass

    assert not Nothing.run().passed


def pytest_told(folder: Path, code: str, *options: str) -> str:
    (folder / "test_it.py").write_text(textwrap.dedent(code))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += [*options, "--rootdir", str(folder), str(folder)]
    if "amanda.testing.pytest_plugin" not in _autoloaded():
        command += ["-p", "amanda.testing.pytest_plugin"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _autoloaded() -> set[str]:
    from importlib.metadata import entry_points

    return {point.value for point in entry_points(group="pytest11")}


SUMS = """
    from amanda.testing import Suite, for_each, skip
    class Sums(Suite):
        def cases(self): return ["one", "two"]
        def check_passes(self): pass
        def check_fails(self): raise ValueError("not yet")
        def check_skips(self): skip("not here")
        @for_each("cases")
        def check_each(self, case): assert case == "one"
    class TestWaived(Sums):
        xfails = {"fails": "cannot do it", "each[two]": "it is odd"}
    class TestUnmade(Suite):
        def cases(self): raise ValueError("no cases")
        @for_each("cases")
        def check_each(self, case): pass
        def check_other(self): pass
    class TestNeedless(Sums):
        xfails = {"fails": "cannot do it", "each": "it is odd"}
"""


def test_pytest_runs_each_check_and_tells_how_many(tmp_path):
    told = pytest_told(tmp_path, SUMS)
    assert "TestWaived: 4 checks ran, 2 waived, 1 skipped" in told
    assert "TestNeedless: 4 checks ran, 2 waived, 1 failed, 1 skipped" in told
    assert "passes, so its waiver (it is odd) must go" in told
    assert "TestUnmade: 2 checks ran, 1 failed" in told
    assert "ValueError: no cases" in told
    assert "2 failed, 4 passed, 2 skipped, 4 xfailed" in told


# Backends


class Sound:
    """Takes no op: what goes in comes out."""

    name = "sound"
    namespace = "test/none/1..3"

    def devices(self):
        return ["here"]

    def takes(self, op):
        return f"there is no {op.type}"

    def compile(self, graph, device, options):
        if device not in (None, "here"):
            raise amanda.errors.BackendError(f"no device {device}")

        def call(feeds, out=None):
            place = dict(zip(graph.parameters, feeds.values(), strict=True))
            place.update(
                {op.output: op.attrs["value"].numpy() for op in graph if not op.inputs}
            )
            return self.answer([place[value] for value in graph.results], feeds)

        return call

    def answer(self, results, feeds):
        return results


def suite_of(backend, **fields):
    host = Host(())
    host.register_backend(backend.name, backend)
    fields = {"backend": backend.name, "host": lambda self: host, **fields}
    return type("Suite", (BackendSuite,), fields)


def test_a_sound_backend_passes_every_check():
    report = suite_of(Sound).run()
    assert report.passed, [c for c in report.checks if c.outcome == "failed"]
    assert str(report) == "Suite: 27 checks ran, 1 skipped"


class Forgetful(Sound):
    """Forgets the second result."""

    def answer(self, results, feeds):
        return results[:1]


class Spoiling(Sound):
    """Writes into what it is given."""

    def answer(self, results, feeds):
        results = [result.copy() for result in results]
        for feed in feeds.values():
            feed *= 2
        return results


class Rounding(Sound):
    """Another precision than asked for."""

    def answer(self, results, feeds):
        return [result.astype("float16") for result in results]


class Counting(Sound):
    """Another result each time."""

    count = 0

    def answer(self, results, feeds):
        self.count += 1
        return [result + self.count * 1e-6 for result in results]


class Greedy(Sound):
    """Takes what it does not know."""

    def takes(self, op):
        return True


class Mumbling(Sound):
    """Says no without a reason."""

    def takes(self, op):
        return ""


class Misnamed(Sound):
    name = "misnamed"

    def __init__(self):
        self.name = "other"


class Careless(Sound):
    """Runs anywhere it is told to."""

    def compile(self, graph, device, options):
        return super().compile(graph, None, options)


class Meddling(Sound):
    """Changes the graph that it is given."""

    def compile(self, graph, device, options):
        graph.attrs["seen"] = True
        return super().compile(graph, device, options)


@pytest.mark.parametrize(
    ("backend", "found"),
    [
        (Forgetful, "computes[passed_through]"),
        (Spoiling, "leaves_the_feeds_as_they_were[passed_through]"),
        (Rounding, "computes[weight]"),
        (Counting, "repeats_itself[swapped]"),
        (Greedy, "tells_what_it_does_not_take"),
        (Mumbling, "tells_what_it_does_not_take"),
        (Misnamed, "has_the_protocol"),
        (Careless, "refuses_an_unknown_device"),
        (Meddling, "leaves_the_graph_as_it_was[unnamed]"),
    ],
)
def test_faults_of_a_backend_are_found(backend, found):
    assert outcomes(suite_of(backend))[found] == "failed"


def test_samples_of_a_backend_are_compared():
    def wrong():
        graph = Graph("test/none/2")
        graph.result(graph.parameter(name="x"), "y")
        return BackendSample(graph, [1.0], [2.0])

    found = outcomes(suite_of(Sound, samples=lambda self: {"wrong": wrong}))
    assert found["computes[wrong]"] == "failed"
    assert found["computes[weight]"] == "passed"


# Formats


class Lines:
    """A format for graphs that are nothing but a name."""

    def read(self, source):
        text = source.read_bytes()
        if not text.startswith(b"name ") or not text.endswith(b"\n"):
            raise amanda.errors.FormatError("not such a file", who=source)
        try:
            return Graph("test/lines/1", name=self.named(text[5:-1].decode()))
        except UnicodeDecodeError as error:
            raise amanda.errors.FormatError("not a text", who=source) from error

    def named(self, name):
        return name

    def write(self, graph, path):
        path.write_text(f"name {graph.name}\n")


class Crashing(Lines):
    def named(self, name):
        return name if name.isalpha() else 1 / 0


class Losing(Lines):
    def named(self, name):
        return name.lower()


class Dating(Lines):
    count = 0

    def write(self, graph, path):
        self.count += 1
        path.write_text(f"name {graph.name}{self.count}\n")


class Littering(Lines):
    def write(self, graph, path):
        super().write(graph, path)
        path.with_suffix(".bak").touch()


def format_suite(format):
    host = Host(())
    manifest = {"suffixes": [".lines"], "namespace": "test/lines/1"}
    host.register_format("lines", format, manifest=manifest)
    fields = {
        "format": "lines",
        "host": lambda self: host,
        "samples": lambda self: {"one": lambda: Graph("test/lines/1", name="OneName")},
    }
    return type("Suite", (FormatSuite,), fields)


def test_a_sound_format_passes_every_check():
    report = format_suite(Lines).run()
    assert report.passed, [c for c in report.checks if c.outcome == "failed"]
    assert str(report) == "Suite: 11 checks ran, 1 skipped"


@pytest.mark.parametrize(
    ("format", "found"),
    [
        (Crashing, "survives_damage[one]"),
        (Losing, "gives_back_what_it_was_given[one]"),
        (Dating, "writes_the_same_bytes_every_time[one]"),
        (Littering, "leaves_nothing_else_behind[one]"),
    ],
)
def test_faults_of_a_format_are_found(format, found):
    assert outcomes(format_suite(format))[found] == "failed"


# Mappings


class Loud:
    """Maps ops to their names in capitals."""

    def apply(self, graph, to, *, keep_foreign, gap_met):
        result = graph.clone()
        result.namespace = to
        gaps = []
        for op in result.walk():
            if op.type != "amanda_no_such_op":
                op.type = op.type.upper()
            else:
                gaps.append(amanda.mapping.Gap(op.type, op.label))
        if gaps and not keep_foreign:
            raise gap_error(gaps[: self.told()], graph.namespace, to)
        return result

    def told(self):
        return None


class Hasty(Loud):
    """Stops at the first gap."""

    def told(self):
        return 1


def mapping_suite(mapping):
    def sample(type_="f", namespace="test/quiet/1"):
        graph = Graph(namespace)
        graph.result(graph.add(type_, [graph.parameter(name="x")]).output, "y")
        return graph

    def samples(self):
        expected = sample("F", "test/loud/1")
        return {"one": lambda: MappingSample(sample(), "test/loud", expected)}

    host = Host(())
    manifest = {"from": "test/quiet/1", "to": "test/loud/1"}
    host.register_mapping("loud", mapping, manifest=manifest)
    fields = {"mapping": "loud", "host": lambda self: host, "samples": samples}
    return type("Suite", (MappingSuite,), fields)


def test_a_sound_mapping_passes_every_check():
    report = mapping_suite(Loud).run()
    assert report.passed, [c for c in report.checks if c.outcome == "failed"]
    assert str(report) == "Suite: 9 checks ran"


def test_faults_of_a_mapping_are_found():
    assert outcomes(mapping_suite(Hasty))["tells_every_gap_at_once"] == "failed"


# Distributions


def test_a_sound_distribution_passes_and_faults_are_found(site):
    site.add(
        "amanda-fine",
        "[amanda.formats]\nfine = amanda_fine:Fine\n",
        "class Fine:\n    def read(self, source): pass\n",
        manifest="manifest = 1\n[formats.fine]\nsuffixes = ['.fine']\n",
    )
    (site.folder / "amanda_fine" / "py.typed").touch()
    site.add("amanda-poor", "[amanda.mappings]\npoor = amanda_poor:Poor\n", needs="")
    host = site.host()

    def of(dist):
        fields = {"dist": dist, "host": lambda self: host}
        return outcomes(type("Suite", (PluginSuite,), fields))

    assert set(of("amanda-fine").values()) == {"passed"}
    assert of("amanda-poor") == {
        "has_no_fault": "passed",
        "says_which_core_it_is_for": "failed",
        "is_listed_without_import": "passed",
        "is_typed": "failed",
        "tells_what_it_takes": "failed",
        "loads[mappings/poor]": "failed",
        "is_usable_here": "failed",
    }
