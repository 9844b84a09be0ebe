"""Nothing of an op is dropped without a word between TensorFlow and nd4j.

Each attribute of an op of TensorFlow that a declaration is for is changed, and each
argument of the op of nd4j that it becomes. Then what comes out on the other side is
another op, or the change is declined, or a loss is told that names the attribute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from routes.nd4j.account import ND4J, OLDER
from routes.nd4j.specimens import specimens

import amanda
from amanda.dictionary import Dictionary
from amanda.graph import Graph, Op
from amanda.mapping import Conversion
from amanda.types import DType
from amanda_nd4j.mapping import TENSORFLOW

pytestmark = pytest.mark.usefixtures("data")


def known(name: str) -> Dictionary:
    newest: Any = amanda.namespace("tensorflow")
    older: Any = amanda.namespace(OLDER)
    return newest if name in newest else older  # type: ignore[no-any-return]


def whole(graph: Graph, to: str) -> Conversion | None:
    """The conversion; None where an op is declined, which is told."""
    done = TENSORFLOW.conversion(graph, to)
    return None if done.report.gaps else done


def declared() -> Iterator[tuple[str, Dictionary, Any]]:
    for name in TENSORFLOW.translation.rows:
        dictionary = known(name)
        constant = TENSORFLOW.translation.needed.get(name, ())
        yield name, dictionary, specimens(dictionary, dictionary[name], constant)


def test_a_changed_attribute_of_tensorflow_is_seen_or_told() -> None:
    counts: Counter[str] = Counter()
    silent: dict[str, str] = {}
    for name, dictionary, found in declared():
        usual = whole(next(found).graph, ND4J)
        if usual is None:
            continue
        for each in found:
            attr = each.varied.partition("=")[0]
            if attr not in {a.name for a in dictionary[name].attrs}:
                continue  # what follows from the inputs
            counts["tried"] += 1
            made = whole(each.graph, ND4J)
            if made is None:
                counts["declined"] += 1
            elif not made.graph.same_as(usual.graph, names=False):
                counts["another"] += 1
            elif any(attr in loss for loss in made.report.losses):
                counts["told"] += 1
            else:
                silent[f"{name}.{attr}"] = each.varied
    assert silent == {}
    assert counts["tried"] > 200
    assert min(counts["another"], counts["told"]) >= 100


# -- back ------------------------------------------------------------------------------


def others(value: Any) -> Iterator[Any]:
    match value:
        case bool():
            yield not value
        case int() | float():
            yield value + 1
        case DType():
            yield DType("float64" if value != DType("float64") else "int32")
        case [int() | float(), *_]:
            yield [*value[:-1], value[-1] + 1]
            yield [*value, value[-1]]


def made_op(graph: Graph) -> Op | None:
    found = [op for op in graph if op.own_namespace is None]
    return found[0] if len(found) == 1 else None


def test_a_changed_argument_of_nd4j_is_seen_or_told() -> None:
    counts: Counter[str] = Counter()
    silent: dict[str, str] = {}
    for name, dictionary, found in declared():
        there = whole(next(found).graph, ND4J)
        back = there and whole(there.graph, dictionary.name)
        op = there and made_op(there.graph)
        if there is None or back is None or op is None:
            continue
        for key, value in op.attrs.items():
            for other in others(value):
                graph = there.graph.clone()
                changed = made_op(graph)
                assert changed is not None
                changed.attrs[key] = other
                counts["tried"] += 1
                made = whole(graph, dictionary.name)
                if made is None:
                    counts["declined"] += 1
                elif not made.graph.same_as(back.graph, names=False):
                    counts["another"] += 1
                elif any(key in loss for loss in made.report.losses):
                    counts["told"] += 1
                else:
                    silent[f"{name}: {op.type}.{key}"] = f"{value} -> {other}"
    assert silent == {}
    assert counts["tried"] > 200
    assert min(counts["declined"], counts["another"]) > 10
