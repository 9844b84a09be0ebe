"""The hub as a side of mappings: signatures of its ops, and how they are built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from amanda.graph import Graph, Op, OutputPort
from amanda.mapping import Decline, Signature
from amanda_std.engine.annotations import BODY
from amanda_std.engine.call_cache import Ports, call_key
from amanda_std.engine.links import NAMESPACE
from amanda_std.engine.operation import Operation
from amanda_std.engine.values import Tracing, Value, lift, tracing
from amanda_std.ops import OPS

__all__ = ["STD_SIDE", "StdMappingSide"]


class StdMappingSide:
    """`amanda/std/1` for the mapping engine.

    Types are inferred while ops are built, for guards and lenses. Mapping functions
    may call `amanda_std.ops` on the `Value`s that they receive."""

    name = NAMESPACE

    def signature(self, type: str, /) -> Signature | None:
        operation = OPS.get(type)
        return None if operation is None else _signature(operation)

    def build(
        self,
        graph: Graph,
        type: str,
        args: Sequence[Any],
        attrs: Mapping[str, Any],
        *,
        outputs: int = 1,
        name: str | None = None,
        bodies: Mapping[str, Graph] | None = None,
    ) -> tuple[OutputPort, ...]:
        """Add an op at the end of `graph`; returns its outputs, with types.

        Shape arguments may be constants or values of the graph; they and bodies may
        also be given by name in `attrs`."""
        operation = OPS.get(type)
        if operation is None:
            raise Decline(f"{self.name} has no op {type}")
        form = operation.form
        given = {**attrs, **(bodies or {})}
        if form.varies and "outputs" in form.attributes and not given.get("outputs"):
            given["outputs"] = outputs
        with tracing(graph) as into:
            ports: Ports = []
            key = None if bodies else call_key(args, given, ports, "built")
            found = operation.repeats.add(key, ports, into, name)
            if found:
                return found
            before = len(into.made)
            bound, rest = operation.bind(
                _positional_args(operation, args, given), given
            )
            made = operation.trace(bound, rest, name)
            if key is not None:
                operation.repeats.learn(key, ports, into.made[before:])
        return tuple(value.port for value in made)

    # -- what functions see ----------------------------------------------------

    def tracing(self, graph: Graph) -> AbstractContextManager[Tracing]:
        return tracing(graph)

    def value(self, port: OutputPort) -> Value:
        return Value(port)

    def port(self, value: Any, graph: Graph) -> OutputPort:
        if value.__class__ is Value and value.port.graph is not None:
            return value.port
        return lift(value, Tracing(graph, None))

    def infer(self, op: Op) -> None:
        """Add inferred types to the results of an op."""
        from amanda_std.passes.infer import infer_ops

        infer_ops([op])

    def type_of(self, op: Op) -> str | None:
        space = op.own_namespace
        return op.type if space is None or space == self.name else None


def _positional_args(
    operation: Operation, args: Sequence[Any], given: dict[str, Any]
) -> list[Any]:
    """The arguments by position, bodies included; defaults for those left out.

    Names that are used are removed from `given`."""
    waiting = list(args)
    placed: list[Any] = []
    for p in operation.form.fixed_params:
        if p.name in given:
            if p.role != BODY and waiting and waiting[0] is None:
                waiting.pop(0)
            placed.append(given.pop(p.name))
        elif p.role != BODY and waiting:
            value = waiting.pop(0)
            placed.append(p.default if value is None and p.optional else value)
        elif p.optional:
            placed.append(p.default)
        else:
            raise Decline(f"{operation.name} lacks {p.name}")
    return [*placed, *waiting]


@cache
def _signature(operation: Operation) -> Signature:
    form = operation.form
    inputs = [p for p in form.params if p.role != BODY]
    return Signature(
        inputs=tuple(p.name for p in inputs),
        attrs=form.attributes,
        variadic=next((p.name for p in inputs if p.variadic), None),
        optional=frozenset(p.name for p in inputs if p.optional),
        outputs=None if form.varies else len(form.results),
        commutative=operation.commutative,
    )


STD_SIDE = StdMappingSide()
