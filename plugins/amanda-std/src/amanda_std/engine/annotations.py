"""What the annotations of an op's parameters and results mean.

    def matmul(a: Number, b: Number) -> Number
    def gather(x: Array, indices: Index, axis: Host = 0) -> Array
    def astype(x: Other, *, dtype: DType) -> Cast

Tensors of one op share the element type `T`, unless the annotation is one that stands
for itself. A *host* argument is integers that decide shapes: stored as an attribute
where constant, as an input where computed. A *value* is a tensor or what holds others:
a sequence, an optional, a tuple, a map, a reference to a variable.
A *body* is a function traced to a graph.
What is keyword-only is an attribute: it decides the structure and is always constant.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType, NoneType
from typing import Annotated, Any, Final, TypeAlias, get_args, get_origin

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
    """What one annotation says."""

    role: str = TENSOR
    shared: bool = True
    """Whether its element type is the T of the op."""
    kinds: tuple[str, ...] = ()
    """The kinds of element types that are taken (`DType.kind`); empty: any."""
    dtype: DType | None = None
    """The element type of a result that is always the same."""
    attribute: str | None = None
    """The attribute that says the element type of a result."""
    many: bool = False
    """Whether this is a list of bodies, however long."""
    holds: type[Type] | None = None
    """What type a value has that holds others; None where it may be any."""

    def open(self, dtype: Any) -> Type:
        """The type of a result of which only the element type is known."""
        if self.holds in (SequenceType, OptionalType, RefType):
            return self.holds(TensorType(dtype))
        return TensorType(dtype)


_NUMBERS = ("int", "uint", "float", "complex")

Array: TypeAlias = Annotated[Any, ArgKind()]
Number: TypeAlias = Annotated[Any, ArgKind(kinds=_NUMBERS)]
Real: TypeAlias = Annotated[Any, ArgKind(kinds=("int", "uint", "float"))]
Signed: TypeAlias = Annotated[Any, ArgKind(kinds=("int", "float", "complex"))]
Floating: TypeAlias = Annotated[Any, ArgKind(kinds=("float", "complex"))]
RealFloating: TypeAlias = Annotated[Any, ArgKind(kinds=("float",))]
Complex: TypeAlias = Annotated[Any, ArgKind(kinds=("complex",))]
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
    """One parameter of an op that is no attribute."""

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
    """The kind of each result; of all of them where their number varies."""
    varies: bool
    """Whether the number of results is structure."""

    @property
    def fixed(self) -> tuple[Param, ...]:
        last = self.params[-1:]
        return self.params[:-1] if last and last[0].variadic else self.params

    @property
    def many(self) -> bool:
        """Whether what comes out is a tuple, however long."""
        return self.varies or len(self.results) != 1

    def each(self, count: int) -> tuple[Param, ...]:
        """The parameter of each of `count` arguments, the variadic one repeated."""
        extra = count - len(self.params)
        if extra == 0:
            return self.params
        if extra < 0:
            return self.params[:count]
        return self.params + self.params[-1:] * extra


def parse_form(function: Callable[..., Any]) -> OpForm:
    """The form that a function's annotations declare."""
    signature = inspect.signature(function, eval_str=True)
    params: list[Param] = []
    attributes: dict[str, Any] = {}
    for p in signature.parameters.values():
        if p.kind is p.KEYWORD_ONLY:
            attributes[p.name] = REQUIRED if p.default is p.empty else p.default
        else:
            kind = _kind(p.annotation, f"{function.__name__}({p.name})")
            variadic = p.kind is p.VAR_POSITIONAL
            told = p.default is not p.empty
            default = p.default if told else None
            optional = told or NoneType in get_args(p.annotation)
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
    parts = [a for a in get_args(annotation) if a is not NoneType]
    if get_origin(annotation) is not Annotated and len(parts) == 1:
        annotation = parts[0]  # X | None
    for word in getattr(annotation, "__metadata__", ()):
        if isinstance(word, ArgKind):
            return word
    raise TypeError(f"{where} is annotated with {annotation!r}, which is no kind")
