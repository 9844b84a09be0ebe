"""YAML scalars: the core schema of YAML 1.2, read and written.

`no`, `on`, `1:30` and `2020-01-01` are strings; `0o17` and `0x1F` are ints; `1e5` is a
float. On output, strings that any version of YAML reads as another type are quoted.
"""

from __future__ import annotations

import math
import re

from amanda.errors import FormatError

__all__ = [
    "escape_text",
    "holds_surrogate",
    "lone_surrogate",
    "may_hold_surrogates",
    "parse_number",
    "resolve_scalar",
    "format_float",
    "format_text",
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

# what some YAML parser reads as another type
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


def resolve_scalar(text: str) -> Scalar:
    """The value of a plain (unquoted, untagged) scalar.

    >>> [resolve_scalar(text) for text in ("no", "0x10", "1e5", "~", "-.inf", "1:30")]
    ['no', 16, 100000.0, None, -inf, '1:30']
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _START:
        return text
    number = parse_number(text)
    return text if number is None else number


def parse_number(text: str) -> int | float | None:
    """The number of a text; OverflowError if it exceeds the range of floats."""
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


def format_float(value: float) -> str:
    """A float that both YAML 1.1 and 1.2 read back exactly.

    >>> format_float(1e16), format_float(-0.0), format_float(float("nan"))
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


def format_text(text: str, flow: bool) -> str:
    """A string as a YAML scalar: unquoted where that is unambiguous.

    >>> format_text("dense/MatMul", True), format_text("no", True)
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
    return escape_text(text)


def escape_text(text: str) -> str:
    """A string in double quotes for YAML; line breaks and controls are escaped."""
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
    """Whether a document has escaped surrogates, so that strings must be checked."""
    return _SURROGATE.search(text) is not None


def holds_surrogate(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= char < "\ue000" for char in text)


def lone_surrogate(text: str) -> FormatError:
    return FormatError(
        "a string holds half of a surrogate pair, which no file can hold",
        got=ascii(text[:60]),
        hint="keep such data as bytes",
    )
