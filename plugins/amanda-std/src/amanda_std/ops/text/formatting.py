"""Parts of strings, and numbers as strings."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any, Final

import numpy as np

from amanda.errors import UsageError
from amanda_std.engine.annotations import Index, Number, Text
from amanda_std.engine.operation import primitive
from amanda_std.engine.samples import Sample, Samples, array
from amanda_std.inference import shapes
from amanda_std.ops.text.strings import map_strings, word_samples
from amanda_std.runtime.containers import decode_string, string_array

_CONVERSION: Final = re.compile(r"%[-+ 0#]*(\d{0,4})(\.\d{1,3})?[deEfFgG]")


@primitive(numpy_only=True, shape=shapes.elementwise)
def substring(x: Text, start: Index, length: Index, *, unit: str = "chars") -> Text:
    """Part of strings, in characters or UTF-8 bytes, as far as they reach

    A negative start counts from the end. A start outside the string is an error."""
    if unit not in ("chars", "bytes"):
        raise UsageError("unknown unit of length", expected="chars or bytes", got=unit)
    rows = np.broadcast_arrays(
        np.asarray(x, object), np.asarray(start), np.asarray(length)
    )
    items = zip(*(row.flat for row in rows), strict=True)
    return string_array(
        [_part(decode_string(text), int(a), int(n), unit) for text, a, n in items],
        rows[0].shape,
    )


def _part(text: str, start: int, length: int, unit: str) -> str:
    whole: Any = text.encode() if unit == "bytes" else text
    if not -len(whole) <= start <= len(whole):
        raise UsageError(
            "a part of a string starts outside of it",
            expected=f"-{len(whole)} to {len(whole)}", got=start,
        )  # fmt: skip
    first = start + len(whole) if start < 0 else start
    part = whole[first : first + max(length, 0)]
    try:
        return part if isinstance(part, str) else part.decode()
    except UnicodeDecodeError:
        raise UsageError(
            "a part of a string starts or ends within a character",
            got=repr(part), hint="count characters",
        ) from None  # fmt: skip


@primitive(numpy_only=True, shape=shapes.same_as_first)
def string_format(x: Number, *, conversion: str) -> Text:
    """Format numbers by a conversion of C's printf: %d, %08.3f, %e, %g"""
    if not _CONVERSION.fullmatch(conversion):
        raise UsageError(
            "unknown conversion", expected="such as %d, %08.3f, %e or %g",
            got=conversion,
        )  # fmt: skip
    x = np.asarray(x)
    items = x.astype("int64" if x.dtype.kind == "b" else x.dtype).reshape(-1)
    if items.dtype.kind == "c":
        parts = [(conversion % v.real, conversion % v.imag) for v in items.tolist()]
        return string_array([f"({a},{b})" for a, b in parts], x.shape)
    wide = items if items.dtype.kind in "iu" else items.astype("float64")
    return string_array([conversion % v for v in wide.tolist()], x.shape)


@primitive(numpy_only=True, shape=shapes.same_as_first)
def base64_encode(x: Text, *, padded: bool = False) -> Text:
    """Base64 of the UTF-8 bytes of strings, in the alphabet for URLs and file names"""
    end = "" if padded else "="

    def encode(item: str) -> str:
        text = base64.urlsafe_b64encode(item.encode()).decode()
        return text.rstrip(end) if end else text

    return map_strings(encode, x)


@primitive(numpy_only=True, shape=shapes.same_as_first)
def base64_decode(x: Text) -> Text:
    """Strings from Base64 in the alphabet for URLs and file names, padded or not"""

    def decode(item: str) -> str:
        text = item.rstrip("=")
        try:
            data = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
            return data.decode()
        except (binascii.Error, ValueError) as error:
            raise UsageError(f"not Base64 of UTF-8: {error}", got=item[:80]) from None

    return map_strings(decode, x)


for _op in (substring, string_format, base64_encode, base64_decode):
    _op.not_differentiable("strings have no gradient")


# -- samples -------------------------------------------------------------------------


@substring.samples
def _() -> Samples:
    x = string_array(["Ärger", "b Cd"], (2,))
    two = array([1, -3], "int64"), array([3, 2], "int64")
    yield Sample((x, *two), string_array(["rge", " C"], (2,)))
    ends = array(2, "int64"), array(9, "int64")
    yield Sample((x, *ends), string_array(["ger", "Cd"], (2,)))
    bytes_ = {"unit": "bytes"}
    zero, four = array(0, "int32"), array(4, "int32")
    yield Sample((x, zero, four), string_array(["Ärg", "b Cd"], (2,)), bytes_)
    yield Sample((x[:0], zero, four), string_array([], (0,)))


@string_format.samples
def _() -> Samples:
    x = array([0.125, -3.0, 1e20], "float64")
    for conversion, texts in (
        ("%f", ["0.125000", "-3.000000", "100000000000000000000.000000"]),
        ("%8.2e", ["1.25e-01", "-3.00e+00", "1.00e+20"]),
        ("%g", ["0.125", "-3", "1e+20"]),
    ):
        yield Sample((x,), string_array(texts, (3,)), {"conversion": conversion})
    y = array([[7, -8]], "int32")
    yield Sample((y,), string_array(["00007", "-0008"], (1, 2)),
                 {"conversion": "%05d"})  # fmt: skip
    yield Sample((x[:0],), string_array([], (0,)), {"conversion": "%f"})


base64_encode.samples(word_samples([["w4RyZ2Vy", "YiBD"], ["", "IHgJ"]], padded=True))


@base64_decode.samples
def _() -> Samples:
    # the test vectors of RFC 4648
    plain = ["", "f", "fo", "foo", "foob", "fooba", "foobar"]
    coded = ["", "Zg", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE", "Zm9vYmFy"]
    yield Sample((string_array(coded, (7,)),), string_array(plain, (7,)))
    yield Sample((string_array([], (0,)),), string_array([], (0,)))
