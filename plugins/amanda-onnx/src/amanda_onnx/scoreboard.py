"""`amanda scoreboard onnx`: the ONNX project's own cases, run through the hub set.

Every case is loaded, mapped to what the backend takes, run, and compared strictly: the
number of outputs, their element types, shapes and values, by the case's own tolerances.
With a second data set, what was compiled for the first one is run with it, too. Where a
backend counts what it runs elsewhere, a case of which some op ran there is no pass,
unless a fallback was allowed.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from amanda.cli.group import verb
from amanda.cli.inputs.backend_options import called, option, options_of
from amanda.cli.output.answer import Answer, Table
from amanda.errors import UsageError
from amanda_onnx.second import EXCLUDED, Second, second

__all__ = [
    "KINDS",
    "OUTCOMES",
    "Outcome",
    "cases",
    "command",
    "counted",
    "data",
    "outcome",
]

KINDS: Final = ("node", "simple", "real", "pytorch-converted", "pytorch-operator")
"""The kinds of cases, all of them: what they need is in the onnx package.

The real ones are well-known networks whose weights are made by nodes.
"""

OUTCOMES: Final = {
    "pass": "as it should be",
    "gap": "an op that no rule is for",
    "declined": "an op that its rules or the backend decline, with the reason",
    "drawn": "random numbers: their types and shapes are right, more is not told",
    "excluded": "without a second data set, with the reason",
    "outside": "right, but some op ran outside of what the backend is for",
    "fail": "an error",
    "wrong": "other values, without an error",
}

_NONE: Final = "no rule is for it"
_ANY: Final = 1e300
"""A difference that any number may have, and nan may not."""
_FRESH: Final = 2
"""Roundings of the largest element by which results of fresh inputs may differ: these
may cancel, which those that the suite's tolerances were chosen for do not."""

_DRAWING: Final = frozenset({"Bernoulli", "Multinomial", "RandomNormal",
                             "RandomNormalLike", "RandomUniform",
                             "RandomUniformLike"})  # fmt: skip


class Outcome(NamedTuple):
    """How a case went: one of `OUTCOMES`, and why."""

    case: str
    kind: str
    status: str
    why: str = ""


def cases(
    kinds: Iterable[str] = KINDS, pattern: str | None = None
) -> Iterator[tuple[str, Any]]:
    """Each kind with its cases by name: the suite's order is that of a disk."""
    from onnx.backend.test.loader import load_model_tests

    try:
        wanted = re.compile(pattern or "")
    except re.error as error:
        raise UsageError(
            "this is no pattern",
            who="--match", expected="a regular expression", got=repr(pattern),
            hint=f"{error}; .*x.* fits all names with an x",
        ) from error  # fmt: skip
    for kind in kinds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = load_model_tests(kind=kind)
        for case in sorted(found, key=lambda case: case.name):
            if wanted.search(case.name):
                yield kind, case


def outcome(
    kind: str, case: Any, backend: str = "numpy", *, again: bool = False,
    fallback: str | None = None, options: Mapping[str, Any] | None = None,
) -> Outcome:  # fmt: skip
    """Run one case; `again`, with its second data set too. `fallback`: another backend
    for what this one does not take. `options` are this one's."""
    from amanda.errors import AmandaError, BackendError, ConversionError

    try:
        model = _model(case)
        sets: Iterable[_Set] = (_Set(*each) for each in data(case))
        if again:
            found = _second(kind, case)
            if found.why:
                return Outcome(case.name, kind, "excluded", EXCLUDED[found.why])
            model = found.model
            sets = [*sets, _Set(found.feeds, found.expected, _FRESH)]
        told = {**(options or {}), "fallback": fallback}
        return Outcome(case.name, kind, *_ran(case, model, sets, backend, told))
    except _NotCompiled as failed:
        error = failed.error
        if isinstance(error, ConversionError):
            return Outcome(case.name, kind, *_open(error))
        if isinstance(error, BackendError):
            return Outcome(case.name, kind, "declined", _declined(error))
        return Outcome(case.name, kind, "fail", " ".join(str(error).split()))
    except AmandaError as error:
        return Outcome(case.name, kind, "fail", " ".join(str(error).split()))
    except Exception as error:  # noqa: BLE001 - a bug in any part is one case's failure
        return Outcome(case.name, kind, "fail", f"{type(error).__name__}: {error}")


class _NotCompiled(Exception):
    """What kept a case from being compiled."""

    def __init__(self, error: Any) -> None:
        super().__init__(str(error))
        self.error = error


class _Set(NamedTuple):
    """What goes in and has to come out, up to roundings of the largest element."""

    feeds: Sequence[Any]
    expected: Sequence[Any]
    roundings: int = 0


