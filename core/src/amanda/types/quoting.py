"""Names in the text of types: quoted if they are not identifiers."""

from __future__ import annotations

import re
import reprlib

from amanda.errors import InvalidTypeError

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")
_INVISIBLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")  # some end a line for parsers
_RESERVED = frozenset({"min", "max", "true", "false"})


def format_name(name: str) -> str:
    """A name as text, quoted if necessary.

    >>> print(format_name("batch"), format_name("batch size"))
    batch "batch size"
    """
    return name if _PLAIN.match(name) and name not in _RESERVED else quote(name)


def quote(text: str) -> str:
    """A string in double quotes, with JSON escapes."""
    import json

    return _INVISIBLE.sub(_escape, json.dumps(text, ensure_ascii=False))


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def check_text(text: object, what: str) -> None:
    """Refuse values that are not Unicode strings; files cannot hold lone surrogates."""
    if not isinstance(text, str):
        raise InvalidTypeError(f"{what} is a str", got=reprlib.repr(text))
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidTypeError(f"{what} is no Unicode text", got=ascii(text)) from None
