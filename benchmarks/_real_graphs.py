"""Real graphs to map, with rules for every op in them.

Rules that copy one op with all its inputs and attributes measure the cost of equations
independently of how similar two namespaces are; they are generated from the dictionary.
Where they are available, the installed mappings are measured as well: ONNX to std,
which includes type inference, and TensorFlow to Deeplearning4j.
"""

from __future__ import annotations

import os
import tarfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import amanda
from amanda.dictionary import Dictionary
from amanda.graph import Graph
from amanda.mapping import PlainSide, RuleMapping, RuleSet, Signature

__all__ = [
    "PATTERNS",
    "GraphSet",
    "clear_caches",
    "graph_sets",
    "mirror_mapping",
    "near_miss_patterns",
]

PATTERNS = 200
MIRROR = "bench/mirror/1"


class GraphSet(NamedTuple):
    """Graphs of one namespace, and an installed mapping from it with its target."""

    name: str
    dictionary: Dictionary
    graphs: list[Graph]
    installed: tuple[Any, str] | None
    infers: bool
    """Whether the installed mapping infers types."""


def graph_sets() -> Iterator[GraphSet]:
    """Yield the sets whose data is available; print which are skipped."""
    from dictionary import export_bert

    bert = export_bert()
    if bert is not None:
        from amanda_onnx.mapping import MAPPING

        known: Any = amanda.namespace(bert.namespace or "")
        yield GraphSet("BERT", known, [bert], (MAPPING, "amanda/std/1"), True)
    data = Path(os.environ.get("AMANDA_TEST_DATA", ""))
    if (data / "tf_graphs" / "tf_graphs_dev.tar.gz").is_file():
        known = amanda.namespace("tensorflow")
        graphs = list(read_frozen_graphs(data, known))
        yield GraphSet(
            f"{len(graphs)} frozen graphs", known, graphs, nd4j_mapping(data), False
        )
    else:
        print("skipped: the frozen graphs, not found in AMANDA_TEST_DATA")


def read_frozen_graphs(data: Path, dictionary: Dictionary) -> Iterator[Graph]:
    """Yield the graphs of tf_graphs, read by amanda-tf."""
    from amanda_tf.format import Format

    with tarfile.open(data / "tf_graphs" / "tf_graphs_dev.tar.gz") as archive:
        for member in archive:
            if member.name.endswith("/model.pb"):
                content = archive.extractfile(member)
                assert content is not None
                yield Format().read(content.read(), version=dictionary.version)


def nd4j_mapping(data: Path) -> tuple[Any, str] | None:
    """Return Deeplearning4j's mapping and its target; some graphs have gaps in it."""
    folder = data / "dl4j" / "2025"
    if not folder.is_dir():
        print("skipped: Deeplearning4j's rules, not found in AMANDA_TEST_DATA")
        return None
    os.environ["AMANDA_ND4J_OPS"] = str(folder / "nd4j-op-def.pbtxt")
    os.environ["AMANDA_ND4J_RULES"] = str(folder / "tensorflow-mapping-ruleset.pbtxt")
    from amanda_nd4j.mapping import TENSORFLOW

    return TENSORFLOW, "amanda/nd4j/1"


def clear_caches() -> None:
    """Clear the call and type caches of the std ops, as before a first conversion."""
    from amanda_std.engine.call_cache import CallCache
    from amanda_std.ops import OPS

    for operation in OPS.values():
        operation._known.clear()
        operation.repeats = CallCache(operation)


def mirror_mapping(case: GraphSet, more: Iterable[str] = ()) -> RuleMapping:
    """Return a mapping to a namespace with the same ops: one rule per op type."""
    dictionary = case.dictionary
    rules = RuleSet("mirror", dictionary.name.rpartition("/")[0], "bench/mirror")
    for text in more:
        rules.equations(text)
    for type in sorted(count_op_types(case)):
        signature = dictionary.signature(type)
        assert signature is not None, type
        side = f"{type}({variables(signature)})"
        rules.equations(f"{side}  <=>  {side}")

    def signature_of(type: str) -> Signature | None:
        own = dictionary.signature(type)
        return Signature(("x", "y")) if own is None and type[:3] == "Odd" else own

    return RuleMapping(
        PlainSide(dictionary.name, signature_of), PlainSide(MIRROR, signature_of), rules
    )


def count_op_types(case: GraphSet) -> Counter[str]:
    ops = (op for graph in case.graphs for op in graph.walk())
    return Counter(op.type or "" for op in ops if op.own_namespace is None)


def variables(signature: Signature) -> str:
    """Return arguments that bind every input and attribute to a variable."""
    inputs = [f"x{i}" for i in range(len(signature.inputs))]
    if signature.variadic is not None:
        inputs = ["*xs"]
    return ", ".join([*inputs, *(f"{key}=v_{key}" for key in signature.attrs)])


def near_miss_patterns(case: GraphSet, count: int = PATTERNS) -> list[str]:
    """Return rules that nearly match ops of the graphs, but never do.

    Each begins with two connected ops of the graphs, the most common pairs first,
    followed by an op that does not occur in them.
    """
    pairs: Counter[tuple[str, int, str]] = Counter()
    for graph in case.graphs:
        for op in graph.walk():
            for i, value in enumerate(op.inputs if op.own_namespace is None else ()):
                if value is not None and value.op.own_namespace is None:
                    pairs[op.type or "", i, value.op.type or ""] += 1
    texts: list[str] = []
    for (user, index, producer), _ in pairs.most_common():
        signatures = [case.dictionary.signature(type) for type in (user, producer)]
        if None in signatures or any(s and s.variadic for s in signatures):
            continue
        outer, inner = (s for s in signatures if s is not None)
        if index < len(outer.inputs) and inner.inputs:
            number = len(texts)
            texts.append(near_miss(user, index, producer, outer, inner, number))
    return [texts[i % len(texts)].replace("Odd", f"Odd{i}_") for i in range(count)]


def near_miss(
    user: str,
    index: int,
    producer: str,
    outer: Signature,
    inner: Signature,
    number: int,
) -> str:
    """Return `User(_, Producer(Odd(x)), ...) => Odd(x, x)`, wildcards elsewhere."""
    inner_args = ["_"] * len(inner.inputs)
    inner_args[number % len(inner_args)] = "Odd(x)"
    term = f"{producer}({', '.join([*inner_args, *attr_wildcards(inner)])})"
    outer_args = ["_"] * len(outer.inputs)
    outer_args[index] = term
    return f"{user}({', '.join([*outer_args, *attr_wildcards(outer)])})  =>  Odd(x, x)"


def attr_wildcards(signature: Signature) -> list[str]:
    return [f"{key}=_" for key in signature.attrs]
