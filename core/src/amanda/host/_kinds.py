"""The kinds of plug-in, and the protocol of each."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

GROUP: Final = "amanda."
"""The prefix of entry-point groups; the kind follows."""


class Kind(NamedTuple):
    """One kind of plug-in; `name()` in it means a callable attribute."""

    one: str  # the singular, for messages
    needs: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()
    made: bool = False  # a class is called, for its one object


KINDS: Final[Mapping[str, Kind]] = MappingProxyType(
    {
        "namespaces": Kind("namespace", ("versions()", "at()"), made=True),
        "extractors": Kind("extractor", ("installed_ops()", "extract()"), made=True),
        "mappings": Kind("mapping", ("apply()",), made=True),
        "formats": Kind("format", one_of=("read()", "write()"), made=True),
        "arrays": Kind("array format", ("read()",), made=True),
        "backends": Kind(
            "backend",
            ("name", "namespace", "devices()", "takes()", "compile()"),
            made=True,
        ),
        "kernels": Kind("kernel library", ("target",), made=True),
        "passes": Kind("pass", ("__call__()",)),
        "tools": Kind("tool", ("label()", "instrument()")),
        "commands": Kind("command", ("__call__()",)),
        "scoreboards": Kind("scoreboard", ("KINDS", "cases()", "run_case()")),
        "callbacks": Kind("callback", ("__call__()",)),
        "hooks": Kind("hook", ("__call__()",)),
    }
)


def kind_of(group: str) -> str | None:
    """The kind of an entry-point group; None for groups of others.

    >>> kind_of("amanda.backends"), kind_of("console_scripts")
    ('backends', None)
    """
    kind = group.removeprefix(GROUP)
    return kind if group.startswith(GROUP) and kind in KINDS else None


def object_of(kind: str, loaded: object) -> object:
    """The object of an entry: classes of some kinds are called once."""
    return loaded() if KINDS[kind].made and inspect.isclass(loaded) else loaded


def shape_fault(kind: str, thing: object) -> str:
    """What `thing` lacks of the protocol of its kind, or an empty string.

    >>> shape_fault("formats", object())
    'has neither read() nor write()'
    """
    row = KINDS[kind]
    missing = [need for need in row.needs if not _has(thing, need)]
    if missing:
        return f"has no {', no '.join(missing)}"
    if row.one_of and not any(_has(thing, need) for need in row.one_of):
        return f"has neither {' nor '.join(row.one_of)}"
    return ""


def _has(thing: object, need: str) -> bool:
    name = need.removesuffix("()")
    found = getattr(thing, name, None)
    return callable(found) if need.endswith("()") else found is not None
