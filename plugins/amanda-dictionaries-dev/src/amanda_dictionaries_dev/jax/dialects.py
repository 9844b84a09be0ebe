"""StableHLO and CHLO, as the classes of jaxlib's bindings have them.

Each op is a class with a property for each operand, attribute, region and result that
has a name. What a property is shows in its code and in the type that it returns, what
an attribute holds in the builder that the constructor takes for it:

    attributes["fft_type"] = ... AttrBuilder.get('stablehlo.StableHLO_FftTypeAttr')

Words of an enumeration are told by the parser when it is given none of them.
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
# How many values regions take and give, which the specification says and no class does.
# Those of sort take two for each operand, and those of scan depend on attributes.
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
_BUILT: Final = re.compile(
    r'^    (if [^\n]*: )?attributes\["(\w+)"\] = .*?contains\(\'([\w.]+)\'\)',
    re.DOTALL | re.MULTILINE,
)
# Operands that are lists, which has no type where bindings are of before 1.13.
_MANY: Final = re.compile(r"operands\.\w+\(_get_op_results_or_values\((\w+?)_?\)\)")
_SLICE: Final = "self.operation.results[0:"
_NO_RESULT: Final = re.compile(r"\.(\w+Op|Operation)'>$")
_TYPES: Final = re.compile(r"results\.(append|extend)\(")
_UNIT: Final = re.compile(r'attributes\["(\w+)"\] = _ods_ir\.UnitAttr')
_WORDS: Final = re.compile(r"to be one of: ([\w, ]+)")


class DialectExtractor(Extractor):
    """One dialect. Its version is that of StableHLO, which CHLO comes with."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.header = DictionaryHeader(
            namespace=f"amanda/{name}",
            versions=(),
            source="the bindings in jaxlib's releases",
            # attributes that other dialects leave on an op
            hints=("jax.", "mhlo.", "sdy.", "xla."),
        )

    def installed(self) -> InstalledOps:
        with requires_framework("jaxlib", "jaxlib"):
            from jaxlib.mlir.dialects import stablehlo
            from jaxlib.version import __version__
        version = stablehlo.get_current_version()
        entries = [_Op(self.name, found).entry() for found in self.classes()]
        return InstalledOps(f"jaxlib {__version__}", {version: entries})

    def extract(self, raw: Path | None) -> ExtractedDictionary | None:
        """From `stablehlo.jsonl` and `chlo.jsonl`: definitions as jaxlibs told them."""
        if raw is None:
            return None
        data = read_raw_data(raw / f"{self.name}.jsonl")
        lines = {
            n: row["doc"] for n, steps in data.ops.items() for _, row in steps if row
        }
        blocks = op_histories(data, _entry_of_row, lines)
        return ExtractedDictionary(replace(self.header, versions=data.versions), blocks)

    def classes(self) -> list[type]:
        """The classes of the ops."""
        from jaxlib.mlir import dialects, ir

        module = import_module(f"{dialects.__name__}.{self.name}")
        found = {
            operation: each
            for each in vars(module).values()
            if isinstance(each, type) and issubclass(each, ir.OpView)
            if (operation := _operation(each)).startswith(f"{self.name}.")
        }
        return [found[name] for name in sorted(found)]


def _entry_of_row(name: str, row: Mapping[str, str]) -> OpDef:
    return replace(parse_signature(name + row["text"]), doc=row["doc"])


def _operation(made: type) -> str:
    return str(getattr(made, "OPERATION_NAME", ""))


