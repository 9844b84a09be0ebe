"""Canonical form: one of several equivalent ways to write an op."""

from __future__ import annotations

from amanda.graph import Graph, Op
from amanda.tensors import same_value
from amanda_std.engine.annotations import REQUIRED
from amanda_std.engine.traits import Trait
from amanda_std.engine.values import port_type
from amanda_std.hub.op_access import has_trait, is_std, operation_of
from amanda_std.passes.data_movement import full_permutation


def canonical(graph: Graph) -> int:
    """Bring ops to the form that other passes match; returns how many changed.

    Constants are the second operand of commutative ops, attributes with default
    values are removed, and permutations are complete and non-negative."""
    count = 0
    for part in graph.graphs():
        for op in part:
            if is_std(op):
                changed = [
                    _move_constant_last(op),
                    _complete_permutation(op),
                    _remove_defaults(op),
                ]
                count += any(changed)
    return count


def _move_constant_last(op: Op) -> bool:
    if len(op.inputs) != 2 or not operation_of(op).commutative:
        return False
    a, b = op.inputs
    if a is None or b is None or not a.op.is_constant or b.op.is_constant:
        return False
    first, second = op.input_ports
    first.connect(b)
    second.connect(a)
    return True


def _complete_permutation(op: Op) -> bool:
    if not has_trait(op, Trait.PERMUTES_AXES) or op.inputs[0] is None:
        return False
    shape = port_type(op.inputs[0]).shape
    if not shape.has_rank:
        return False
    perm = op.attrs.get("perm")
    order = full_permutation(perm, shape.rank)
    if perm is not None and tuple(perm) == order:
        return False
    op.attrs["perm"] = order
    return True


def _remove_defaults(op: Op) -> bool:
    if not op.has_attrs:
        return False
    known = operation_of(op).form.attributes
    defaults = {k: d for k, d in known.items() if k in op.attrs and d is not REQUIRED}
    idle = [
        key for key, default in defaults.items() if same_value(op.attrs[key], default)
    ]
    for key in idle:
        del op.attrs[key]
    return bool(idle)
