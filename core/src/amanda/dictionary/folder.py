"""A folder of data files, with an index that has the digest of each."""

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
    """The dictionary histories of a folder, by path, such as `amanda/onnx`.

    A file that does not match the index (edited, truncated, missing) raises an error
    when it is first read.
    """

    def __init__(self, folder: Traversable, owner: str = "") -> None:
        self._folder = folder
        self._owner = owner
        self._histories: dict[str, DictionaryHistory] = {}

    @cached_property
    def index(self) -> dict[str, dict[str, Any]]:
        """The rows of the index by path: file, digest, size, source."""
        try:
            found = json.loads(
                self._folder.joinpath(INDEX_FILE).read_text(encoding="utf-8")
            )
            if found["schema"] != _SCHEMA:
                raise self._corrupt(INDEX_FILE, f"schema {_SCHEMA}", found["schema"])
            spaces: dict[str, dict[str, Any]] = found["namespaces"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self._corrupt(
                INDEX_FILE, "an index of dictionaries", error
            ) from error
        return spaces

    def __getitem__(self, path: str) -> DictionaryHistory:
        history = self._histories.get(path)
        if history is None:
            if path not in self.index:
                raise NamespaceError(f"this folder has no dictionary of {path!r}")
            history = DictionaryHistory(path, partial(self._read, path), self.get)
            self._histories[path] = history
        return history

    def get(self, path: str) -> DictionaryHistory | None:
        return self[path] if path in self.index else None

    def __contains__(self, path: object) -> bool:
        return path in self.index

    def __iter__(self) -> Iterator[str]:
        return iter(self.index)

    def __len__(self) -> int:
        return len(self.index)

    def _read(self, path: str) -> bytes:
        row = self.index[path]
        file = row["file"]
        try:
            data = self._folder.joinpath(file).read_bytes()
        except OSError as error:
            raise self._corrupt(file, "a data file", error.strerror) from error
        if len(data) != row["bytes"]:
            expected, got = f"{row['bytes']:,} bytes", f"{len(data):,} bytes"
            raise self._corrupt(file, expected, got)
        digest = hashlib.sha256(data).hexdigest()
        if digest != row["sha256"]:
            raise self._corrupt(file, f"sha256 {row['sha256']}", f"sha256 {digest}")
        return data

    def _corrupt(self, file: str, expected: object, got: object) -> NamespaceError:
        owner = self._owner or "the distribution that has it"
        return NamespaceError(
            f"the dictionary file {file} does not match its index",
            who=str(self._folder.joinpath(file)),
            expected=expected,
            got=got,
            hint=f"reinstall {owner}; data files are generated, never edited",
        )
