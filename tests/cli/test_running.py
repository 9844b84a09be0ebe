"""`run`, `compare` and `backends`, on backends that the test registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import amanda
from amanda.errors import BackendError
from amanda.graph import Graph, Op

if TYPE_CHECKING:
    from tests.cli.conftest import Call

NAMESPACE = "toy/sum/1"


class Summing:
    """x + y on numpy; a shifted one is wrong by so much."""

    namespace = NAMESPACE

    def __init__(self, name: str, shift: float = 0.0) -> None:
        self.name = name
        self._shift = shift

    def devices(self) -> Sequence[str]:
        return ["cpu"]

    def takes(self, op: Op) -> Any:
        return op.type == "add" or f"no kernel for {op.type}"

    def compile(self, graph: Graph, device: str | None, options: Mapping[str, Any]):
        del graph, device
        if options:
            raise BackendError(f"told {dict(options)}")

        def run(feeds: Mapping[Any, Any], out: object = None) -> list[Any]:
            x, y = feeds.values()
            return [x + y + np.float32(self._shift)]

        return run


@pytest.fixture
def toys(host: amanda.Host) -> amanda.Host:
    from amanda.files.text.formats import YamlFormat

    host.register_format("yaml", YamlFormat(), manifest={"suffixes": [".yaml"]})
    manifest = {"namespace": NAMESPACE, "devices": ["cpu"]}
    for name, shift in (("exact", 0.0), ("same", 0.0), ("shifted", 0.5)):
        host.register_backend(name, Summing(name, shift), manifest=manifest)
    return host


@pytest.fixture
def sums(tmp_path: Path, toys: amanda.Host) -> Path:
    graph = Graph(NAMESPACE)
    kind = amanda.parse_type("float32[n, 2]")
    x, y = graph.parameter(kind, "x"), graph.parameter(kind, "y")
    total = graph.add("add", [x, y], name="total").output
    graph.result(total, "z")
    file = tmp_path / "sums.yaml"
    amanda.save(graph, file)
    return file


def test_run_on_files(call: Call, sums: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.float32([[1, 2]]))
    np.savez(tmp_path / "rest.npz", y=np.float32([[10, 20]]))
    out = tmp_path / "out.npz"
    ended = call("run", sums, "--backend", "exact", "--feed", f"x={tmp_path}/x.npy",
                 "--feed", tmp_path / "rest.npz", "--save", out)  # fmt: skip
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "result  type           values\nz       float32[1, 2]  11 22\n"
    assert np.load(out)["z"].tolist() == [[11.0, 22.0]]


def test_run_on_random_values_is_the_same_for_a_seed(call: Call, sums: Path) -> None:
    told = [
        call("run", sums, "--backend", "exact", "--random", 7, "--dim", "n=3", "--json")
        for _ in range(2)
    ]
    assert told[0] == told[1]
    assert told[0].json["results"]["z"]["type"] == "float32[3, 2]"
    other = call("run", sums, "--backend", "exact", "--random", 8, "--json")
    assert other.json["results"] != told[0].json["results"]


def test_options_reach_the_backend(call: Call, sums: Path) -> None:
    """Numbers and truth values as these; what is in a text is the backend's to read."""
    ended = call("run", sums, "--backend", "exact", "--random", 1, "--distributed",
                 "--option", "depth=-3", "--option", "fast=True",
                 "--option", "mesh=data=4,model=2")  # fmt: skip
    told = "{'depth': -3, 'fast': True, 'mesh': 'data=4,model=2', 'distributed': True}"
    assert ended.code == 4
    assert f"told {told}" in ended.err


TWICE = """\
amanda run: invalid --option 'a': it is given twice
  where:    --option a=2
  expected: each option once for a backend
  got:      --option a=1 before it
"""


