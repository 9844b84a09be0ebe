"""The dictionary of the framework's ops, in all its versions."""

from __future__ import annotations

from importlib.resources import files

from amanda.dictionary import DictionaryHistory

__all__ = ["DICTIONARY"]

DICTIONARY = DictionaryHistory(
    "amanda/template", files(__package__).joinpath("template.ops").read_bytes
)
"""The entry `amanda/template` of `amanda.namespaces`."""
