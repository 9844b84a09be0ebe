"""What a program has besides its graph, and what it is where nobody says."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, Final

from amanda.graph import Graph
from amanda_torch.records import PROGRAM_RECORDS

if TYPE_CHECKING:
    from amanda.dictionary import Dictionary

__all__ = ["UNBOUNDED", "drop_usual_facts", "module_call", "usual_facts"]

UNBOUNDED: Final[Mapping[str, Any]] = {"min_val": 0, "max_val": None}
"""The range of a symbol."""
_LEAF: Final[Mapping[str, Any]] = {"type": None, "context": None, "children_spec": []}


def usual_facts(dictionary: Dictionary) -> dict[str, Any]:
    """The facts of a program that no file had."""
    return {
        "torch_version": dictionary.version,
        "schema_version": {"major": 8, "minor": 20},
        "opset_version": {"aten": 10},
        "verifiers": ["TRAINING"],
        "guards_code": [],
    }


def drop_usual_facts(
    graph: Graph, dictionary: Dictionary, symbols: Container[str]
) -> None:
    """Drop the facts of a program that the writer has without a record.

    `symbols` are those with usual entries, for which it has ranges.
    """
    record = PROGRAM_RECORDS.of(graph)
    usual = usual_facts(dictionary)
    kept = {key: value for key, value in record.items() if usual.get(key) != value}
    ranges = kept.get("range_constraints", {})
    kept["range_constraints"] = {
        n: r for n, r in ranges.items() if r != UNBOUNDED or n not in symbols
    }
    names = [port.name for port in graph.parameters]
    call = module_call(names, len(names), len(graph.results))
    if kept.get("module_call_graph") == [call]:
        del kept["module_call_graph"]
    graph.attrs.pop(PROGRAM_RECORDS.key, None)
    PROGRAM_RECORDS.add(graph, **kept)


def module_call(names: list[str | None], inputs: int, outputs: int) -> dict[str, Any]:
    """The call of a module with positional tensors, which returns a tensor, or a tuple
    of another number of them."""
    no_keywords = {"type": "builtins.dict", "context": "[]", "children_spec": []}
    leaves = _tuple_of([_LEAF] * inputs)
    known = [
        name if name and name.isidentifier() and not iskeyword(name) else f"arg{i}"
        for i, name in enumerate(names)
    ]  # PyTorch makes them the parameters of a Python function
    signature = {
        "inputs": [],
        "outputs": [],
        "in_spec": json.dumps([1, _tuple_of([leaves, no_keywords])]),
        "out_spec": json.dumps(
            [1, _LEAF if outputs == 1 else _tuple_of([_LEAF] * outputs)]
        ),
        "forward_arg_names": known if len(known) == inputs else None,
    }
    return {"fqn": "", "signature": signature}


def _tuple_of(children: list[Any]) -> dict[str, Any]:
    return {"type": "builtins.tuple", "context": "null", "children_spec": children}
