"""The mappings `nd4j-tensorflow` and `nd4j-onnx`, by the user's rule sets, both ways.

Files are read when the first graph is mapped. `AMANDA_ND4J_OPS` names the descriptors
and `AMANDA_ND4J_RULES` the rule sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

import amanda
from amanda.dictionary import parse_name
from amanda.graph import Graph, Op, OutputPort
from amanda.mapping import (
    Conversion,
    GapMet,
    PlainSide,
    RuleMapping,
    Signature,
    constant_of,
    op_location,
)
from amanda.types import DType, Shape, TensorType
from amanda_nd4j.namespace import PATH, installed_descriptors
from amanda_nd4j.rulesets import installed_declarations
from amanda_nd4j.translation import TranslatedRules, translate_declarations

__all__ = ["ONNX", "TENSORFLOW", "Nd4jMapping", "Nd4jSide", "SourceSide"]

_INTEGERS: Final = {"tensorflow": "int32", "onnx": "int64"}


class Nd4jMapping(RuleMapping):
    """A framework to nd4j and back, by the user's rule sets."""

    def __init__(self, framework: str) -> None:
        super().__init__(
            lambda name: SourceSide(name, _INTEGERS[framework]),
            lambda name: Nd4jSide(name, self.translation),
            lambda: self.translation.rules,
        )
        self.framework = framework

    @cached_property
    def translation(self) -> TranslatedRules:
        """The translated rule sets."""
        return translate_declarations(
            self.framework,
            installed_declarations(self.framework),
            installed_descriptors(),
        )

    def conversion(
        self,
        graph: Graph,
        to: str,
        *,
        keep_foreign: bool = False,
        gap_met: GapMet | None = None,
        trace: bool = False,
    ) -> Conversion:
        """The converted graph, and a report with the gaps.

        Frozen variables are constants behind `Identity`. Inputs that must be constant
        are read past these, as Deeplearning4j's importer does.
        """
        needed = {} if _is_nd4j_graph(graph) else self.translation.needed
        places = [*_inputs_behind_identity(graph, needed)]
        if places:
            ops = {op: i for i, op in enumerate(graph.walk())}
            graph = graph.clone()
            copies = [*graph.walk()]
            for op, at in places:
                port = copies[ops[op]].input_ports[at]
                port.connect(_skip_identities(port.source))
        done = super().conversion(
            graph, to, keep_foreign=keep_foreign, gap_met=gap_met, trace=trace
        )
        if not _is_nd4j_graph(graph):
            _carry_placeholder_types(graph, done.graph)
        if places:
            told = tuple(
                f"{op.type}, {op_location(op)}: {_PAST_IDENTITY}" for op, _ in places
            )
            done.report.losses = (*done.report.losses, *told)
        return done


class SourceSide(PlainSide):
    """A version of the framework.

    Attributes that follow from the ports (`T`) are part of signatures, since rules name
    them; integers become constants of the framework's usual type.
    """

    def __init__(self, name: str, integers: str) -> None:
        self.dictionary: Any = amanda.namespace(name, assume=True)
        super().__init__(name, self._extended_signature, integers=integers)
        version = parse_name(name).version or ""
        if version.isdigit():
            self.imports = {"": int(version)}

    def _extended_signature(self, type: str) -> Signature | None:
        found: Signature | None = self.dictionary.signature(type)
        if found is None:
            return None
        more = {a.name: None for a in self.dictionary[type].variables}
        return found._replace(attrs={**more, **found.attrs})

    def type_of(self, op: Op) -> str | None:
        """The op type, for ops of this namespace only."""
        space = op.own_namespace
        return op.type if space is None or space == self.name else None


class Nd4jSide(PlainSide):
    """A version of nd4j: its ops have any number of inputs, named by position, and may
    have arguments that only rule sets name."""

    def __init__(self, name: str, translation: TranslatedRules) -> None:
        self.dictionary: Any = amanda.namespace(name, assume=True)
        self.extra = translation.extra
        super().__init__(name, self._extended_signature)

    def _extended_signature(self, type: str) -> Signature | None:
        found: Signature | None = self.dictionary.signature(type)
        if found is None:
            return None
        # An argument may have the name of an input.
        places = tuple(f"#{i}" for i in range(len(found.inputs) or 1))
        more = dict.fromkeys(self.extra.get(type, ()))
        return found._replace(
            inputs=places,
            optional=frozenset(places),
            variadic=places[-1],
            outputs=None,  # as many as the source op has; the files do not list all
            attrs={**more, **found.attrs},
        )


_PAST_IDENTITY: Final = "that a constant was behind Identity"


def _is_nd4j_graph(graph: Graph) -> bool:
    return graph.namespace is not None and parse_name(graph.namespace).path == PATH


def _carry_placeholder_types(source: Graph, made: Graph) -> None:
    """Give placeholders the types that those of the source have.

    In SameDiff the type of a placeholder is that of its variable, no argument.
    """
    for op in made:
        if op.type != "placeholder" or op.own_namespace is not None:
            continue
        old = source.ops[op.name or ""] if (op.name or "") in source else None
        if old is None or not old.outputs:
            continue
        dtype, shape = old.attrs.get("dtype"), old.attrs.get("shape")
        type = old.output.type
        if type is None and isinstance(dtype, DType):
            known = isinstance(shape, Shape) and shape.has_rank
            type = TensorType(dtype, shape if known else None)
        op.output.type = type


def _inputs_behind_identity(
    graph: Graph, needed: Mapping[str, frozenset[int]]
) -> Iterator[tuple[Op, int]]:
    """The inputs that must be constant, and are so behind an identity."""
    for op in graph.walk():
        for at in needed.get(op.type or "", ()):
            value = op.inputs[at] if at < len(op.inputs) else None
            found = _skip_identities(value)
            if found is not None and found is not value and constant_of(found):
                yield op, at


def _skip_identities(value: OutputPort | None) -> OutputPort | None:
    """The value behind identities."""
    while value is not None and value.op.type == "Identity" and value.op.inputs:
        value = value.op.inputs[0]
    return value


TENSORFLOW = Nd4jMapping("tensorflow")
"""The entry `nd4j-tensorflow` of `amanda.mappings`."""

ONNX = Nd4jMapping("onnx")
"""The entry `nd4j-onnx` of `amanda.mappings`."""
