"""`amanda ops`: what a version of a framework calls its ops, and what they take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from amanda.cli.answer import Answer, Table
from amanda.cli.frame import verb
from amanda.errors import NamespaceError, UsageError

if TYPE_CHECKING:
    from amanda.dictionary import Attr, Dictionary, Difference, OpDef, Port

__all__ = ["command", "dictionary_of"]

_LONG = 76  # characters of a line about an op, in a list


@verb("ops", "the ops of a framework's version: list, search, show, compare")
@click.argument("namespace", required=False)
@click.argument("op", required=False)
@click.option("--search", metavar="TEXT", help="Only ops that are about TEXT.")
@click.option("--diff", "other", metavar="OTHER", help="What is not so in OTHER.")
@click.option("--assume", is_flag=True, help="Take the version below an unknown one.")
def command(
    namespace: str | None,
    op: str | None,
    *,
    search: str | None,
    other: str | None,
    assume: bool,
) -> Answer:
    """Tell which ops NAMESPACE has, such as `onnx@18` or `tensorflow@1.13.1`.

    With OP, everything about that op. Without a version the newest is meant; without
    NAMESPACE, the dictionaries that there are.
    """
    if namespace is None:
        return _installed()
    dictionary = dictionary_of(namespace, assume=assume)
    if other is not None:
        if op is not None or search is not None:
            raise UsageError("--diff compares whole dictionaries", hint="leave out OP")
        return _difference(dictionary.diff(dictionary_of(other, assume=assume)))
    if op is not None:
        if search is not None:
            raise UsageError("either OP or --search says which ops are meant")
        return _one(dictionary, dictionary[op])
    found = list(dictionary.values()) if search is None else dictionary.search(search)
    return _list(dictionary, found, search)


def dictionary_of(name: str, *, assume: bool = False) -> Dictionary:
    """The dictionary of this name, if it tells more than names."""
    from amanda.api import namespace
    from amanda.dictionary import Dictionary

    found = namespace(name, assume=assume)
    dictionary = Dictionary.of(found)
    if dictionary is None:
        raise NamespaceError(
            f"the dictionary of {name} tells no more than which ops there are",
            got=", ".join(sorted(found)[:20]),
        )
    return dictionary


def _installed() -> Answer:
    """The dictionaries that there are, by what their manifests say."""
    from amanda.dictionary import newest, parse_name
    from amanda.host import default_host

    entries = [e for e in default_host().entries("namespaces") if not e.fault]
    found = {
        parse_name(entry.name).path: list(entry.manifest.get("versions", ()))
        for entry in entries
    }
    rows = [
        (path, len(versions), versions[0] if versions else "?", newest(versions) or "?")
        for path, versions in found.items()
    ]
    data = [{"namespace": path, "versions": found[path]} for path in found]
    text: list[str | Table] = ["no dictionary is installed"]
    if rows:
        text = [Table(("namespace", "versions", "first", "newest"), rows)]
    return Answer({"namespaces": data}, text)


# -- one op ------------------------------------------------------------------------


def _one(dictionary: Dictionary, entry: OpDef) -> Answer:
    data = {**_head(dictionary), "op": _data(entry)}
    return Answer(data, _told(dictionary, entry))


def _head(dictionary: Dictionary) -> dict[str, object]:
    return {"namespace": dictionary.name, "assumed": dictionary.assumed}


def _told(dictionary: Dictionary, entry: OpDef) -> Iterator[str | Table]:
    yield from _assumption(dictionary)
    yield entry.signature
    if entry.doc:
        yield f"\n{entry.doc}"
    until = f", until {entry.until}" if entry.until else ""
    yield f"\n{dictionary.path}: so since {entry.since}{until}"
    if entry.deprecated is not None:
        why = f": {entry.deprecated.why}" if entry.deprecated.why else ""
        yield f"deprecated since {entry.deprecated.version}{why}"


def _assumption(dictionary: Dictionary) -> Iterator[str]:
    if dictionary.assumed is not None:
        known = f"{dictionary.path}/{dictionary.assumed}"
        yield f"{dictionary.name} is not known; {known} is taken for it\n"


def _data(entry: OpDef) -> dict[str, object]:
    deprecated = entry.deprecated
    return {
        "name": entry.name,
        "signature": entry.signature,
        "doc": entry.doc or None,
        "since": entry.since,
        "until": entry.until,
        "inputs": [_port(port) for port in entry.inputs],
        "outputs": [_port(port) for port in entry.outputs],
        "attributes": [_attr(attr) for attr in entry.attrs],
        "variables": [_attr(attr) for attr in entry.variables],
        "traits": sorted(entry.traits),
        "deprecated": deprecated._asdict() if deprecated is not None else None,
    }


def _port(port: Port) -> dict[str, object]:
    from amanda.dictionary.patterns import written_pattern

    kind = port.type if isinstance(port.type, str) else written_pattern(port.type)
    return {**port._asdict(), "type": kind, "number": port.number or None}


def _attr(attr: Attr) -> dict[str, object]:
    default, allowed = attr.default, attr.allowed
    return {
        "name": attr.name,
        "kind": attr.kind,
        "required": attr.required,
        "default": None if default is None else _value(attr.kind, default),
        "allowed": [_value(attr.element, value) for value in allowed],
        "minimum": attr.minimum,
    }


def _value(kind: str, value: Any) -> object:
    """A value as JSON has it, or as signatures write it where JSON has none."""
    from math import isfinite

    from amanda.dictionary.literals import literal

    if kind.endswith("[]"):
        return [_value(kind.removesuffix("[]"), item) for item in value]
    plain = kind in ("bool", "int", "string") or (kind == "float" and isfinite(value))
    return value if plain else literal(kind, value)


# -- many ops ----------------------------------------------------------------------


def _list(dictionary: Dictionary, found: list[OpDef], search: str | None) -> Answer:
    ops = [
        {
            "name": entry.name,
            "since": entry.since,
            "signature": entry.signature,
            "doc": entry.doc or None,
            "deprecated": entry.deprecated is not None,
        }
        for entry in found
    ]
    data = {**_head(dictionary), "count": len(ops), "ops": ops}
    return Answer(data, _listed(dictionary, found, search), exit_code=int(not ops))


def _listed(
    dictionary: Dictionary, found: list[OpDef], search: str | None
) -> Iterator[str | Table]:
    yield from _assumption(dictionary)
    if found:
        rows = [(entry.name, entry.since, _short(entry)) for entry in found]
        yield Table(("op", "since", "what"), rows)
        yield ""
    about = f" about {search!r}" if search is not None else ""
    yield f"{len(found)} of {len(dictionary)} ops of {dictionary.name}{about}"


def _short(entry: OpDef) -> str:
    text = entry.doc or entry.signature.removeprefix(entry.name)
    return text if len(text) <= _LONG else f"{text[: _LONG - 4].rstrip()} ..."


def _difference(found: Difference) -> Answer:
    data = {
        "old": found.old,
        "new": found.new,
        "added": list(found.added),
        "removed": list(found.removed),
        "changed": [
            {
                "name": change.name,
                "old": change.old.signature,
                "new": change.new.signature,
                "lines": change.lines,
            }
            for change in found.changed
        ],
    }
    return Answer(data, _differing(found))


def _differing(found: Difference) -> Iterator[str]:
    yield from (f"+ {name}" for name in found.added)
    yield from (f"- {name}" for name in found.removed)
    for change in found.changed:
        lines = change.lines or ["is defined anew, and written as before"]
        yield f"~ {change.name}: {'; '.join(lines)}"
    yield f"\n{found}" if found else str(found)
