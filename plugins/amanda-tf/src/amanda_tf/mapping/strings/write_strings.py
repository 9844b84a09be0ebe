"""To TensorFlow: strings that are split and normalized."""

from __future__ import annotations

import re
from typing import Any

from amanda.mapping import Decline
from amanda.tensors import Tensor
from amanda.types import DType
from amanda_std.mappings import rank_of
from amanda_tf.mapping.operands import INT64, as_wide, dtype_of, int_tensor
from amanda_tf.mapping.shapes.write_shapes import write_bitcast

__all__ = ["WRITE"]


def _text(value: str) -> Tensor:
    return Tensor.strings([value], ())


def write_string_split(
    o: Any, x: Any, *, delimiter: str = "", most: int | None = None
) -> Any:
    """Parts in a dense tensor, and their numbers."""
    flat, own = o.Reshape(x, int_tensor([-1])), o.Shape(x, out_type=INT64)
    limit = -1 if most is None else most
    at, parts, shape = o.StringSplitV2(flat, _text(delimiter), maxsplit=limit)
    if not delimiter and most is not None:
        # TensorFlow has an empty part where the limit is reached at the end of a text
        keep = o.Where(o.NotEqual(parts, _text("")))
        at, parts = (o.GatherNd(v, keep) for v in (at, parts))
    rows, _ = o.Unpack(at, num=2, axis=1, outputs=2)
    counts = o.UnsortedSegmentSum(o.OnesLike(rows), rows, o.Size(flat))
    width = o.Maximum(o.Max(counts, int_tensor([0])), int_tensor(0, "int64"))
    lead = o.Slice(shape, int_tensor([0]), int_tensor([1]))
    last = o.Reshape(width, int_tensor([1]))
    size = o.ConcatV2(lead, last, int_tensor(0), N=2)
    dense = o.SparseToDense(at, size, parts, _text(""))
    whole = o.ConcatV2(own, last, int_tensor(0), N=2)
    return o.Reshape(dense, whole), o.Reshape(counts, own)


_CASES = {"lower": "StringLower", "upper": "StringUpper"}


def write_string_normalize(
    o: Any, x: Any, *, case: str = "none", stopwords: Any = (),
    case_sensitive: bool = False,
) -> Any:  # fmt: skip
    """The strings that are no stop words; an empty one if there are none."""
    flat = o.Reshape(x, int_tensor([-1]))
    compared = flat if case_sensitive else o.StringLower(flat, encoding="utf-8")
    for word in stopwords:
        text = word if case_sensitive else word.lower()
        keep = o.Where(o.NotEqual(compared, _text(text)))
        flat, compared = (o.GatherNd(v, keep) for v in (flat, compared))
    size = o.Maximum(o.Size(flat), int_tensor(1))
    padded = o.ConcatV2(flat, Tensor.strings([""], (1,)), int_tensor(0), N=2)
    kept = o.Slice(padded, int_tensor([0]), o.Reshape(size, int_tensor([1])))
    kept = o.op(_CASES[case], kept, encoding="utf-8") if case in _CASES else kept
    return o.Reshape(kept, int_tensor([1] * (rank_of(x) - 1) + [-1]))


def write_string_join(o: Any, x: Any, *, separator: str = "") -> Any:
    flat = o.Reshape(x, int_tensor([-1]))
    return o.ReduceJoin(flat, int_tensor(0), separator=separator)


def write_string_length(o: Any, x: Any, *, unit: str = "chars") -> Any:
    kind = "BYTE" if unit == "bytes" else "UTF8_CHAR"
    return o.Cast(o.StringLength(x, unit=kind), DstT=INT64)


def write_string_from_number(o: Any, x: Any) -> Any:
    """Integers and booleans; TensorFlow writes the digits of floats otherwise."""
    kind = dtype_of(x).kind
    if kind == "bool":
        return o.SelectV2(x, _text("True"), _text("False"))
    if kind not in ("int", "uint"):
        raise Decline(f"TensorFlow formats numbers of type {dtype_of(x)} otherwise")
    return o.AsString(x)


def write_substring(
    o: Any, x: Any, start: Any, length: Any, *, unit: str = "chars"
) -> Any:
    ends = (as_wide(o, end) for end in (start, length))
    return o.Substr(x, *ends, unit="BYTE" if unit == "bytes" else "UTF8_CHAR")


_CONVERSION = re.compile(r"%([-+ 0#]?)(\d*)(?:\.(\d+))?([defg])")


def write_string_format(o: Any, x: Any, *, conversion: str) -> Any:
    """AsString, which has one flag, and no precision of integers."""
    found = _CONVERSION.fullmatch(conversion)
    is_whole = dtype_of(x).kind in ("int", "uint")
    if found is None or (found[4] == "d") != is_whole or (is_whole and found[3]):
        raise Decline(f"TensorFlow has no conversion {conversion} of {dtype_of(x)}")
    return o.AsString(
        x, fill=found[1], width=int(found[2] or -1), precision=int(found[3] or -1),
        scientific=found[4] == "e", shortest=found[4] == "g",
    )  # fmt: skip


def write_string_hash(
    o: Any, x: Any, *, algorithm: str = "farmhash64", key: Any = ()
) -> Any:
    """The bytes of a fingerprint as a number."""
    del key
    if algorithm != "farmhash64":
        raise Decline(f"TensorFlow gives a remainder of {algorithm} only")
    flat = o.Reshape(x, int_tensor([-1]))
    hashed = write_bitcast(
        o, o.Fingerprint(flat, _text(algorithm)), dtype=DType("uint64")
    )
    return o.Reshape(hashed, o.Shape(x, out_type=INT64))


WRITE: dict[str, Any] = {
    "substring": write_substring,
    "string_format": write_string_format,
    "string_hash": write_string_hash,
    "string_join": write_string_join,
    "string_length": write_string_length,
    "string_from_number": write_string_from_number,
    "string_split": write_string_split,
    "string_normalize": write_string_normalize,
}
