"""The element types of ONNX, by number and by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from amanda.formatkit import DTypeCodes
from amanda.types import DType

__all__ = ["CODES", "DTYPES", "ELEMENT_TYPES", "FIELDS"]

# Number, element type, and the field with its elements if they are not in `raw_data`.
_ROWS: Final = """
1 float32 float_data        11 float64 double_data        21 uint4 int32_data
2 uint8 int32_data          12 uint32 uint64_data         22 int4 int32_data
3 int8 int32_data           13 uint64 uint64_data         23 float4_e2m1fn int32_data
4 uint16 int32_data         14 complex64 float_data       24 float8_e8m0fnu int32_data
5 int16 int32_data          15 complex128 double_data     25 uint2 int32_data
6 int32 int32_data          16 bfloat16 int32_data        26 int2 int32_data
7 int64 int64_data          17 float8_e4m3fn int32_data   27 float6_e2m3fn int32_data
8 string string_data        18 float8_e4m3fnuz int32_data 28 float6_e3m2fn int32_data
9 bool int32_data           19 float8_e5m2 int32_data
10 float16 int32_data       20 float8_e5m2fnuz int32_data
"""
_WORDS: Final = _ROWS.split()

ELEMENT_TYPES: Final = DTypeCodes(
    "ONNX", dict(zip(map(int, _WORDS[::3]), _WORDS[1::3], strict=True))
)
DTYPES: Final = ELEMENT_TYPES.dtypes
CODES: Final = ELEMENT_TYPES.codes
FIELDS: Final[Mapping[DType, str]] = {
    DType(name): field for name, field in zip(_WORDS[1::3], _WORDS[2::3], strict=True)
}
"""The field that holds elements of a type, other than `raw_data`."""
