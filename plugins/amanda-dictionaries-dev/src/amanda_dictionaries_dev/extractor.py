"""The base class of extractors, and helpers for those who write one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from amanda.dictionary import (
    DictionaryHeader,
    OpDef,
    OpHistory,
    TypePattern,
    encode_data_file,
)
from amanda.errors import NamespaceError, PluginMissingError
from amanda.types import DType, dtype_names

__all__ = [
    "ExtractedDictionary",
    "Extractor",
    "InstalledOps",
    "definitions_by_name",
    "first_sentence",
    "requires_framework",
    "sort_patterns",
]

_DTYPE_ORDER = {name: i for i, name in enumerate(dtype_names())}


class ExtractedDictionary(NamedTuple):
    """All versions of a dictionary, as a data file holds them."""

    header: DictionaryHeader
    blocks: list[OpHistory]

    def encode(self) -> bytes:
        return encode_data_file(self.header, self.blocks)


class InstalledOps(NamedTuple):
    """The op definitions of an installed framework, by version.

    Most frameworks know one version, their own. `source` is the package that was read,
    such as `onnx 1.23.2`.
    """

    source: str
    versions: Mapping[str, Sequence[OpDef]]


class Extractor:
    """Extracts one dictionary from a framework; subclass it and define `installed_ops`.

    - `header`: the header of the data file, without its versions
    - `waivers`: ops whose definitions may differ from the framework's, with the reason.
      An unused waiver is a fault.

    An entry point of the group `amanda.extractors`, named after the dictionary, makes
    it known.
    """

    header: DictionaryHeader
    waivers: Mapping[str, str] = MappingProxyType({})

    @property
    def path(self) -> str:
        """The namespace without its version, such as `amanda/tensorflow`."""
        return self.header.namespace

    def installed_ops(self) -> InstalledOps:
        """Op definitions of the installed framework.

        Raises `PluginMissingError` where it is not installed.
        """
        raise NotImplementedError

    def extract(self, raw: Path | None) -> ExtractedDictionary | None:  # noqa: ARG002
        """All versions, from a folder of raw data, or from the framework alone.

        None where `raw` is not the source of this dictionary: the installed version is
        then merged into the existing history.
        """
        return None


@contextmanager
def requires_framework(module: str, install: str) -> Iterator[None]:
    """Wrap the import of a framework: if it is missing, the error says what to do."""
    try:
        yield
    except ImportError as error:
        raise PluginMissingError(
            f"{module} is not installed; its dictionary is extracted from it",
            got=error,
            hint=f"pip install {install}",
        ) from error


def definitions_by_name(
    path: str, version: str, definitions: Iterable[OpDef]
) -> dict[str, OpDef]:
    """Op definitions by name; duplicates are an error."""
    by_name: dict[str, OpDef] = {}
    for definition in definitions:
        if definition.name in by_name:
            raise NamespaceError(
                f"{path} {version} defines {definition.name} twice",
                got=f"{by_name[definition.name]}, and {definition}",
            )
        by_name[definition.name] = definition
    return by_name


def sort_patterns(patterns: Iterable[TypePattern]) -> tuple[TypePattern, ...]:
    """Unique patterns: element types in canonical order, then other types by text."""

    def key(pattern: TypePattern) -> tuple[int, str]:
        if isinstance(pattern, DType):
            return _DTYPE_ORDER[pattern.name], ""
        return len(_DTYPE_ORDER), str(pattern)

    return tuple(sorted(set(patterns), key=key))


def first_sentence(text: str) -> str:
    """The first sentence of a documentation text, without markup.

    >>> first_sentence("\\nRelu takes *one* input.\\nMore follows.")
    'Relu takes one input.'
    """
    words = re.sub(r"<[^>]*>|[*`]|\$\$?", "", text.strip().partition("\n\n")[0])
    words = " ".join(words.split())
    sentence = re.match(r".*?[.:](?= [A-Z]|$)", words)
    line = sentence[0] if sentence else words
    return line if len(line) <= 200 else f"{line[:197].rpartition(' ')[0]} ..."
