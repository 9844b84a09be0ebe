"""A graph as source code needs it: without what has no place there."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amanda.dictionary import CallLayout
from amanda.graph import Graph, Op, OutputPort
from amanda.tensors import Tensor
from amanda.types import TensorType
from amanda_torch.node_writer import is_weight
from amanda_torch.program_writer import weight_of
from amanda_torch.source.python_text import Code

if TYPE_CHECKING:
    from amanda.dictionary import Dictionary

__all__ = ["Program", "Weight", "values_of"]

_CHECKS: Final = (
    "aten._assert", "aten.sym_constrain", "aten._assert_", "aten._functional_assert",
    "aten._functional_sym_constrain",
)  # fmt: skip
_LAST: Final = (1 << 63) - 1
_FLAGS: Final = ("training", "train")


class Weight(NamedTuple):
    """A parameter, buffer or constant: its path in the module, and its tensor."""

    path: str
    kind: str
    tensor: Tensor | None

    @property
    def owner(self) -> str:
        return self.path.rpartition(".")[0]

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]


class Program:
    """The ops of a graph with their arguments, without dead and trivial ops."""

    def __init__(
        self, graph: Graph, dictionary: Dictionary, is_training: bool | None = None
    ) -> None:
        self.graph = graph
        self.dictionary = dictionary
        self.layouts: dict[str, CallLayout] = {}
        self.aliases: dict[OutputPort, OutputPort] = {}
        self.arguments: dict[Op, dict[str, Any]] = {}
        self.weights = {
            op.output: Weight(
                valid_path(str(op.attrs.get("target"))), str(op.attrs.get("kind")),
                weight_of(op),
            )
            for op in graph if is_weight(op)
        }  # fmt: skip
        self.writes = any(self.writes_into(op) for op in graph if not is_weight(op))
        self.ops = [op for op in graph if not is_weight(op) and self._keeps(op)]
        self.results = [
            v if v is None else self.aliases.get(v, v) for v in graph.results
        ]
        self._drop_dead()
        self.is_training = is_training if is_training is not None else any(
            self.arguments[op].get(flag) is True for op in self.ops for flag in _FLAGS
        )  # fmt: skip

        self._name_flags()
        self._note_users()

    def _name_flags(self) -> None:
        """Replace flags of the mode of the program by that of the module."""
        for op in self.ops:
            for flag in _FLAGS:
                if self.arguments[op].get(flag) is self.is_training:
                    self.arguments[op][flag] = Code("self.training")

    def layout(self, op: Op) -> CallLayout:
        found = self.layouts.get(op.type or "")
        if found is None:
            op_def = self.dictionary.get(op.type or "")
            found = self.layouts[op.type or ""] = CallLayout(op_def)
        return found

    def writes_into(self, op: Op) -> bool:
        """Whether an op writes into its arguments."""
        op_def = self.layout(op).op_def
        ports = () if op_def is None else op_def.inputs
        return any(port.alias.partition(" ")[0].endswith("!") for port in ports)

    def _keeps(self, op: Op) -> bool:
        """Note the arguments of an op; False for one that does nothing."""
        if (op.type or "").startswith(_CHECKS):
            return False
        given = self.layout(op).arguments(op)
        self.arguments[op] = {k: self._resolve(v) for k, v in given.items()}
        same = self._same_value(op, self.arguments[op])
        if same is not None:
            self.aliases[op.output] = same
        return same is None

    def _resolve(self, value: Any) -> Any:
        if isinstance(value, OutputPort):
            return self.aliases.get(value, value)
        if isinstance(value, list | tuple):
            return [self._resolve(item) for item in value]
        return value

    def _same_value(self, op: Op, arguments: Mapping[str, Any]) -> OutputPort | None:
        """The argument that an op returns as it is, for every size."""
        base = (op.type or "").removeprefix("aten.").partition(".")[0]
        value = arguments.get("self", arguments.get("input"))
        if not isinstance(value, OutputPort):
            return None
        check = _SAME.get(base)
        kept = check is not None and check(op, arguments, self.writes)
        return value if kept else None

    def is_used_outside(self, value: OutputPort, inside: Container[Op]) -> bool:
        """Whether a result, or an op that is not inside, uses a value."""
        if value in self._results:
            return True
        return any(op not in inside for op in self._users.get(value, ()))

    def _note_users(self) -> None:
        self._results = {value for value in self.results if value is not None}
        self._users: dict[OutputPort, list[Op]] = {}
        for op in self.ops:
            for value in values_of(self.arguments[op]):
                self._users.setdefault(value, []).append(op)

    def _drop_dead(self) -> None:
        """Drop ops whose results nothing uses."""
        used = {value for value in self.results if value is not None}
        kept: list[Op] = []
        for op in reversed(self.ops):
            if self.writes_into(op) or any(out in used for out in op.outputs):
                used.update(values_of(self.arguments[op]))
                kept.append(op)
        self.ops = kept[::-1]


def _dtype(value: OutputPort | None) -> Any:
    type = None if value is None else value.type
    return type.dtype if isinstance(type, TensorType) else None


def _is_whole(op: Op, given: Mapping[str, Any], _: bool) -> bool:
    """Whether a slice is all of its operand."""
    if any(port.name for port in op.input_ports):
        return False
    is_open = given.get("end") in (None, _LAST) and given.get("start") in (None, 0)
    return is_open and given.get("step", 1) == 1


def _has_type(op: Op, given: Mapping[str, Any], _: bool) -> bool:
    """Whether a conversion is to the type that its operand has."""
    return (
        _dtype(op.inputs[0]) == _dtype(op.output) is not None
        and not given.get("copy") and given.get("device", "cpu") == "cpu"
        and given.get("memory_format") in (None, "preserve_format")
    )  # fmt: skip


def _adds_nothing(op: Op, given: Mapping[str, Any], writes: bool) -> bool:
    """Whether zero is added, without a change of the type."""
    other = given.get("other")
    same = _dtype(op.inputs[0]) == _dtype(op.output) is not None
    return type(other) is int and other == 0 and same and not writes


_SAME: Final[Mapping[str, Callable[[Op, Mapping[str, Any], bool], bool]]] = {
    "add": _adds_nothing,
    "alias": lambda *_: True,
    "dropout": lambda _, given, __: given.get("p") == 0.0,
    "lift_fresh": lambda *_: True,
    "lift_fresh_copy": lambda _, __, writes: not writes,
    "slice": _is_whole,
    "to": _has_type,
}
"""When an op returns its operand as it is, for every size."""


def values_of(argument: Any) -> Iterator[OutputPort]:
    """The values in an argument: in lists, and those that bodies capture."""
    if isinstance(argument, OutputPort):
        yield argument
    elif isinstance(argument, Mapping):
        for item in argument.values():
            yield from values_of(item)
    elif isinstance(argument, list | tuple):
        for item in argument:
            yield from values_of(item)


def valid_path(path: str) -> str:
    """A path of attributes: what no name may have becomes `_`.

    >>> valid_path("encoder.0./fc/weight:0")
    'encoder.0._fc_weight_0'
    """
    parts = []
    for part in path.split("."):
        name = "".join(
            c if (c.isalnum() and c.isascii()) or c == "_" else "_" for c in part
        )
        parts.append(name or "_")
    if parts[-1][:1].isdigit():
        parts[-1] = f"value_{parts[-1]}"
    return ".".join(parts)
