"""A graph as source code needs it: without what has no place there."""

from __future__ import annotations

import math
import struct
from collections.abc import (
    Callable,
    Collection,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amanda.dictionary import CallLayout
from amanda.graph import Graph, Op, OutputPort
from amanda.tensors import Tensor
from amanda.types import TensorType, float64
from amanda_torch.mapping.module_stacks import UNKNOWN_CLASS
from amanda_torch.mapping.weight_kinds import recurrent_names
from amanda_torch.node_writer import is_weight
from amanda_torch.program_writer import weight_of
from amanda_torch.records import NODE_RECORDS, is_frozen
from amanda_torch.source.python_text import Code

if TYPE_CHECKING:
    from amanda.dictionary import Dictionary

__all__ = ["Program", "Weight", "values_of"]

_CHECKS: Final = (
    "aten._assert", "aten.sym_constrain", "aten._assert_", "aten._functional_assert",
    "aten._functional_sym_constrain",
)  # fmt: skip
_REGION_OF_VMAP: Final = "torch._functorch.predispatch."
"""The functions that begin and end a region of `torch.vmap`, and that are in it."""
_LAST: Final = (1 << 63) - 1
_FLAGS: Final = ("training", "train")
_MANY: Final = 12
_LARGE: Final = 3e38


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
        self, graph: Graph, dictionary: Dictionary, is_training: bool | None = None,
        with_states: Collection[Op] = (),
    ) -> None:  # fmt: skip
        self.graph = graph
        self.dictionary = dictionary
        self.layouts: dict[str, CallLayout] = {}
        self.aliases: dict[OutputPort, OutputPort] = {}
        self.arguments: dict[Op, dict[str, Any]] = {}
        self.is_recorded = any(map(_is_in_known_module, graph))
        """Whether PyTorch exported the program, and recorded its modules."""
        weights = {op: str(op.attrs.get("target")) for op in graph if is_weight(op)}
        paths = _paths_of_weights(weights.values(), self.is_recorded)
        self.weights = {
            op.output: Weight(paths[name], str(op.attrs.get("kind")), weight_of(op))
            for op, name in weights.items()
        }
        self.frozen = dict.fromkeys(
            self.weights[op.output].path for op in graph
            if is_weight(op) and op.attrs.get("kind") == "parameter" and is_frozen(op)
        )  # fmt: skip
        """The paths of parameters of floats that are not trained."""
        self.writes = any(self.writes_into(op) for op in graph if not is_weight(op))
        self.ops = [op for op in graph if not is_weight(op) and self._keeps(op)]
        self.results = [
            v if v is None else self.aliases.get(v, v) for v in graph.results
        ]
        self.without_states = {
            op for op in self.ops
            if op not in with_states and self._use_first_states(op)
        }  # fmt: skip
        """The recurrent layers whose states are omitted, as modules begin with them;
        those of `with_states` are written as ops."""
        self._drop_dead()
        self.is_training = is_training if is_training is not None else any(
            self.arguments[op].get(flag) is True for op in self.ops for flag in _FLAGS
        )  # fmt: skip

        self._name_flags()
        self._note_users()

    def _use_first_states(self, op: Op) -> bool:
        """Omit states of zeros, with which a recurrent layer begins by itself."""
        given = self.arguments[op]
        params = [self.weights.get(value) for value in given.get("params") or ()]
        names = recurrent_names(given, len(params)) if params else []
        paths = {None if w is None else (w.owner, w.name) for w in params}
        owners = {path[0] for path in paths if path is not None}
        is_layer = len(owners) == 1 and names == [w.name for w in params if w]
        states = given.get("hx")
        states = states if isinstance(states, list) else [states]
        if not is_layer or not all(self._is_zero(value) for value in states):
            return False
        given["hx"] = None
        return True

    def _is_zero(self, value: Any) -> bool:
        if not isinstance(value, OutputPort) or value.op not in self.arguments:
            return False
        given = self.arguments[value.op]
        is_zeros = (value.op.type or "").startswith("aten.zeros")
        is_full = (value.op.type or "").startswith("aten.full.")
        return is_zeros or (is_full and given.get("fill_value") == 0)

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

    def has_effect(self, op: Op) -> bool:
        """Whether an op does more than to compute its results."""
        is_region = (op.type or "").startswith(_REGION_OF_VMAP)
        return is_region or self.writes_into(op)

    def _keeps(self, op: Op) -> bool:
        """Note the arguments of an op; False for one that does nothing."""
        if (op.type or "").startswith(_CHECKS):
            return False
        given = self.layout(op).arguments(op)
        self.arguments[op] = {k: self._resolve(v) for k, v in given.items()}
        if _dtype(op.outputs[0] if op.outputs else None) != float64:
            self.arguments[op] |= {
                k: _short(v) for k, v in given.items() if type(v) is float
            }
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
        if not self.writes and not self.is_recorded:
            undone = self._value_before(op, base, value)
            if undone is not None:
                return undone
        check = _SAME.get(base)
        kept = check is not None and check(op, arguments, self.writes)
        return value if kept else None

    def _value_before(self, op: Op, base: str, value: OutputPort) -> OutputPort | None:
        """What an op returns to: a transposition or reshaping that is taken back."""
        inner = self.arguments.get(value.op, {})
        inner_base = (value.op.type or "").removeprefix("aten.").partition(".")[0]
        before = inner.get("self")
        if not isinstance(before, OutputPort):
            return None
        given = self.arguments[op]
        dims = [{k: v for k, v in g.items() if k != "self"} for g in (given, inner)]
        if base == inner_base == "transpose" and dims[0] == dims[1]:
            return before
        if (base, inner_base) == ("squeeze", "unsqueeze"):
            dim = inner.get("dim")
            return before if given.get("dim") in (dim, [dim]) else None
        return self._same_order(op, value) if base in _RESHAPING else None

    def _same_order(self, op: Op, value: OutputPort) -> OutputPort | None:
        """A value of the same sizes with the same elements in the same order."""
        sizes = _static_shape(op.output)
        found: OutputPort | None = None
        at: Any = value
        while isinstance(at, OutputPort) and _keeps_order(
            at.op, self.arguments.get(at.op, {})
        ):
            at = self.arguments[at.op]["self"]
            found = at if _static_shape(at) == sizes else found
        return found

    @property
    def weights_read(self) -> list[OutputPort]:
        """The weights that ops or results are."""
        read = (*self._users, *self._results)
        return [value for value in read if value in self.weights]

    def is_parameter_list(self, owner: str) -> bool:
        """Whether the weights of a module are an `nn.ParameterList`."""
        read = (self.weights[value] for value in self.weights_read)
        kinds = {weight.name: weight.kind for weight in read if weight.owner == owner}
        names = {name for name, kind in kinds.items() if kind == "parameter"}
        return bool(kinds) and names == set(map(str, range(len(kinds))))

    def is_used_outside(self, value: OutputPort, inside: Container[Op]) -> bool:
        """Whether a result, or an op that is not inside, uses a value."""
        if value in self._results:
            return True
        return any(op not in inside for op in self._users.get(value, ()))

    def size_names(self, weight: Weight) -> list[str]:
        """Names for the sizes of a weight, as classes of `torch.nn` have them."""
        rank = 0 if weight.tensor is None else len(weight.tensor.shape)
        for value in (v for v, w in self.weights.items() if w.path == weight.path):
            for op in self._users.get(value, ()):
                base = (op.type or "").removeprefix("aten.").partition(".")[0]
                for name, argument in self.arguments[op].items():
                    names = _SIZES.get((base, name), ())
                    if argument is value and len(names) == rank:
                        return list(names)
        if rank == 1 and weight.kind == "parameter":
            return ["num_features"]
        return ["size"] * rank

    def _note_users(self) -> None:
        self._results = {value for value in self.results if value is not None}
        self._users: dict[OutputPort, list[Op]] = {}
        """The ops that read each value, in the order of the program."""
        for op in self.ops:
            for value in values_of(self.arguments[op]):
                self._users.setdefault(value, []).append(op)

    def _drop_dead(self) -> None:
        """Drop ops whose results nothing uses."""
        used = {value for value in self.results if value is not None}
        kept: list[Op] = []
        for op in reversed(self.ops):
            if self.has_effect(op) or any(out in used for out in op.outputs):
                used.update(values_of(self.arguments[op]))
                kept.append(op)
        self.ops = kept[::-1]


