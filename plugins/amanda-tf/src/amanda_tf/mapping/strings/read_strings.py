"""From TensorFlow: strings whose arguments are inputs."""

from __future__ import annotations

from functools import reduce
from typing import Any

from amanda.tensors import Tensor
from amanda_std import ops
from amanda_std.mappings import expect, known_scalar

__all__ = ["READ", "constant_text", "read_string_join"]


def constant_text(value: Any, what: str) -> str:
    """A constant scalar string."""
    found = known_scalar(value)
    expect(isinstance(found, str | bytes), f"{what} is not constant")
    return found.decode() if isinstance(found, bytes) else str(found)


def read_regex_full_match(x: Any, pattern: Any) -> Any:
    """RegexFullMatch, of a constant pattern, to `regex_full_match`."""
    return ops.regex_full_match(x, pattern=constant_text(pattern, "pattern"))


def read_static_regex_replace(
    x: Any, *, pattern: str, rewrite: str, replace_global: bool = True
) -> Any:
    """StaticRegexReplace to `regex_replace`."""
    expect("\\0" not in rewrite, "the replacement refers to the whole match")
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


READ: dict[str, Any] = {
    "RegexFullMatch": read_regex_full_match,
    "RegexReplace": read_regex_replace,
    "StaticRegexReplace": read_static_regex_replace,
    "StringJoin": read_string_join,
}
