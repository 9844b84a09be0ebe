"""TensorFlow as one side of mappings: a side for each version of its ops.

Placeholders become the parameters of a graph that is read, by name. Its results are
those that it declares, else all outputs that no op uses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from amanda import namespace
from amanda.dictionary import cast_attributes
from amanda.graph import CONSTANT, CORE, Graph, Op, OutputPort
from amanda.mapping import Decline, Gap, PlainSide, gap_error
from amanda.types import (
    DType,
    MapType,
    OptionalType,
    SequenceType,
    TensorType,
    TupleType,
    Type,
)
from amanda_std.dataflow import (
    TokenOps,
    structure_control_flow,
    variable_type,
    wider_loop_types,
)
from amanda_tf.derived_attributes import add_derived_attributes
from amanda_tf.effects import has_effects
from amanda_tf.function_library import bodies_to_functions
from amanda_tf.loading.interface import (
    add_results,
    forget_files,
    remove_placeholders,
)
from amanda_tf.mapping.control.function_bodies import (
    expand_functions_in_place,
    names_of_needed,
)
from amanda_tf.mapping.placeholders import placeholders_to_parameters
from amanda_tf.mapping.tables.table_content import note_table_contents
from amanda_tf.mapping.unused_ops import remove_unused, unused_ops
from amanda_tf.mapping.variables.reference_variables import use_resource_variables
from amanda_tf.mapping.variables.resources import TABLES, resolve_resources
from amanda_tf.messages import ELEMENT_TYPES, GRAPH_RECORDS
from amanda_tf.notes import CONTROL_OUTPUT, VALUE

__all__ = ["TensorFlowSide", "tensorflow_side"]

_CONDITIONALS = ("If", "StatelessIf", "Case", "StatelessCase")
_LOOPS = ("While", "StatelessWhile")
TOKENS = TokenOps(
    switch=("Switch", "RefSwitch"), numbered_switch="_SwitchN",
    merge=("Merge", "RefMerge"), enter=("Enter", "RefEnter"),
    leave=("Exit", "RefExit"), again=("NextIteration", "RefNextIteration"),
    condition="LoopCond", identity="Identity", frame="frame_name",
    loop="StatelessWhile", conditional="StatelessIf", choice="StatelessCase",
    conditional_attrs={"Tout": []}, choice_attrs={"Tout": [], "branches": []},
)  # fmt: skip
_CONTAINERS = (SequenceType, OptionalType, MapType, TupleType)
_OF_SCALARS = (
    "XlaReduce", "XlaVariadicReduceV2", "XlaReduceWindow", "XlaScatter",
    "XlaSelectAndScatter",
)  # fmt: skip
"""Ops whose bodies compute with two elements."""


class TensorFlowSide(PlainSide):
    """One version of TensorFlow's ops."""

    def build(
        self, graph: Graph, type: str, args: Sequence[Any], attrs: Mapping[str, Any],
        **more: Any,
    ) -> tuple[OutputPort, ...]:  # fmt: skip
        """The outputs of a new op; declines element types that TensorFlow lacks."""
        for value in attrs.values():
            if isinstance(value, DType) and value not in ELEMENT_TYPES.codes:
                raise Decline(f"TensorFlow has no element type {value}")
        return super().build(graph, type, args, attrs, **more)

    def parameter_types(
        self, op: Op, inputs: Sequence[Type | None]
    ) -> Sequence[Type | None]:
        """The types of a body's parameters: loops and branches keep those of inputs.

        The elements of an array get their shape in the loop.
        """
        if op.type in _CONDITIONALS:
            return inputs[1:]
        if op.type in _OF_SCALARS:
            first = inputs[0]
            if not isinstance(first, TensorType):
                return [None, None]
            return [TensorType(first.dtype, [])] * 2
        return [variable_type(type) for type in inputs]

    def wider_parameter_types(
        self, op: Op, inputs: Sequence[Type | None], bodies: Mapping[str, Graph]
    ) -> Sequence[Type | None] | None:
        """Types of a loop's variables that fit the results of its body, too."""
        return wider_loop_types(op, inputs, bodies) if op.type in _LOOPS else None

    def prepare(self, graph: Graph) -> Graph:
        """A copy to be read, with parameters and results."""
        copy = copy_of_needed(graph)
        if GRAPH_RECORDS.key not in copy.attrs:  # of a text form, say
            dictionary: Any = namespace(self.name, assume=True)
            cast_attributes(copy, dictionary)
        forget_files(copy)
        has_entries = bool(graph.entries)
        if copy.results:  # those of one signature, or of the caller's choice
            for name in list(copy.entries):
                copy.remove_entry(name)
        note_table_contents(copy)
        add_results(copy)
        remove_unused(copy)
        if has_entries:
            remove_placeholders(copy)
        expand_functions_in_place(copy)
        remove_no_ops(copy)
        use_resource_variables(copy, _dictionary(self.name))
        for part in list(copy.graphs()):
            structure_control_flow(part, TOKENS, remove_unused)
        remove_unused(copy)
        resolve_resources(copy)
        remove_redundant_order(copy)
        placeholders_to_parameters(copy)
        drop_internal_attributes(copy)
        return copy

    def finish(self, graph: Graph, source: Graph) -> None:
        """Complete a written graph: functions of bodies, derived attributes."""
        expect_tensors(source, self.name)
        dictionary = _dictionary(self.name)
        for part in graph.graphs():
            for port in part.parameters:  # of a body
                if isinstance(port.type, SequenceType):
                    port.type = TensorType("variant")
            for op in part:
                if op.own_namespace == CORE and op.type == CONSTANT:
                    drop_file_records(op)
        for op in graph:
            if has_effects(op):
                op.attrs[CONTROL_OUTPUT] = True
            if op.type == "ReadVariableOp":  # the note of what it was made from
                op.attrs.pop(VALUE, None)
        add_derived_attributes(graph, dictionary)
        bodies_to_functions(graph)
        add_derived_attributes(graph, dictionary)


