"""Files of rules: text, YAML and protobuf."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from fuzz.graph_files import change_text
from fuzz.readers import Mutant, Reader
from fuzz.stages import REFUSED, run_stage
from mapping.broken_rules import (
    TEXTS,
    binary_file,
    change_row,
    read_binary,
    read_text,
    read_yaml,
)
from mapping.files import EVERYTHING, TABLES

from amanda.errors import AmandaError
from amanda.files.binary import mapping_messages
from amanda.mapping.rules import protobuf

__all__ = ["READERS"]

_READ: dict[str, Callable[[bytes], None]] = {
    ".rules": read_text,
    ".yaml": read_yaml,
    ".pb": read_binary,
}


def _texts() -> tuple[Mutant, ...]:
    return tuple(Mutant("rules", text) for text in TEXTS if len(text) < 20_000)


def _yaml() -> tuple[Mutant, ...]:
    return tuple(Mutant("yaml", text.encode()) for text in (EVERYTHING, TABLES))


@cache
def _binary() -> tuple[Mutant, ...]:
    return (Mutant("pb", binary_file()),)


def _change_binary(data: bytes, good: Sequence[bytes], choose: random.Random) -> bytes:
    if choose.random() < 0.2:
        return change_text(data, good, choose)
    file: Any = protobuf.decode_file(data)
    for _ in range(choose.choice([1, 1, 2, 4])):
        row = file if choose.random() < 0.1 else choose.choice(file.rules or [file])
        change_row(row, choose)
    return bytes(mapping_messages.write(file))


def _attempt(path: Path, folder: Path, choose: random.Random) -> str:
    """Read rules; an error has to name its place."""

    def read() -> str:
        try:
            _READ[path.suffix](path.read_bytes())
        except AmandaError as error:
            if not (error.where or error.who):
                raise AssertionError("an error without its place") from error
            raise
        return "read"

    return run_stage("read", read) or REFUSED


READERS = [
    Reader("rules", 3, _texts, change_text, _attempt),
    Reader("rules-yaml", 3, _yaml, change_text, _attempt),
    Reader("rules-pb", 3, _binary, _change_binary, _attempt),
]
