"""Attribute values of the readable form."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from amanda.errors import AmandaError, LimitError
from amanda.files.text.document.tensor_values import tensor_from_data
from amanda.files.text.readable.tokens import Token, Tokens, matching_bracket, type_end
from amanda.files.text.syntax.plain_data import Tagged, locate_error, quote_short
from amanda.files.text.syntax.scalars import parse_number
from amanda.tensors import FunctionRef, Tensor
from amanda.tensors.values import MAX_DEPTH
from amanda.types import (
    Shape,
    Symbols,
    TensorType,
    Type,
    parse_dim,
    parse_element,
    parse_shape,
    parse_type,
)

__all__ = ["ValueParser"]

_WORDS = {
    "null": None,
    "true": True,
    "false": False,
    "nan": float("nan"),
    "inf": float("inf"),
}
_MAX_BITS = 256  # of an int, as `check_attr` has it


class ValueParser:
    """Parses values from tokens, lists and maps without recursion."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.symbols = Symbols()
        self.types: dict[str, Type] = {}

    def attrs(self) -> dict[str, Any]:
        """A map in braces."""
        if not self.tokens.at("{"):
            raise self.tokens.unexpected_error("`{`")
        attrs = self.value()
        assert isinstance(attrs, dict)
        return attrs

    def name(self, expected: str) -> str:
        """A bare word, or a text in quotes."""
        token = self.tokens.here
        if token.kind == "word":
            return self.tokens.next().text
        if token.kind == "text":
            return self.tokens.unquote(self.tokens.next())
        raise self.tokens.unexpected_error(expected)

    def value(self) -> Any:
        """Any attribute value."""
        tokens = self.tokens
        open_: list[Any] = []
        keys: list[str] = []
        while True:
            if tokens.at("[") or tokens.at("{"):
                if len(open_) >= MAX_DEPTH:
                    raise self._too_deep()
                is_map = tokens.next().text == "{"
                value: Any = {} if is_map else []
                if not tokens.consume_if("}" if is_map else "]"):
                    open_.append(value)
                    keys.append(self._key(value) if is_map else "")
                    continue
            else:
                value = self.leaf()
            while open_:  # add the value to its container, and close those that end
                holder = open_[-1]
                if isinstance(holder, dict):
                    holder[keys[-1]] = value
                else:
                    holder.append(value)
                if tokens.consume_if(","):
                    if isinstance(holder, dict):
                        keys[-1] = self._key(holder)
                    break
                tokens.expect("}" if isinstance(holder, dict) else "]")
                value = open_.pop()
                keys.pop()
            if not open_:
                return value

    def _too_deep(self) -> LimitError:
        return LimitError(
            "an attribute is nested too deeply",
            where=self.tokens.where(self.tokens.here.start),
            expected=f"at most {MAX_DEPTH} lists and maps in each other",
        )

    def _key(self, holder: dict[str, Any]) -> str:
        start = self.tokens.here.start
        key = self.name("a key")
        self.tokens.expect(":")
        if key in holder:
            raise self.tokens.error(
                f"the key {quote_short(key)} stands twice in one map", start
            )
        return key

    def leaf(self) -> Any:
        """A value other than a list or map."""
        tokens = self.tokens
        token = tokens.here
        if token.kind == "text":
            return tokens.unquote(tokens.next())
        if token.kind == "number":
            return self._number(tokens.next())
        if token.kind == "bytes":
            return self._bytes(tokens.next())
        if token.kind == "word":
            follows = tokens.text[token.end : token.end + 1]
            if token.text in _WORDS:
                tokens.next()
                return _WORDS[token.text]
            if token.text + follows in _CALLS:
                return _CALLS[token.text + follows](self, token)
            return self._dtype(token)
        if tokens.consume_if("@"):
            return FunctionRef(self.name("a function's name"))
        raise tokens.unexpected_error("a value")

    def _number(self, token: Token) -> int | float:
        if token.text == "-inf":
            return float("-inf")
        try:
            value = parse_number(token.text)
        except OverflowError as error:
            raise self.tokens.error(
                "a number out of range", token.start, got=error
            ) from error
        assert value is not None
        if isinstance(value, int) and value.bit_length() > _MAX_BITS:
            raise LimitError(
                "an int that is too large",
                where=self.tokens.where(token.start),
                expected=f"at most {_MAX_BITS} bits",
            )
        return value

    def _bytes(self, token: Token) -> bytes:
        try:
            return base64.b64decode(token.text[2:-1], validate=True)
        except (binascii.Error, ValueError) as error:
            raise self.tokens.error(
                f"the bytes are not base64: {error}", token.start
            ) from error

    # -- what the room of types reads --------------------------------------------------

    def type(self) -> Type:
        """A type, up to where it ends."""
        start = self.tokens.here.start
        end = type_end(self.tokens.text, start)
        if end == start:
            raise self.tokens.unexpected_error("a type")
        made = self._parse_span(start, end, parse_type)
        self.tokens.move_to(end)
        assert isinstance(made, Type)
        return made

    def _parse_span(self, start: int, end: int, parse: Any) -> Any:
        text = self.tokens.text[start:end]
        known = self.types.get(text) if parse is parse_type else None
        if known is not None:
            return known
        try:
            if parse is parse_element:
                return parse_element(text)
            made = parse(text, self.symbols)
        except AmandaError as error:
            raise locate_error(error, self.tokens.where(start)) from error
        if parse is parse_type and "?" not in text:
            self.types[text] = made
        return made

    def _dtype(self, token: Token) -> Any:
        end = token.end
        if self.tokens.text.startswith("<", end):
            end = matching_bracket(self.tokens.text, end)
        made = self._parse_span(token.start, end, parse_element)
        self.tokens.move_to(end)
        return made

    def _shape(self, token: Token) -> Shape:
        end = matching_bracket(self.tokens.text, token.end)
        made = self._parse_span(token.end, end, parse_shape)
        self.tokens.move_to(end)
        assert isinstance(made, Shape)
        return made

    def _inside(self, token: Token, parse: Any) -> Any:
        """Parse what is in the brackets after a word."""
        end = matching_bracket(self.tokens.text, token.end)
        made = self._parse_span(token.end + 1, max(end - 1, token.end + 1), parse)
        self.tokens.move_to(end)
        return made

    def _dim(self, token: Token) -> Any:
        return self._inside(token, parse_dim)

    def _type(self, token: Token) -> Any:
        return self._inside(token, parse_type)

    def _complex(self, _token: Token) -> complex:
        """`complex(0.0, -1.5)`: real and imaginary part."""
        tokens = self.tokens
        tokens.next()
        tokens.expect("(")
        real = self._part()
        tokens.expect(",")
        imag = self._part()
        tokens.expect(")")
        return complex(real, imag)

    def _part(self) -> float:
        token = self.tokens.here
        if token.kind == "number":
            return float(self._number(self.tokens.next()))
        if token.text in ("nan", "inf"):
            return float(self.tokens.next().text)
        raise self.tokens.unexpected_error("a number")

    def tensor(self, token: Token) -> Tensor:
        """`tensor<float32[2]>(0.5, 1.0)`, `(splat 0.0)` or `(data b"...")`."""
        tokens = self.tokens
        type_ = self._inside(token, parse_type)
        if not isinstance(type_, TensorType) or not type_.shape.is_static:
            raise tokens.error("a tensor has a known shape", token.start, got=type_)
        fields: dict[str, Any] = {
            "dtype": str(type_.dtype),
            "shape": list(type_.shape),
        }
        tokens.expect("(")
        if tokens.at("data") or tokens.at("splat"):
            how = tokens.next().text
            fields[how] = self._element(type_.dtype, raw=True)
            if how == "data" and isinstance(fields[how], Tagged):
                fields[how] = fields[how].value
        else:
            is_text = type_.dtype.kind in ("string", "bytes")
            items = fields["strings" if is_text else "values"] = []
            while not tokens.at(")"):
                items.append(self._element(type_.dtype))
                if not tokens.consume_if(","):
                    break
        tokens.expect(")")
        try:
            return tensor_from_data(fields)
        except AmandaError as error:
            raise locate_error(error, tokens.where(token.start)) from error

    def _element(self, dtype: Any, raw: bool = False) -> Any:
        """A number or string; packed bytes stay base64 text."""
        token = self.tokens.here
        if token.kind == "bytes" and (raw or dtype.kind in ("string", "bytes")):
            self.tokens.next()
            return Tagged("bytes", token.text[2:-1])
        if token.kind not in ("text", "number", "word"):
            raise self.tokens.unexpected_error("an element")
        return self.leaf()


_CALLS = {
    "shape[": ValueParser._shape,
    "complex(": ValueParser._complex,
    "dim(": ValueParser._dim,
    "type<": ValueParser._type,
    "tensor<": ValueParser.tensor,
}