def _short(value: float) -> float:
    """A number of 32 bits by the digits that it needs: 1e-05, not 9.99999974e-06.

    >>> _short(9.999999747378752e-06), _short(0.1), _short(1 / 3)
    (1e-05, 0.1, 0.3333333333333333)
    """
    if len(repr(value)) < _MANY or not math.isfinite(value) or abs(value) > _LARGE:
        return value
    shorter = (float(f"{value:.{digits}g}") for digits in range(1, 10))
    same = struct.pack("f", value)
    if struct.unpack("f", same)[0] != value:
        return value
    return next((each for each in shorter if struct.pack("f", each) == same), value)


_RESHAPING: Final = ("reshape", "view", "flatten", "_unsafe_view")


def _keeps_order(op: Op, given: Mapping[str, Any]) -> bool:
    """Whether an op changes the sizes of its operand only."""
    base = (op.type or "").removeprefix("aten.").partition(".")[0]
    if base != "transpose":
        return base in (*_RESHAPING, "unflatten", "unsqueeze", "squeeze")
    sizes = _static_shape(op.output)
    if not isinstance(sizes, list):
        return False
    first, last = sorted(given[key] % len(sizes) for key in ("dim0", "dim1"))
    return len([size for size in sizes[first : last + 1] if size != 1]) < 2


def _is_in_known_module(op: Op) -> bool:
    """Whether the class of the module that an op is in is known."""
    stack = NODE_RECORDS.of(op).get("metadata", {}).get("nn_module_stack", "")
    return bool(stack) and UNKNOWN_CLASS not in stack


def _static_shape(value: OutputPort) -> Any:
    """The sizes of a value; a new object where they are not known."""
    shape = value.type.shape if isinstance(value.type, TensorType) else None
    if shape is None or not shape.is_static:
        return object()
    return [int(dim) for dim in shape]


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


_SIZES: Final[Mapping[tuple[str, str], Sequence[str]]] = {
    ("addmm", "self"): ("out_features",),
    ("addmm", "mat2"): ("in_features", "out_features"),
    ("baddbmm", "batch2"): ("num_heads", "in_features", "out_features"),
    ("bmm", "mat2"): ("num_heads", "in_features", "out_features"),
    ("embedding", "weight"): ("num_embeddings", "embedding_dim"),
    ("index", "self"): ("num_embeddings", "embedding_dim"),
    ("linear", "bias"): ("out_features",),
    ("linear", "weight"): ("out_features", "in_features"),
    ("matmul", "other"): ("in_features", "out_features"),
    ("mm", "mat2"): ("in_features", "out_features"),
}
"""Sizes of weights by the op that reads them, and the argument that they are."""


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


def _paths_of_weights(names: Iterable[str], are_kept: bool) -> dict[str, str]:
    """The paths of weights by their names in the program, of which no two are equal."""
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        path = name if are_kept else valid_path(name)
        while path in found.values():
            path += "_"
        found[name] = path
    return found


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
