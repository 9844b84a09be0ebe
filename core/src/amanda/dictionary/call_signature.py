"""What mappings ask of an op: its inputs and attributes by name, with defaults."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from amanda.dictionary.datafile import DictionaryHeader
from amanda.dictionary.op_definition import OpDef, Port

__all__ = ["REQUIRED", "Signature", "signature_of"]


class _Required:
    """The default of an attribute that has none."""

    def __repr__(self) -> str:
        return "REQUIRED"

    def __reduce__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required()
_NO_ATTRS: Final[Mapping[str, Any]] = MappingProxyType({})


class Signature(NamedTuple):
    """What is known of an op type in one version of a namespace.

    - `attrs`: the default of every attribute; `REQUIRED` where there is none, None
      where it may be left out
    - `variadic`: the input that repeats; it is the last
    - `optional`: inputs that may be left out
    - `outputs`: how many there always are; None where the op decides
    - `since`: the version that defined the op so; 0 where versions mean nothing
    - `hints`: attributes that need no rule, because they mean nothing or follow from
      the ports; a name that ends in `*` stands for all that begin so
    - `feedback`: its outputs carry the next round of a loop
    - `commutative`: its two inputs mean the same in either order
    """

    inputs: tuple[str, ...] = ()
    attrs: Mapping[str, Any] = _NO_ATTRS
    variadic: str | None = None
    optional: frozenset[str] = frozenset()
    outputs: int | None = 1
    since: int = 0
    hints: frozenset[str] = frozenset()
    feedback: bool = False
    commutative: bool = False


def signature_of(entry: OpDef, header: DictionaryHeader) -> Signature:
    """The signature of an entry."""
    attrs = {a.name: REQUIRED if a.required else a.default for a in entry.attrs}
    follows = [a.name for a in entry.variables] if header.recorded else []
    repeating = [
        port.name or f"#{i}" for i, port in enumerate(entry.inputs) if port.repeats
    ]
    fixed = all(port.form == "one" for port in entry.outputs)
    return Signature(
        tuple(port.name or f"#{i}" for i, port in enumerate(entry.inputs)),
        MappingProxyType(attrs),
        repeating[-1] if repeating else None,
        frozenset(
            port.name or f"#{i}"
            for i, port in enumerate(entry.inputs)
            if _may_lack(port)
        ),
        len(entry.outputs) if fixed else None,
        int(entry.since) if entry.since.isdigit() else 0,
        frozenset([*follows, *(f"{begin}*" for begin in header.hints)]),
        entry.feedback,
        "commutative" in entry.traits,
    )


def _may_lack(port: Port) -> bool:
    lacking = port.form == "optional" or port.nullable
    return lacking or (port.repeats and port.least == 0)