def test_options_that_cannot_be_read(call: Call, sums: Path) -> None:
    for wrong, why in (
        ("feeds=1", "'feeds': it is not an option\n  where:    --option feeds=1"),
        ("fast", "NAME=VALUE\n  where:    --option fast\n"),
        ("=1", "NAME=VALUE\n  where:    --option =1\n"),
        ("fast=", "NAME=VALUE\n  where:    --option fast=\n"),
    ):
        ended = call("run", sums, "--backend", "exact", "--random", 1,
                     "--option", wrong)  # fmt: skip
        assert ended.code == 2
        assert why in ended.err
    twice = ("--option", "a=1", "--option", "a=2")
    ended = call("run", sums, "--backend", "exact", "--random", 1, *twice)
    assert ended == (2, "", TWICE)


UNFED = """\
amanda run: there is no feed for x, y
  to do:    --feed NAME=FILE.npy for each, or --random SEED for random values
"""
UNKNOWN = """\
amanda run: the model has no input 'q'
  expected: one of x, y
"""


def test_what_run_cannot_do(call: Call, sums: Path, tmp_path: Path) -> None:
    assert call("run", sums, "--backend", "exact") == (2, "", UNFED)
    np.save(tmp_path / "q.npy", np.zeros(1))
    feed = ("--feed", f"q={tmp_path}/q.npy")
    assert call("run", sums, "--backend", "exact", *feed) == (2, "", UNKNOWN)
    gone = call("run", sums, "--backend", "exact", "--feed", f"x={tmp_path}/no.npy")
    assert (gone.code, gone.err.splitlines()[0]) == (
        1,
        "amanda run: there is no such file",
    )
    (tmp_path / "bad.npy").write_bytes(b"not an array")
    bad = call("run", sums, "--backend", "exact", "--feed", f"x={tmp_path}/bad.npy")
    assert "this file has no plain arrays" in bad.err
    twisted = call("run", sums, "--backend", "exact", "--random", 1, "--dim", "n")
    assert "--dim takes NAME=VALUE" in twisted.err
    assert call("run", sums, "--backend", "nowhere", "--random", 1).code == 3


