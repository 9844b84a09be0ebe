"""Annotations of an op's parameters and results, and the form read from them.

Positional parameters are tensors, shape arguments, containers or bodies, by their
annotation; keyword-only ones are attributes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType, NoneType
from typing import Annotated, Any, Final, TypeAlias, get_args, get_origin

from amanda.errors import UsageError
from amanda.mapping import REQUIRED
from amanda.types import (
    DType,
    MapType,
    OptionalType,
    RefType,
    SequenceType,
    TensorType,
    TupleType,
    Type,
    bool_,
    int64,
    string,
)
from amanda_std.inference.element_types import complex_type, part_type

__all__ = [
    "BODY",
    "SHAPE_ARG",
    "REQUIRED",
    "TENSOR",
    "VALUE",
    "Anything",
    "Array",
    "Bits",
    "Bodies",
    "Body",
    "Cast",
    "Complex",
    "ComplexOf",
    "Floating",
    "OpForm",
    "ShapeArg",
    "Index",
    "Integer",
    "ArgKind",
    "Logical",
    "Map",
    "Maybe",
    "Number",
    "Other",
    "Param",
    "Real",
    "RealFloating",
    "RealOf",
    "Ref",
    "Sequence",
    "Signed",
    "Text",
    "Tuple",
    "parse_form",
]

TENSOR: Final = "tensor"
SHAPE_ARG: Final = "host"
VALUE: Final = "value"
BODY: Final = "body"


@dataclass(frozen=True, slots=True)
class ArgKind:
    """Role and accepted dtypes of a parameter or result, as its annotation declares."""

    role: str = TENSOR
    shared: bool = True
    """Whether its dtype is the op's common dtype T."""
    kinds: tuple[str, ...] = ()
    """Accepted kinds of dtypes (`DType.kind`); empty: any."""
    dtype: DType | None = None
    """The dtype of a result that always has the same."""
    derive: Callable[[Any], Any] | None = None
    """The dtype of a result as a function of T."""
    attribute: str | None = None
    """The attribute that holds the dtype of a result."""
    many: bool = False
    """Whether this is a list of bodies, of any length."""
    holds: type[Type] | None = None
    """The container type of a value; None for any type."""

    def open(self, dtype: Any) -> Type:
        """The type of a result of which only the dtype is known."""
        if self.holds in (SequenceType, OptionalType, RefType):
            return self.holds(TensorType(dtype))
        return TensorType(dtype)


_NUMERIC_KINDS = ("int", "uint", "float", "complex")

Array: TypeAlias = Annotated[Any, ArgKind()]
Number: TypeAlias = Annotated[Any, ArgKind(kinds=_NUMERIC_KINDS)]
Real: TypeAlias = Annotated[Any, ArgKind(kinds=("int", "uint", "float"))]
Signed: TypeAlias = Annotated[Any, ArgKind(kinds=("int", "float", "complex"))]
Floating: TypeAlias = Annotated[Any, ArgKind(kinds=("float", "complex"))]
RealFloating: TypeAlias = Annotated[Any, ArgKind(kinds=("float",))]
Complex: TypeAlias = Annotated[Any, ArgKind(kinds=("complex",))]
RealOf: TypeAlias = Annotated[Any, ArgKind(kinds=("float",), derive=part_type)]
ComplexOf: TypeAlias = Annotated[
    Any, ArgKind(shared=False, kinds=("complex",), derive=complex_type)
]
Integer: TypeAlias = Annotated[Any, ArgKind(kinds=("int", "uint"))]
Bits: TypeAlias = Annotated[Any, ArgKind(kinds=("int", "uint", "bool"))]
Logical: TypeAlias = Annotated[Any, ArgKind(shared=False, kinds=("bool",), dtype=bool_)]
Index: TypeAlias = Annotated[
    Any, ArgKind(shared=False, kinds=("int", "uint"), dtype=int64)
]
Other: TypeAlias = Annotated[Any, ArgKind(shared=False)]
Cast: TypeAlias = Annotated[Any, ArgKind(shared=False, attribute="dtype")]
ShapeArg: TypeAlias = Annotated[Any, ArgKind(role=SHAPE_ARG, shared=False)]
Body: TypeAlias = Annotated[Any, ArgKind(role=BODY, shared=False)]
Bodies: TypeAlias = Annotated[Any, ArgKind(role=BODY, shared=False, many=True)]
Text: TypeAlias = Annotated[Any, ArgKind(shared=False, kinds=("string",), dtype=string)]
Anything: TypeAlias = Annotated[Any, ArgKind(role=VALUE, shared=False)]
Sequence: TypeAlias = Annotated[
    Any, ArgKind(role=VALUE, shared=False, holds=SequenceType)
]
Maybe: TypeAlias = Annotated[Any, ArgKind(role=VALUE, shared=False, holds=OptionalType)]
Tuple: TypeAlias = Annotated[Any, ArgKind(role=VALUE, shared=False, holds=TupleType)]
Map: TypeAlias = Annotated[Any, ArgKind(role=VALUE, shared=False, holds=MapType)]
Ref: TypeAlias = Annotated[Any, ArgKind(role=VALUE, shared=False, holds=RefType)]


