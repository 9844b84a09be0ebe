"""Extractors of the ONNX domains: the onnx package has all versions of its schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from amanda.dictionary import (
    Attr,
    BodyArity,
    Deprecation,
    DictionaryHeader,
    OpDef,
    OpHistory,
    Port,
    PortForm,
    TypePattern,
    argument_docs,
    definition_steps,
)
from amanda.types import DType, MapType, OptionalType, SequenceType, TensorType, Type
from amanda_dictionaries_dev import (
    ExtractedDictionary,
    Extractor,
    InstalledOps,
    first_sentence,
    requires_framework,
    sort_patterns,
)
from amanda_dictionaries_dev.onnx.attribute_bounds import bounds_of

_KINDS = {"sparse_tensor": "sparse", "type_proto": "type"}
_TYPES = {
    "float8e4m3fn": "float8_e4m3fn",
    "float6e2m3": "float6_e2m3fn",
    "float6e3m2": "float6_e3m2fn",
}
_BRANCH, _LOOP = BodyArity("0", "outputs"), BodyArity("inputs", "outputs + 1")
_SCAN = BodyArity("inputs", "outputs")
# Numbers of parameters and results of bodies, which schemas state in prose only. (Scan
# of opset 8 has one more input, the lengths of the sequences.)
_BODIES: Mapping[tuple[str, str], BodyArity] = {
    ("If", "then_branch"): _BRANCH,
    ("If", "else_branch"): _BRANCH,
    ("Loop", "body"): _LOOP,
    ("Scan", "body"): _SCAN,
    ("SequenceMap", "body"): _SCAN,
}


class OnnxExtractor(Extractor):
    """The ops of one domain of the installed onnx."""

    def __init__(self, name: str, *domains: str) -> None:
        self.domain = domains[0]
        self.header = DictionaryHeader(
            namespace=f"amanda/{name}",
            versions=(),
            hints=("onnx:",),
            domains=domains,
            deprecated=True,
            reference="onnx:ref",
        )

    def installed_ops(self) -> InstalledOps:
        source, versions, schemas = self._schemas()
        return InstalledOps(
            source,
            {
                version: [
                    op_def_of_schema(max(fitting, key=_since_version))
                    for found in schemas.values()
                    if (
                        fitting := [
                            s for s in found if _since_version(s) <= int(version)
                        ]
                    )
                ]
                for version in versions
            },
        )

    def extract(self, raw: Path | None) -> ExtractedDictionary:
        del raw  # the onnx package has all versions
        source, versions, schemas = self._schemas()
        header = replace(self.header, versions=versions, source=source)
        return ExtractedDictionary(
            header, [op_history(*item) for item in schemas.items()]
        )

    def _schemas(self) -> tuple[str, tuple[str, ...], dict[str, list[Any]]]:
        """Source, opset versions, and the schemas of each op, oldest first."""
        with requires_framework("onnx", "onnx"):
            import onnx
            from onnx import defs
        schemas: dict[str, list[Any]] = {}
        for schema in sorted(defs.get_all_schemas_with_history(), key=_since_version):
            if schema.domain == self.domain:
                schemas.setdefault(schema.name, []).append(schema)
        newest = {
            "": defs.onnx_opset_version(),
            "ai.onnx.ml": defs.onnx_ml_opset_version(),
        }
        since = max(
            _since_version(schema) for found in schemas.values() for schema in found
        )
        last = max(newest.get(self.domain, 1), since)
        versions = tuple(map(str, range(1, last + 1)))
        return f"onnx {onnx.__version__}", versions, schemas


def _since_version(schema: Any) -> int:
    return int(schema.since_version)


def op_history(name: str, schemas: Sequence[Any]) -> OpHistory:
    """The history of an op from its schemas, oldest first."""
    steps = [
        (str(_since_version(schema)), op_def_of_schema(schema)) for schema in schemas
    ]
    docs = argument_docs(op_def for _, op_def in steps)
    return OpHistory(name, steps[-1][1].doc, definition_steps(steps, always=True), docs)


def op_def_of_schema(schema: Any) -> OpDef:
    """Convert an operator schema to an op definition."""
    constraints = {t.type_param_str: t for t in schema.type_constraints}
    variables = [
        Attr(
            name,
            "type",
            allowed=sort_patterns(map(parse_type_pattern, t.allowed_type_strs)),
        )
        for name, t in sorted(constraints.items())
    ]
    traits = set()
    if str(schema.support_level).endswith("EXPERIMENTAL"):
        traits.add("experimental")
    if str(schema.node_determinism).endswith(".NonDeterministic"):
        traits.add("nondeterministic")
    if schema.has_function or schema.has_context_dependent_function:
        traits.add("function")
    return OpDef(
        schema.name,
        tuple(_port_of(port, constraints) for port in schema.inputs),
        tuple(_port_of(port, constraints) for port in schema.outputs),
        tuple(_attr_of(schema, name) for name in sorted(schema.attributes)),
        tuple(variables),
        frozenset(traits),
        Deprecation(schema.since_version) if schema.deprecated else None,
        doc=first_sentence(schema.doc or ""),
    )


def _port_of(port: Any, constraints: Mapping[str, Any]) -> Port:
    text = port.type_str
    kind = text if text in constraints else parse_type_pattern(text)
    option = str(port.option).rpartition(".")[2]
    doc = first_sentence(port.description)
    if option == "Variadic":
        form: PortForm = "many" if port.is_homogeneous else "each"
        return Port(port.name, kind, form, port.min_arity, doc=doc)
    form = "optional" if option == "Optional" else "one"
    return Port(port.name, kind, form, doc=doc)


def parse_type_pattern(text: str) -> TypePattern:
    """Parse a type such as `seq(tensor(float))`.

    >>> print(parse_type_pattern("seq(tensor(float))"))
    sequence<float32[...]>
    """
    outer, _, inner = text.rstrip(")").partition("(")
    if not inner:
        return DType(_TYPES.get(outer, outer))
    inner += ")" * (inner.count("("))
    if outer == "map":
        key, _, value = inner.partition(",")
        return MapType(DType(key), _as_type(parse_type_pattern(value.strip())))
    part = parse_type_pattern(inner)
    if outer == "tensor":
        return part
    return (
        SequenceType(_as_type(part)) if outer == "seq" else OptionalType(_as_type(part))
    )


def _as_type(pattern: TypePattern) -> Type:
    return TensorType(pattern) if isinstance(pattern, DType) else pattern


def _attr_of(schema: Any, name: str) -> Attr:
    from onnx import helper

    attr = schema.attributes[name]
    kind = str(attr.type).rpartition(".")[2].lower()
    is_list = kind.endswith("s") and kind not in _KINDS
    kind = kind.removesuffix("s") if is_list else kind
    kind = _KINDS.get(kind, kind) + ("[]" if is_list else "")
    default = None
    if attr.default_value.type:
        default = _to_python(helper.get_attribute_value(attr.default_value))
    body = _BODIES.get((schema.name, name))
    if body is _SCAN and (schema.name, schema.since_version) == ("Scan", 8):
        body = BodyArity("inputs - 1", "outputs")
    return Attr(
        name, kind, attr.required, default, body=body,
        doc=first_sentence(attr.description), bounds=bounds_of(name, kind),
    )  # fmt: skip


def _to_python(value: Any) -> Any:
    """Convert bytes to str, and lists to tuples."""
    if isinstance(value, bytes):
        return value.decode()
    return (
        value if isinstance(value, str | int | float) else tuple(map(_to_python, value))
    )


ONNX = OnnxExtractor("onnx", "", "ai.onnx")
ML = OnnxExtractor("onnx.ml", "ai.onnx.ml")
PREVIEW = OnnxExtractor("onnx.preview", "ai.onnx.preview")
TRAINING = OnnxExtractor("onnx.preview.training", "ai.onnx.preview.training")
