"""Wrong kinds of arguments, for every public function, constructor and method.

Nothing but an AmandaError may be raised, an argument that the annotation excludes is
refused, and the graph stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import pytest
from argument_kinds import Place, World, faults_of, places

import amanda
from amanda.argument_checks import check_member
from amanda.errors import AmandaError

ROOT = Path(__file__).resolve().parent.parent.parent
FACES = (
    "amanda",
    "amanda.backend",
    "amanda.dictionary",
    "amanda.files",
    "amanda.frontend",
    "amanda.graph",
    "amanda.host",
    "amanda.mapping",
    "amanda.passes",
    "amanda.session",
    "amanda.tensors",
    "amanda.types",
)
"""Modules whose `__all__` is checked. Of the other faces, `amanda.errors` has errors,
`amanda.cli` and `amanda.testing` are called by click and pytest, and `amanda.formatkit`
is called for each field of a file: with checks, an ONNX file of 30,000 ops is written
in 0.12 s instead of 0.076 s, and read in 0.23 s instead of 0.18 s."""
DEVELOPMENT = (
    "amanda_dictionaries_dev",
    "amanda_onnx_conformance",
    "amanda_tf_conformance",
    "amanda_torch_conformance",
)
"""Scripts of this repository, which are called by their own verbs only."""
PLUGIN_FACES = (
    "amanda_std",
    "amanda_std.backends",
    "amanda_std.mappings",
    "amanda_std.passes",
    *sorted(
        init.parent.name
        for init in ROOT.glob("plugins/[!_]*/src/*/__init__.py")
        if "__all__" in init.read_text("utf-8")
        and init.parent.name not in ("amanda_std", *DEVELOPMENT)
    ),
)
OF_EACH_OP = "the library calls it for each op it adds; users call the op itself"
OF_EACH_MAPPED_OP = (
    "mapping functions call it for each op, with the values that they are given"
)
EXEMPT = {
    **{
        f"amanda_std.mappings.{name}": OF_EACH_MAPPED_OP
        for name in (
            "cast_to",
            "dft_by_matrices",
            "expect",
            "gradient_of",
            "gradients_of",
            "known_content",
            "known_or_value",
            "known_scalar",
            "rank_of",
            "required_content",
            "required_integer",
            "loop_as_while",
            "philox_by_arithmetic",
            "scalar_like",
            "scan_as_while",
            "static_value",
            "tensor_type_of",
            "threefry_by_arithmetic",
        )
    },
    **{
        f"{face}.Operation.{name}": OF_EACH_OP
        for face in ("amanda_std", "amanda_std.backends", "amanda_std.mappings")
        for name in ("bind", "implementation", "normal", "run", "trace", "types")
    },
    "amanda.files.MappedFile.map": "its file is one that `open` opened",
    "amanda.files.MappedFile.open": "it raises OSError, as documented, which the "
    "callers convert to an error that names the file",
    "amanda_std.backends.replace_nan": "a kernel, as run_branch",
    "amanda_std.backends.run_branch": "a kernel: it is called in each run, with what "
    "the types of the graph guarantee",
    **dict.fromkeys(
        ["amanda_std.backends.StepRunner.bind_kernel",
         "amanda_std.backends.StepRunner.unscheduled_step"],
        "for subclasses to override: the constructor calls it, while the slots of "
        "values are known",
    ),
}  # fmt: skip
HUB = all(find_spec(name) for name in ("amanda_std", "amanda_onnx"))


def all_places() -> list[Place]:
    plugins = [face for face in PLUGIN_FACES if find_spec(face.partition(".")[0])]
    return list(places(*FACES, *plugins))


@pytest.fixture(scope="module", autouse=True)
def own_host() -> Iterator[None]:
    """A host that other modules do not use: some of the calls register plug-ins."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("amanda.host._default", amanda.Host())
        yield