@dataclass(frozen=True, slots=True)
class Param:
    """One positional parameter of an op."""

    name: str
    kind: ArgKind
    optional: bool = False
    variadic: bool = False
    default: Any = None

    @property
    def role(self) -> str:
        return self.kind.role


@dataclass(frozen=True, slots=True)
class OpForm:
    """The signature of an op, read from that of its Python function."""

    params: tuple[Param, ...]
    attributes: MappingProxyType[str, Any]
    """Each attribute with its default."""
    results: tuple[ArgKind, ...]
    """The kind of each result; of every result if their number varies."""
    varies: bool
    """Whether the number of results varies from op to op."""

    @property
    def fixed_params(self) -> tuple[Param, ...]:
        """The parameters without the variadic one."""
        last = self.params[-1:]
        return self.params[:-1] if last and last[0].variadic else self.params

    @property
    def many(self) -> bool:
        """Whether a call returns a tuple."""
        return self.varies or len(self.results) != 1

    def params_of(self, count: int) -> tuple[Param, ...]:
        """The parameters of `count` arguments, with the variadic one repeated."""
        extra = count - len(self.params)
        if extra == 0:
            return self.params
        if extra < 0:
            return self.params[:count]
        return self.params + self.params[-1:] * extra


def parse_form(function: Callable[..., Any]) -> OpForm:
    """Read the form from the annotations of a function."""
    signature = inspect.signature(function, eval_str=True)
    params: list[Param] = []
    attributes: dict[str, Any] = {}
    for p in signature.parameters.values():
        if p.kind is p.KEYWORD_ONLY:
            attributes[p.name] = REQUIRED if p.default is p.empty else p.default
        else:
            kind = _kind(p.annotation, f"{function.__name__}({p.name})")
            variadic = p.kind is p.VAR_POSITIONAL
            has_default = p.default is not p.empty
            default = p.default if has_default else None
            optional = has_default or NoneType in get_args(p.annotation)
            params.append(Param(p.name, kind, optional, variadic, default))
    result = signature.return_annotation
    if get_origin(result) is tuple:
        parts = get_args(result)
        varies = parts[-1] is Ellipsis
        where = f"what {function.__name__} returns"
        kinds = tuple(_kind(p, where) for p in parts if p is not Ellipsis)
    else:
        varies, kinds = False, (_kind(result, f"what {function.__name__} returns"),)
    return OpForm(tuple(params), MappingProxyType(attributes), kinds, varies)


def _kind(annotation: Any, where: str) -> ArgKind:
    """The `ArgKind` in an annotation."""
    parts = [a for a in get_args(annotation) if a is not NoneType]
    if get_origin(annotation) is not Annotated and len(parts) == 1:
        annotation = parts[0]  # X | None
    for word in getattr(annotation, "__metadata__", ()):
        if isinstance(word, ArgKind):
            return word
    raise UsageError(
        "a parameter of an op, or its result, has no annotation that is a kind",
        where=where,
        expected="a kind of amanda_std.engine.annotations, such as Floating",
        got=repr(annotation),
    )
