"""Dictionaries: what each version of each framework calls its ops, and what they take.

    names.py       how namespaces are named, ordered and found
    model.py       an entry: ports, attributes, type variables
    patterns.py    the types of values, as far as an entry speaks of them
    literals.py    attribute values as entries write them
    signature.py   an entry as one line of text, and back
    binary.py      an entry as a protobuf message, and back
    attributes.py  does a value fit an attribute?
    history.py     all versions of a vocabulary, read from one data file
    shelf.py       a folder of such files, with digests
    changes.py     how two dictionaries differ
    binding.py     which port of an entry each input of an op is, and of which type
    checking.py    one op against its entry
    validation.py  a whole graph against its dictionaries
    arguments.py   a call of an op: which argument is which port or attribute
    building.py    making ops by their entries, checked
    defaults.py    attributes left to their defaults: filled in, stripped

Names alone are needed by whoever lists what is installed, so all else is imported when
it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from amanda.dictionary.names import (
    Name,
    Namespace,
    NamespaceProvider,
    Span,
    newest,
    parse_name,
    parse_span,
    resolve,
    version_key,
)

if TYPE_CHECKING:
    from amanda.dictionary.differences import Change, Difference
    from amanda.dictionary.folder import DictionaryFolder
    from amanda.dictionary.history import Dictionary, DictionaryHistory
    from amanda.dictionary.op_definition import Attr, Deprecation, Member, OpDef, Port
    from amanda.dictionary.signature import parse_signature
    from amanda.dictionary.validation import Problem, Verdict, validate

__all__ = [
    "Attr",
    "Change",
    "Deprecation",
    "Dictionary",
    "Difference",
    "DictionaryHistory",
    "Member",
    "Name",
    "Namespace",
    "OpDef",
    "Port",
    "Problem",
    "DictionaryFolder",
    "Span",
    "Verdict",
    "NamespaceProvider",
    "newest",
    "parse_name",
    "parse_signature",
    "parse_span",
    "resolve",
    "validate",
    "version_key",
]

_LATE = {
    "differences": ("Change", "Difference"),
    "history": ("Dictionary", "DictionaryHistory"),
    "op_definition": ("Attr", "Deprecation", "Member", "OpDef", "Port"),
    "folder": ("DictionaryFolder",),
    "signature": ("parse_signature",),
    "validation": ("Problem", "Verdict", "validate"),
}
_HOME = {name: module for module, names in _LATE.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'amanda.dictionary' has no attribute {name!r}")
    value: object = getattr(import_module(f"amanda.dictionary.{_HOME[name]}"), name)
    globals()[name] = value  # so that this is asked once
    return value