def _ran(
    case: Any, model: Any, sets: Iterable[_Set], backend: str, told: Mapping[str, Any]
) -> tuple[str, str]:
    """Compiled once, and run with each data set."""
    import amanda
    from amanda.errors import AmandaError

    try:
        graph = amanda.load(model)
        run = amanda.compile(graph, backend, **told)
    except AmandaError as error:
        raise _NotCompiled(error) from error
    names = [p.name for p in graph.parameters]
    for feeds, expected, roundings in sets:
        given = dict(zip(names, map(_array, feeds), strict=False))
        found = list(run(given).values())
        why = _difference(found, expected, case.rtol, case.atol, roundings)
        if why and _draws(graph) and not _difference(found, expected, 0, _ANY):
            return "drawn", why
        if why:
            return "wrong", why
    outside = None if told["fallback"] else _outside(run.executable)
    return ("outside", outside) if outside else ("pass", "")


def _outside(executable: Any) -> str:
    """What a backend that counts it has run elsewhere."""
    report = getattr(executable, "report", None)
    counts = getattr(report(), "outside", None) if report else None
    return ", ".join(str(op).partition(" ")[0] for op in counts or ())


@cache
def _nodes() -> dict[str, Any]:
    return {case.name: case.model for _, case in cases(["node"])}


def _roles(name: str, model: Any) -> Any:
    """The model of one op, where this one has the body of its function instead."""
    return _nodes().get(name.partition("_expanded")[0], model)


def _second(kind: str, case: Any) -> Second:
    """The second data set of a case, by the first of its first."""
    import onnx

    model = _model(case)
    if isinstance(model, Path):
        model = onnx.load(model)
    if kind == "real":
        return Second(model, why="real")
    feeds, expected = next(iter(data(case)))

    def differs(found: Sequence[Any], wanted: Sequence[Any]) -> str | None:
        return _difference(found, wanted, case.rtol, case.atol)

    return second(
        case.name, model, _roles(case.name, model), [_array(f) for f in feeds],
        [_array(e) for e in expected], differs,
    )  # fmt: skip


def counted(outcomes: Iterable[Outcome]) -> dict[str, int]:
    """How many there are of each."""
    counts = Counter(each.status for each in outcomes)
    return {status: counts[status] for status in OUTCOMES}


# -- a case ------------------------------------------------------------------------


def _model(case: Any) -> Any:
    if case.model is not None:
        return case.model
    if case.model_dir is not None:
        return Path(case.model_dir) / "model.onnx"
    import onnx

    # its address begins with the name of the package, in which the file is
    found = Path(onnx.__file__).parent.parent / case.url
    if not found.is_file():
        raise FileNotFoundError(f"the onnx package has no file {case.url}")
    return found


def data(case: Any) -> Iterator[tuple[Sequence[Any], Sequence[Any]]]:
    """What goes into a case and what has to come out, for each time it is run."""
    if case.data_sets is not None:
        yield from case.data_sets
        return
    import onnx

    model = onnx.load(_model(case), load_external_data=False)
    if case.model_dir is None:
        yield _ramped(model, _model(case))
        return
    for folder in sorted(Path(case.model_dir).glob("test_data_set_*")):
        yield tuple(  # type: ignore[misc]
            [
                _read(folder / f"{side}_{i}.pb", info.type)
                for i, info in enumerate(infos)
                if (folder / f"{side}_{i}.pb").exists()
            ]
            for side, infos in (
                ("input", model.graph.input),
                ("output", model.graph.output),
            )
        )


def _ramped(model: Any, path: Path) -> tuple[Sequence[Any], Sequence[Any]]:
    """The inputs that the suite makes itself, from 0 to 1; the outputs it keeps."""
    from onnx.backend.test.runner import Runner

    weights = {each.name for each in model.graph.initializer}
    inputs = [each for each in model.graph.input if each.name not in weights]
    kept = [path.with_name(f"{path.stem}_output_{i}.pb")
            for i in range(len(model.graph.output))]  # fmt: skip
    fed = [Runner.generate_dummy_data(each, name=path.stem) for each in inputs]
    expected = [
        _read(file, info.type)
        for file, info in zip(kept, model.graph.output, strict=True)
    ]
    return fed, expected


def _draws(graph: Any) -> bool:
    """Does it draw random numbers? The standard says of which kind, never which."""
    return any(
        op.type in _DRAWING or (op.type == "Dropout" and len(op.inputs) > 2)
        for op in graph.walk()
    )


def _array(value: Any) -> Any:
    """A tensor of the suite as an array; sequences and what is absent as they are."""
    import onnx
    from onnx import numpy_helper

    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return value


def _read(path: Path, type_: Any) -> Any:
    import onnx
    from onnx import numpy_helper

    raw = path.read_bytes()
    if type_.WhichOneof("value") == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(raw))
    if type_.WhichOneof("value") == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(raw))
    return numpy_helper.to_array(onnx.TensorProto.FromString(raw))


def _declined(error: Any) -> str:
    """Each op that a backend does not take, without its number, and why."""
    rows = [str(problem).partition(": ") for problem in error.problems]
    told = [f"{label.partition(' ')[0]}: {reason}" for label, _, reason in rows]
    return " | ".join(dict.fromkeys(told)) or " ".join(str(error).split())


