"""Extract StableHLO and CHLO from the op classes of jaxlib's MLIR bindings.

Each op is a class with a property for each named operand, attribute, region and result.
The code and return type of a property show what it is; the attribute builder in the
constructor shows the kind of an attribute:

    attributes["fft_type"] = ... AttrBuilder.get('stablehlo.StableHLO_FftTypeAttr')

The members of an enumeration come from the parser's message about an invalid one.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from amanda.dictionary import DictionaryHeader, OpDef, parse_signature
from amanda.errors import NamespaceError
from amanda_dictionaries_dev import (
    ExtractedDictionary,
    Extractor,
    InstalledOps,
    first_sentence,
    op_histories,
    read_raw_data,
    requires_framework,
)

__all__ = ["CHLO", "STABLEHLO", "DialectExtractor"]

_DIALECTS: Final = ("chlo", "stablehlo")
_KINDS: Final = {
    "BoolAttr": "bool",
    "DenseBoolArrayAttr": "bool[]",
    "DenseI64ArrayAttr": "int[]",
    "ElementsAttr": "tensor",
    "F32Attr": "float",
    "FlatSymbolRefAttr": "function",
    "FlatSymbolRefArrayAttr": "function[]",
    "I32Attr": "int",
    "I64Attr": "int",
    "I64ElementsAttr": "tensor",
    "StrAttr": "string",
    "TypedAttrInterface": "any",
}
_ENUMS: Final = {
    "ComparisonDirectionAttr",
    "ComparisonTypeAttr",
    "FftTypeAttr",
    "PrecisionConfigAttr",
    "RngAlgorithmAttr",
    "RngDistributionAttr",
    "TransposeAttr",
}
_LISTS: Final = {"PrecisionConfigAttr": "Precision"}
# Numbers of parameters and results of regions, from the specification. Those of sort
# have two parameters for each operand, and those of scan depend on attributes.
_BODIES: Final[Mapping[tuple[str, str], str]] = {
    ("all_reduce", "computation"): "2, 1",
    ("case", "branches"): "0, outputs",
    ("if", "false_branch"): "0, outputs",
    ("if", "true_branch"): "0, outputs",
    ("map", "computation"): "inputs, 1",
    ("reduce", "body"): "inputs, outputs",
    ("reduce_scatter", "computation"): "2, 1",
    ("reduce_window", "body"): "inputs, outputs",
    ("scatter", "update_computation"): "inputs - 1, outputs",
    ("select_and_scatter", "scatter"): "2, 1",
    ("select_and_scatter", "select"): "2, 1",
    ("while", "body"): "inputs, outputs",
    ("while", "cond"): "inputs, 1",
}
_TRAITS: Final = {
    "infeed": "stateful",
    "outfeed": "stateful",
    "recv": "stateful",
    "rng": "nondeterministic",
    "send": "stateful",
}
_ATTR_BUILDER: Final = re.compile(
    r'^    (if [^\n]*: )?attributes\["(\w+)"\] = .*?contains\(\'([\w.]+)\'\)',
    re.DOTALL | re.MULTILINE,
)
# Operands that are lists; bindings before 1.13 have no type for them.
_LIST_OPERAND: Final = re.compile(
    r"operands\.\w+\(_get_op_results_or_values\((\w+?)_?\)\)"
)
_SLICE: Final = "self.operation.results[0:"
_NO_RESULT: Final = re.compile(r"\.(\w+Op|Operation)'>$")
_TYPES: Final = re.compile(r"results\.(append|extend)\(")
_UNIT: Final = re.compile(r'attributes\["(\w+)"\] = _ods_ir\.UnitAttr')
_EXPECTED: Final = re.compile(r"to be one of: ([\w, ]+)")


class DialectExtractor(Extractor):
    """One dialect. CHLO has the version of StableHLO."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.header = DictionaryHeader(
            namespace=f"amanda/{name}",
            versions=(),
            source="the bindings in jaxlib's releases",
            # attributes of other dialects
            hints=("jax.", "mhlo.", "sdy.", "xla."),
        )

    def installed_ops(self) -> InstalledOps:
        with requires_framework("jaxlib", "jaxlib"):
            from jaxlib.mlir.dialects import stablehlo
            from jaxlib.version import __version__
        version = stablehlo.get_current_version()
        op_defs = [_BindingClass(self.name, each).op_def() for each in self.classes()]
        return InstalledOps(f"jaxlib {__version__}", {version: op_defs})

    def extract(self, raw: Path | None) -> ExtractedDictionary | None:
        """From `stablehlo.jsonl` and `chlo.jsonl`, of releases of jaxlib."""
        if raw is None:
            return None
        data = read_raw_data(raw / f"{self.name}.jsonl")
        lines = {
            n: row["doc"] for n, steps in data.ops.items() for _, row in steps if row
        }
        blocks = op_histories(data, _parse_row, lines)
        return ExtractedDictionary(replace(self.header, versions=data.versions), blocks)

    def classes(self) -> list[type]:
        """The classes of the ops."""
        from jaxlib.mlir import dialects, ir

        module = import_module(f"{dialects.__name__}.{self.name}")
        found = {
            operation: each
            for each in vars(module).values()
            if isinstance(each, type) and issubclass(each, ir.OpView)
            if (operation := _operation_name(each)).startswith(f"{self.name}.")
        }
        return [found[name] for name in sorted(found)]