def test_no_pickles_are_fed(call: Call, sums: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    ended = call("run", sums, "--backend", "exact", "--feed", f"x={tmp_path}/x.npy")
    assert ended.code == 1
    assert "this file has no plain arrays" in ended.err


def test_compare(call: Call, sums: Path) -> None:
    ended = call("compare", sums, "--backend", "exact", "--backend", "same",
                 "--random", 1)  # fmt: skip
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == (
        "compared with exact\n"
        "compared  result  verdict  max abs  max rel  SNR dB  cosine  ulp\n"
        "same      z       equal    0        0        inf     1       0\n"
    )
    ended = call("compare", sums, "--backend", "exact", "--backend", "shifted",
                 "--random", 1, "--json")  # fmt: skip
    assert ended.code == 5
    assert ended.json["results"][0]["equal"] is False
    assert ended.json["results"][0]["largest"] == pytest.approx(0.5)
    alone = call("compare", sums, "--backend", "exact", "--random", 1)
    assert (alone.code, alone.err.splitlines()[0]) == (
        2,
        "amanda compare: there is nothing to compare with",
    )


class Shifting(Summing):
    """A backend that is as wrong as it is told to be, and notes where it ran."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.runs: list[str | None] = []

    def compile(self, graph: Graph, device: str | None, options: Mapping[str, Any]):
        if unknown := set(options) - {"shift", "mode"}:
            raise BackendError(f"{self.name} knows no option {min(unknown)!r}")
        run = Summing("", options.get("shift", 0)).compile(graph, device, {})

        def noted(feeds: Mapping[Any, Any], out: object = None) -> list[Any]:
            self.runs.append(device)
            return run(feeds, out)

        return noted


@pytest.fixture
def shifting(toys: amanda.Host) -> Shifting:
    made = Shifting("shifting")
    manifest = {"namespace": NAMESPACE, "devices": ["cpu", "gpu"]}
    toys.register_backend("shifting", made, manifest=manifest)
    return made


def shifts(call: Call, file: Path, backends: str, *options: str) -> list[float]:
    """How far each backend is from the first, told these options."""
    named = [part for name in backends.split() for part in ("--backend", name)]
    told = [part for option in options for part in ("--option", option)]
    ended = call("compare", file, *named, *told, "--random", 1, "--json")
    assert ended.code == (5 if any(r["largest"] for r in ended.json["results"]) else 0)
    return [round(r["largest"], 3) for r in ended.json["results"]]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ([], [0, 0, 0]),
        (["shifting.shift=2"], [2, 2, 2]),
        (["shifting:gpu.shift=2"], [0, 2, 0]),
        (["4.shift=2"], [0, 0, 2]),
        (["2.shift=1", "shifting:gpu.shift=-3", "4.shift=2"], [1, 3, 2]),
        (["shifting.mode=a=b.c", "4.shift=2"], [0, 0, 2]),
    ],
)
@pytest.mark.usefixtures("shifting")
def test_options_of_what_is_compared(
    call: Call, sums: Path, options: list[str], found: list[float]
) -> None:
    backends = "exact shifting shifting:gpu shifting"
    assert shifts(call, sums, backends, *options) == found


@pytest.mark.usefixtures("shifting")
def test_options_for_all_that_is_compared(call: Call, sums: Path) -> None:
    backends = "shifting shifting:gpu"
    assert shifts(call, sums, backends, "shift=2") == [0]
    assert shifts(call, sums, backends, "mode=deep", "2.shift=2") == [2]


def test_a_backend_told_otherwise_is_told_apart(
    call: Call, sums: Path, shifting: Shifting
) -> None:
    ended = call("compare", sums, *("--backend", "shifting") * 3, "--random", 1,
                 "--option", "2.mode=deep", "--option", "3.shift=1")  # fmt: skip
    assert [line.split("  ")[0].partition(", z")[0] for line in
            ended.out.splitlines()] == [
        "compared with shifting",
        "compared",
        "shifting (mode=deep)",
        "shifting (shift=1)",
        "shifting (shift=1)",
    ]  # fmt: skip
    told = call("compare", sums, *("--backend", "shifting") * 2, "--random", 1,
                "--option", "1.shift=1", "--json").json  # fmt: skip
    assert told["reference_options"] == {"shift": 1}
    assert (told["results"][0]["backend"], told["results"][0]["options"]) == (
        "shifting",
        {},
    )
    assert shifting.runs == [None] * 5


STRANGER = """\
amanda compare: no backend that is compared is meant by an option
  where:    --option shiftin.shift=1
  expected: one of exact, shifting:gpu, or its place, 1 to 2
  got:      shiftin
  to do:    did you mean 'shifting:gpu'?
"""
TOLD_TWICE = """\
amanda compare: invalid --option 'shift': it is given twice for shifting:gpu
  where:    --option 2.shift=2
  expected: each option once for a backend
  got:      --option shifting.shift=1 before it
"""
UNREAD = """\
amanda compare: --option takes NAME=VALUE
  where:    --option shifting.=1
  expected: NAME=VALUE, or BACKEND.NAME=VALUE
  got:      shifting.=1
"""
REFUSED = """\
amanda compare: shifting knows no option 'shfit'
  who:      backend shifting:gpu (shfit=1)
"""


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (["shiftin.shift=1"], 2, STRANGER),
        (["shifting.shift=1", "2.shift=2"], 2, TOLD_TWICE),
        (["shifting.=1"], 2, UNREAD),
        (["2.shfit=1"], 4, REFUSED),
        (["3.shift=1"], 2, "or its place, 1 to 2\n  got:      3\n"),
        ([".shift=1"], 2, "got:      nothing before the dot\n"),
        (["2.feeds=1"], 2, "invalid --option 'feeds': it is not an option\n"),
    ],
)
def test_options_that_compare_refuses(
    call: Call, sums: Path, shifting: Shifting,
    options: list[str], code: int, told: str,
) -> None:  # fmt: skip
    given = [part for option in options for part in ("--option", option)]
    ended = call("compare", sums, "--backend", "exact", "--backend", "shifting:gpu",
                 "--random", 1, *given)  # fmt: skip
    assert (ended.code, ended.out) == (code, "")
    assert ended.err == told if told.startswith("amanda") else told in ended.err
    assert shifting.runs == []


@pytest.mark.usefixtures("shifting")
def test_no_backend_runs_before_all_options_are_taken(call: Call, sums: Path) -> None:
    ran = Shifting("ran")
    amanda.default_host().register_backend(
        "ran", ran, manifest={"namespace": NAMESPACE, "devices": ["cpu"]}
    )
    ended = call("compare", sums, "--backend", "ran", "--backend", "shifting",
                 "--random", 1, "--option", "shifting.depth=1")  # fmt: skip
    assert (ended.code, ran.runs) == (4, [])


def test_devices_that_are_not_here(call: Call, toys: amanda.Host) -> None:
    class Far(Summing):
        def states(self) -> list[Any]:
            rows = (("cpu", "usable", ""), ("moon", "absent", "fly there"))
            return [SimpleNamespace(name=n, state=s, reason=r) for n, s, r in rows]

    toys.register_backend("far", Far("far"), manifest={"namespace": NAMESPACE})
    lines = call("backends", "--load").out.splitlines()
    assert lines[-2:] == ["far:cpu: usable", "far:moon: absent, fly there"]
    found = call("backends", "--load", "--json").json["backends"]
    [far] = [b for b in found if b["name"] == "far"]
    moon = {"name": "moon", "state": "absent", "reason": "fly there"}
    assert far["states"][1] == moon


def test_backends(call: Call, toys: amanda.Host) -> None:
    ended = call("backends")
    assert ended.code == 0
    lines = [line.split() for line in ended.out.splitlines()]
    assert lines[0] == ["backend", "state", "consumes", "devices", "from"]
    assert [line[0] for line in lines[1:]] == ["exact", "same", "shifted"]
    assert lines[1][2:4] == [NAMESPACE, "cpu"]
    loaded = call("backends", "--load", "--json").json["backends"]
    assert [b["devices"] for b in loaded] == [["cpu"]] * 3
    assert [b["states"] for b in loaded] == [[]] * 3
    for name in ("exact", "same", "shifted"):
        toys.unregister("backends", name)
    assert (
        call("backends").out
        == "no backend is installed; install a plug-in that has one\n"
    )


class Negating:
    """Takes `negate` only."""

    name = "few"
    namespace = NAMESPACE

    def devices(self) -> Sequence[str]:
        return ["cpu"]

    def takes(self, op: Op) -> Any:
        return op.type == "negate" or f"no kernel for {op.type}"

    def compile(self, graph: Graph, device: str | None, options: Mapping[str, Any]):
        return lambda feeds, out=None: [-x for x in feeds.values()]


@pytest.fixture
def mixed(tmp_path: Path, toys: amanda.Host) -> Path:
    toys.register_backend("few", Negating(), manifest={"namespace": NAMESPACE})
    graph = Graph(NAMESPACE)
    kind = amanda.parse_type("float32[2]")
    x, y = graph.parameter(kind, "x"), graph.parameter(kind, "y")
    total = graph.add("add", [x, y], name="total").output
    graph.result(graph.add("negate", [total], name="minus").output, "z")
    file = tmp_path / "mixed.yaml"
    amanda.save(graph, file)
    return file


def test_run_with_a_fallback(call: Call, mixed: Path) -> None:
    few = ("run", mixed, "--backend", "few", "--random", 0)
    refused = call(*few)
    assert refused.code == 4
    assert "name a fallback that runs them: exact or same or shifted" in refused.err
    ended = call(*few, "--fallback", "shifted", "--fallback", "exact")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.splitlines()[-4:] == [
        "on shifted: add 'total'",
        "  few: add 'total': no kernel for add",
        "on few: negate 'minus'",
        "total:0 from shifted to few, 8 bytes so far",
    ]
    told = call(*few, "--fallback", "exact", "--json").json
    assert [piece["backend"] for piece in told["placement"]] == ["exact", "few"]
    assert call("run", mixed, "--option", "fallback=exact", "--random", 0).code == 2


def test_compare_with_a_fallback(call: Call, mixed: Path) -> None:
    verb = ("compare", mixed, "--backend", "few", "--backend", "few", "--random", 0)
    assert call(*verb).code == 4
    assert call(*verb, "--fallback", "exact").code == 0


def renamed_sums(folder: Path, *names: str, dtype: str = "float32") -> Path:
    """`sums` with other names, or another element type of the second input."""
    graph = Graph(NAMESPACE)
    x = graph.parameter(amanda.parse_type("float32[n, 2]"), names[0])
    y = graph.parameter(amanda.parse_type(f"{dtype}[n, 2]"), names[1])
    graph.result(graph.add("add", [x, y], name="total").output, names[2])
    file = folder / "renamed.yaml"
    amanda.save(graph, file)
    return file


def test_two_files_with_other_names(call: Call, sums: Path, tmp_path: Path) -> None:
    other = renamed_sums(tmp_path, "p", "q", "r")
    ended = call("compare", sums, other, "--backend", "exact", "--random", 1)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == (
        f"compared with {sums}\n"
        f"compared{' ' * (len(str(other)) - 8)}  result  verdict  max abs  max rel  "
        "SNR dB  cosine  ulp\n"
        f"{other}  r       equal    0        0        inf     1       0\n"
    )
    each = call("compare", sums, other, "--backend", "exact", "--backend", "shifted",
                "--random", 1, "--json")  # fmt: skip
    assert each.code == 5
    (row,) = each.json["results"]
    assert (row["result"], row["wanted"], row["backend"]) == ("r", "z", "shifted")
    assert (row["unequal"], row["elements"]) == (2, 2)


def test_stored_outputs(call: Call, sums: Path, tmp_path: Path) -> None:
    feeds, good, bad = (tmp_path / f"{name}.npz" for name in ("in", "good", "bad"))
    x, y = np.float32([[1, 2]]), np.float32([[10, 20]])
    np.savez(feeds, x=x, y=y)
    np.savez(good, z=x + y)
    np.savez(bad, z=x + y + np.float32([[0, 1]]))
    given = ("--backend", "exact", "--feed", feeds)
    ended = call("compare", sums, *given, "--expected", good)
    assert (ended.code, ended.out.splitlines()[0]) == (
        0, f"compared with the outputs in {good}",
    )  # fmt: skip
    ended = call("compare", sums, *given, "--expected", bad)
    assert (ended.code, ended.out.splitlines()[-1]) == (
        5,
        "exact, z: 1 of 2 elements differ, at [0, 1] 22, not 23; max abs 1, "
        "max rel 0.0435, SNR 28.1 dB",
    )
    assert call("compare", sums, *given, "--expected", bad, "--atol", 2).code == 0
    np.save(tmp_path / "alone.npy", x + y)
    alone = call("compare", sums, *given, "--expected", tmp_path / "alone.npy")
    assert alone.code == 0


def test_what_compare_refuses(call: Call, sums: Path, tmp_path: Path) -> None:
    other = renamed_sums(tmp_path, "p", "q", "r", dtype="int64")
    ended = call("compare", sums, other, "--backend", "exact", "--random", 1)
    assert (ended.code, ended.err) == (
        2,
        "amanda compare: the inputs of the models do not correspond by name, order "
        "or type\n"
        "  expected: x: float32[n, 2], y: float32[n, 2]\n"
        "  got:      p: float32[n, 2], q: int64[n, 2]\n"
        "  to do:    rename the inputs of one of them\n",
    )
    three = ("--backend", "exact") * 3
    ended = call("compare", sums, other, *three, "--random", 1)
    assert (ended.code, ended.err.splitlines()[0]) == (
        2, "amanda compare: several files take one backend, or one each",
    )  # fmt: skip
