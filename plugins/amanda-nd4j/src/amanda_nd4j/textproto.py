"""The protobuf text format, read and printed, as far as Deeplearning4j's files use it.

    opList {
      name: "conv2d"
      argDescriptor { name: "kH"  argType: INT64 }
    }

The text contains all field names, so that reading needs neither a schema nor protobuf.
A message is a dict of lists, since any field may be repeated; words such as `INT64` are
strings of their own class.

Nesting is limited; deeper messages and invalid text are errors with the line number.
"""

from __future__ import annotations

import ast
import re
from typing import Any, Final, TypeAlias

from amanda.errors import FormatError

__all__ = ["Message", "EnumWord", "parse_text", "print_text"]

Message: TypeAlias = dict[str, list[Any]]
"""Fields by name, with all their values."""

_MAX_DEPTH: Final = 32
_TOKEN: Final = re.compile(
    r"""(?P<space>[\s,;]+|\#[^\n]*)
      | (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<number>-?(?:0x[0-9a-fA-F]+|[0-9.]+(?:[eE][-+]?[0-9]+)?)f?(?![\w.]))
      | (?P<word>-?[A-Za-z_][\w.]*)
      | (?P<sign>[:{}<>\[\]])""",
    re.VERBOSE,
)

_ESCAPES: Final = str.maketrans(
    {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
)


class EnumWord(str):
    """A word without quotes: the value of an enumeration."""

    __slots__ = ()


def parse_text(text: str, file: str = "") -> Message:
    """Parse a text as one message.

    >>> parse_text('op { name: "add" kind: SUM at: 1 } op { name: "mul" }')
    {'op': [{'name': ['add'], 'kind': ['SUM'], 'at': [1]}, {'name': ['mul']}]}
    """
    return _TextReader(text, file).message()


def print_text(message: Message, indent: str = "") -> str:
    """A message as text, a line for each value; `parse_text` reads it.

    >>> print(print_text({"op": [{"name": ["add"]}], "at": [1]}), end="")
    op {
      name: "add"
    }
    at: 1
    """
    return "".join(
        f"{indent}{name} {{\n{print_text(value, indent + '  ')}{indent}}}\n"
        if isinstance(value, dict)
        else f"{indent}{name}: {_print_value(value)}\n"
        for name, values in message.items()
        for value in values
    )


def _print_value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str) or isinstance(value, EnumWord):
        return str(value)
    escaped = value.translate(_ESCAPES)
    return f'"{escaped}"'


class _TextReader:
    def __init__(self, text: str, file: str) -> None:
        self.text, self.file = text, file
        self.at = 0
        self.kind, self.token = "", ""
        self.step()

    def step(self) -> None:
        """Advance to the next token; its kind is empty at the end."""
        while self.at < len(self.text):
            found = _TOKEN.match(self.text, self.at)
            if found is None:
                raise self.fault("a field of a message", self.text[self.at])
            self.at = found.end()
            self.kind, self.token = found.lastgroup or "", found[0]
            if self.kind != "space":
                return
        self.kind, self.token = "", ""

    def take(self, sign: str) -> bool:
        if self.kind == "sign" and self.token == sign:
            self.step()
            return True
        return False

    def message(self, closing: str = "", depth: int = 0) -> Message:
        if depth > _MAX_DEPTH:
            raise self.fault(f"messages nested {_MAX_DEPTH} deep at most", "more")
        found: Message = {}
        while not (closing and self.take(closing)):
            if not self.kind and not closing:
                break
            if self.kind != "word":
                raise self.fault("the name of a field", self.token)
            name = self.token
            self.step()
            found.setdefault(name, []).extend(self.values(depth))
        return found

    def values(self, depth: int) -> list[Any]:
        """The values of a field: one, or a list in brackets."""
        colon = self.take(":")
        if colon and self.take("["):
            many: list[Any] = []
            while not self.take("]"):
                many.append(self.value(depth, colon))
            return many
        return [self.value(depth, colon)]

    def value(self, depth: int, colon: bool) -> Any:
        for opening, closing in ("{}", "<>"):
            if self.take(opening):
                return self.message(closing, depth + 1)
        kind, token = self.kind, self.token
        if not colon or kind not in ("text", "number", "word"):
            raise self.fault("a value" if colon else "':' or '{'", token)
        self.step()
        if kind == "word":
            return {"true": True, "false": False}.get(token, EnumWord(token))
        if kind == "number":
            return self.number(token)
        parts = [token]
        while self.kind == "text":  # adjacent strings are concatenated
            parts.append(self.token)
            self.step()
        return "".join(map(self.unquote, parts))

    def number(self, token: str) -> int | float:
        try:
            if token.lower().startswith(("0x", "-0x")):
                return int(token, 16)
            plain = token.removesuffix("f")
            return float(plain) if re.search(r"[.eE]", plain) else int(plain)
        except ValueError:
            raise self.fault("a number", token) from None

    def unquote(self, token: str) -> str:
        try:
            found = ast.literal_eval(f"b{token}" if token.isascii() else token)
        except (ValueError, SyntaxError):
            raise self.fault("a text in quotes", token) from None
        return found.decode() if isinstance(found, bytes) else str(found)

    def fault(self, expected: str, got: str) -> FormatError:
        return FormatError(
            "this is no protocol buffer as text",
            who=self.file or None,
            where=f"line {self.text.count(chr(10), 0, self.at) + 1}",
            expected=expected,
            got=repr(got[:40]) if got else "the end",
        )
