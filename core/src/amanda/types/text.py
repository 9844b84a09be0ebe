"""Reading what types, shapes, dims and element types write.

    type     = element shape ["=" content]
             | ("sequence" | "optional" | "ref") "<" type ">"
             | "tuple" "<" [type {"," type}] ">"
             | "map" "<" (name | type) "," type ">"
             | "resource" ["<" quoted ">"] | "opaque" "<" quoted ">" | "token" | "void"
    element  = name | "?" | "quantized" "<" name "," name {"," name "=" numbers} ">"
    shape    = "[" "..." "]" | "[" [[name "="] dim {"," [name "="] dim}] "]"
    content  = "[" [content {"," content}] "]" | "true" | "false" | dim
    dim      = term {("+" | "-") term}
    term     = factor {("*" | "//" | "%") factor}
    factor   = "-" factor | integer | name | "?" [integer] | "(" dim ")"
             | ("min" | "max") "(" dim {"," dim} ")"

A name is plain, or quoted with the escapes of JSON. `?` alone is a dim of its own,
`?1` is the same one everywhere in the document.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable
from typing import Any, Final, Never, TypeVar

from amanda.errors import AmandaError, InvalidTypeError, LimitError
from amanda.types.dims import Dim, Sym, Symbols, maximum, minimum
from amanda.types.dtypes import DType, ElementType, Quantized, unknown
from amanda.types.model import (
    MapType,
    OpaqueType,
    OptionalType,
    RefType,
    ResourceType,
    SequenceType,
    TensorType,
    TokenType,
    TupleType,
    Type,
    VoidType,
)
from amanda.types.shapes import Shape

__all__ = ["parse_dim", "parse_element", "parse_shape", "parse_type"]

T = TypeVar("T")

MAX_NESTING: Final = 64
_MAX_DIGITS: Final = 78  # what the algebra takes, and int() reads at once
_SHOWN: Final = 24

_TOKEN = re.compile(
    r"""[ \t\r\n]*(?:
      (?P<word>[A-Za-z_][A-Za-z0-9_.]*)
    | (?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)
    | (?P<quoted>"[^"\\]*+(?:\\.[^"\\]*+)*+")
    | (?P<anonymous>\?[0-9]*)
    | (?P<mark>//|\.\.\.|[-+*%()\[\]<>=,])
    | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)


def parse_type(text: str, symbols: Symbols | None = None) -> Type:
    """The type that `str(type)` or `type.text(symbols)` wrote.

    >>> parse_type("sequence<float32[batch, 2*n+1]>")
    sequence<float32[batch, 2*n+1]>
    >>> parse_type("float32[3")
    Traceback (most recent call last):
    ...
    amanda.errors.InvalidTypeError: this cannot be read as a type
      where:    column 10
      expected: ',' or ']'
      got:      the end
    """
    return _read(text, symbols, "a type", _Reader.type)


def parse_shape(text: str, symbols: Symbols | None = None) -> Shape:
    """The shape that `str(shape)` wrote, such as `[n, 3]` or `[...]`."""
    return _read(text, symbols, "a shape", _Reader.shape)


def parse_dim(text: str, symbols: Symbols | None = None) -> Dim:
    """The dim that `str(dim)` wrote, or any other expression over symbols.

    >>> parse_dim("(n*4 + 4) // 2 - n")
    n+2
    """
    return _read(text, symbols, "a dim", _Reader.dim)


def parse_element(text: str) -> ElementType:
    """The element type that `str(dtype)` wrote, such as `float32`.

    >>> parse_element("quantized<int8, float32, scale=0.5>").scale
    (0.5,)
    """
    return _read(text, None, "an element type", _Reader.element)


def _read(
    text: str, symbols: Symbols | None, what: str, rule: Callable[[_Reader], T]
) -> T:
    if not isinstance(text, str):
        raise InvalidTypeError(f"{what} is read from a str", got=reprlib.repr(text))
    reader = _Reader(text, symbols, what)
    try:
        found = rule(reader)
        if reader.kind != "end":
            reader.refuse("the end")
        return found
    except AmandaError as error:
        if error.where is None:
            error.where = reader.place()
        raise


class _Reader:
    """One pass over a text; recursion is bounded by `MAX_NESTING`."""

    def __init__(self, text: str, symbols: Symbols | None, what: str) -> None:
        self.text = text
        self.what = what
        self.symbols = symbols
        self.nesting = 0
        self.kind = self.token = ""
        self.at = self.next = 0
        self.advance()

    # tokens

    def advance(self) -> str:
        """Steps to the next token; the one left behind is returned."""
        left = self.token
        match = _TOKEN.match(self.text, self.next)
        if match is None or match.lastgroup is None:
            self.kind, self.token = "fault", ""
            rest = self.text[self.next :]
            self.at = self.next + len(rest) - len(rest.lstrip())
            self.refuse("a name, a number or a mark")
        self.kind = match.lastgroup
        self.token = match[self.kind]
        self.at = match.start(self.kind)
        self.next = match.end()
        return left

    def place(self) -> str:
        return f"column {self.at + 1}"

    def refuse(self, expected: str) -> Never:
        got = repr(self.text[self.at : self.at + _SHOWN])
        if len(self.text) > self.at + _SHOWN:
            got += " ..."
        raise InvalidTypeError(
            f"this cannot be read as {self.what}",
            where=self.place(),
            expected=expected,
            got="the end" if self.at >= len(self.text) else got,
        )

    def sees(self, mark: str) -> bool:
        return self.token == mark and self.kind in ("mark", "word")

    def take(self, mark: str) -> bool:
        """Steps over this mark or word if it is next."""
        if not self.sees(mark):
            return False
        self.advance()
        return True

    def need(self, mark: str, *others: str) -> None:
        if not self.take(mark):
            self.refuse(" or ".join(repr(m) for m in (*others, mark)))

    def name(self, expected: str) -> str:
        if self.kind == "word":
            return self.advance()
        return self.quoted(expected)

    def quoted(self, expected: str) -> str:
        import json

        if self.kind != "quoted":
            self.refuse(expected)
        try:
            found = json.loads(self.token)
        except ValueError:
            self.refuse(f"{expected}, with the escapes of JSON")
        self.advance()
        return str(found)

    def integer(self, expected: str) -> int:
        if self.kind != "number" or not self.token.isdigit():
            self.refuse(expected)
        return self._int(self.token)

    def _int(self, digits: str) -> int:
        if len(digits) > _MAX_DIGITS:
            raise LimitError("a number has absurdly many digits", where=self.place())
        self.advance()
        return int(digits)

    def several(self, item: Callable[[], T], end: str) -> list[T]:
        """Items with commas between, up to and over the end mark."""
        found: list[T] = []
        if self.take(end):
            return found
        while True:
            found.append(item())
            if not self.take(","):
                self.need(end, ",")
                return found

    def inside(self, rule: Callable[[], T]) -> T:
        if self.nesting >= MAX_NESTING:
            raise LimitError(
                f"{self.what} is nested absurdly deep",
                where=self.place(),
                expected=f"at most {MAX_NESTING} levels",
            )
        self.nesting += 1
        found = rule()
        self.nesting -= 1
        return found

    # types

    def type(self) -> Type:
        keyword = self.token if self.kind == "word" else ""
        if keyword in _RULES:
            start = (self.kind, self.token, self.at, self.next)
            self.advance()
            # A handle may also be an element: resource[2] is a tensor of them.
            if not self.sees("["):
                return _RULES[keyword](self)
            self.kind, self.token, self.at, self.next = start
        return self.tensor()

    def part(self) -> Type:
        return self.inside(self.type)

    def one(self) -> Type:
        self.need("<")
        found = self.part()
        self.need(">")
        return found

    def tuple_type(self) -> TupleType:
        self.need("<")
        return TupleType(self.several(self.part, ">"))

    def map_type(self) -> MapType:
        self.need("<")
        key = self.map_key()
        self.need(",")
        value = self.part()
        self.need(">")
        return MapType(key, value)

    def map_key(self) -> DType | Type:
        """A bare name is an element type; with anything behind it, a type."""
        if self.kind == "word" and self.token not in _RULES:
            match = _TOKEN.match(self.text, self.next)
            if match is not None and match["mark"] == ",":
                found = self.element()
                assert isinstance(found, DType)
                return found
        return self.part()

    def resource(self) -> ResourceType:
        return ResourceType(self.bracketed()) if self.sees("<") else ResourceType()

    def bracketed(self) -> str:
        self.need("<")
        found = self.quoted("a quoted text")
        self.need(">")
        return found

    def tensor(self) -> TensorType:
        dtype = self.element()
        if not self.sees("["):
            self.refuse("'['")
        axes: list[str | None] = []
        shape = self.shape(axes)
        value = self.inside(self.content) if self.take("=") else None
        named = any(axis is not None for axis in axes)
        return TensorType(dtype, shape, axes if named else None, value)

    def element(self) -> ElementType:
        if self.kind == "anonymous" and self.token == "?":  # noqa: S105 - no secret
            self.advance()
            return unknown
        if self.take("quantized"):
            return self.quantized()
        if self.kind != "word":
            self.refuse(self.what if self.at == 0 else "an element type")
        found = DType(self.token)
        self.advance()
        return found

    def quantized(self) -> Quantized:
        self.need("<")
        types = [DType(self.name("an element type"))]
        self.need(",")
        types.append(DType(self.name("an element type")))
        fields: dict[str, Any] = {}
        while self.take(","):
            field = self.token
            if field not in ("scale", "zero_point", "axis", "block") or field in fields:
                self.refuse("'scale', 'zero_point', 'axis' or 'block', each once")
            self.advance()
            self.need("=")
            fields[field] = (
                self.several(self.number, "]") if self.take("[") else self.number()
            )
        self.need(">", ",")
        return Quantized(types[0], types[1], **fields)

    def number(self) -> int | float:
        sign = -1 if self.take("-") else 1
        if self.kind == "number" and not self.token.isdigit():
            return sign * float(self.advance())
        return sign * self.integer("a number")

    def shape(self, axes: list[str | None] | None = None) -> Shape:
        """A shape; the names of its axes go to `axes` where they may have names."""
        self.need("[")
        if self.take("..."):
            self.need("]")
            return Shape(None)
        return Shape(self.several(lambda: self.axis(axes), "]"))

    def axis(self, axes: list[str | None] | None) -> Dim:
        name = None
        if axes is not None and self.kind in ("word", "quoted"):
            match = _TOKEN.match(self.text, self.next)
            if match is not None and match["mark"] == "=":
                name = self.name("an axis name")
                self.need("=")
        if axes is not None:
            axes.append(name)
        return self.dim()

    def content(self) -> Any:
        if self.take("["):
            return self.several(lambda: self.inside(self.content), "]")
        for token, value in (("true", True), ("false", False)):
            if self.take(token):
                return value
        return self.dim()

    # dims

    def dim(self) -> Dim:
        total = self.term()
        while self.kind == "mark" and self.token in ("+", "-"):
            mark = self.advance()
            term = self.term()
            total = total + term if mark == "+" else total - term
        return total

    def term(self) -> Dim:
        product = self.factor()
        while self.kind == "mark" and self.token in ("*", "//", "%"):
            mark = self.advance()
            factor = self.factor()
            if mark == "*":
                product = product * factor
            elif isinstance(factor, int) and factor == 0:
                raise InvalidTypeError("a dim is divided by zero", where=self.place())
            else:
                product = product // factor if mark == "//" else product % factor
            self.bound(product)
        return product

    def bound(self, dim: Dim) -> None:
        """Plain integers grow unwatched otherwise."""
        if isinstance(dim, int) and dim.bit_length() > 256:
            raise LimitError("a number is absurdly large", where=self.place())

    def factor(self) -> Dim:
        sign = 1
        while self.take("-"):
            sign = -sign
        found = self.operand()
        return found if sign == 1 else -found

    def operand(self) -> Dim:
        if self.take("("):
            found = self.inside(self.dim)
            self.need(")")
            return found
        if self.kind == "number":
            return self.integer("an integer")
        if self.kind == "anonymous":
            return self.anonymous()
        if self.token in ("min", "max") and self.kind == "word":
            choose = minimum if self.advance() == "min" else maximum
            self.need("(")
            return choose(*self.several(lambda: self.inside(self.dim), ")"))
        return Sym.named(self.name("a dim"))

    def anonymous(self) -> Sym:
        digits = self.token[1:]
        if not digits:
            self.advance()
            return Sym.unknown()
        if self.symbols is None:
            self.symbols = Symbols()
        return self.symbols.read(self._int(digits))


_RULES: dict[str, Callable[[_Reader], Type]] = {
    "sequence": lambda reader: SequenceType(reader.one()),
    "optional": lambda reader: OptionalType(reader.one()),
    "ref": lambda reader: RefType(reader.one()),
    "tuple": _Reader.tuple_type,
    "map": _Reader.map_type,
    "resource": _Reader.resource,
    "opaque": lambda reader: OpaqueType(reader.bracketed()),
    "token": lambda _: TokenType(),
    "void": lambda _: VoidType(),
}
