"""Real graphs that are mapped, and rules for every op that stands in them.

Rules of which each carries one op over with all its inputs and attributes measure what
equations cost, whatever two namespaces have in common: they are made of the
dictionary. Beside them stand the rules that are installed: ONNX to the hub set, which
infers types as it goes, and Deeplearning4j's for TensorFlow, if they are at hand.
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

__all__ = ["PATTERNS", "Real", "forget", "mirrored", "patterns", "real"]

PATTERNS = 200
MIRROR = "bench/mirror/1"


class Real(NamedTuple):
    """Graphs of one dictionary, and the installed mapping that takes them, if any."""

    name: str
    dictionary: Dictionary
    graphs: list[Graph]
    installed: tuple[Any, str] | None
    infers: bool
    """Does the installed mapping infer types?"""


def real() -> Iterator[Real]:
    """What is at hand; what is not is said."""
    from dictionary import exported

    bert = exported()
    if bert is not None:
        from amanda_onnx.mapping import MAPPING

        known: Any = amanda.namespace(bert.namespace or "")
        yield Real("BERT", known, [bert], (MAPPING, "amanda/std/1"), True)
    data = Path(os.environ.get("AMANDA_TEST_DATA", ""))
    if (data / "tf_graphs" / "tf_graphs_dev.tar.gz").is_file():
        known = amanda.namespace("tensorflow")
        graphs = list(frozen(data, known))
        yield Real(f"{len(graphs)} frozen graphs", known, graphs, nd4j(data), False)
    else:
        print("left out: the frozen graphs, AMANDA_TEST_DATA has none")


def frozen(data: Path, dictionary: Dictionary) -> Iterator[Graph]:
    """The graphs of tf_graphs, as amanda-tf reads them."""
    from amanda_tf.format import Format

    with tarfile.open(data / "tf_graphs" / "tf_graphs_dev.tar.gz") as archive:
        for member in archive:
            if member.name.endswith("/model.pb"):
                content = archive.extractfile(member)
                assert content is not None
                yield Format().read(content.read(), version=dictionary.version)


def nd4j(data: Path) -> tuple[Any, str] | None:
    """Deeplearning4j's rules, with which some graphs have gaps: these are told."""
    folder = data / "dl4j" / "2025"
    if not folder.is_dir():
        print("left out: Deeplearning4j's rules, AMANDA_TEST_DATA has none")
        return None
    os.environ["AMANDA_ND4J_OPS"] = str(folder / "nd4j-op-def.pbtxt")
    os.environ["AMANDA_ND4J_RULES"] = str(folder / "tensorflow-mapping-ruleset.pbtxt")
    from amanda_nd4j.mapping import TENSORFLOW

    return TENSORFLOW, "amanda/nd4j/1"


def forget() -> None:
    """The hub set as it is before the first conversion: no call, no type is known."""
    from amanda_std.engine.call_cache import CallCache
    from amanda_std.ops import OPS

    for operation in OPS.values():
        operation._known.clear()
        operation.repeats = CallCache(operation)


def mirrored(case: Real, more: Iterable[str] = ()) -> RuleMapping:
    """One rule for each op type of the graphs, to a namespace with the same ops."""
    dictionary = case.dictionary
    rules = RuleSet("mirror", dictionary.name.rpartition("/")[0], "bench/mirror")
    for text in more:
        rules.equations(text)
    for type in sorted(used(case)):
        signature = dictionary.signature(type)
        assert signature is not None, type
        side = f"{type}({equal(signature)})"
        rules.equations(f"{side}  <=>  {side}")

    def known(type: str) -> Signature | None:
        own = dictionary.signature(type)
        return Signature(("x", "y")) if own is None and type[:3] == "Odd" else own

    return RuleMapping(
        PlainSide(dictionary.name, known), PlainSide(MIRROR, known), rules
    )


def used(case: Real) -> Counter[str]:
    ops = (op for graph in case.graphs for op in graph.walk())
    return Counter(op.type or "" for op in ops if op.own_namespace is None)


def equal(signature: Signature) -> str:
    """Every input and attribute as a variable."""
    inputs = [f"x{i}" for i in range(len(signature.inputs))]
    if signature.variadic is not None:
        inputs = ["*xs"]
    return ", ".join([*inputs, *(f"{key}=v_{key}" for key in signature.attrs)])


def patterns(case: Real, count: int = PATTERNS) -> list[str]:
    """Patterns that take none of the graphs' ops, and come near all the same.

    Each begins with two ops as they stand in the graphs, one the input of the other,
    the most common pairs first, and wants behind these an op that is nowhere.
    """
    pairs: Counter[tuple[str, int, str]] = Counter()
    for graph in case.graphs:
        for op in graph.walk():
            for i, value in enumerate(op.inputs if op.own_namespace is None else ()):
                if value is not None and value.op.own_namespace is None:
                    pairs[op.type or "", i, value.op.type or ""] += 1
    texts: list[str] = []
    for (user, at, maker), _ in pairs.most_common():
        signatures = [case.dictionary.signature(type) for type in (user, maker)]
        if None in signatures or any(s and s.variadic for s in signatures):
            continue
        outer, inner = (s for s in signatures if s is not None)
        if at < len(outer.inputs) and inner.inputs:
            texts.append(near(user, at, maker, outer, inner, len(texts)))
    return [texts[i % len(texts)].replace("Odd", f"Odd{i}_") for i in range(count)]


def near(
    user: str, at: int, maker: str, outer: Signature, inner: Signature, number: int
) -> str:
    """`User(a, Maker(Odd(x)), ...) => User(x, x, ...)`, with everything else any."""
    deep = ["_"] * len(inner.inputs)
    deep[number % len(deep)] = "Odd(x)"
    made = f"{maker}({', '.join([*deep, *anything(inner)])})"
    wide = ["_"] * len(outer.inputs)
    wide[at] = made
    return f"{user}({', '.join([*wide, *anything(outer)])})  =>  Odd(x, x)"


def anything(signature: Signature) -> list[str]:
    return [f"{key}=_" for key in signature.attrs]