@pytest.mark.parametrize("place", all_places(), ids=lambda place: place.label)
def test_wrong_kinds(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if place.label in EXEMPT:
        pytest.skip(EXEMPT[place.label])
    monkeypatch.chdir(tmp_path)
    if place.get(World()) is None:
        assert not HUB, f"no instance of {place.owner} is made here"
        pytest.skip("an instance needs the plug-ins amanda-std and amanda-onnx")
    faults = list(faults_of(place))
    assert not faults, "\n".join(faults)


def test_what_may_be_given_instead() -> None:
    """Types as text, arrays as constants, and objects that stand for a value."""

    class Traced:
        def __init__(self, port: amanda.OutputPort) -> None:
            self.port = port

    graph = amanda.Graph("amanda/std/1")
    x = graph.parameter("float32[3]", "x")
    assert x.type == amanda.TensorType("float32", [3])
    x.type = "float32[n]"
    assert str(x.type) == "float32[n]"
    with pytest.raises(
        amanda.errors.InvalidTypeError, match=r"a scalar is 'float32\[\]'"
    ):
        graph.parameter("float32")
    assert str(amanda.SequenceType("float32[n]")) == "sequence<float32[n]>"
    constant = graph.constant(np.arange(3, dtype="int64"))
    assert str(constant.output.type) == "int64[3]"
    before = len(graph)
    with pytest.raises(AmandaError):
        graph.constant(object())
    assert len(graph) == before
    op = graph.add("negative", [Traced(x)])
    assert op.inputs == (x,)
    other = graph.add("abs", [x])
    op.input_ports[0].connect(Traced(other.output))
    assert graph.upstream(Traced(op.output)) == [other, op]
    graph.result(Traced(op.output), "y")
    graph.replace(other, [Traced(x)])
    assert graph.results == (op.output,)
    assert op.inputs == (x,)
    assert graph.check() == []


def test_names_of_parameters_are_unique() -> None:
    graph = amanda.Graph()
    graph.parameter(name="x")
    y = graph.parameter(name="y")
    for give in (lambda: graph.parameter(name="x"), lambda: setattr(y, "name", "x")):
        with pytest.raises(
            amanda.errors.DuplicateNameError, match="parameter named 'x'"
        ):
            give()
    assert [p.name for p in graph.parameters] == ["x", "y"]
    y.name = "z"
    graph.parameter(name="y")
    graph.remove_parameter(0)
    graph.parameter(name="x")
    assert [p.name for p in graph.clone().parameters] == ["z", "y", "x"]


def test_a_message_says_all() -> None:
    graph = amanda.Graph()
    with pytest.raises(amanda.errors.UsageError) as caught:
        graph.parameter(5)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "Graph.parameter does not take this argument\n"
        "  where:    argument 'type'\n"
        "  expected: Type or str or None\n"
        "  got:      int 5"
    )
    with pytest.raises(amanda.errors.UsageError) as caught:
        amanda.run("model.onnx", {})  # type: ignore[arg-type]
    assert caught.value.hint == "amanda.load reads a graph from a file or a live object"
    with pytest.raises(amanda.errors.UsageError) as caught:
        graph.upstream([graph])  # type: ignore[arg-type]
    assert caught.value.expected == "Op or OutputPort or TracedValue"


NamedSide = Literal["in", "out"]


class NamedEnd(NamedTuple):
    side: NamedSide


def test_annotations_of_named_tuples_are_those_of_their_module() -> None:
    """Not what another module of ours has by the same name, and not nothing."""
    check_member(NamedEnd)
    assert NamedEnd("in").side == "in"
    with pytest.raises(AmandaError, match="NamedEnd does not take this argument"):
        NamedEnd(1)  # type: ignore[arg-type]


def test_unchecked_functions_are_called_as_they_are() -> None:
    """The inner loop of conversions calls functions without their checks."""
    from amanda.argument_checks import without_checks
    from amanda.mapping import PlainSide

    class Own(PlainSide):
        def signature(self, type: str, /) -> None:
            raise KeyError(type)

    side = PlainSide("mine", lambda type: None)
    with pytest.raises(amanda.errors.UsageError):
        side.signature(3)  # type: ignore[arg-type]
    assert without_checks(side.signature)(3) is None  # type: ignore[arg-type]
    with pytest.raises(KeyError):
        without_checks(Own("mine", lambda _: None).signature)("x")
    assert without_checks(len) is len
    add = amanda.Graph.add
    assert without_checks(add) is getattr(add, "__wrapped__", add)
