"""Run a case with special values, and compare with the reference evaluator and
onnxruntime: an element has to equal that of one of them, with NaN and signs of zeros.

Where a backend has other values on purpose, or cannot have them, `EXPLAINED` has the
reason. A case that both refuse, or that only they compute, is compared as well: an
error of Amanda is right where one of them refuses the case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from amanda_onnx_conformance.special_values import SpecialCase

__all__ = ["EXPLAINED", "Explanation", "explanation_of", "is_accepted", "run_special"]

_ANY: Final = "*"
_ZEROS: Final = frozenset({"zero", "negative zero", "mixed", "denormal"})
_NOT_FINITE: Final = frozenset({"nan", "inf", "mixed", "largest"})
_EMPTY: Final = frozenset({"empty first axis", "empty last axis", "scalar"})
_FATAL: Final = frozenset({
    ("GRU", "empty last axis"), ("Unique", "empty last axis"),
    ("FeatureVectorizer", "empty first axis"), ("FeatureVectorizer", "empty last axis"),
})  # fmt: skip
"""Cases that end the process of onnxruntime 1.32 with SIGABRT."""
_TOLERANCE: Final[Mapping[str, tuple[float, float]]] = {
    "float16": (1e-2, 1e-3), "bfloat16": (2**-6, 1e-2),
    "float32": (1e-4, 1e-5), "float64": (1e-4, 1e-5), "complex64": (1e-4, 1e-5),
}  # fmt: skip


class Explanation(NamedTuple):
    """Why results may differ: for an op (or all), kinds of values, and a backend."""

    op_type: str
    values: frozenset[str]
    backend: str
    reason: str


def _rows(
    ops: str, values: frozenset[str], reason: str, backend: str = _ANY
) -> list[Explanation]:
    return [Explanation(op, values, backend, reason) for op in ops.split()]


_OVERFLOW: Final = (
    "an intermediate result overflows in one order of operations and not in another; "
    "neither the op's definition nor IEEE 754 fixes the order"
)
_LARGEST: Final = frozenset({"largest"})

EXPLAINED: Final[Sequence[Explanation]] = [
    *_rows(
        "*", frozenset({"denormal"}),
        "the runtime of XLA flushes denormal numbers on the CPU: README of amanda-jax, "
        "Rounding",
        "jax",
    ),
    *_rows(
        "Adagrad BatchNormalization CausalConvWithState DeformConv LinearAttention",
        _LARGEST, _OVERFLOW,
    ),
    *_rows(
        "Conv ConvTranspose GlobalAveragePool NegativeLogLikelihoodLoss", _LARGEST,
        _OVERFLOW, "jax",
    ),
    *_rows(
        "CausalConvWithState CumSum DeformConv Einsum NegativeLogLikelihoodLoss",
        _ZEROS,
        "the sign of a sum of zeros: -0 if all are -0, or 0 if the sum starts from 0",
    ),
    *_rows(
        "Celu", _ZEROS,
        "of -0 it is -0, as in PyTorch; max(0, x) + min(0, ...) of the definition is 0",
    ),
    *_rows(
        "Clip MaxRoiPool", _ZEROS, "0 and -0 are equal: XLA returns either", "jax"
    ),
    *_rows(
        "ConvTranspose", _NOT_FINITE,
        "XLA multiplies the kernel by the zeros around and between elements: a NaN or "
        "infinity in it reaches positions that see no element",
        "jax",
    ),
    *_rows(
        "DFT STFT", _ZEROS | _NOT_FINITE,
        "a real transform computes half of the frequencies, the others by symmetry: "
        "parts that are 0 by definition are 0, not NaN, and may be -0",
    ),
    *_rows(
        "DynamicQuantizeLinear", _NOT_FINITE,
        "the range of NaN or infinities has no scale; NaN as an integer is undefined, "
        "and the reference and onnxruntime differ",
    ),
    *_rows(
        "GridSample DeformConv", _NOT_FINITE,
        "positions beyond the integers: outside the image, where samples are 0; the "
        "reference raises, onnxruntime converts them to integers, which is undefined",
    ),
    *_rows(
        "MaxPool MaxRoiPool", frozenset({"nan", "mixed"}),
        "NaN is never the maximum; in the reference and onnxruntime it is where it is "
        "the first, or the last, element of a window with strides, or with indices",
    ),
    *_rows(
        "OneHot", _ZEROS | _NOT_FINITE,
        "the reference computes off + (on - off) * hot, which is not off; onnxruntime "
        "has no kernel for bfloat16",
    ),
    *_rows(
        "QuantizeLinear", _NOT_FINITE,
        "the result saturates as specified; the reference wraps integers around, and "
        "onnxruntime has no kernel of this version of the op",
    ),
    *_rows(
        "Unique", frozenset({"nan", "mixed"}),
        "NaNs are equal, as in NumPy's float32; rows with NaN, and bfloat16, have no "
        "order there, and onnxruntime takes rows for equal that are not",
        "jax",
    ),
    *_rows(
        "CastMap CategoryMapper DictVectorizer LabelEncoder RegexFullMatch "
        "StringConcat StringSplit ZipMap",
        _EMPTY | _ZEROS | _NOT_FINITE | {"unchanged"},
        "XLA has no strings and no maps: the ops are declined with that reason", "jax",
    ),
]  # fmt: skip


def explanation_of(case: SpecialCase, backend: str) -> Explanation | None:
    """The first explanation that covers a case on a backend."""
    for each in EXPLAINED:
        if (
            each.op_type in (_ANY, case.op_type)
            and each.backend in (_ANY, backend)
            and case.values in each.values
        ):
            return each
    return None


# -- running -----------------------------------------------------------------------


class _Answer(NamedTuple):
    """The outputs, or why there are none."""

    outputs: Sequence[Any] | None
    why: str = ""
    is_missing: bool = False
    """Whether only an implementation is missing."""


def _by_reference(model: Any, feeds: Mapping[str, Any]) -> _Answer:
    from onnx.reference import ReferenceEvaluator

    try:
        with np.errstate(all="ignore"):
            return _Answer(list(ReferenceEvaluator(model).run(None, dict(feeds))))
    except Exception as error:  # noqa: BLE001 - of whatever kind: it has no answer
        missing = isinstance(error, NotImplementedError)
        return _Answer(None, f"{type(error).__name__}: {error}", missing)


def _by_onnxruntime(model: Any, feeds: Mapping[str, Any]) -> _Answer:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    every = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.graph_optimization_level = every
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return _Answer(session.run(None, dict(feeds)))
    except Exception as error:  # noqa: BLE001 - of whatever kind: it has no answer
        text = str(error)
        missing = "NOT_IMPLEMENTED" in text or "No corresponding Numpy type" in text
        return _Answer(None, f"{type(error).__name__}: {text}", missing)


def is_accepted(model: Any, feeds: Mapping[str, Any]) -> bool:
    """Whether the reference evaluator computes a model for these feeds, or, where it
    lacks the op, onnxruntime."""
    answer = _by_reference(model, feeds)
    if answer.is_missing:
        answer = _by_onnxruntime(model, feeds)
    return answer.outputs is not None


def run_special(case: SpecialCase, backends: Sequence[str]) -> dict[str, str]:
    """What differs on each backend, by its name; nothing where a backend is right."""
    model = case.reference or case.model
    answers = [_by_reference(model, case.feeds)]
    if (case.op_type, case.values) not in _FATAL:
        answers.append(_by_onnxruntime(model, case.feeds))
    found = {}
    for backend in backends:
        why = _why_wrong(case, backend, answers)
        if why:
            found[backend] = why
    return found


def _why_wrong(case: SpecialCase, backend: str, answers: Sequence[_Answer]) -> str:
    import amanda
    from amanda.errors import AmandaError

    known = [each.outputs for each in answers if each.outputs is not None]
    options: dict[str, Any] = {"precision": "highest"} if backend == "jax" else {}
    try:
        with np.errstate(all="ignore"):
            run = amanda.compile(amanda.load(case.model), backend, **options)
            outputs = list(run(dict(case.feeds)).values())
    except AmandaError as error:
        refused = any(a.outputs is None and not a.is_missing for a in answers)
        return "" if refused else " ".join(str(error).split())
    if not known:
        return ""
    for i, have in enumerate(outputs):
        why = _difference(have, [each[i] for each in known], case.values)
        if why:
            return f"output {i}: {why}"
    return ""


# -- comparison --------------------------------------------------------------------


def _difference(have: Any, wanted: Sequence[Any], values: str) -> str:
    """How a value differs from all that are wanted, element by element."""
    if isinstance(have, list | tuple):
        rows: Any = [w for w in wanted if isinstance(w, list | tuple)]
        rows = [w for w in rows if len(w) == len(have)]
        if not rows:
            return "a sequence of another length"
        parts = zip(have, *rows, strict=True)
        return next(filter(None, (_difference(h, w, values) for h, *w in parts)), "")
    if isinstance(have, dict):
        maps = [w for w in wanted if isinstance(w, dict) and [*w] == [*have]]
        if not maps:
            return f"{have}, not {wanted}"
        numbers, *rows = ([np.float32(x) for x in w.values()] for w in (have, *maps))
        return _difference(numbers, rows, values)
    if have is None:
        return "" if any(w is None for w in wanted) else f"{have}, not {wanted}"
    have = np.asarray(have)
    arrays = [np.asarray(w) for w in wanted if w is not None]
    same = [w for w in arrays if w.shape == have.shape
            and (w.dtype == have.dtype or have.dtype.kind in "OUS")]  # fmt: skip
    if not same:
        kinds = [f"{w.dtype}{list(w.shape)}" for w in arrays]
        return f"{have.dtype}{list(have.shape)}, not {' or '.join(kinds)}"
    equal = np.logical_or.reduce([_equal(have, w, values) for w in same])
    if equal.all():
        return ""
    at = tuple(map(int, np.argwhere(~equal)[0]))
    texts = " or ".join(str(w[at]) for w in same)
    count = (~equal).sum()
    return f"{count} of {have.size}, at {list(at)} {have[at]}, not {texts}"


def _equal(have: Any, want: Any, values: str) -> Any:
    """Which elements are equal: NaN to NaN, -0 to -0, others to a tolerance."""
    name = want.dtype.name
    if name not in _TOLERANCE and "float8" not in name:
        return np.asarray(have == want)
    rtol, atol = _TOLERANCE.get(name, (0.0, 0.0))
    if values == "denormal" and name == "float32":
        atol = 6e-45
    wide = "complex128" if want.dtype.kind == "c" else "float64"
    a, b = have.astype(wide), want.astype(wide)
    equal = np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
    if wide == "float64":
        equal &= (a != 0) | (b != 0) | (np.signbit(a) == np.signbit(b))
    return equal
