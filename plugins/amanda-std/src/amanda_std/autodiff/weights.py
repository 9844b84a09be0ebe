"""The constants of a graph that training may change, also those in bodies."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

from amanda.errors import UsageError
from amanda.graph import TRAINABLE_NOTE, Graph, Op, OutputPort, unused_name
from amanda_std.engine.values import port_type
from amanda_std.hub.op_access import is_std, operation_of
from amanda_std.ops.control.functions import custom_gradient
from amanda_std.ops.nn.normalization import batch_norm
from amanda_std.passes.inline_calls import inline_calls

__all__ = [
    "Constant",
    "choose_weights",
    "find_constants",
    "inline_functions",
    "lift_constant",
]

BY = "training"
_ORIGIN = "x-constant-of-function"
"""The note by which copies of one constant are recognized."""
_MAX_NAMES = 20


class Constant(NamedTuple):
    """A constant of a model, and its copy in the graph that is trained."""

    original: Op
    op: Op

    def matches(self, name: str, pattern: str) -> bool:
        """Whether a pattern is of its unique name, or of the name of the op."""
        return any(fnmatchcase(each, pattern) for each in (name, str(self.op.name)))


def inline_functions(model: Graph) -> None:
    """Inline calls of functions, in place. A constant of a function stays one constant
    of the model, however often the function is called."""
    parts = {part for f in model.functions.values() for part in f.graphs()}
    marked = [op for part in parts for op in part if op.is_constant]
    for number, op in enumerate(marked):
        op.attrs[_ORIGIN] = number
    inline_calls(model)
    copies: dict[int, list[Op]] = defaultdict(list)
    parts = {part for f in model.functions.values() for part in f.graphs()}
    for part in model.graphs():
        for op in part:
            origin = op.attrs.pop(_ORIGIN, None) if op.has_attrs else None
            if origin is not None and part not in parts:
                copies[origin].append(op)
    names = [op.name for op in marked]
    for origin, ops in copies.items():
        if len(ops) > 1:
            _merge_constants(model, ops, names[origin])


def _merge_constants(model: Graph, constants: list[Op], name: str | None) -> None:
    """Replace equal constants, also those of bodies, by one at the model's start."""
    with model.before(next(iter(model))):
        merged = model.constant(constants[0].attrs["value"])
    for op in constants:
        _replace_constant(op, merged)
    if name is not None:
        model.rename(merged, model.fresh_name(name))


def find_constants(model: Graph, graph: Graph) -> dict[str, Constant]:
    """The constants of floats of a model and of a copy of it, by unique names.

    Those in bodies are behind those around them; a name that is taken gets a number.
    A constant without a name gets one in both graphs. Functions are left out."""
    functions = {part for f in graph.functions.values() for part in f.graphs()}
    found: dict[str, Constant] = {}
    for source, part in zip(model.graphs(), graph.graphs(), strict=True):
        if part in functions:
            continue
        for original, op in zip(source, part, strict=True):
            if not op.is_constant or port_type(op.output).dtype.kind != "float":
                continue
            name = _unique_name(op, part, found)
            if op.name is None:
                part.rename(op, name)
                source.rename(original, name)
            found[name] = Constant(original, op)
    return found


def _unique_name(op: Op, part: Graph, taken: Mapping[str, Constant]) -> str:
    return unused_name(
        op.name or "weight",
        lambda name: name in taken or (name != op.name and name in part),
    )


def choose_weights(
    graph: Graph,
    constants: Mapping[str, Constant],
    weights: Iterable[str] | None,
    loss: OutputPort,
) -> list[str]:
    """The names of the constants to train; `weights` are patterns, None for the
    default."""
    if weights is None:
        return _default_weights(graph, constants, loss)
    patterns = list(weights)
    for pattern in patterns:
        if not any(each.matches(name, pattern) for name, each in constants.items()):
            raise UsageError(
                f"no constant of floats is named {pattern!r}",
                expected=_list_names(constants) or "a model with weights",
            )
    return [n for n, c in constants.items() if any(c.matches(n, p) for p in patterns)]


def _default_weights(
    graph: Graph, constants: Mapping[str, Constant], loss: OutputPort
) -> list[str]:
    """The constants with several elements that the loss depends on, but for those that
    are no weights; see `_is_weight`."""
    used = set(_ops_behind(graph, loss))
    large = [
        name
        for name, each in constants.items()
        if each.op.attrs["value"].size > 1 and each.op in used
    ]
    found = [name for name in large if _is_weight(constants[name])]
    if not found:
        raise UsageError(
            "there is no weight to train",
            expected="a constant of floats with more than one element that the loss "
            "depends on, and that its framework trains",
            got=_list_names(constants) or "no constant of floats",
            hint="name the constants to train: weights=[...]"
            if constants
            else "weights are constants of the graph, not inputs",
        )
    return found


_STATISTICS = re.compile(r"(moving|running)_(mean|var|variance)(_\d+)?$")
"""Names that Keras and PyTorch give the statistics of batch normalization."""


def _is_weight(constant: Constant) -> bool:
    """Whether training changes a constant by default: not where the model says that it
    is fixed, nor the statistics of batch normalization, nor what the rule of a mapping
    added, such as the initial state of an LSTM."""
    op = constant.original
    if op.attrs.get(TRAINABLE_NOTE) is False:
        return False
    if op.provenance is not None and op.provenance.is_by_rule:
        return False
    if _STATISTICS.search(op.name or ""):
        return False
    return not any(
        is_std(port.op) and operation_of(port.op) is batch_norm and port.index > _BIAS
        for port in op.output.users
    )


_BIAS = 2
"""The last input of batch normalization that is trained; its statistics follow."""


def _ops_behind(graph: Graph, *targets: OutputPort) -> Iterator[Op]:
    """The ops that values depend on, and in their bodies what the results depend on.

    Bodies with a gradient of their own are left out: it is of their arguments only."""
    for op in graph.upstream(*targets):
        yield op
        if is_std(op) and operation_of(op) is custom_gradient:
            continue
        for body in op.bodies.values():
            results = [v for v in body.results if v is not None and v.graph is body]
            yield from _ops_behind(body, *results)


def _list_names(constants: Mapping[str, Constant]) -> str:
    return ", ".join(list(constants)[:_MAX_NAMES])


def lift_constant(graph: Graph, op: Op) -> Op:
    """Move a constant out of a body of the graph; the body captures its value then."""
    body = op.graph
    if body is None or body is graph:
        return op
    with graph.before(next(iter(graph), None)):
        lifted = graph.constant(op.attrs["value"])
    _replace_constant(op, lifted)
    return lifted


def _replace_constant(op: Op, by: Op) -> None:
    """Replace a constant by one of the same graph, or of one around it."""
    assert op.graph is not None
    op.graph.replace_uses(op.output, by.output)
    op.graph.remove(op, BY, [by.output])