def _parse_row(name: str, row: Mapping[str, str]) -> OpDef:
    return replace(parse_signature(name + row["text"]), doc=row["doc"])


def _operation_name(cls: type) -> str:
    return str(getattr(cls, "OPERATION_NAME", ""))


@dataclass(frozen=True)
class _BindingClass:
    """The class of one op in the bindings."""

    dialect: str
    cls: type

    @property
    def name(self) -> str:
        return _operation_name(self.cls).removeprefix(f"{self.dialect}.")

    def op_def(self) -> OpDef:
        inputs, attrs, bodies, outputs = [], [], [], []
        builders, lists = (
            self.attr_builders(),
            set(_LIST_OPERAND.findall(self.constructor())),
        )
        for name, kind, code in self.properties():
            # a trailing "_" avoids Python keywords and members of the base class
            name = name.removesuffix("_")
            if "self.operation.operands" in code:
                inputs.append(_format_port(name, kind, name in lists))
            elif "self.operation.results" in code:
                outputs.append(
                    _format_port(name, kind, _SLICE in code or name in lists)
                )
            elif "self.regions" in code or "operation.regions" in code:
                bodies.append(self.body(name, kind, code))
            else:
                attrs.append(self.attribute(name, builders))
        head = [*inputs, *(["*"] if attrs or bodies else []), *attrs, *bodies]
        trait = f"  [{_TRAITS[self.name]}]" if self.name in _TRAITS else ""
        results = ", ".join(outputs or self.unnamed_results(*inputs))
        text = f"{self.name}({', '.join(head)}) -> ({results}){trait}"
        return replace(
            parse_signature(text), doc=first_sentence(self.cls.__doc__ or "")
        )

    def properties(self) -> Iterator[tuple[str, str, str]]:
        """Name, return type and code of each property, in order."""
        base = self.cls
        while "OPERATION_NAME" not in vars(base):  # skip hand-written subclasses
            base = base.__mro__[1]
        for name, found in vars(base).items():
            if isinstance(found, property) and found.fget is not None:
                kind = str(inspect.get_annotations(found.fget).get("return"))
                yield name, kind, inspect.getsource(found.fget)

    def attr_builders(self) -> dict[str, tuple[str, bool]]:
        """The attribute builders in the constructor, and whether each is unconditional.

        If it is, the attribute is required.
        """
        code = self.constructor()
        found = dict.fromkeys(_UNIT.findall(code), ("UnitAttr", False))
        for condition, name, builder in _ATTR_BUILDER.findall(code):
            kind = re.sub(r"^.*?(StableHLO|CHLO)_", "", builder)
            found.setdefault(name, (kind, not condition))
        return found

    def constructor(self) -> str:
        """The source of the constructor."""
        base = next(b for b in self.cls.__mro__ if "OPERATION_NAME" in vars(b))
        return inspect.getsource(vars(base)["__init__"])

    def attribute(self, name: str, builders: Mapping[str, tuple[str, bool]]) -> str:
        builder, required = builders[name]
        mark = "" if required else "?"
        if builder == "UnitAttr":
            return f"{name}: bool = false"  # present or not
        if builder in _ENUMS:
            enum = _LISTS.get(builder, builder.removesuffix("Attr"))
            of = "[]" if builder in _LISTS else ""
            words = ", ".join(_enum_members(self.dialect, enum))
            return f"{name}{mark}: enum<{enum}>{of} in {{{words}}}"
        if builder in _KINDS:
            return f"{name}{mark}: {_KINDS[builder]}"
        if builder == "CustomCallApiVersionAttr":
            allowed = ", ".join(map(str, _api_versions()))
            return f"{name}{mark}: int in {{{allowed}}}"
        if builder.startswith("anonymous"):
            return f"{name}{mark}: any"
        return f"{name}{mark}: any<{builder.removesuffix('Attr')}>"

    def body(self, name: str, kind: str, code: str) -> str:
        """A region, or a list of regions."""
        counts = _BODIES.get((self.name, name))
        if "Sequence" in kind or "regions[0:" in code:
            return f"{name}: graph[]({counts})" if counts else f"{name}?: graph[]"
        return f"{name}: graph" + (f"({counts})" if counts else "")

    def unnamed_results(self, *inputs: str) -> list[str]:
        """Results without a name: those whose types the constructor accepts.

        If types are inferred, the return type of the op's builder function decides.
        """
        several = ["*results: any >= 0"]
        result_types = _TYPES.search(self.constructor())
        if result_types is not None and result_types[1] == "extend":
            return several
        functions = inspect.getmodule(self.cls.__mro__[0])
        operation = self.name.replace("-", "_")
        names = [n for n in (operation, f"{operation}_") if hasattr(functions, n)]
        returned = str(typing.get_type_hints(getattr(functions, names[0]))["return"])
        if re.search(_NO_RESULT, returned):
            return []
        if "OpResultList" in returned or self.has_result_per_operand(inputs):
            return several
        return [_format_port("result", returned)]

    def has_result_per_operand(self, inputs: Sequence[str]) -> bool:
        """True if the specification has one result for each operand."""
        return self.name == "all_to_all" and inputs[0].startswith("*")


