"""Handles of variables and tables: one for each, which bodies capture.

TensorFlow passes handles to branches and loops as arguments; here, bodies use the
handle of the graph around them, so that what they assign is known.
"""

from __future__ import annotations

from typing import Any, Final

from amanda.errors import FormatError
from amanda.graph import Graph, Op, OutputPort, copy_ops
from amanda.tensors import Tensor
from amanda_tf.notes import VALUE

__all__ = ["TABLES", "capture_handles", "resolve_resources"]

TABLES: Final = (
    "HashTable", "HashTableV2", "MutableHashTable", "MutableHashTableV2",
    "AnonymousHashTable", "AnonymousMutableHashTable",
)  # fmt: skip
_HANDLES: Final = ("VarHandleOp", *TABLES)
_LOOPS: Final = ("While", "StatelessWhile")
_BY_INPUT: Final = (
    "T", "Tin", "output_shapes", "_output_shapes", "_read_only_resource_inputs"
)  # fmt: skip
_READERS: Final = (
    "ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape",
    "VarIsInitializedOp", "DisableCopyOnRead",
)  # fmt: skip
"""Ops that do not change the variable that they get."""

_ANONYMOUS: Final = ("", "cd2c89b7-88b7-44c8-ad83-06c2a9158347")
"""Names that handles do not share: none, and the one that `tf.Variable` gives."""


def resolve_resources(graph: Graph) -> None:
    """Make handles unique, captured by bodies, and constants where nothing assigns."""
    capture_handles(graph)
    _freeze_variables(graph)


def capture_handles(graph: Graph) -> None:
    """Let all uses of a variable or table, also in bodies, read one handle."""
    _merge_handles(graph)
    waiting = [graph]
    while waiting:
        part = waiting.pop()
        for op in list(part):
            first = op.inputs[0] if op.inputs else None
            if op.type == "Identity" and _is_handle(first):
                part.replace(op, [first], "handle")
            elif op.bodies:
                waiting += _capture_handles(op).bodies.values()


def _is_handle(value: OutputPort | None) -> bool:
    return value is not None and value.op.type in _HANDLES


def variable_key(op: Op) -> str:
    """The name by which a handle finds its variable or table."""
    shared = op.attrs.get("shared_name")
    name = shared if shared not in _ANONYMOUS else op.name
    container = op.attrs.get("container")
    is_named = container and container != "Anonymous"
    return f"{container}/{name}" if is_named else str(name)


def _merge_handles(graph: Graph) -> None:
    """Let all uses of one variable or table read the first of its handles."""
    found: dict[tuple[str | None, str], Op] = {}
    for op in list(graph):
        if op.type not in _HANDLES:
            continue
        first = found.setdefault((op.type, variable_key(op)), op)
        if first is not op:
            for key, value in op.attrs.items():
                first.attrs.setdefault(key, value)
            graph.replace_uses(op.output, first.output)
            graph.remove(op)


def _capture_handles(op: Op) -> Op:
    """The op without handles among its arguments; its bodies capture them."""
    home = op.graph
    assert home is not None
    skipped = 0 if op.type in _LOOPS or op.type == "MapDefun" else 1
    places = [i for i, value in enumerate(op.inputs) if _is_handle(value)]
    if not places or op.type == "MapDefun":
        return op
    gone = set(places)
    bodies = {}
    for name, body in op.bodies.items():
        is_loop_body = op.type in _LOOPS and name == "body"
        bodies[name] = _body_with_captures(op, body, gone, skipped, is_loop_body)
    kept = [i for i in range(len(op.outputs)) if op.type not in _LOOPS or i not in gone]
    with home.before(op):
        made = home.add(
            op.type, [v for i, v in enumerate(op.inputs) if i not in gone],
            {key: op.attrs[key] for key in op.attrs if key not in _BY_INPUT},
            outputs=len(kept), bodies=bodies,
        )  # fmt: skip
    values: list[OutputPort | None] = []
    for i, port in enumerate(op.outputs):
        if i in kept:
            new = made.outputs[kept.index(i)]
            new.type = port.type
            values.append(new)
        else:
            values.append(op.inputs[i])
    _move_order(home, op, made)
    label = op.name
    home.replace(op, values, "handles")
    home.rename(made, label)
    return made


def _move_order(home: Graph, op: Op, made: Op) -> None:
    for first in list(op.control_inputs):
        home.control(first, made)
    for then in list(op.control_outputs):
        home.uncontrol(op, then)
        home.control(made, then)


def _body_with_captures(
    op: Op, body: Graph, gone: set[int], skipped: int, is_loop_body: bool
) -> Graph:
    """A copy of a body whose parameters for handles are the handles themselves."""
    copy = Graph(body.namespace, body.name, outer=op.graph)
    memo: dict[Any, Any] = {}
    for i, port in enumerate(body.parameters):
        place = i + skipped
        if place in gone:
            memo[port] = op.inputs[place]
        else:
            memo[port] = copy.parameter(port.type, port.name)
    copy_ops(body, copy, list(body), memo)
    for i, result in enumerate(body.results):
        made = None if result is None else memo.get(result, result)
        if is_loop_body and i in gone:
            _expect_same_handle(op, made, op.inputs[i])
        else:
            copy.result(made, body.outputs[i].name)
    return copy


def _expect_same_handle(op: Op, made: object, handle: OutputPort | None) -> None:
    while isinstance(made, OutputPort) and made.op.type == "Identity":
        made = made.op.inputs[0]
    if made is not handle:
        raise FormatError(
            "a loop that exchanges variables or tables is not supported", who=op.label,
            expected="a handle that every iteration passes on",
        )  # fmt: skip


def _freeze_variables(graph: Graph) -> None:
    """Replace variables by constants where nothing assigns them."""
    for op in list(graph):
        value = op.attrs.get(VALUE) if op.type == "VarHandleOp" else None
        if not isinstance(value, Tensor):
            continue
        users = list(op.output.user_ops)
        if any(user.type not in _READERS for user in users):
            continue
        with graph.before(op):
            constant = graph.constant(value)
        constant.output.type = value.type_with_content()
        for user in users:
            home = user.graph
            if user.type == "ReadVariableOp" and home is not None:
                home.replace(user, [constant.output], "frozen")
        graph.replace_uses(op.output, constant.output)
        name = op.name
        graph.remove(op)
        graph.rename(constant, name)
