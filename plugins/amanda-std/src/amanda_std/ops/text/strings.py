"""String operations: elementwise on tensors of strings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from amanda.errors import InvalidTypeError, UsageError
from amanda.types import DType, Shape, Sym, TensorType, string
from amanda_std.engine.annotations import Cast, Index, Other, Text
from amanda_std.engine.operation import primitive
from amanda_std.engine.samples import Sample, Samples, array
from amanda_std.inference import shapes
from amanda_std.runtime.containers import decode_string, string_array

_NO_GRADIENT = "strings have no gradient"


def map_strings(function: Callable[[str], Any], x: Any, dtype: Any = object) -> Any:
    """Apply a function to each string."""
    items = [function(decode_string(item)) for item in np.asarray(x, object).flat]
    if dtype is object:
        return string_array(items, np.shape(x))
    return np.array(items, dtype).reshape(np.shape(x))


@primitive(numpy_only=True, shape=shapes.same_as_first)
def string_lower(x: Text) -> Text:
    """Lower case"""
    return map_strings(str.lower, x)


@primitive(numpy_only=True, shape=shapes.same_as_first)
def string_upper(x: Text) -> Text:
    """Upper case"""
    return map_strings(str.upper, x)


@primitive(numpy_only=True, shape=shapes.same_as_first)
def string_strip(x: Text) -> Text:
    """Strip white space at both ends"""
    return map_strings(str.strip, x)


@primitive(numpy_only=True, shape=shapes.same_as_first)
def string_length(x: Text, *, unit: str = "chars") -> Index:
    """Length of strings, in characters or UTF-8 bytes"""
    if unit not in ("chars", "bytes"):
        raise UsageError("unknown unit of length", expected="chars or bytes", got=unit)
    if unit == "chars":
        return map_strings(len, x, "int64")
    return map_strings(lambda item: len(item.encode()), x, "int64")


@primitive(numpy_only=True, shape=shapes.elementwise)
def string_concat(a: Text, b: Text) -> Text:
    """Concatenate strings elementwise"""
    a, b = np.broadcast_arrays(np.asarray(a, object), np.asarray(b, object))
    items = [
        decode_string(x) + decode_string(y) for x, y in zip(a.flat, b.flat, strict=True)
    ]
    return string_array(items, a.shape)


@primitive(numpy_only=True, shape=lambda x: Shape([]) if x.shape.has_rank else x.shape)
def string_join(x: Text, *, separator: str = "") -> Text:
    """Join all strings into one, in row-major order"""
    whole = separator.join(decode_string(item) for item in np.asarray(x, object).flat)
    return string_array([whole], ())


@primitive(numpy_only=True)
def string_split(
    x: Text, *, delimiter: str = "", most: int | None = None
) -> tuple[Text, Index]:
    """Split strings along a new last axis, padded with "", and the number of parts

    Splits at `delimiter` or, by default, at white space, at most `most` times."""
    limit = -1 if most is None else most
    rows = [
        decode_string(item).split(delimiter or None, limit)
        for item in np.asarray(x, object).flat
    ]
    width = max(map(len, rows), default=0)
    parts = [row + [""] * (width - len(row)) for row in rows]
    counts = np.array([len(row) for row in rows], "int64")
    shape = np.shape(x)
    return (
        string_array([part for row in parts for part in row], [*shape, width]),
        counts.reshape(shape),
    )


@string_split.infer
def _(x: Any) -> Any:
    if not x.shape.has_rank:
        return [TensorType(string), TensorType("int64")]
    dims = x.shape.dims
    return [TensorType(string, [*dims, Sym.unknown()]), TensorType("int64", dims)]


@primitive(numpy_only=True)
def string_normalize(
    x: Text,
    *,
    case: str = "none",
    stopwords: Any = (),
    case_sensitive: bool = False,
) -> Text:
    """Remove stop words from a vector of strings and change case; [""] if none left"""
    if case not in _CASES:
        raise UsageError("unknown change of case", expected=", ".join(_CASES), got=case)
    normalize: Callable[[str], str] = (lambda s: s) if case_sensitive else str.lower
    removed = {normalize(word) for word in stopwords}
    items = [decode_string(item) for item in np.asarray(x, object).flat]
    kept = [_CASES[case](item) for item in items if normalize(item) not in removed] or [
        ""
    ]
    return string_array(kept, [1] * (np.ndim(x) - 1) + [len(kept)])


_CASES: dict[str, Callable[[str], str]] = {
    "none": lambda s: s,
    "lower": str.lower,
    "upper": str.upper,
}


@string_normalize.infer
def _(x: Any) -> Any:
    if not x.shape.has_rank:
        return [TensorType(string)]
    rank = x.shape.rank
    ahead = x.shape.dims[:-1]
    if rank not in (1, 2) or any(isinstance(d, int) and d != 1 for d in ahead):
        raise InvalidTypeError(
            "string_normalize expects a vector of strings",
            expected="[n] or [1, n]",
            got=x,
        )
    return [TensorType(string, [*ahead, Sym.unknown()])]


@primitive(numpy_only=True, shape=shapes.same_as_first)
def string_to_number(x: Text, *, dtype: Any) -> Cast:
    """Parse numbers: 3, -0.5, 1e5, NaN, INF"""
    numpy = DType(dtype).numpy
    whole = DType(dtype).kind in ("int", "uint")
    number: Callable[[str], Any] = (
        _parse_bool if numpy.kind == "b" else int if whole else float
    )
    try:
        return map_strings(number, x, numpy)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"cannot parse a string as {dtype}: {error}") from None


def _parse_bool(item: str) -> bool:
    if item.lower() in ("true", "1"):
        return True
    if item.lower() in ("false", "0"):
        return False
    raise ValueError(repr(item))


@primitive(numpy_only=True, shape=shapes.same_as_first)
def string_from_number(x: Other) -> Text:
    """Format numbers with as few digits as identify them; NaN, INF, -INF"""
    return string_array(
        [_format_number(item) for item in np.asarray(x).reshape(-1)], np.shape(x)
    )


def _format_number(item: Any) -> str:
    if isinstance(item, bool | np.bool_):
        return str(bool(item))
    if isinstance(item, np.floating) or item.dtype.kind == "V":
        if np.isnan(item):
            return "NaN"
        if np.isinf(item):
            return "INF" if item > 0 else "-INF"
        return str(item)
    return str(item)


for _op in (
    string_lower, string_upper, string_strip, string_length, string_concat,
    string_join, string_split, string_normalize,
    string_to_number, string_from_number,
):  # fmt: skip
    _op.not_differentiable(_NO_GRADIENT)


def _string_array(values: Any) -> Any:
    return np.array(values, object)


_WORDS = _string_array([["Ärger", "b C"], ["", " x\t"]])


_EMPTY = np.empty((0, 2), object)


def word_samples(expected: Any, **attrs: Any) -> Callable[[], Samples]:
    """Samples of a function of one string: words, an empty tensor, a scalar."""

    def make() -> Samples:
        want_array = (
            _string_array(expected)
            if isinstance(expected[0][0], str)
            else np.array(expected)
        )
        yield Sample((_WORDS,), want_array, attrs)
        yield Sample((_EMPTY,), np.empty((0, 2), want_array.dtype), attrs)
        alone = np.empty((), want_array.dtype)
        alone[()] = expected[0][1]
        yield Sample((string_array(["b C"], ()),), alone, attrs)

    return make


string_lower.samples(word_samples([["ärger", "b c"], ["", " x\t"]]))


string_upper.samples(word_samples([["ÄRGER", "B C"], ["", " X\t"]]))


string_strip.samples(word_samples([["Ärger", "b C"], ["", "x"]]))


@string_length.samples
def _() -> Samples:
    yield from word_samples([[5, 3], [0, 3]])()
    yield from word_samples([[6, 3], [0, 3]], unit="bytes")()


@string_concat.samples
def _() -> Samples:
    expected = _string_array([["Ärger-", "b C+"], ["-", " x\t+"]])
    yield Sample((_WORDS, _string_array(["-", "+"])), expected)
    yield Sample((_EMPTY, _string_array(["-", "+"])), _EMPTY)
    yield Sample(
        (string_array(["a"], ()), string_array(["b"], ())), string_array(["ab"], ())
    )


@string_join.samples
def _() -> Samples:
    yield Sample((_WORDS,), string_array(["Ärger,b C,, x\t"], ()), {"separator": ","})
    yield Sample((_EMPTY,), string_array([""], ()))
    yield Sample((string_array(["a"], ()),), string_array(["a"], ()))


@string_split.samples
def _() -> Samples:
    x = _string_array(["a b  c", "d", ""])
    expected = _string_array([["a", "b", "c"], ["d", "", ""], ["", "", ""]])
    yield Sample((x,), [expected, array([3, 1, 0], "int64")])
    expected = _string_array([["a", "b  c"], ["d", ""], ["", ""]])
    yield Sample(
        (x,), [expected, array([2, 1, 1], "int64")], {"delimiter": " ", "most": 1}
    )
    empty = np.empty((0,), object)
    yield Sample((empty,), [np.empty((0, 0), object), array([], "int64")])
    yield Sample((string_array(["a,b"], ()),),
                 [_string_array(["a", "b"]), array(2, "int64")],
                 {"delimiter": ","})  # fmt: skip


@string_normalize.samples
def _() -> Samples:
    x = _string_array(["Mon", "tue", "MON", "Wed"])
    stop = {"stopwords": ("mon",)}
    yield Sample((x,), _string_array(["TUE", "WED"]), {**stop, "case": "upper"})
    yield Sample((x,), x.copy(), {**stop, "case_sensitive": True})
    yield Sample((x.reshape(1, -1),), _string_array([["mon", "tue", "mon", "wed"]]),
                 {"case": "lower"})  # fmt: skip
    yield Sample((_string_array(["a"]),), _string_array([""]), {"stopwords": ("a",)})
    yield Sample((np.empty((0,), object),), _string_array([""]))


@string_to_number.samples
def _() -> Samples:
    words = ["1", "-2.5", "1e5", "NaN", "-INF"]
    for dtype in ("float32", "float64"):
        expected = array([1, -2.5, 1e5, float("nan"), float("-inf")], dtype)
        yield Sample((_string_array(words),), expected, {"dtype": dtype})
    expected = array([7, -8], "int64")
    yield Sample((_string_array(["7", "-8"]),), expected, {"dtype": "int64"})
    exact = array([2**53 + 1], "int64")
    yield Sample((_string_array([str(2**53 + 1)]),), exact, {"dtype": "int64"})
    yield Sample(
        (_string_array(["True", "0"]),), array([1, 0], "bool"), {"dtype": "bool"}
    )
    yield Sample((_EMPTY,), np.empty((0, 2), "float32"), {"dtype": "float32"})


@string_from_number.samples
def _() -> Samples:
    x = array([0.1, -3.0, float("nan"), float("inf")], "float32")
    yield Sample((x,), _string_array(["0.1", "-3.0", "NaN", "INF"]))
    yield Sample((array([float("-inf")], "float64"),), _string_array(["-INF"]))
    yield Sample((array([7, -8], "int64"),), _string_array(["7", "-8"]))
    yield Sample((array([1, 0], "bool"),), _string_array(["True", "False"]))
    yield Sample((array(0.25, "float64"),), string_array(["0.25"], ()))
    yield Sample((np.empty((0, 2), "float32"),), _EMPTY)
