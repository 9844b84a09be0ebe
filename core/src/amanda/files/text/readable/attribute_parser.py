"""Attribute values of the readable form."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from amanda.errors import AmandaError, LimitError
from amanda.files.text.document.tensor_values import tensor_of
from amanda.files.text.readable.tokens import Token, Tokens, balanced, type_end
from amanda.files.text.syntax.plain_data import Tagged, placed, short
from amanda.files.text.syntax.scalars import plain_number
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

__all__ = ["Values"]

_WORDS = {
    "null": None,
    "true": True,
    "false": False,
    "nan": float("nan"),
    "inf": float("inf"),
}
_MAX_BITS = 256  # of an int, as `check_attr` has it


class Values:
    """Reads values from tokens. Lists and maps do not recurse."""

    def __init__(self, tokens: Tokens) -> None:
        self.tokens = tokens
        self.symbols = Symbols()
        self.types: dict[str, Type] = {}

    def attrs(self) -> dict[str, Any]:
        """A map in braces."""
        if not self.tokens.sees("{"):
            raise self.tokens.unexpected("`{`")
        attrs = self.value()
        assert isinstance(attrs, dict)
        return attrs

    def name(self, expected: str) -> str:
        """A bare word, or a text in quotes."""
        token = self.tokens.here
        if token.kind == "word":
            return self.tokens.take().text
        if token.kind == "text":
            return self.tokens.unquoted(self.tokens.take())
        raise self.tokens.unexpected(expected)

    def value(self) -> Any:
        """Any attribute value."""
        tokens = self.tokens
        open_: list[Any] = []
        keys: list[str] = []
        while True:
            if tokens.sees("[") or tokens.sees("{"):
                if len(open_) >= MAX_DEPTH:
                    raise self._too_deep()
                is_map = tokens.take().text == "{"
                value: Any = {} if is_map else []
                if not tokens.skip("}" if is_map else "]"):
                    open_.append(value)
                    keys.append(self._key(value) if is_map else "")
                    continue
            else:
                value = self.leaf()
            while open_:  # put it where it belongs, and close what ends
                holder = open_[-1]
                if isinstance(holder, dict):
                    holder[keys[-1]] = value
                else:
                    holder.append(value)
                if tokens.skip(","):
                    if isinstance(holder, dict):
                        keys[-1] = self._key(holder)
                    break
                tokens.need("}" if isinstance(holder, dict) else "]")
                value = open_.pop()
                keys.pop()
            if not open_:
                return value

    def _too_deep(self) -> LimitError:
        return LimitError(
            "an attribute nests absurdly deep",
            where=self.tokens.where(self.tokens.here.start),
            expected=f"at most {MAX_DEPTH} lists and maps in each other",
        )

    def _key(self, holder: dict[str, Any]) -> str:
        start = self.tokens.here.start
        key = self.name("a key")
        self.tokens.need(":")
        if key in holder:
            raise self.tokens.error(
                f"the key {short(key)} stands twice in one map", start
            )
        return key

    def leaf(self) -> Any:
        """A value that is no list or map."""
        tokens = self.tokens
        token = tokens.here
        if token.kind == "text":
            return tokens.unquoted(tokens.take())
        if token.kind == "number":
            return self._number(tokens.take())
        if token.kind == "bytes":
            return self._bytes(tokens.take())
        if token.kind == "word":
            follows = tokens.text[token.end : token.end + 1]
            if token.text in _WORDS:
                tokens.take()
                return _WORDS[token.text]
            if token.text + follows in _CALLS:
                return _CALLS[token.text + follows](self, token)
            return self._dtype(token)
        if tokens.skip("@"):
            return FunctionRef(self.name("a function's name"))
        raise tokens.unexpected("a value")

    def _number(self, token: Token) -> int | float:
        if token.text == "-inf":
            return float("-inf")
        try:
            value = plain_number(token.text)
        except OverflowError as error:
            raise self.tokens.error(
                "a number out of range", token.start, got=error
            ) from error
        assert value is not None
        if isinstance(value, int) and value.bit_length() > _MAX_BITS:
            raise LimitError(
                "an absurdly large int",
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
            raise self.tokens.unexpected("a type")
        made = self._parsed(start, end, parse_type)
        self.tokens.jump(end)
        assert isinstance(made, Type)
        return made

    def _parsed(self, start: int, end: int, parse: Any) -> Any:
        text = self.tokens.text[start:end]
        known = self.types.get(text) if parse is parse_type else None
        if known is not None:
            return known
        try:
            if parse is parse_element:
                return parse_element(text)
            made = parse(text, self.symbols)
        except AmandaError as error:
            raise placed(error, self.tokens.where(start)) from error
        if parse is parse_type and "?" not in text:
            self.types[text] = made
        return made

    def _dtype(self, token: Token) -> Any:
        end = token.end
        if self.tokens.text.startswith("<", end):
            end = balanced(self.tokens.text, end)
        made = self._parsed(token.start, end, parse_element)
        self.tokens.jump(end)
        return made

    def _shape(self, token: Token) -> Shape:
        end = balanced(self.tokens.text, token.end)
        made = self._parsed(token.end, end, parse_shape)
        self.tokens.jump(end)
        assert isinstance(made, Shape)
        return made

    def _inside(self, token: Token, parse: Any) -> Any:
        """What stands in the brackets behind a word."""
        end = balanced(self.tokens.text, token.end)
        made = self._parsed(token.end + 1, max(end - 1, token.end + 1), parse)
        self.tokens.jump(end)
        return made

    def _dim(self, token: Token) -> Any:
        return self._inside(token, parse_dim)

    def _type(self, token: Token) -> Any:
        return self._inside(token, parse_type)

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
        tokens.need("(")
        if tokens.sees("data") or tokens.sees("splat"):
            how = tokens.take().text
            fields[how] = self._element(type_.dtype, raw=True)
            if how == "data" and isinstance(fields[how], Tagged):
                fields[how] = fields[how].value
        else:
            is_text = type_.dtype.kind in ("string", "bytes")
            items = fields["strings" if is_text else "values"] = []
            while not tokens.sees(")"):
                items.append(self._element(type_.dtype))
                if not tokens.skip(","):
                    break
        tokens.need(")")
        try:
            return tensor_of(fields)
        except AmandaError as error:
            raise placed(error, tokens.where(token.start)) from error

    def _element(self, dtype: Any, raw: bool = False) -> Any:
        """A number or text; packed bytes stay text in base64."""
        token = self.tokens.here
        if token.kind == "bytes" and (raw or dtype.kind in ("string", "bytes")):
            self.tokens.take()
            return Tagged("bytes", token.text[2:-1])
        if token.kind not in ("text", "number", "word"):
            raise self.tokens.unexpected("an element")
        return self.leaf()


_CALLS = {
    "shape[": Values._shape,
    "dim(": Values._dim,
    "type<": Values._type,
    "tensor<": Values.tensor,
}
