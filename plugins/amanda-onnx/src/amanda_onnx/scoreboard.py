"""`amanda scoreboard onnx`: the ONNX project's own cases, run through the hub set.

Every case is loaded, mapped to what the backend takes, run, and compared strictly: the
number of outputs, their element types, shapes and values, by the case's own tolerances.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from amanda.cli.answer import Answer, Table
from amanda.cli.frame import verb

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
    "fail": "an error",
    "wrong": "other values, without an error",
}

_NONE: Final = "no rule is for it"
_ANY: Final = 1e300
"""A difference that any number may have, and nan may not."""

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

    wanted = re.compile(pattern or "")
    for kind in kinds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = load_model_tests(kind=kind)
        for case in sorted(found, key=lambda case: case.name):
            if wanted.search(case.name):
                yield kind, case


def outcome(kind: str, case: Any, backend: str = "numpy") -> Outcome:
    """Run one case."""
    import amanda
    from amanda.errors import AmandaError, BackendError, ConversionError

    compiled = False
    try:
        graph = amanda.load(_model(case))
        run = amanda.compile(graph, backend)
        compiled = True
        for feeds, expected in data(case):
            names = [p.name for p in graph.parameters]
            given = dict(zip(names, map(_array, feeds), strict=False))
            found = list(run(given).values())
            why = _difference(found, expected, case.rtol, case.atol)
            if why and _draws(graph) and not _difference(found, expected, 0, _ANY):
                return Outcome(case.name, kind, "drawn", why)
            if why:
                return Outcome(case.name, kind, "wrong", why)
    except ConversionError as error:
        return Outcome(case.name, kind, *_open(error))
    except AmandaError as error:
        is_told = isinstance(error, BackendError) and not compiled
        status = "declined" if is_told else "fail"
        return Outcome(case.name, kind, status, " ".join(str(error).split()))
    except Exception as error:  # noqa: BLE001 - a bug in any part is one case's failure
        return Outcome(case.name, kind, "fail", f"{type(error).__name__}: {error}")
    return Outcome(case.name, kind, "pass")


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
    found: Sequence[Any], expected: Sequence[Any], rtol: float, atol: float
) -> str | None:
    if len(found) != len(expected):
        return f"{len(found)} outputs, not {len(expected)}"
    for i, (have, want) in enumerate(zip(found, expected, strict=True)):
        why = _differs(have, want, rtol, atol)
        if why:
            return f"output {i}: {why}"
    return None


def _differs(have: Any, want: Any, rtol: float, atol: float) -> str | None:
    import numpy as np

    if isinstance(want, list | tuple):
        if not isinstance(have, list | tuple):
            return f"{type(have).__name__}, not a sequence"
        return _difference(have, want, rtol, atol)
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
    close = np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
    if close.all():
        return None
    bad = np.argwhere(~close)
    at = tuple(map(int, bad[0]))
    return f"{len(bad)} of {want.size} elements, at {list(at)} {a[at]}, not {b[at]}"


# -- the verb ----------------------------------------------------------------------


@verb("scoreboard", "run a framework's own test cases, and count")
@click.argument("suite", type=click.Choice(["onnx"]))
@click.option("--backend", default="numpy", help="What runs the cases.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(KINDS))
@click.option("--match", "pattern", help="Only cases whose names fit this pattern.")
@click.option("--list", "listed", is_flag=True, help="Name every case that is no pass.")
def command(
    suite: str, *, backend: str, kinds: tuple[str, ...], pattern: str | None,
    listed: bool,
) -> Answer:  # fmt: skip
    """Run the cases of SUITE on a backend, through the hub set, and count.

    Exit code 1 says that some case gave other values without an error.
    """
    found = [
        outcome(kind, case, backend) for kind, case in cases(kinds or KINDS, pattern)
    ]
    counts = counted(found)
    rows = [(counts[each], each, told) for each, told in OUTCOMES.items()]
    table = Table(("cases", "outcome", "meaning"), rows)
    text: list[str | Table] = [table, f"{len(found)} cases of {suite} on {backend}"]
    if listed:
        text += [f"{o.status}: {o.case}: {o.why}" for o in found if o.status != "pass"]
    else:
        text += [f"wrong: {o.case}: {o.why}" for o in found if o.status == "wrong"]
    data = {
        "suite": suite, "backend": backend, "counts": counts,
        "cases": [each._asdict() for each in found if each.status != "pass"],
    }  # fmt: skip
    return Answer(data, text, exit_code=int(counts["wrong"] > 0))
