"""Extractors of the ops that onnxruntime adds to ONNX, from its own schemas.

`com.microsoft` has contrib ops, used by exporters and by onnxruntime's optimizer;
`com.microsoft.nchwc` has ops of the NCHWc layout, which the optimizer creates for one
kind of CPU. Both have one version, within which releases change ops: the dictionary is
that of the newest release.
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
from amanda_dictionaries_dev.onnx.attribute_bounds import bounds_of

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

    def installed_ops(self) -> InstalledOps:
        with requires_framework("onnxruntime", "onnxruntime"):
            import onnxruntime
            from onnxruntime.capi import onnxruntime_pybind11_state as state
        with requires_framework("onnx", "onnx"):
            import onnx  # noqa: F401 - defaults are its messages
        schemas: dict[str, dict[int, Any]] = {}
        for schema in state.get_all_operator_schema():
            if schema.domain == self.domain:
                schemas.setdefault(schema.name, {})[schema.since_version] = schema
        numbers = sorted({since for found in schemas.values() for since in found})
        versions = {
            str(number): [
                op_def_of_schema(found[max(fitting)])
                for found in schemas.values()
                if (fitting := [since for since in found if since <= number])
            ]
            for number in numbers
        }
        return InstalledOps(f"onnxruntime {onnxruntime.__version__}", versions)


def op_def_of_schema(schema: Any) -> OpDef:
    """Convert an operator schema of onnxruntime to an op definition."""
    constraints = {each.type_param_str: each for each in schema.type_constraints}
    variables = [
        Attr(
            name,
            "type",
            allowed=sort_patterns(map(parse_type_pattern, each.allowed_type_strs)),
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
    """Inputs or outputs; `least` is their minimum number."""
    found = []
    form: PortForm
    for i, port in enumerate(ports):
        kind, doc = port.typeStr, first_sentence(port.description)
        kind = kind if kind in constraints else parse_type_pattern(kind)
        option = str(port.option).rpartition(".")[2]
        if option == "Variadic":
            form = "many" if port.isHomogeneous else "each"
            found.append(Port(port.name, kind, form, max(least - i, 0), doc=doc))
        else:
            form = "optional" if option == "Optional" else "one"
            found.append(Port(port.name, kind, form, doc=doc))
    return tuple(found)


def parse_type_pattern(text: str) -> TypePattern:
    """Parse a type such as `seq(tensor(float16))`.

    >>> print(parse_type_pattern("seq(tensor(float16))"))
    sequence<float16[...]>
    """
    outer, _, inner = text.partition("(")
    if not inner:
        return DType(_TYPES.get(outer, outer))
    part = parse_type_pattern(inner.removesuffix(")"))
    if outer == "tensor":
        return part
    whole = TensorType(part) if isinstance(part, DType) else part
    return SequenceType(whole) if outer == "seq" else OptionalType(whole)


def _attr(name: str, given: Any) -> Attr:
    kind = str(given.type).rpartition(".")[2].lower()
    is_list = kind.endswith("s")
    kind = kind.removesuffix("s")
    kind = _KINDS.get(kind, kind) + ("[]" if is_list else "")
    default = _decode_default(given._default_value)
    doc, bounds = first_sentence(given.description), bounds_of(name, kind)
    return Attr(name, kind, given.required, default, doc=doc, bounds=bounds)


def _decode_default(message: bytes) -> Any:
    """The value of a serialized AttributeProto; None if it is empty."""
    from onnx import AttributeProto, helper

    if not message:
        return None
    return _to_python(helper.get_attribute_value(AttributeProto.FromString(message)))


def _to_python(value: Any) -> Any:
    """Convert bytes to str, and lists to tuples."""
    if isinstance(value, bytes):
        return value.decode()
    return (
        value if isinstance(value, str | int | float) else tuple(map(_to_python, value))
    )


MICROSOFT = OnnxruntimeExtractor("com.microsoft")
NCHWC = OnnxruntimeExtractor("com.microsoft.nchwc")
