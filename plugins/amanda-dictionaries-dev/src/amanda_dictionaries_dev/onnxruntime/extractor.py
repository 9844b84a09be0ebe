"""The ops that onnxruntime adds to ONNX, as its own schemas have them.

`com.microsoft` holds contrib ops, which models for onnxruntime use by hand or after its
optimizer; `com.microsoft.nchwc` those that the optimizer writes into a model that it
saves for one kind of processor. Both have one version, within which releases change
ops: the dictionary has them as the newest release has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from amanda.dictionary import (
    Attr,
    Deprecation,
    DictionaryHeader,
    OpDef,
    Port,
    PortForm,
    TypePattern,
)
from amanda.types import DType, OptionalType, SequenceType, TensorType
from amanda_dictionaries_dev import (
    Extractor,
    InstalledOps,
    first_sentence,
    requires_framework,
    sort_patterns,
)

__all__ = ["MICROSOFT", "NCHWC", "OnnxruntimeExtractor"]

_TYPES: Final = {
    "float4e2m1": "float4_e2m1fn",
    "float8e4m3fn": "float8_e4m3fn",
    "float8e4m3fnuz": "float8_e4m3fnuz",
    "float8e5m2": "float8_e5m2",
    "float8e5m2fnuz": "float8_e5m2fnuz",
    "float8e8m0": "float8_e8m0fnu",
}
_KINDS: Final = {"sparse_tensor": "sparse", "type_proto": "type"}


class OnnxruntimeExtractor(Extractor):
    """The ops of one domain of the installed onnxruntime."""

    def __init__(self, domain: str) -> None:
        self.domain = domain
        self.header = DictionaryHeader(
            namespace=f"onnx/{domain}",
            versions=(),
            hints=("onnx:",),
            domains=(domain,),
            deprecated=True,
            reference="onnx:ref",
        )

    def installed(self) -> InstalledOps:
        with requires_framework("onnxruntime", "onnxruntime"):
            import onnxruntime
            from onnxruntime.capi import onnxruntime_pybind11_state as state
        with requires_framework("onnx", "onnx"):
            import onnx  # noqa: F401 - defaults are messages of it
        schemas: dict[str, dict[int, Any]] = {}
        for schema in state.get_all_operator_schema():
            if schema.domain == self.domain:
                schemas.setdefault(schema.name, {})[schema.since_version] = schema
        numbers = sorted({since for found in schemas.values() for since in found})
        versions = {
            str(number): [
                entry_of(found[max(fitting)])
                for found in schemas.values()
                if (fitting := [since for since in found if since <= number])
            ]
            for number in numbers
        }
        return InstalledOps(f"onnxruntime {onnxruntime.__version__}", versions)


def entry_of(schema: Any) -> OpDef:
    """An operator schema of onnxruntime as an entry."""
    constraints = {each.type_param_str: each for each in schema.type_constraints}
    variables = [
        Attr(
            name, "type", allowed=sort_patterns(map(pattern_of, each.allowed_type_strs))
        )
        for name, each in sorted(constraints.items())
    ]
    experimental = str(schema.support_level).endswith("EXPERIMENTAL")
    attributes = sorted(schema.attributes.items())
    return OpDef(
        schema.name,
        _ports(schema.inputs, schema.min_input, constraints),
        _ports(schema.outputs, schema.min_output, constraints),
        tuple(_attr(name, given) for name, given in attributes),
        tuple(variables),
        frozenset(["experimental"] if experimental else []),
        Deprecation(schema.since_version) if schema.deprecated else None,
        doc=first_sentence(schema.doc or ""),
    )


def _ports(ports: Any, least: int, constraints: Mapping[str, Any]) -> tuple[Port, ...]:
    """Inputs or outputs, of which there are `least` at least."""
    found = []
    form: PortForm
    for i, port in enumerate(ports):
        kind = port.typeStr
        kind = kind if kind in constraints else pattern_of(kind)
        option = str(port.option).rpartition(".")[2]
        if option == "Variadic":
            form = "many" if port.isHomogeneous else "each"
            found.append(Port(port.name, kind, form, max(least - i, 0)))
        else:
            form = "optional" if option == "Optional" else "one"
            found.append(Port(port.name, kind, form))
    return tuple(found)


def pattern_of(text: str) -> TypePattern:
    """`seq(tensor(float16))` and its like as a pattern.

    >>> print(pattern_of("seq(tensor(float16))"))
    sequence<float16[...]>
    """
    outer, _, inner = text.partition("(")
    if not inner:
        return DType(_TYPES.get(outer, outer))
    part = pattern_of(inner.removesuffix(")"))
    if outer == "tensor":
        return part
    whole = TensorType(part) if isinstance(part, DType) else part
    return SequenceType(whole) if outer == "seq" else OptionalType(whole)


def _attr(name: str, given: Any) -> Attr:
    kind = str(given.type).rpartition(".")[2].lower()
    is_list = kind.endswith("s")
    kind = kind.removesuffix("s")
    kind = _KINDS.get(kind, kind) + ("[]" if is_list else "")
    return Attr(name, kind, given.required, _default(given._default_value))


def _default(message: bytes) -> Any:
    """The value in the bytes of a message; None where there is none."""
    from onnx import AttributeProto, helper

    if not message:
        return None
    return _plain(helper.get_attribute_value(AttributeProto.FromString(message)))


def _plain(value: Any) -> Any:
    """bytes as text, lists as tuples."""
    if isinstance(value, bytes):
        return value.decode()
    return value if isinstance(value, str | int | float) else tuple(map(_plain, value))


MICROSOFT = OnnxruntimeExtractor("com.microsoft")
NCHWC = OnnxruntimeExtractor("com.microsoft.nchwc")
