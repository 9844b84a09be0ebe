"""Sides: what the mapping engine needs of a namespace at one end of a mapping.

A `Side` has the signatures of op types, and builds ops. It may be based on a dictionary
(`PlainSide`), a Python library of traced functions (`TracingSide`) or a table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, runtime_checkable

from amanda.argument_checks import without_checks
from amanda.dictionary import REQUIRED, Signature, add_op
from amanda.errors import AmandaError, Undecided, UsageError
from amanda.graph import CONSTANT, CORE, Graph, Op, OutputPort
from amanda.tensors import Tensor
from amanda.types import TensorType

if TYPE_CHECKING:
    from amanda.dictionary import Dictionary

__all__ = [
    "QUESTIONS",
    "REQUIRED",
    "Decline",
    "PlainSide",
    "Side",
    "Signature",
    "TracingSide",
    "constant_of",
    "answer_question",
    "rule_op_type",
]

_add_op = without_checks(add_op)
MAX_CONTENT: Final = 1 << 16
"""The most elements of a constant whose content rules can read."""


class Decline(AmandaError):
    """A rule, a lens or a side does not support an op; the message is the reason."""


@runtime_checkable
class Side(Protocol):
    """A namespace as the engine uses it.

    Optional members:

    - `type_of(op)`: the name in rules for the type of an op that has a namespace of its
      own; None where it is not of this side
    - `imports`: the domains and versions that graphs of this side import
    - `parameter_types(op, inputs)`: the types of the parameters of an op's bodies
    - `wider_parameter_types(op, inputs, bodies)`: other types of these parameters where
      the results of the mapped bodies do not fit; the bodies are then mapped again
    - `infer(op)`: add inferred types to the results of an op that was copied
    - `holds(namespace)`: whether its graphs may have ops of this namespace, which are
      then copied
    - `check(op)`: what is invalid about an op that was built, with the types of its
      results; the rule that built it then declines
    - `fault(op)`: what is invalid about an op, whatever the rule; no rule is tried then
    - `prepare(graph)` and `finish(graph, source)`: see `SideFactory`
    """

    @property
    def name(self) -> str: ...

    def signature(self, type: str, /) -> Signature | None:
        """The signature of an op type; None for an unknown type."""

    def build(
        self,
        graph: Graph,
        type: str,
        args: Sequence[Any],
        attrs: Mapping[str, Any],
        *,
        outputs: int = 1,
        name: str | None = None,
        bodies: Mapping[str, Graph] | None = None,
    ) -> tuple[OutputPort, ...]:
        """The outputs of a new op at the end of `graph`.

        `args` are values of the graph, None for an absent input, or plain values
        (numbers, lists of numbers, Tensors). `attrs` has no attributes with their
        default. Raises Decline, or another AmandaError, for what is not possible.
        """


@runtime_checkable
class TracingSide(Side, Protocol):
    """A side whose ops are functions that mapping functions call directly."""

    def tracing(self, graph: Graph) -> AbstractContextManager[Any]:
        """A context in which calls of functions add ops to `graph`."""

    def value(self, port: OutputPort) -> Any:
        """The object that functions get for a value of the graph."""

    def port(self, value: Any, graph: Graph) -> OutputPort:
        """The value of the graph for an object that a function returned."""


def rule_op_type(side: Side, op: Op) -> str | None:
    """The name in rules for an op's type; None where it is not of this side."""
    more = op.side_record
    if more is None or more.namespace is None:
        return op.type
    if more.namespace == CORE:
        return None
    own = getattr(side, "type_of", None)
    if own is not None:
        return own(op)  # type: ignore[no-any-return]
    return op.type if more.namespace == side.name else None


# -- questions about values --------------------------------------------------------


def answer_question(value: OutputPort, what: str) -> Any:
    """A property of a value, by its name in rules; Undecided where it is unknown.

    >>> from amanda.types import parse_type
    >>> x = Graph().parameter(parse_type("float32[2, 3]"))
    >>> [answer_question(x, name) for name in ("rank", "dtype", "kind")]
    [2, 'float32', 'float']
    """
    if what not in QUESTIONS:
        raise UsageError(
            f"a value has no property {what!r}", expected=", ".join(QUESTIONS)
        )
    return QUESTIONS[what](value)


