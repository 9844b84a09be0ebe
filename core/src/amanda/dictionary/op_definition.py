"""A dictionary entry: what one op of one version is called, takes, has and gives.

Entries are immutable. Their written form (`signature.py`) says all that they say, so
two entries are equal when they are written the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
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
"""What an attribute holds: `int[]` is a list of ints, `int[2]` of two, `int?` or none.

`dtype` is an element type and `type` the whole type of a value; `float` has the
precision of float32, as files store it, and `double` that of float64; `number` is an
int, a float, a bool or a complex number; `dim` an int that may be symbolic; `graph` is
a body of the op; an `enum` is known by name and number; of `any`, nothing is known.
`enum<Padding>` and `any<Device>` say what the framework calls the type.
"""

_ALPHABETIC = re.compile(r"[a-z]+")


class Port(NamedTuple):
    """A place where an op takes or gives values.

    - `type`: an element type (of a tensor), another type, or the name of a variable or
      an attribute that says it
    - `form`: `one`; `optional`; `many` values of one type; `each`, many values each of
      its own type; `count`, as many as the attribute `number` says; `list`, one for
      each type in the list that `type` names
    - `least`: how many values `many` and `each` stand for at least
    - `ref`: a place in memory that others may write to
    - `nullable`: it has to be given, and may be none
    - `alias`: which memory it shares, as PyTorch writes it: `a`, `a!` where it is
      written to, `a -> *`
    - `axes`: what its axes are for, where the op decides: `N, H, W, C`, `..., C`
    - `keyword`: it is given by name, behind the attributes

    The type `any` stands for any value, `any<int>` for one of the framework's own; the
    element type `unknown`, written `tensor`, for any tensor. A name may be empty.
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

    @property
    def repeats(self) -> bool:
        """May it stand for more than one value?"""
        return self.form not in ("one", "optional")

    @property
    def written(self) -> bool:
        """Does the op write to what it is given here?"""
        return "!" in self.alias


class BodyArity(NamedTuple):
    """How many values a body takes and gives: `inputs`, `outputs + 1`, `0` ..."""

    parameters: str
    results: str


class EnumMember(str):
    """A value of an enum: its name, and its number where the framework numbers them.

    >>> EnumMember("RELU", 1) == "RELU", EnumMember("RELU", 1).number
    (True, 1)
    """

    __slots__ = ("number",)
    number: int | None

    def __new__(cls, name: str, number: int | None = None) -> Self:
        made = super().__new__(cls, name)
        made.number = number
        return made

    def __reduce__(self) -> tuple[type[Self], tuple[str, int | None]]:
        return type(self), (str(self), self.number)


class Attr(NamedTuple):
    """An attribute of an op, or a variable of its types.

    - `kind`: one of `KINDS`, or a list of it, or it or none
    - `default`: what stands where the attribute does not; None where nothing does
    - `allowed`: the values it may have; empty where any of its kind will do
    - `minimum`: the least value of an int, the least length of a list
    - `place`: where it stands among the arguments that are told by their order; None
      where it is told by its name
    """

    name: str
    kind: str
    required: bool = True
    default: Any = None
    allowed: tuple[Any, ...] = ()
    minimum: int | None = None
    body: BodyArity | None = None
    place: int | None = None

    @property
    def is_list(self) -> bool:
        return self.kind.rstrip("?").endswith("]")

    @property
    def nullable(self) -> bool:
        """May its value be none?"""
        return self.kind.endswith("?")

    @property
    def element(self) -> str:
        """The kind of one item of a list; of what is no list, its own."""
        kind = self.kind.rstrip("?")
        return kind[: kind.rindex("[")] if kind.endswith("]") else kind

    @property
    def base(self) -> str:
        """One of `KINDS`."""
        found = _ALPHABETIC.match(self.kind)
        assert found is not None
        return found[0]


class Deprecation(NamedTuple):
    """That an op should no longer be used: from which version on, and what instead.

    `version` counts as the framework counts such things: ONNX by opset, TensorFlow by
    the version of its graph format. `use` is the op that replaces it.
    """

    version: int
    why: str = ""
    use: str = ""


@dataclass(frozen=True, eq=False, repr=False)
class OpDef:
    """What a dictionary knows of an op.

    - `inputs`, `outputs`: its ports, in order
    - `attrs`: its attributes, without those that follow from the connected ports
    - `variables`: what follows from the ports: their types, how many there are
    - `traits`: `stateful`, `nondeterministic`, `commutative`, `feedback` ...
    - `tags`: words of the framework's own, `core`, or `code=18` with a value
    - `open`: it may have attributes that are not listed
    - `since`: the version that brought this definition
    - `until`: the version that replaced or removed it; None while it holds
    - `doc`: a line about the op, where the framework gives one
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
        """The entry in one line.

        >>> from amanda.dictionary import parse_signature
        >>> print(parse_signature("Relu(x: T) -> (y: T)  T in {f16, f32}").signature)
        Relu(x: T) -> (y: T)  T in {f16, f32}
        """
        from amanda.dictionary.signature import format_signature

        return format_signature(self)

    @property
    def effects(self) -> bool:
        """Does it do more than compute its outputs, or not always the same ones?"""
        told = not self.traits.isdisjoint(("stateful", "nondeterministic"))
        return told or any(port.written for port in self.inputs)

    @property
    def feedback(self) -> bool:
        """Do its outputs carry the next round of a loop, so that they do not order?"""
        return "feedback" in self.traits

    @property
    def bodies(self) -> tuple[Attr, ...]:
        """The attributes that are graphs."""
        return tuple(attr for attr in self.attrs if attr.element == "graph")

    @cached_property
    def named(self) -> dict[str, Attr]:
        """Attributes and variables by name."""
        return {attr.name: attr for attr in (*self.attrs, *self.variables)}

    def attr(self, name: str) -> Attr | None:
        """The attribute or variable of this name."""
        return self.named.get(name)

    def arguments(self) -> list[Port | Attr]:
        """What is told by order, in order: inputs, and attributes with a place.

        >>> from amanda.dictionary import parse_signature
        >>> entry = parse_signature("pow(attr a: number, b: tensor) -> (tensor)")
        >>> [argument.name for argument in entry.arguments()]
        ['a', 'b']
        """
        found: list[Port | Attr] = [p for p in self.inputs if not p.keyword]
        placed = [(attr.place, attr) for attr in self.attrs if attr.place is not None]
        for place, attr in sorted(placed, key=lambda row: row[0]):
            found.insert(place, attr)
        return found

    def tag(self, name: str) -> str | None:
        """The value of a tag, empty where it has none; None where there is no such."""
        for tag in self.tags:
            word, _, value = tag.partition("=")
            if word == name:
                return value
        return None

    def port_names(self) -> Iterator[str]:
        yield from (port.name for port in (*self.inputs, *self.outputs))

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