def _format_port(name: str, kind: str, is_list: bool = False) -> str:
    of = "tensor" if "RankedTensorType" in kind else "any"
    if is_list or "List" in kind:
        return f"*{name}: {of} >= 0"
    return f"{name}{'?' if 'Optional' in kind else ''}: {of}"


@cache
def _enum_members(dialect: str, enum: str) -> tuple[str, ...]:
    """The members of an enumeration."""
    from jaxlib.mlir import ir

    mnemonic = re.sub(r"(?<!^)(?=[A-Z])", "_", enum).lower()
    message = ""
    with _context(), ir.Location.unknown():
        try:
            ir.Attribute.parse(f"#{dialect}<{mnemonic} none_of_them>")
        except ir.MLIRError as error:
            message = str(error)
    found = _EXPECTED.search(message)
    if found is None:
        raise NamespaceError(f"cannot list {enum} of {dialect}", got=message)
    return tuple(found[1].split(", "))


@cache
def _api_versions() -> tuple[int, ...]:
    """The versions of custom calls that the verifier accepts."""
    from jaxlib.mlir import ir

    accepted = []
    with _context(), ir.Location.unknown():
        for number in range(16):
            call = f'{{api_version = {number} : i32, call_target_name = "f"}}'
            try:
                ir.Module.parse(f'"stablehlo.custom_call"() {call} : () -> ()')
            except ir.MLIRError:
                continue
            accepted.append(number)
    return tuple(accepted)


def _context() -> Any:
    from jaxlib.mlir import ir

    chlo, stablehlo = (import_module(f"jaxlib.mlir.dialects.{n}") for n in _DIALECTS)
    context = ir.Context()
    stablehlo.register_dialect(context)
    chlo.register_chlo_dialect(context)
    return context


STABLEHLO = DialectExtractor("stablehlo")
CHLO = DialectExtractor("chlo")
