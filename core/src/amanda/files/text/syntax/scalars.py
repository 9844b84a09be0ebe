"""Scalars of YAML: the core schema of YAML 1.2, read and written.

`no`, `on`, `1:30` and `2020-01-01` are text; `0o17` and `0x1F` are ints; `1e5` is a
float. What is written needs no knowledge of this: everything that any version of YAML
reads as something else than text stands in quotes.
"""

from __future__ import annotations

import math
import re

from amanda.errors import FormatError

__all__ = [
    "escaped",
    "holds_surrogate",
    "lone_surrogate",
    "may_hold_surrogates",
    "plain_number",
    "resolved",
    "shown_float",
    "shown_text",
]

Scalar = bool | int | float | str | None

_WORDS: dict[str, Scalar] = {
    "": None,
    "~": None,
    **dict.fromkeys(("null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **{
        sign + word: -math.inf if sign == "-" else math.inf
        for sign in ("", "+", "-")
        for word in (".inf", ".Inf", ".INF")
    },
}
_INT = re.compile(r"[-+]?[0-9]+|-?0x[0-9a-fA-F]+|-?0o[0-7]+", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_START = frozenset("+-.0123456789")
DIGITS = 4000  # below the interpreter's own limit for decimal ints

# what some YAML reader takes for more than text
_TAKEN = re.compile(
    r"(?:yes|no|on|off|true|false|null|nan|inf|~|<<|=)\Z"
    r"|[-+]?\.?[0-9][0-9_:.eExXoOa-fA-F+\-]*(?:[ tT][0-9:. zZ+\-]*)?\Z"
    r"|[-+]?\.(?:inf|nan)\Z",
    re.IGNORECASE | re.ASCII,
)
_INNER = r"A-Za-z0-9_/.^()<>$+\-*=@;!~|&%:# "
_BLOCK = re.compile(rf"[A-Za-z0-9_/.^(<$+][{_INNER}?,\[\]{{}}]*\Z")
_FLOW = re.compile(rf"(?!.*:[^\w/:])[A-Za-z0-9_/.^(<$+][{_INNER}]*\Z", re.ASCII)
_ODD = re.compile(
    '[\\\\"]|[^ -~\xa1-\xac\xae-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd'
    "\U00010000-\U0010ffff]"
)
_SURROGATE = re.compile(r"\\[uU]0*[dD][89a-fA-F]")
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def resolved(text: str) -> Scalar:
    """The value of a plain (unquoted, untagged) scalar.

    >>> [resolved(text) for text in ("no", "0x10", "1e5", "~", "-.inf", "1:30")]
    ['no', 16, 100000.0, None, -inf, '1:30']
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _START:
        return text
    number = plain_number(text)
    return text if number is None else number


def plain_number(text: str) -> int | float | None:
    """The number that a text writes; OverflowError where no float can hold it."""
    if _INT.fullmatch(text):
        digits = text.lstrip("+-")
        base = {"0x": 16, "0o": 8}.get(digits[:2], 10)
        if base == 10 and len(digits) > DIGITS:
            raise OverflowError(f"an int of {len(digits):,} decimal digits")
        return int(text, base)
    if _FLOAT.fullmatch(text):
        value = float(text)
        if math.isinf(value):
            raise OverflowError(f"{text[:40]} is larger than any float")
        return value
    return None


def shown_float(value: float) -> str:
    """A float as YAML 1.1 and 1.2 both read it back, exactly.

    >>> shown_float(1e16), shown_float(-0.0), shown_float(float("nan"))
    ('1.0e+16', '-0.0', '.nan')
    """
    if value != value:
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    text = repr(value)
    if "e" in text and "." not in text:
        text = text.replace("e", ".0e")
    return text


def shown_text(text: str, flow: bool) -> str:
    """Text as a YAML scalar: plain where that is safe, else in double quotes.

    >>> shown_text("dense/MatMul", True), shown_text("no", True)
    ('dense/MatMul', '"no"')
    """
    if (
        (_FLOW if flow else _BLOCK).match(text)
        and ": " not in text
        and " #" not in text
        and text[-1] not in ": "
        and not text.startswith("...")
        and not _TAKEN.match(text)
    ):
        return text
    return escaped(text)


def escaped(text: str) -> str:
    """Text in double quotes as YAML reads it; line breaks and controls by name."""
    return f'"{_ODD.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    if char in _SHORT:
        return _SHORT[char]
    code = ord(char)
    if 0xD800 <= code < 0xE000:
        raise lone_surrogate(match.string)
    if code < 256:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"


def may_hold_surrogates(text: str) -> bool:
    """Does a document escape any? Only then its texts need a closer look."""
    return _SURROGATE.search(text) is not None


def holds_surrogate(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= char < "\ue000" for char in text)


def lone_surrogate(text: str) -> FormatError:
    return FormatError(
        "a text holds half of a surrogate pair, which no file can hold",
        got=ascii(text[:60]),
        hint="keep such data as bytes",
    )
