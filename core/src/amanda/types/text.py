"""Parse the text of types, shapes, dims and element types.

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

A name is an identifier, or a string with JSON escapes. `?` is an anonymous dim of its
own, `?1` is the same dim everywhere in a document.
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
_MAX_DIGITS: Final = 78  # the limit of the algebra, and of a fast int()
_EXCERPT: Final = 24

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
    """Parse the text of a type, from `str(type)` or `type.text(symbols)`.

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
    return _parse(text, symbols, "a type", _Parser.type)


def as_type(value: Type | str) -> Type:
    """A type, or the type that a text describes."""
    if isinstance(value, Type):
        return value
    if isinstance(value, str):
        return parse_type(value)
    raise InvalidTypeError(
        "this is not a type",
        expected="a Type, or its text such as 'float32[n, 3]'",
        got=reprlib.repr(value),
    )


def parse_shape(text: str, symbols: Symbols | None = None) -> Shape:
    """Parse the text of a shape, such as `[n, 3]` or `[...]`."""
    return _parse(text, symbols, "a shape", _Parser.shape)


def parse_dim(text: str, symbols: Symbols | None = None) -> Dim:
    """Parse the text of a dim, or any other expression over symbols.

    >>> parse_dim("(n*4 + 4) // 2 - n")
    n+2
    """
    return _parse(text, symbols, "a dim", _Parser.dim)


def parse_element(text: str) -> ElementType:
    """Parse the text of an element type, such as `float32`.

    >>> parse_element("quantized<int8, float32, scale=0.5>").scale
    (0.5,)
    """
    return _parse(text, None, "an element type", _Parser.element)


def _parse(
    text: str, symbols: Symbols | None, what: str, rule: Callable[[_Parser], T]
) -> T:
    if not isinstance(text, str):
        raise InvalidTypeError(f"{what} is read from a str", got=reprlib.repr(text))
    reader = _Parser(text, symbols, what)
    try:
        found = rule(reader)
        if reader.kind != "end":
            reader.fail("the end")
        return found
    except AmandaError as error:
        if error.where is None:
            error.where = reader.location()
        raise


