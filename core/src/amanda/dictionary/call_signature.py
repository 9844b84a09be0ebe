"""Call signatures: inputs and attributes by name, for the mapping engine."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from amanda.dictionary.datafile import DictionaryHeader
from amanda.dictionary.op_definition import OpDef, Port

__all__ = ["REQUIRED", "Signature", "signature_of"]


class _Required:
    """Marks an attribute without a default."""

    def __repr__(self) -> str:
        return "REQUIRED"

    def __reduce__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required()
_NO_ATTRS: Final[Mapping[str, Any]] = MappingProxyType({})


class Signature(NamedTuple):
    """The call signature of an op type in one version of a namespace.

    - `attrs`: the default of every attribute; `REQUIRED` if there is none, None if it
      is optional
    - `variadic`: the variadic input, which is the last
    - `optional`: optional inputs
    - `outputs`: the fixed number of outputs; None if the op decides
    - `since`: the version that introduced the definition; 0 if it has no number
    - `hints`: attributes that need no rule, because they have no meaning or are
      inferred from the ports; a trailing `*` is a wildcard
    - `feedback`: its outputs feed the next iteration of a loop
    - `commutative`: its two inputs can be swapped
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


def signature_of(op_def: OpDef, header: DictionaryHeader) -> Signature:
    """The call signature of an op definition."""
    attrs = {a.name: REQUIRED if a.required else a.default for a in op_def.attrs}
    inferred = [a.name for a in op_def.variables] if header.recorded else []
    variadic = [
        port.name or f"#{i}" for i, port in enumerate(op_def.inputs) if port.repeats
    ]
    fixed = all(port.form == "one" for port in op_def.outputs)
    return Signature(
        tuple(port.name or f"#{i}" for i, port in enumerate(op_def.inputs)),
        MappingProxyType(attrs),
        variadic[-1] if variadic else None,
        frozenset(
            port.name or f"#{i}"
            for i, port in enumerate(op_def.inputs)
            if _is_optional(port)
        ),
        len(op_def.outputs) if fixed else None,
        int(op_def.since) if op_def.since.isdigit() else 0,
        frozenset([*inferred, *(f"{prefix}*" for prefix in header.hints)]),
        op_def.feedback,
        "commutative" in op_def.traits,
    )


def _is_optional(port: Port) -> bool:
    is_optional = port.form == "optional" or port.nullable
    return is_optional or (port.repeats and port.least == 0)