def copy_of_needed(graph: Graph) -> Graph:
    """A copy with the ops and functions that the results may need.

    It has all of them with tables, whose initializers no result needs, and without
    results.
    """
    if not graph.results or any(op.type in TABLES for op in graph):
        return graph.clone()
    unused = set(unused_ops(graph, entries=False))
    needed = {op for op in graph if op not in unused}
    names = names_of_needed(needed, graph.functions)
    return graph.clone(functions=names, ops=needed)


def expect_tensors(graph: Graph, name: str) -> None:
    """Raise ConversionError for inputs and results that are containers."""
    found = [
        Gap(what, f"{port}", (f"TensorFlow has no values of type {port.type}",))
        for what, ports in (("input", graph.parameters), ("result", graph.results))
        for port in ports
        if port is not None and isinstance(port.type, _CONTAINERS)
    ]
    if found:
        raise gap_error(found, graph.namespace or "", name)


def drop_file_records(op: Op) -> None:
    """Remove what the format of another framework recorded about a constant."""
    for key in [key for key in op.attrs if ":" in key]:
        del op.attrs[key]


def drop_internal_attributes(graph: Graph) -> None:
    """Remove `_class` of all ops, which names ops that may be gone, and all attributes
    of constants that begin with an underscore, such as `_output_shapes`.

    They say where an op is placed, how it is compiled, and the types of its outputs;
    constants would keep them, since they are the same op in the hub.
    """
    for part in graph.graphs():
        for op in part:
            if op.has_attrs:
                op.attrs.pop("_class", None)
                for key in [k for k in op.attrs if k[0] == "_" and op.is_constant]:
                    del op.attrs[key]


def remove_no_ops(graph: Graph) -> None:
    """Remove ops that only order others: their users wait for what they waited for."""
    for part in graph.graphs():
        for op in list(part):
            if op.type in ("NoOp", "ControlTrigger") and op.own_namespace is None:
                _order_around(part, op)
                part.remove(op)


def remove_redundant_order(graph: Graph) -> None:
    """Remove control edges that order nothing: those of constants, such as frozen
    variables, which have no effect, those to copies of results, which nothing waits
    for, and those beside an edge of data. Ops without effects need not run."""
    for part in graph.graphs():
        copies: set[Op] = {part}
        for op in reversed(part):
            if op.has_attrs and not has_effects(op):
                op.attrs.pop(CONTROL_OUTPUT, None)
            users = (user for port in op.outputs for user in port.user_ops)
            if op.type == "Identity" and not op.control_outputs and copies >= {*users}:
                copies.add(op)
                for first in op.control_inputs:
                    part.uncontrol(first, op)
        for op in part:
            if op.is_constant:
                _order_around(part, op)
            for then in op.control_outputs:
                if op.is_constant or any(v and v.op is op for v in then.inputs):
                    part.uncontrol(op, then)
            for first in op.control_inputs if op.is_constant else ():
                part.uncontrol(first, op)


def _order_around(graph: Graph, op: Op) -> None:
    """Ops that wait for an op wait for what that one waits for, too."""
    for first in op.control_inputs:
        for then in op.control_outputs:
            if first is not then and first not in then.control_inputs:
                graph.control(first, then)


def tensorflow_side(
    name: str, imports: Mapping[str, int] | None = None
) -> TensorFlowSide:
    """The side of `amanda/tensorflow/2.21.0`."""
    del imports
    return _cached_side(name)


@cache
def _cached_side(name: str) -> TensorFlowSide:
    return TensorFlowSide.of(_dictionary(name), integers="int32")


def _dictionary(name: str) -> Any:
    return namespace(name, assume=True)