class _Parser:
    """A recursive-descent parser; `MAX_NESTING` limits recursion."""

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
        """Advance to the next token; return the current one."""
        current = self.token
        match = _TOKEN.match(self.text, self.next)
        if match is None or match.lastgroup is None:
            self.kind, self.token = "fault", ""
            rest = self.text[self.next :]
            self.at = self.next + len(rest) - len(rest.lstrip())
            self.fail("a name, a number or a mark")
        self.kind = match.lastgroup
        self.token = match[self.kind]
        self.at = match.start(self.kind)
        self.next = match.end()
        return current

    def location(self) -> str:
        return f"column {self.at + 1}"

    def fail(self, expected: str, hint: str | None = None) -> Never:
        got = repr(self.text[self.at : self.at + _EXCERPT])
        if len(self.text) > self.at + _EXCERPT:
            got += " ..."
        raise InvalidTypeError(
            f"this cannot be read as {self.what}",
            where=self.location(),
            expected=expected,
            got="the end" if self.at >= len(self.text) else got,
            hint=hint,
        )

    def peek(self, mark: str) -> bool:
        return self.token == mark and self.kind in ("mark", "word")

    def take(self, mark: str) -> bool:
        """Skip this mark or word if it is next; return whether it was."""
        if not self.peek(mark):
            return False
        self.advance()
        return True

    def expect(self, mark: str, *others: str) -> None:
        if not self.take(mark):
            self.fail(" or ".join(repr(m) for m in (*others, mark)))

    def name(self, expected: str) -> str:
        if self.kind == "word":
            return self.advance()
        return self.quoted_string(expected)

    def quoted_string(self, expected: str) -> str:
        import json

        if self.kind != "quoted":
            self.fail(expected)
        try:
            found = json.loads(self.token)
        except ValueError:
            self.fail(f"{expected}, with the escapes of JSON")
        self.advance()
        return str(found)

    def integer(self, expected: str) -> int:
        if self.kind != "number" or not self.token.isdigit():
            self.fail(expected)
        return self._int(self.token)

    def _int(self, digits: str) -> int:
        if len(digits) > _MAX_DIGITS:
            raise LimitError("a number has absurdly many digits", where=self.location())
        self.advance()
        return int(digits)

    def comma_list(self, item: Callable[[], T], end: str) -> list[T]:
        """Comma-separated items, up to and including the end mark."""
        found: list[T] = []
        if self.take(end):
            return found
        while True:
            found.append(item())
            if not self.take(","):
                self.expect(end, ",")
                return found

    def nested_rule(self, rule: Callable[[], T]) -> T:
        if self.nesting >= MAX_NESTING:
            raise LimitError(
                f"{self.what} is nested absurdly deep",
                where=self.location(),
                expected=f"at most {MAX_NESTING} levels",
            )
        self.nesting += 1
        found = rule()
        self.nesting -= 1
        return found

    # types

    def type(self) -> Type:
        keyword = self.token if self.kind == "word" else ""
        if keyword in _TYPE_PARSERS:
            start = (self.kind, self.token, self.at, self.next)
            self.advance()
            # A handle may also be an element type: resource[2] is a tensor of handles.
            if not self.peek("["):
                return _TYPE_PARSERS[keyword](self)
            self.kind, self.token, self.at, self.next = start
        return self.tensor()

    def component(self) -> Type:
        return self.nested_rule(self.type)

    def type_parameter(self) -> Type:
        self.expect("<")
        found = self.component()
        self.expect(">")
        return found

    def tuple_type(self) -> TupleType:
        self.expect("<")
        return TupleType(self.comma_list(self.component, ">"))

    def map_type(self) -> MapType:
        self.expect("<")
        key = self.map_key()
        self.expect(",")
        value = self.component()
        self.expect(">")
        return MapType(key, value)

    def map_key(self) -> DType | Type:
        """A name followed by a comma is an element type; anything else is a type."""
        if self.kind == "word" and self.token not in _TYPE_PARSERS:
            match = _TOKEN.match(self.text, self.next)
            if match is not None and match["mark"] == ",":
                found = self.element()
                assert isinstance(found, DType)
                return found
        return self.component()

    def resource(self) -> ResourceType:
        return (
            ResourceType(self.string_parameter()) if self.peek("<") else ResourceType()
        )

    def string_parameter(self) -> str:
        self.expect("<")
        found = self.quoted_string("a quoted string")
        self.expect(">")
        return found

    def tensor(self) -> TensorType:
        dtype = self.element()
        if not self.peek("["):
            self.fail("'['", f"a scalar is '{dtype}[]', any shape '{dtype}[...]'")
        axes: list[str | None] = []
        shape = self.shape(axes)
        value = self.nested_rule(self.content) if self.take("=") else None
        named = any(axis is not None for axis in axes)
        return TensorType(dtype, shape, axes if named else None, value)

    def element(self) -> ElementType:
        if self.kind == "anonymous" and self.token == "?":  # noqa: S105 - no secret
            self.advance()
            return unknown
        if self.take("quantized"):
            return self.quantized_type()
        if self.kind != "word":
            self.fail(self.what if self.at == 0 else "an element type")
        found = DType(self.token)
        self.advance()
        return found

    def quantized_type(self) -> Quantized:
        self.expect("<")
        types = [DType(self.name("an element type"))]
        self.expect(",")
        types.append(DType(self.name("an element type")))
        fields: dict[str, Any] = {}
        while self.take(","):
            field = self.token
            if field not in ("scale", "zero_point", "axis", "block") or field in fields:
                self.fail("'scale', 'zero_point', 'axis' or 'block', each once")
            self.advance()
            self.expect("=")
            fields[field] = (
                self.comma_list(self.number, "]") if self.take("[") else self.number()
            )
        self.expect(">", ",")
        return Quantized(types[0], types[1], **fields)

    def number(self) -> int | float:
        sign = -1 if self.take("-") else 1
        if self.kind == "number" and not self.token.isdigit():
            return sign * float(self.advance())
        return sign * self.integer("a number")

    def shape(self, axes: list[str | None] | None = None) -> Shape:
        """A shape; axis names, if allowed, are appended to `axes`."""
        self.expect("[")
        if self.take("..."):
            self.expect("]")
            return Shape(None)
        return Shape(self.comma_list(lambda: self.axis(axes), "]"))

    def axis(self, axes: list[str | None] | None) -> Dim:
        name = None
        if axes is not None and self.kind in ("word", "quoted"):
            match = _TOKEN.match(self.text, self.next)
            if match is not None and match["mark"] == "=":
                name = self.name("an axis name")
                self.expect("=")
        if axes is not None:
            axes.append(name)
        return self.dim()

    def content(self) -> Any:
        if self.take("["):
            return self.comma_list(lambda: self.nested_rule(self.content), "]")
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
                raise InvalidTypeError(
                    "a dim is divided by zero", where=self.location()
                )
            else:
                product = product // factor if mark == "//" else product % factor
            self.check_size(product)
        return product

    def check_size(self, dim: Dim) -> None:
        """Limit the size of plain integers."""
        if isinstance(dim, int) and dim.bit_length() > 256:
            raise LimitError("a number is absurdly large", where=self.location())

    def factor(self) -> Dim:
        sign = 1
        while self.take("-"):
            sign = -sign
        found = self.operand()
        return found if sign == 1 else -found

    def operand(self) -> Dim:
        if self.take("("):
            found = self.nested_rule(self.dim)
            self.expect(")")
            return found
        if self.kind == "number":
            return self.integer("an integer")
        if self.kind == "anonymous":
            return self.anonymous()
        if self.token in ("min", "max") and self.kind == "word":
            choose = minimum if self.advance() == "min" else maximum
            self.expect("(")
            return choose(*self.comma_list(lambda: self.nested_rule(self.dim), ")"))
        return Sym.named(self.name("a dim"))

    def anonymous(self) -> Sym:
        digits = self.token[1:]
        if not digits:
            self.advance()
            return Sym.unknown()
        if self.symbols is None:
            self.symbols = Symbols()
        return self.symbols.read(self._int(digits))


_TYPE_PARSERS: dict[str, Callable[[_Parser], Type]] = {
    "sequence": lambda reader: SequenceType(reader.type_parameter()),
    "optional": lambda reader: OptionalType(reader.type_parameter()),
    "ref": lambda reader: RefType(reader.type_parameter()),
    "tuple": _Parser.tuple_type,
    "map": _Parser.map_type,
    "resource": _Parser.resource,
    "opaque": lambda reader: OpaqueType(reader.string_parameter()),
    "token": lambda _: TokenType(),
    "void": lambda _: VoidType(),
}
