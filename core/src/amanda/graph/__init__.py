"""The graph abstraction: ops, ports, edges, nested graphs, safe change.

graph = Graph("amanda/std/1")
x = graph.parameter(name="x")
y = graph.add("relu", [x]).output
graph.result(y, "y")
"""

from amanda.argument_checks import check_arguments
from amanda.graph._attributes import (
    NOTE_PREFIX,
    STATE_NOTE,
    TRAINABLE_NOTE,
    VALUE_NOTE,
    HeldAttributes,
    copy_input_attributes,
    free_notes,
    held_attributes,
    is_note,
    is_record,
)
from amanda.graph._bulk import bulk, snap
from amanda.graph._change import unused_name
from amanda.graph._check import constant_fault, content_faults, is_version
from amanda.graph._clone import copy_ops
from amanda.graph._contents import KEEP, Entry
from amanda.graph._dim_names import (
    UNCHECKED_DIM_NAMES,
    input_dims,
    set_dims,
    shares_dims,
    sizes_by_symbol,
)
from amanda.graph._graph import Graph
from amanda.graph._op import CONSTANT, CORE, Change, Op, Provenance
from amanda.graph._port import (
    CONTROL,
    CONTROL_NAME,
    ControlPort,
    Edge,
    InputPort,
    OutputPort,
    Parameter,
    TracedValue,
    ValueLike,
    value_port,
)
from amanda.graph._scopes import SCOPES_RECORD, Scope, ScopeTable
from amanda.graph._select import NamedOp, Ops
from amanda.graph._state_ports import (
    StatePort,
    state_ports,
    without_state_notes,
)

__all__ = [
    "CONSTANT",
    "CONTROL",
    "CONTROL_NAME",
    "CORE",
    "KEEP",
    "NOTE_PREFIX",
    "Change",
    "ControlPort",
    "Edge",
    "Entry",
    "Graph",
    "HeldAttributes",
    "InputPort",
    "NamedOp",
    "Op",
    "Ops",
    "OutputPort",
    "Parameter",
    "Provenance",
    "TracedValue",
    "UNCHECKED_DIM_NAMES",
    "SCOPES_RECORD",
    "STATE_NOTE",
    "TRAINABLE_NOTE",
    "Scope",
    "ScopeTable",
    "VALUE_NOTE",
    "ValueLike",
    "StatePort",
    "bulk",
    "state_ports",
    "unused_name",
    "without_state_notes",
    "constant_fault",
    "content_faults",
    "copy_input_attributes",
    "copy_ops",
    "free_notes",
    "held_attributes",
    "input_dims",
    "is_note",
    "is_record",
    "is_version",
    "set_dims",
    "shares_dims",
    "sizes_by_symbol",
    "snap",
    "value_port",
]

check_arguments(globals(), "amanda.types", "amanda.tensors")