@dataclass(frozen=True)
class _Op:
    """One class of the bindings, read."""

    dialect: str
    made: type

    @property
    def name(self) -> str:
        return _operation(self.made).removeprefix(f"{self.dialect}.")

    def entry(self) -> OpDef:
        inputs, attrs, bodies, outputs = [], [], [], []
        built, many = self.built(), set(_MANY.findall(self.constructor()))
        for name, kind, code in self.properties():
            # some names end in "_" so that they are none of Python's or the base's
            name = name.removesuffix("_")
            if "self.operation.operands" in code:
                inputs.append(_port(name, kind, name in many))
            elif "self.operation.results" in code:
                outputs.append(_port(name, kind, _SLICE in code or name in many))
            elif "self.regions" in code or "operation.regions" in code:
                bodies.append(self.body(name, kind, code))
            else:
                attrs.append(self.attribute(name, built))
        head = [*inputs, *(["*"] if attrs or bodies else []), *attrs, *bodies]
        trait = f"  [{_TRAITS[self.name]}]" if self.name in _TRAITS else ""
        given = ", ".join(outputs or self.unnamed(*inputs))
        text = f"{self.name}({', '.join(head)}) -> ({given}){trait}"
        return replace(
            parse_signature(text), doc=first_sentence(self.made.__doc__ or "")
        )

    def properties(self) -> Iterator[tuple[str, str, str]]:
        """Name, returned type and code of each property, in their order."""
        base = self.made
        while "OPERATION_NAME" not in vars(base):  # some are derived from, by hand
            base = base.__mro__[1]
        for name, found in vars(base).items():
            if isinstance(found, property) and found.fget is not None:
                kind = str(inspect.get_annotations(found.fget).get("return"))
                yield name, kind, inspect.getsource(found.fget)

    def built(self) -> dict[str, tuple[str, bool]]:
        """The builder that the constructor takes for each attribute.

        And whether it takes it whatever it is given: then the attribute is required.
        """
        code = self.constructor()
        found = dict.fromkeys(_UNIT.findall(code), ("UnitAttr", False))
        for condition, name, builder in _BUILT.findall(code):
            plain = re.sub(r"^.*?(StableHLO|CHLO)_", "", builder)
            found.setdefault(name, (plain, not condition))
        return found

    def constructor(self) -> str:
        """The code of the constructor."""
        base = next(b for b in self.made.__mro__ if "OPERATION_NAME" in vars(b))
        return inspect.getsource(vars(base)["__init__"])

    def attribute(self, name: str, built: Mapping[str, tuple[str, bool]]) -> str:
        builder, required = built[name]
        mark = "" if required else "?"
        if builder == "UnitAttr":
            return f"{name}: bool = false"  # there or not there
        if builder in _ENUMS:
            enum = _LISTS.get(builder, builder.removesuffix("Attr"))
            of = "[]" if builder in _LISTS else ""
            words = ", ".join(_words(self.dialect, enum))
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
        """A region, or a list of them, which may be empty where nothing is told."""
        counts = _BODIES.get((self.name, name))
        if "Sequence" in kind or "regions[0:" in code:
            return f"{name}: graph[]({counts})" if counts else f"{name}?: graph[]"
        return f"{name}: graph" + (f"({counts})" if counts else "")

    def unnamed(self, *inputs: str) -> list[str]:
        """Results without a name: those that the constructor is given the types of.

        Where types are inferred, what the function that makes the op returns.
        """
        several = ["*results: any >= 0"]
        told = _TYPES.search(self.constructor())
        if told is not None and told[1] == "extend":
            return several
        functions = inspect.getmodule(self.made.__mro__[0])
        operation = self.name.replace("-", "_")
        made = [n for n in (operation, f"{operation}_") if hasattr(functions, n)]
        returned = str(typing.get_type_hints(getattr(functions, made[0]))["return"])
        if re.search(_NO_RESULT, returned):
            return []
        if "OpResultList" in returned or self.is_of_each(inputs):
            return several
        return [_port("result", returned)]

    def is_of_each(self, inputs: Sequence[str]) -> bool:
        """Has it a result for each operand, as the specification says?"""
        return self.name == "all_to_all" and inputs[0].startswith("*")


def _port(name: str, kind: str, many: bool = False) -> str:
    of = "tensor" if "RankedTensorType" in kind else "any"
    if many or "List" in kind:
        return f"*{name}: {of} >= 0"
    return f"{name}{'?' if 'Optional' in kind else ''}: {of}"


@cache
def _words(dialect: str, enum: str) -> tuple[str, ...]:
    """The words of an enumeration."""
    from jaxlib.mlir import ir

    mnemonic = re.sub(r"(?<!^)(?=[A-Z])", "_", enum).lower()
    told = ""
    with _context(), ir.Location.unknown():
        try:
            ir.Attribute.parse(f"#{dialect}<{mnemonic} none_of_them>")
        except ir.MLIRError as error:
            told = str(error)
    found = _WORDS.search(told)
    if found is None:
        raise NamespaceError(f"{dialect} does not tell the words of {enum}", got=told)
    return tuple(found[1].split(", "))


@cache
def _api_versions() -> tuple[int, ...]:
    """The versions of custom calls that the verifier takes."""
    from jaxlib.mlir import ir

    taken = []
    with _context(), ir.Location.unknown():
        for number in range(16):
            call = f'{{api_version = {number} : i32, call_target_name = "f"}}'
            try:
                ir.Module.parse(f'"stablehlo.custom_call"() {call} : () -> ()')
            except ir.MLIRError:
                continue
            taken.append(number)
    return tuple(taken)


def _context() -> Any:
    from jaxlib.mlir import ir

    chlo, stablehlo = (import_module(f"jaxlib.mlir.dialects.{n}") for n in _DIALECTS)
    context = ir.Context()
    stablehlo.register_dialect(context)
    chlo.register_chlo_dialect(context)
    return context


STABLEHLO = DialectExtractor("stablehlo")
CHLO = DialectExtractor("chlo")
