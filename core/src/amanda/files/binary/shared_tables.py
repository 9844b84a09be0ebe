"""Tables of a file: strings, types and tensors, referred to by number.

Number 0 means "none", so the first entry has number 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from amanda.errors import AmandaError
from amanda.formatkit.wire import locate_error
from amanda.types import Symbols, Type, parse_type

if TYPE_CHECKING:
    from amanda.tensors import Tensor

__all__ = ["ReadTables", "WriteTables"]

_HEAD = 256  # bytes that distinguish most tensors


class WriteTables:
    """Assigns numbers in order of appearance."""

    def __init__(self) -> None:
        self.symbols = Symbols()
        self.words: dict[str, int] = {}
        self.types: dict[str, int] = {}
        self.tensors: list[Tensor] = []
        self.wishes: list[str | None] = []
        """The preferred name of each tensor."""
        self._type_numbers: dict[int, int] = {}
        self._tensor_numbers: dict[int, int] = {}
        self._alone: dict[object, int] = {}
        self._alike: dict[object, list[int]] = {}

    def word(self, word: str | None) -> int:
        if word is None:
            return 0
        number = self.words.get(word)
        if number is None:
            number = self.words[word] = len(self.words) + 1
        return number

    def type(self, type: Type | None) -> int:
        if type is None:
            return 0
        # The graph keeps the object alive, so its id is unique meanwhile.
        number = self._type_numbers.get(id(type))
        if number is None:
            text = type.text(self.symbols)
            number = self.types.setdefault(text, len(self.types) + 1)
            self._type_numbers[id(type)] = number
        return number

    def tensor(self, tensor: Tensor, wish: str | None = None) -> int:
        """The number of a tensor with this content."""
        number = self._tensor_numbers.get(id(tensor))
        if number is None:
            number = self._same_content(tensor)
            if number is None:
                self.tensors.append(tensor)
                self.wishes.append(wish)
                number = len(self.tensors)
            self._tensor_numbers[id(tensor)] = number
        return number

    def _same_content(self, tensor: Tensor) -> int | None:
        """The number of a tensor with the same content, if there is one.

        Only tensors with equal dtype, shape and first bytes are hashed, so the data of
        most is not read before it is written.
        """
        number = len(self.tensors) + 1
        kind = (tensor.dtype, tensor.shape)
        first = self._alone.setdefault(kind, number)
        if first == number:
            return None
        if first:
            self._alone[kind] = 0
            self._alike[kind, _first_bytes(self.tensors[first - 1])] = [first]
        alike = self._alike.setdefault((kind, _first_bytes(tensor)), [])
        for other in alike:
            small = tensor.nbytes <= _HEAD
            if small or self.tensors[other - 1].digest() == tensor.digest():
                return other
        alike.append(number)
        return None


def _first_bytes(tensor: Tensor) -> bytes:
    return bytes(next(iter(tensor.chunks(_HEAD)), b""))


class ReadTables:
    """Entries by number; entry 0 is None."""

    def __init__(self, words: Sequence[str], types: Sequence[str]) -> None:
        self.symbols = Symbols()
        self.words: list[str | None] = [None, *words]
        self.types: list[Type | None] = [None]
        self.tensors: list[Tensor | None] = [None]
        for number, text in enumerate(types, 1):
            try:
                self.types.append(parse_type(text, self.symbols))
            except AmandaError as error:
                raise locate_error(error, f"type {number} of the file") from error
