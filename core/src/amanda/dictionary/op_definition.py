"""Op definitions: name, ports, attributes and type variables of one op.

Definitions are immutable. The signature (`signature.py`) has all but documentation, so
two definitions are equal if and only if their signatures are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self

if TYPE_CHECKING:
    from amanda.types import DType, Type

    Pattern = DType | Type

__all__ = [
    "ATTR_KINDS",
    "Attr",
    "BodyArity",
    "Deprecation",
    "EnumMember",
    "OpDef",
    "Port",
    "PortForm",
]

PortForm = Literal["one", "optional", "many", "each", "count", "list"]

ATTR_KINDS: Final = (
    "bool",
    "int",
    "float",
    "double",
    "complex",
    "number",
    "dim",
    "string",
    "dtype",
    "shape",
    "tensor",
    "sparse",
    "type",
    "graph",
    "function",
    "enum",
    "any",
)
"""Kinds of attribute values; `int[]` is a list, `int[2]` a pair, `int?` may be none.

`dtype` is an element type and `type` the whole type of a value; `float` has the
precision of float32, as files store it, and `double` that of float64; `number` is an
int, a float, a bool or a complex number; `dim` an int that may be symbolic; `graph` a
body of the op; an `enum` member has a name and a number; `any` is unspecified.
`enum<Padding>` and `any<Device>` have the framework's name of the type.
"""

_ALPHABETIC = re.compile(r"[a-z]+")


class Port(NamedTuple):
    """An input or output port of an op definition.

    - `type`: an element type (of a tensor), another type, or the name of the type
      variable or attribute that determines it
    - `form`: `one` value; `optional`; `many` values of one type; `each`, many values of
      independent types; `count`, as many as the attribute `number`; `list`, one for
      each type in the list named by `type`
    - `least`: the minimum number of values of `many` and `each`
    - `ref`: a mutable reference
    - `nullable`: required, but may be none
    - `alias`: the memory it shares, in PyTorch's notation: `a`, `a!` if it is
      written to, `a -> *`
    - `axes`: the meaning of its axes, where the op fixes it: `N, H, W, C`, `..., C`
    - `keyword`: passed by name, after the attributes
    - `doc`: one line of documentation, if the framework has one

    The type `any` stands for any value, `any<int>` for a type of the framework; the
    element type `unknown`, written `tensor`, for any tensor. The name may be empty.
    """

    name: str
    type: str | Pattern
    form: PortForm = "one"
    least: int = 0
    number: str = ""
    ref: bool = False
    nullable: bool = False
    alias: str = ""
    axes: tuple[str, ...] = ()
    keyword: bool = False
    doc: str = ""

    @property
    def repeats(self) -> bool:
        """True if it can have more than one value."""
        return self.form not in ("one", "optional")

    @property
    def is_written(self) -> bool:
        """True if the op writes to this input in place."""
        return "!" in self.alias


class BodyArity(NamedTuple):
    """Numbers of parameters and results of a body: `inputs`, `outputs + 1`, `0` ..."""

    parameters: str
    results: str


class EnumMember(str):
    """A member of an enum: its name, and its number if the framework numbers them.

    >>> EnumMember("RELU", 1) == "RELU", EnumMember("RELU", 1).number
    (True, 1)
    """

    __slots__ = ("number",)
    number: int | None

    def __new__(cls, name: str, number: int | None = None) -> Self:
        member = super().__new__(cls, name)
        member.number = number
        return member

    def __reduce__(self) -> tuple[type[Self], tuple[str, int | None]]:
        return type(self), (str(self), self.number)


class Attr(NamedTuple):
    """An attribute of an op, or a type variable.

    - `kind`: one of `ATTR_KINDS`, or a list of it, or nullable
    - `default`: the default value; None if there is none
    - `allowed`: the allowed values; empty if any value of the kind is
    - `minimum`: the minimum of an int, or the minimum length of a list
    - `position`: its index among the positional arguments; None if it is passed by name
    - `doc`: one line of documentation, if the framework has one
    - `bounds`: the least and the greatest value of an int, or of each int of a list
    """

    name: str
    kind: str
    required: bool = True
    default: Any = None
    allowed: tuple[Any, ...] = ()
    minimum: int | None = None
    body: BodyArity | None = None
    position: int | None = None
    doc: str = ""
    bounds: tuple[int, int] | None = None

    @property
    def is_list(self) -> bool:
        return self.kind.rstrip("?").endswith("]")

    @property
    def nullable(self) -> bool:
        """True if its value can be none."""
        return self.kind.endswith("?")

    @property
    def element(self) -> str:
        """The kind of one item of a list; otherwise the kind itself."""
        kind = self.kind.rstrip("?")
        return kind[: kind.rindex("[")] if kind.endswith("]") else kind

    @property
    def base(self) -> str:
        """The kind without list and `?` suffixes: one of `ATTR_KINDS`."""
        found = _ALPHABETIC.match(self.kind)
        assert found is not None
        return found[0]


class Deprecation(NamedTuple):
    """Deprecation of an op: since when, why, and the replacement.

    `version` is in the framework's own units: ONNX's opset, TensorFlow's GraphDef
    version. `use` is the op that replaces it.
    """

    version: int
    why: str = ""
    use: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class OpDef:
    """The definition of an op in one version of a namespace.

    - `inputs`, `outputs`: its ports, in order
    - `attrs`: its attributes, without those that are inferred from the connected values
    - `variables`: what is inferred from the values: their types, and how many there are
    - `traits`: `stateful`, `nondeterministic`, `commutative`, `feedback` ...
    - `tags`: tags of the framework, such as `core`, or `code=18` with a value
    - `open`: attributes that are not listed are allowed
    - `since`: the version that introduced this definition
    - `until`: the version that replaced or removed it; None if it is current
    - `doc`: one line of documentation, if the framework has one
    """

    name: str
    inputs: tuple[Port, ...] = ()
    outputs: tuple[Port, ...] = ()
    attrs: tuple[Attr, ...] = ()
    variables: tuple[Attr, ...] = ()
    traits: frozenset[str] = frozenset()
    deprecated: Deprecation | None = None
    since: str = field(default="")
    until: str | None = field(default=None)
    doc: str = field(default="")
    tags: frozenset[str] = frozenset()
    open: bool = False

    @cached_property
    def signature(self) -> str:
        """The definition in one line.

        >>> from amanda.dictionary import parse_signature
        >>> print(parse_signature("Relu(x: T) -> (y: T)  T in {f16, f32}").signature)
        Relu(x: T) -> (y: T)  T in {f16, f32}
        """
        from amanda.dictionary.signature import format_signature

        return format_signature(self)

    @property
    def effects(self) -> bool:
        """True if it has side effects, or is not deterministic."""
        declared = not self.traits.isdisjoint(("stateful", "nondeterministic"))
        return declared or any(port.is_written for port in self.inputs)

    @property
    def feedback(self) -> bool:
        """True if its outputs feed the next iteration of a loop."""
        return "feedback" in self.traits

    @property
    def bodies(self) -> tuple[Attr, ...]:
        """The attributes that are bodies."""
        return tuple(attr for attr in self.attrs if attr.element == "graph")

    @cached_property
    def attrs_by_name(self) -> dict[str, Attr]:
        """Attributes and variables by name."""
        return {attr.name: attr for attr in (*self.attrs, *self.variables)}

    def attr(self, name: str) -> Attr | None:
        """The attribute or variable of this name."""
        return self.attrs_by_name.get(name)

    @property
    def docs(self) -> dict[str, str]:
        """Documentation of inputs, attributes and outputs: `in x`, `attr a`, `out y`.

        Those without a name or documentation are missing.
        """
        parts: dict[str, tuple[Port | Attr, ...]]
        parts = {"in": self.inputs, "attr": self.attrs, "out": self.outputs}
        return {
            f"{kind} {part.name}": part.doc
            for kind, named in parts.items()
            for part in named
            if part.doc and part.name
        }

    def with_docs(self, docs: Mapping[str, str]) -> OpDef:
        """A copy with other documentation of inputs, attributes and outputs.

        >>> from amanda.dictionary import parse_signature
        >>> relu = parse_signature("Relu(x: f32) -> (y: f32)")
        >>> relu.with_docs({"out y": "The larger of x and 0"}).outputs[0].doc
        'The larger of x and 0'
        """

        def with_doc(kind: str, part: Any) -> Any:
            return part._replace(doc=docs.get(f"{kind} {part.name}", ""))

        return replace(
            self,
            inputs=tuple(with_doc("in", port) for port in self.inputs),
            outputs=tuple(with_doc("out", port) for port in self.outputs),
            attrs=tuple(with_doc("attr", attr) for attr in self.attrs),
        )

    def arguments(self) -> list[Port | Attr]:
        """The positional arguments in order: inputs, and attributes with a position.

        >>> from amanda.dictionary import parse_signature
        >>> op_def = parse_signature("pow(attr a: number, b: tensor) -> (tensor)")
        >>> [argument.name for argument in op_def.arguments()]
        ['a', 'b']
        """
        arguments: list[Port | Attr] = [p for p in self.inputs if not p.keyword]
        positional = [(a.position, a) for a in self.attrs if a.position is not None]
        for position, attr in sorted(positional, key=lambda row: row[0]):
            arguments.insert(position, attr)
        return arguments

    def tag(self, name: str) -> str | None:
        """The value of a tag, empty if it has none; None if the op lacks the tag."""
        for tag in self.tags:
            word, _, value = tag.partition("=")
            if word == name:
                return value
        return None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OpDef):
            return NotImplemented
        return self is other or self.signature == other.signature

    def __hash__(self) -> int:
        return hash(self.signature)

    def __str__(self) -> str:
        return self.signature

    def __repr__(self) -> str:
        return f"<OpDef {self.signature}>"
