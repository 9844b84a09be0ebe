"""What a caller chooses of a model: a signature, tensors by name, frozen variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from amanda.errors import UsageError
from amanda.graph import Graph
from amanda_tf.loading.freezing import freeze_variables
from amanda_tf.loading.interface import (
    cut_graph,
    expose_entry,
    value_of,
)
from amanda_tf.messages import SAVED_RECORDS
from amanda_tf.saved_models.signatures import default_signature

__all__ = ["Choices", "apply_choices", "text_list"]


class Choices(NamedTuple):
    """Options of `amanda.load` for a graph that was read."""

    signature: str | None
    inputs: list[str] | None
    outputs: list[str] | None
    freezes: bool

    @classmethod
    def of(cls, signature: Any, inputs: Any, outputs: Any, variables: Any) -> Choices:
        """The choices that options state."""
        if variables not in ("keep", "freeze"):
            raise UsageError(
                "variables are kept or frozen",
                expected="'keep' or 'freeze'", got=repr(variables),
            )  # fmt: skip
        if signature is not None and (inputs is not None or outputs is not None):
            raise UsageError("a signature has its own inputs and outputs; give one")
        return cls(
            signature,
            text_list("inputs", inputs),
            text_list("outputs", outputs),
            variables == "freeze",
        )


def text_list(what: str, value: str | Sequence[str] | None) -> list[str] | None:
    """Names given as a list, or as text with commas between them."""
    if value is None:
        return None
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not all(
        isinstance(item, str) for item in items
    ):
        raise UsageError(
            f"{what} are names",
            expected=f"{what}=['first', 'second'] or {what}='first,second'",
            got=repr(value),
        )
    return [item.strip() for item in items]


def apply_choices(graph: Graph, choices: Choices) -> Graph:
    """The chosen part of a graph; all of it, with its default signature, without."""
    if choices.signature is not None:
        _keep_signature(graph, choices.signature)
    elif choices.inputs is not None or choices.outputs is not None:
        sides = [
            None
            if names is None
            else {_name_of_tensor(n): value_of(graph, n) for n in names}
            for names in (choices.inputs, choices.outputs)
        ]
        graph.attrs.pop(SAVED_RECORDS.key, None)
        cut_graph(graph, *sides)
    elif graph.entries:
        name = default_signature(graph)
        if name is not None and choices.freezes:
            _keep_signature(graph, name)
        elif name is not None and not expose_entry(graph, graph.entries[name]):
            # an input replaces another value, so that the graph cannot be kept whole
            _keep_signature(graph, name)
    return freeze_variables(graph) if choices.freezes else graph


def _name_of_tensor(text: str) -> str:
    """The name of an input or output for a tensor name: `x` for `x:0`."""
    return text.removesuffix(":0")


def _keep_signature(graph: Graph, name: str) -> None:
    entry = graph.entries.get(name)
    if entry is None:
        raise UsageError(
            f"the model has no signature {name!r}",
            expected=f"one of {', '.join(graph.entries)}" if graph.entries else "none",
        )
    graph.attrs.pop(SAVED_RECORDS.key, None)
    # of several keys for one tensor the first is its input
    first_keys = {entry.inputs[key]: key for key in sorted(entry.inputs, reverse=True)}
    inputs = {key: port for port, key in reversed(first_keys.items())}
    outputs = {key: entry.outputs[key] for key in sorted(entry.outputs)}
    cut_graph(graph, inputs, outputs)
