"""Local functions of ONNX models, inlined where they are called."""

from __future__ import annotations

from amanda.graph import Graph, Op
from amanda.mapping import inline_functions
from amanda_onnx.domains import called_function, domain_of
from amanda_onnx.format.attribute_reader import REFERENCE
from amanda_onnx.format.model_metadata import NOTES_KEY

__all__ = ["inline_local_functions"]


def inline_local_functions(graph: Graph) -> Graph:
    """A copy without local functions and their calls; the graph itself without any.

    LimitError where functions are recursive, or expand to too many ops.
    """
    return inline_functions(graph, called_function, _specialize)


def _specialize(op: Op, function: Graph) -> Graph:
    """A copy of a function with the attributes of a call, at the caller's opset."""
    own = function.attrs if function.has_attrs else {}
    given = {k: v for k, v in own.items() if k != NOTES_KEY} | {
        k: v for k, v in (op.attrs.items() if op.has_attrs else ()) if k != NOTES_KEY
    }
    space, around = domain_of(function.namespace or ""), domain_of(_home(op))
    copy = function.clone()
    for each in copy.walk():
        for port in each.outputs:
            port.name = None
        for key, value in list(each.attrs.items()) if each.has_attrs else ():
            if not (isinstance(value, dict) and REFERENCE in value):
                continue
            name = value[REFERENCE]
            if name in given:
                each.attrs[key] = given[name]
            else:
                del each.attrs[key]
    if space != around and space is not None and around is not None:
        return _convert_opset(copy, _home(op))
    return copy


def _home(op: Op) -> str:
    return (op.graph.namespace if op.graph is not None else None) or ""


def _convert_opset(function: Graph, to: str) -> Graph:
    """The function at the opset of its caller."""
    from amanda.mapping import expect_no_gaps
    from amanda_onnx.mapping.opset_conversion import MAPPING_OF_OPSETS

    done = MAPPING_OF_OPSETS.conversion(function, to)
    return expect_no_gaps(done, keep_foreign=False)
