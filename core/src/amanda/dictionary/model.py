"""A dictionary entry: what one op of one version is called, takes, has and gives.

Entries are immutable. Their written form (`signature.py`) says all that they say, so
two entries are equal when they are written the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from amanda.types import DType, Type

    Pattern = DType | Type

__all__ = ["KINDS", "Attr", "Body", "Deprecation", "Form", "OpDef", "Port"]

Form = Literal["one", "optional", "many", "each", "count", "list"]

KINDS: Final = (
    "bool",
    "int",
    "float",
    "string",
    "dtype",
    "shape",
    "tensor",
    "sparse",
    "type",
    "graph",
    "function",
    "any",
)
"""What an attribute holds; with `[]` after it, a list of them.

`dtype` is an element type and `type` the whole type of a value; `float` has the
precision of float32, as every framework stores it; `graph` is a body of the op; of
`any`, nothing is known.
"""


class Port(NamedTuple):
    """A place where an op takes or gives values.

    - `type`: an element type (of a tensor), another type, or the name of a variable or
      an attribute that says it
    - `form`: `one`; `optional`; `many` values of one type; `each`, many values each of
      its own type; `count`, as many as the attribute `number` says; `list`, one for
      each type in the list that `type` names
    - `least`: how many values `many` and `each` stand for at least
    - `ref`: a place in memory that others may write to
    """

    name: str
    type: str | Pattern
    form: Form = "one"
    least: int = 0
    number: str = ""
    ref: bool = False

    @property
    def repeats(self) -> bool:
        """May it stand for more than one value?"""
        return self.form not in ("one", "optional")


class Body(NamedTuple):
    """How many values a body takes and gives: `inputs`, `outputs + 1`, `0` ..."""

    parameters: str
    results: str


class Attr(NamedTuple):
    """An attribute of an op, or a variable of its types.

    - `kind`: one of `KINDS`, or with `[]` a list of it
    - `default`: what stands where the attribute does not; None where nothing does
    - `allowed`: the values it may have; empty where any of its kind will do
    - `minimum`: the least value of an int, the least length of a list
    """

    name: str
    kind: str
    required: bool = True
    default: Any = None
    allowed: tuple[Any, ...] = ()
    minimum: int | None = None
    body: Body | None = None

    @property
    def is_list(self) -> bool:
        return self.kind.endswith("[]")

    @property
    def element(self) -> str:
        """The kind without `[]`."""
        return self.kind.removesuffix("[]")


class Deprecation(NamedTuple):
    """That an op should no longer be used: from which version on, and what instead.

    `version` counts as the framework counts such things: ONNX by opset, TensorFlow by
    the version of its graph format.
    """

    version: int
    why: str = ""


@dataclass(frozen=True, eq=False)
class OpDef:
    """What a dictionary knows of an op.

    - `inputs`, `outputs`: its ports, in order
    - `attrs`: its attributes, without those that follow from the connected ports
    - `variables`: what follows from the ports: their types, how many there are
    - `traits`: `stateful`, `nondeterministic`, `commutative`, `feedback` ...
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

    @cached_property
    def signature(self) -> str:
        """The entry in one line.

        >>> from amanda.dictionary import parse_signature
        >>> print(parse_signature("Relu(x: T) -> (y: T)  T in {f16, f32}").signature)
        Relu(x: T) -> (y: T)  T in {f16, f32}
        """
        from amanda.dictionary.signature import written

        return written(self)

    @property
    def effects(self) -> bool:
        """Does it do more than compute its outputs, or not always the same ones?"""
        return not self.traits.isdisjoint(("stateful", "nondeterministic"))

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
