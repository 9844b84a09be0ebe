"""One form of what may be written in several."""

from __future__ import annotations

from amanda.graph import Graph, Op
from amanda.tensors import same_value
from amanda_std.engine.annotations import REQUIRED
from amanda_std.engine.values import port_type
from amanda_std.hub.op_access import is_std, operation_of
from amanda_std.passes.movements import full_permutation


def canonical(graph: Graph) -> int:
    """Brings ops into the form that other passes look for; how many changed.

    Constants stand to the right of what is commutative; attributes that say what is
    said without them go; an order of axes is written in full, counted from the front.
    """
    count = 0
    for part in graph.graphs():
        for op in part:
            if is_std(op):
                changed = [_constants_last(op), _order_in_full(op), _defaults_gone(op)]
                count += any(changed)
    return count


def _constants_last(op: Op) -> bool:
    if len(op.inputs) != 2 or not operation_of(op).commutative:
        return False
    a, b = op.inputs
    if a is None or b is None or not a.op.is_constant or b.op.is_constant:
        return False
    first, second = op.input_ports
    first.connect(b)
    second.connect(a)
    return True


def _order_in_full(op: Op) -> bool:
    if op.type != "transpose" or op.inputs[0] is None:
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


def _defaults_gone(op: Op) -> bool:
    if not op.has_attrs:
        return False
    known = operation_of(op).form.attributes
    told = {k: d for k, d in known.items() if k in op.attrs and d is not REQUIRED}
    idle = [key for key, default in told.items() if same_value(op.attrs[key], default)]
    for key in idle:
        del op.attrs[key]
    return bool(idle)
