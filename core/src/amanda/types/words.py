"""Names in written types: plain where they can be, quoted where not."""

from __future__ import annotations

import re
import reprlib

from amanda.errors import InvalidTypeError

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")
_UNSEEN = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")  # some end a line to readers
_RESERVED = frozenset({"min", "max", "true", "false"})


def word(name: str) -> str:
    """The name as it stands in a text.

    >>> print(word("batch"), word("batch size"))
    batch "batch size"
    """
    return name if _PLAIN.match(name) and name not in _RESERVED else quoted(name)


def quoted(text: str) -> str:
    """Text in double quotes, with the escapes of JSON."""
    import json

    return _UNSEEN.sub(_escape, json.dumps(text, ensure_ascii=False))


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def check_text(text: object, what: str) -> None:
    """Refuses what is no text; half a surrogate pair cannot be written to any file."""
    if not isinstance(text, str):
        raise InvalidTypeError(f"{what} is a str", got=reprlib.repr(text))
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidTypeError(f"{what} is no Unicode text", got=ascii(text)) from None
