"""From TensorFlow: strings whose arguments are inputs."""

from __future__ import annotations

import re
from functools import reduce
from typing import Any

import numpy as np

from amanda.tensors import Tensor
from amanda_std import ops
from amanda_std.mappings import expect, known_scalar, rank_of

__all__ = ["READ", "constant_text", "read_string_join"]


def constant_text(value: Any, what: str) -> str:
    """A constant scalar string."""
    found = known_scalar(value)
    expect(isinstance(found, str | bytes), f"{what} is not constant")
    return found.decode() if isinstance(found, bytes) else str(found)


def read_regex_full_match(x: Any, pattern: Any) -> Any:
    """RegexFullMatch, of a constant pattern, to `regex_full_match`."""
    return ops.regex_full_match(x, pattern=constant_text(pattern, "pattern"))


_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def _next_group(escape: re.Match[str]) -> str:
    return f"\\{int(escape[1]) + 1}" if escape[1].isdigit() else escape[0]


def read_static_regex_replace(
    x: Any, *, pattern: str, rewrite: str, replace_global: bool = True
) -> Any:
    """StaticRegexReplace to `regex_replace`; the whole match becomes a group."""
    if "0" in _ESCAPE.findall(rewrite):
        expect("9" not in _ESCAPE.findall(rewrite), "more than nine groups")
        pattern, rewrite = f"({pattern})", _ESCAPE.sub(_next_group, rewrite)
    return ops.regex_replace(
        x, pattern=pattern, rewrite=rewrite, everywhere=replace_global
    )


def read_regex_replace(
    x: Any, pattern: Any, rewrite: Any, *, replace_global: bool = True
) -> Any:
    """RegexReplace, of a constant pattern, to `regex_replace`."""
    texts = constant_text(pattern, "pattern"), constant_text(rewrite, "rewrite")
    return read_static_regex_replace(
        x, pattern=texts[0], rewrite=texts[1], replace_global=replace_global
    )


def read_string_join(*xs: Any, separator: str = "") -> Any:
    """Strings joined elementwise, with a separator between them."""
    if not separator:
        return reduce(ops.string_concat, xs)
    between = Tensor.strings([separator], ())
    return reduce(lambda a, b: ops.string_concat(ops.string_concat(a, between), b), xs)


def read_substr(x: Any, pos: Any, length: Any, *, unit: str = "BYTE") -> Any:
    """Substr to `substring`."""
    kind = "bytes" if unit == "BYTE" else "chars"
    return ops.substring(x, pos, length, unit=kind)


def _bucket(hashed: Any, count: int) -> Any:
    """The remainder of a hash, by the number of buckets."""
    return ops.astype(ops.remainder(hashed, np.uint64(count)), dtype="int64")


def read_hash_bucket_fast(x: Any, *, num_buckets: int) -> Any:
    """StringToHashBucketFast to the fingerprint of FarmHash."""
    return _bucket(ops.string_hash(x), num_buckets)


def read_hash_bucket(x: Any, *, num_buckets: int) -> Any:
    """StringToHashBucket to MurmurHash64A, with TensorFlow's seed."""
    seed = (0xDECAFCAFFE,)
    return _bucket(ops.string_hash(x, algorithm="murmur64a", key=seed), num_buckets)


def read_hash_bucket_strong(x: Any, *, num_buckets: int, key: Any) -> Any:
    """StringToHashBucketStrong to SipHash."""
    words = tuple(int(word) for word in key)
    return _bucket(ops.string_hash(x, algorithm="siphash24", key=words), num_buckets)


def read_fingerprint(data: Any, method: Any) -> Any:
    """Fingerprint of a vector of strings to the bytes of its hashes."""
    expect(constant_text(method, "method") == "farmhash64", "an unknown method")
    expect(str(data.dtype) == "string" and rank_of(data) == 1, "no vector of strings")
    return ops.bitcast(ops.string_hash(data), dtype="uint8")


READ: dict[str, Any] = {
    "Substr": read_substr,
    "StringToHashBucket": read_hash_bucket,
    "StringToHashBucketFast": read_hash_bucket_fast,
    "StringToHashBucketStrong": read_hash_bucket_strong,
    "Fingerprint": read_fingerprint,
    "RegexFullMatch": read_regex_full_match,
    "RegexReplace": read_regex_replace,
    "StaticRegexReplace": read_static_regex_replace,
    "StringJoin": read_string_join,
}