def _open(error: Any) -> tuple[str, str]:
    """A gap where no rule is for some op; declined where rules are, and say no."""
    gaps = getattr(error, "gaps", ())
    if not gaps:
        return "fail", " ".join(str(error).split())
    rows = [
        (f"{gap.op}: {'; '.join(gap.why) or _NONE}", bool(gap.why) and not gap.foreign)
        for gap in gaps
    ]
    status = "declined" if all(told for _, told in rows) else "gap"
    return status, " | ".join(dict.fromkeys(text for text, _ in rows))


def _difference(
    found: Sequence[Any], expected: Sequence[Any], rtol: float, atol: float,
    roundings: int = 0,
) -> str | None:  # fmt: skip
    if len(found) != len(expected):
        return f"{len(found)} outputs, not {len(expected)}"
    for i, (have, want) in enumerate(zip(found, expected, strict=True)):
        why = _differs(have, want, rtol, atol, roundings)
        if why:
            return f"output {i}: {why}"
    return None


def _differs(
    have: Any, want: Any, rtol: float, atol: float, roundings: int
) -> str | None:
    import numpy as np

    if isinstance(want, list | tuple):
        if not isinstance(have, list | tuple):
            return f"{type(have).__name__}, not a sequence"
        return _difference(have, want, rtol, atol, roundings)
    if want is None or have is None:
        return None if have is want else f"{have}, not {want}"
    have, want = np.asarray(have), np.asarray(_array(want))
    if have.dtype != want.dtype:
        return f"{have.dtype}, not {want.dtype}"
    if have.shape != want.shape:
        return f"shape {have.shape}, not {want.shape}"
    if want.dtype.kind in "OUS":
        return None if (have == want).all() else "other texts"
    if have.dtype.name == "bfloat16":
        rtol = max(rtol, 2**-6)  # two units in the last place, as the suite has it
    wide = "complex128" if want.dtype.kind == "c" else "float64"
    a, b = have.astype(wide), want.astype(wide)
    if roundings:
        atol = max(atol, roundings * _rounding(want))
    close = np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
    if close.all():
        return None
    bad = np.argwhere(~close)
    at = tuple(map(int, bad[0]))
    return f"{len(bad)} of {want.size} elements, at {list(at)} {a[at]}, not {b[at]}"


def _rounding(array: Any) -> float:
    """How far the next number is from the largest that is finite; 0 for integers."""
    import numpy as np
    from ml_dtypes import finfo

    limits: Any = finfo
    try:
        step = float(limits(array.dtype).eps)
    except ValueError:
        return 0.0
    sizes = np.abs(array.astype("complex128")).reshape(-1)
    return step * float(sizes[np.isfinite(sizes)].max(initial=0.0))


# -- the verb ----------------------------------------------------------------------


@verb("scoreboard", "run a framework's own test cases, and count")
@click.argument("suite", type=click.Choice(["onnx"]))
@click.option("--backend", default="numpy", help="What runs the cases.")
@click.option("--fallback", help="What runs ops that the backend does not take.")
@option
@click.option("--kind", "kinds", multiple=True, type=click.Choice(KINDS))
@click.option("--match", "pattern", help="Only cases whose names fit this pattern.")
@click.option("--second", "again", is_flag=True, help="With a second data set, too.")
@click.option("--list", "listed", is_flag=True, help="Name every case that is no pass.")
def command(
    suite: str, *, backend: str, fallback: str | None, options_told: tuple[str, ...],
    kinds: tuple[str, ...], pattern: str | None, again: bool, listed: bool,
) -> Answer:  # fmt: skip
    """Run the cases of SUITE on a backend, through the hub set, and count.

    Exit code 1 says that some case gave other values without an error.
    """
    options = options_of(options_told, own=["fallback"])
    _expect_taken(backend, options)
    found = [
        outcome(kind, case, backend, again=again, fallback=fallback, options=options)
        for kind, case in cases(kinds or KINDS, pattern)
    ]
    counts = counted(found)
    rows = [(counts[each], each, told) for each, told in OUTCOMES.items()]
    table = Table(("cases", "outcome", "meaning"), rows)
    where = called(backend, options) + (f", else {fallback}" if fallback else "")
    text: list[str | Table] = [table, f"{len(found)} cases of {suite} on {where}"]
    if listed:
        text += [f"{o.status}: {o.case}: {o.why}" for o in found if o.status != "pass"]
    else:
        text += [f"wrong: {o.case}: {o.why}" for o in found if o.status == "wrong"]
    data = {
        "suite": suite, "backend": backend, "fallback": fallback, "second": again,
        "options": options, "counts": counts,
        "cases": [each._asdict() for each in found if each.status != "pass"],
    }  # fmt: skip
    return Answer(data, text, exit_code=int(counts["wrong"] > 0))


def _expect_taken(backend: str, options: Mapping[str, Any]) -> None:
    """An error for options that the backend takes for no model, before each case would
    be told to be declined."""
    import amanda

    if not options:
        return
    graph = amanda.Graph("amanda/onnx/18", name="options")
    x = graph.parameter(amanda.parse_type("float32[2]"), "x")
    graph.result(graph.add("Relu", [x]).output, "y")
    amanda.compile(graph, backend, **options)
