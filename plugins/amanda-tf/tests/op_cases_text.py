"""Cases of strings: parts, formats, hashes; and of labels: CTC."""

from __future__ import annotations

from typing import Any

import numpy as np
from op_cases import case, i, r

WORDS = ["Three", "ära", "", "a b"]
TEXTS = ["a1", "é a", "٣4", "a\u00a0b", "éfoo", "b\n", "日", "]a", "ab\n", "é-a1", "b"]
"""Texts in which RE2 and Python's `re` may see other words, digits, spaces and ends."""
LENGTHS = (1, 3, 4, 7, 8, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 200)
LONG = ["".join(chr(33 + (7 * n * k) % 90) for k in range(n)) for n in LENGTHS]
"""Texts of all lengths that FarmHash treats in its own way."""


def formats(op: str, dtype: str, *rows: dict[str, Any]) -> list[Any]:
    x = r(2, 3, low=-100, high=100, dtype=dtype)
    return [case(op, x, **row) for row in rows]


PARTS = [
    case("Substr", WORDS[:1], [1], [3]),
    case("Substr", WORDS, 0, 2, unit="UTF8_CHAR"),
    case("Substr", ["hello", "world"], i(0, -3), i(2, 9)),
    case("EncodeBase64", WORDS),
    case("EncodeBase64", WORDS, pad=True),
    case("DecodeBase64", ["YSBi", "w6RyYQ", "ZA=="]),
    case("StaticRegexReplace", WORDS, pattern="[aeiou](r?)", rewrite=r"<\0|\1>"),
    *(case("StaticRegexReplace", TEXTS, pattern=pattern, rewrite="<X>")
      for pattern in (r"[[:alpha:]]", r"[^[:digit:]x]+", r"\w+", r"\d", r"\s", "b$",
                      r"\bfoo\b", r"b\z", "[]a]", "(b|1)+$", r"(\w|-)+", "(?i)É")),
    case("StaticRegexFullMatch", TEXTS, pattern=r"\w+"),
]  # fmt: skip

NUMBERS = [
    *formats("AsString", "float32", {}, {"precision": 2}, {"scientific": True},
             {"shortest": True}, {"width": 12, "fill": "0", "precision": 3}),
    *formats("AsString", "float64", {"precision": 1}, {"fill": "+"}),
    *formats("AsString", "float16", {"precision": 3}),
    *formats("AsString", "complex64", {"precision": 3}),
    *formats("AsString", "int32", {}, {"width": 6}, {"width": 6, "fill": "-"},
             {"fill": "+"}),
    *formats("AsString", "int8", {"width": 4, "fill": "0"}),
    case("AsString", np.array([True, False])),
]  # fmt: skip

HASHES = [
    *(case(op, [*WORDS, *LONG], num_buckets=count)
      for op in ("StringToHashBucketFast", "StringToHashBucket")
      for count in (10, 2**31 - 1)),
    case("StringToHashBucketStrong", [*WORDS, *LONG], num_buckets=2**31, key=[1, -2]),
    case("Fingerprint", [*WORDS, *LONG], "farmhash64"),
]  # fmt: skip

LABELS = np.array([[0, 0], [0, 1], [1, 0]]), i(1, 1, 2)
STEPS = i(5, 4)
PEAKS = r(6, 2, 4, low=-4, high=4)

CTC = [
    case("CTCLoss", r(5, 2, 4), *LABELS, STEPS),
    case("CTCLoss", r(2, 2, 4), *LABELS, i(2, 1),
         ignore_longer_outputs_than_inputs=True),
    case("CTCGreedyDecoder", PEAKS, STEPS),
    case("CTCGreedyDecoder", PEAKS, STEPS, merge_repeated=True, blank_index=1),
    *(case("CTCBeamSearchDecoder", PEAKS, STEPS, merge_repeated=merged,
           beam_width=width, top_paths=paths)
      for merged in (True, False) for width, paths in ((3, 2), (30, 4))),
]  # fmt: skip

CASES = [*PARTS, *NUMBERS, *HASHES, *CTC]