def _tensor(value: OutputPort) -> TensorType:
    if not isinstance(value.type, TensorType):
        raise Undecided(f"the type of {value} is not known")
    return value.type


def _rank(value: OutputPort) -> int:
    return _tensor(value).shape.rank


def _dtype(value: OutputPort) -> str:
    return str(_element(value))


def _kind(value: OutputPort) -> str:
    return str(_element(value).kind)


def _element(value: OutputPort) -> Any:
    dtype = _tensor(value).dtype
    if dtype.kind == "unknown":
        raise Undecided(f"the element type of {value} is not known")
    return dtype


def _shape(value: OutputPort) -> tuple[Any, ...]:
    return _tensor(value).shape.dims


def _size(value: OutputPort) -> Any:
    return _tensor(value).shape.size


def _content_of(value: OutputPort) -> Any:
    tensor = constant_of(value)
    if tensor is None:
        known = value.type.value if isinstance(value.type, TensorType) else None
        if known is None:
            raise Undecided(f"{value} is not constant")
        return known
    if tensor.size > MAX_CONTENT:
        raise Undecided(f"{value} has {tensor.size} elements, too many to read")
    return (
        _decode_strings(tensor.tolist())
        if tensor.dtype.kind == "string"
        else tensor.tolist()
    )


def _decode_strings(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode_strings(item) for item in value]
    return value.decode()


def _is_constant(value: OutputPort) -> bool:
    return constant_of(value) is not None


QUESTIONS: Final[Mapping[str, Callable[[OutputPort], Any]]] = MappingProxyType(
    {
        "rank": _rank,
        "dtype": _dtype,
        "kind": _kind,
        "shape": _shape,
        "size": _size,
        "content": _content_of,
        "is_constant": _is_constant,
    }
)
"""The questions about values that rules may use, by name.

`kind` is bool, int, uint, float, complex or string; `content` is that of a constant,
as numbers and lists.
"""


def constant_of(value: OutputPort) -> Tensor | None:
    """The tensor of a value that a constant op produces, else None."""
    op = value.op
    if op.type == CONSTANT and op.own_namespace == CORE and op.graph is not None:
        tensor = op.attrs.get("value")
        return tensor if isinstance(tensor, Tensor) else None
    return None


# -- dictionaries as sides -------------------------------


class PlainSide:
    """The side of a dictionary.

    `signature` looks up an op type; `integers` is the element type of constants built
    from Python integers. A Python float gets the element type of the first float tensor
    among the other arguments.
    """

    def __init__(
        self,
        name: str,
        signature: Callable[[str], Signature | None],
        *,
        integers: str = "int64",
    ) -> None:
        self.name = name
        self.integers = integers
        self._signature = signature
        self._known: dict[str, Signature | None] = {}
        self._signature_of = without_checks(self.signature)

    @classmethod
    def of(cls, dictionary: Dictionary, **more: Any) -> Self:
        """The side of a dictionary: `PlainSide.of(amanda.namespace("onnx@18"))`."""
        return cls(dictionary.name, dictionary.signature, **more)

    def signature(self, type: str, /) -> Signature | None:
        try:
            return self._known[type]
        except KeyError:
            found = self._known[type] = self._signature(type)
            return found

    def build(
        self,
        graph: Graph,
        type: str,
        args: Sequence[Any],
        attrs: Mapping[str, Any],
        *,
        outputs: int = 1,
        name: str | None = None,
        bodies: Mapping[str, Graph] | None = None,
    ) -> tuple[OutputPort, ...]:
        signature = self._signature_of(type)
        if signature is None:
            raise Decline(f"{self.name} has no op {type}")
        op = _add_op(
            graph,
            type,
            args,
            attrs,
            outputs=outputs,
            name=name,
            bodies=bodies,
            feedback=signature.feedback,
            integers=self.integers,
        )
        return op.outputs
