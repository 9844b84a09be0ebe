"""A folder of data files, with an index that says what each must be to the byte."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from amanda.dictionary.history import DictionaryHistory
from amanda.errors import NamespaceError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

__all__ = ["INDEX_FILE", "DictionaryFolder"]

INDEX_FILE = "index.json"
_SCHEMA = 1


class DictionaryFolder:
    """The vocabularies in a folder: a mapping of paths, such as `amanda/onnx`.

    A file that is not as the index says (edited, truncated, missing) is refused by
    name when something of it is asked for.
    """

    def __init__(self, folder: Traversable, owner: str = "") -> None:
        self._folder = folder
        self._owner = owner
        self._histories: dict[str, DictionaryHistory] = {}

    @cached_property
    def index(self) -> dict[str, dict[str, Any]]:
        """What there is, by path: file, digest, size, where it came from."""
        try:
            found = json.loads(
                self._folder.joinpath(INDEX_FILE).read_text(encoding="utf-8")
            )
            if found["schema"] != _SCHEMA:
                raise self._refused(INDEX_FILE, f"schema {_SCHEMA}", found["schema"])
            spaces: dict[str, dict[str, Any]] = found["namespaces"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self._refused(
                INDEX_FILE, "an index of dictionaries", error
            ) from error
        return spaces

    def __getitem__(self, path: str) -> DictionaryHistory:
        made = self._histories.get(path)
        if made is None:
            if path not in self.index:
                raise NamespaceError(f"no dictionary of {path!r} is here")
            made = DictionaryHistory(path, partial(self._content, path), self.get)
            self._histories[path] = made
        return made

    def get(self, path: str) -> DictionaryHistory | None:
        return self[path] if path in self.index else None

    def __contains__(self, path: object) -> bool:
        return path in self.index

    def __iter__(self) -> Iterator[str]:
        return iter(self.index)

    def __len__(self) -> int:
        return len(self.index)

    def _content(self, path: str) -> bytes:
        row = self.index[path]
        file = row["file"]
        try:
            data = self._folder.joinpath(file).read_bytes()
        except OSError as error:
            raise self._refused(file, "a data file", error.strerror) from error
        if len(data) != row["bytes"]:
            expected, got = f"{row['bytes']:,} bytes", f"{len(data):,} bytes"
            raise self._refused(file, expected, got)
        digest = hashlib.sha256(data).hexdigest()
        if digest != row["sha256"]:
            raise self._refused(file, f"sha256 {row['sha256']}", f"sha256 {digest}")
        return data

    def _refused(self, file: str, expected: object, got: object) -> NamespaceError:
        owner = self._owner or "what brought it"
        return NamespaceError(
            f"the dictionary file {file} is not as it was made",
            who=str(self._folder.joinpath(file)),
            expected=expected,
            got=got,
            hint=f"install {owner} anew; data files are generated, never edited",
        )
