"""What becomes of Deeplearning4j's TensorFlow rule set here, counted.

    PYTHONPATH=tests AMANDA_TEST_DATA=... python -m routes.nd4j.account     prints it

Of graphs: how many map fully, and what keeps the others. Of declarations: whether
every specimen comes back through tensorflow -> nd4j -> tensorflow just as it was, and
why it does not where it does not.
"""

from __future__ import annotations

import os
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from routes.nd4j.specimens import specimens

import amanda
from amanda.dictionary import Dictionary
from amanda.formatkit import MessageFile
from amanda.graph import Graph, Op, OutputPort
from amanda.mapping import constant_of
from amanda.tensors.values import same_value
from amanda_nd4j.mapping import Nd4jMapping
from amanda_nd4j.namespace import VARIABLE
from amanda_nd4j.rulesets import RULES
from amanda_tf.graphdef import read_graph

__all__ = ["Outcome", "Verdict", "frozen", "outcome", "settings", "verdict", "verdicts"]

ND4J = "amanda/nd4j/1"
OLDER = "tensorflow@2.5.3"
"""Has the one op that TensorFlow dropped since."""


def settings(data: Path, state: str = "2025") -> dict[str, str]:
    """The variables of the environment that name the published files."""
    folder = data / "dl4j" / state
    rules = [
        folder / f"{name}-mapping-ruleset.pbtxt" for name in ("tensorflow", "onnx")
    ]
    return {
        VARIABLE: str(folder / "nd4j-op-def.pbtxt"),
        RULES: os.pathsep.join(map(str, rules)),
    }


# -- graphs ----------------------------------------------------------------------------


def frozen(data: Path, dictionary: Dictionary) -> Iterator[tuple[str, Graph]]:
    """The frozen graphs, by name."""
    with tarfile.open(data / "tf_graphs" / "tf_graphs_dev.tar.gz") as archive:
        for member in archive:
            if member.name.endswith("/model.pb"):
                content = archive.extractfile(member)
                assert content is not None
                name = member.name.partition("/")[2].removesuffix("/model.pb")
                yield name, read_graph(MessageFile.open(content.read()), dictionary)


class Outcome(NamedTuple):
    """How a graph fared: `undeclared` are its ops that no declaration is for, `gaps`
    the reasons why others did not map, `used` the types of those that did."""

    undeclared: frozenset[str]
    gaps: tuple[str, ...]
    used: Counter[str]
    losses: tuple[str, ...]


def outcome(mapping: Nd4jMapping, graph: Graph) -> Outcome:
    """Map a graph to nd4j and say what happened."""
    declared = mapping.translation.rows
    types = [op.type or "" for op in graph.walk() if op.own_namespace is None]
    done = mapping.conversion(graph, ND4J)
    assert done.graph.check() == []
    gaps = [gap for gap in done.report.gaps if gap.op in declared]
    return Outcome(
        frozenset(types) - set(declared),
        tuple(f"{gap.op}: {'; '.join(gap.why)}" for gap in gaps),
        Counter(types),
        done.report.losses,
    )


# -- declarations ----------------------------------------------------------------------


class Verdict(NamedTuple):
    """Whether a declaration gives its op back; `usual` at least as it is by default."""

    name: str
    back: bool
    usual: bool
    why: str


def verdicts(mapping: Nd4jMapping, dictionary: Dictionary) -> list[Verdict]:
    """One for each declaration of the rule set."""
    return [verdict(mapping, dictionary, name) for name in mapping.translation.rows] + [
        Verdict(name, False, False, why)
        for name, why in mapping.translation.left.items()
    ]


def verdict(mapping: Nd4jMapping, dictionary: Dictionary, name: str) -> Verdict:
    """Map every specimen of an op there and back, and compare."""
    if name not in dictionary:
        older: Any = amanda.namespace(OLDER)
        dictionary = older
    constant = mapping.translation.needed.get(name, ())
    faults: dict[str, str] = {}
    for each in specimens(dictionary, dictionary[name], constant):
        found = _fault(mapping, dictionary, each.graph, each.op)
        if found:
            faults[each.varied] = found
    first = next(iter(faults.items()), None)
    why = "" if first is None else f"{first[0]}: {first[1]}".removeprefix(": ")
    return Verdict(name, not faults, "" not in faults, why)


def _fault(mapping: Nd4jMapping, dictionary: Dictionary, graph: Graph, op: Op) -> str:
    there = mapping.conversion(graph, ND4J)
    if there.report.gaps:
        return f"it does not map: {'; '.join(there.report.gaps[0].why)}"
    if there.report.losses:
        return f"loses {there.report.losses[0].rpartition(': ')[2]}"
    back = mapping.conversion(there.graph, dictionary.name)
    if back.report.gaps:
        return f"it does not map back: {'; '.join(back.report.gaps[0].why)}"
    made = [o for o in back.graph if o.own_namespace is None]
    if len(made) != 1:
        return f"it comes back as {len(made)} ops"
    return _difference(dictionary, op, made[0])


def _difference(dictionary: Dictionary, old: Op, new: Op) -> str:
    """What tells two ops apart, but for attributes that follow from their ports."""
    if old.type != new.type:
        return f"it comes back as {new.type}"
    entry = dictionary[old.type or ""]
    for attr in entry.attrs:
        pair = [op.attrs.get(attr.name, attr.default) for op in (old, new)]
        if not same_value(*pair):
            return f"{attr.name} comes back as {pair[1]}, not {pair[0]}"
    for attr in entry.variables:
        pair = [op.attrs.get(attr.name) for op in (old, new)]
        if pair[1] is not None and not same_value(*pair):
            return f"{attr.name} comes back as {pair[1]}, not {pair[0]}"
    if [*map(_value, old.inputs)] != [*map(_value, new.inputs)]:
        return "its inputs come back otherwise"
    return ""


def _value(port: OutputPort | None) -> Any:
    """An input so that those of two graphs compare: its place, or its content."""
    if port is None:
        return None
    tensor = constant_of(port)
    return port.index if tensor is None else tensor.digest()


# -- the account -----------------------------------------------------------------------


def main() -> None:
    data = Path(os.environ["AMANDA_TEST_DATA"])
    os.environ.update(settings(data))
    mapping = Nd4jMapping("tensorflow")
    dictionary: Any = amanda.namespace("tensorflow")
    found = [outcome(mapping, graph) for _, graph in frozen(data, dictionary)]
    whole = [o for o in found if not o.undeclared and not o.gaps]
    undeclared = [o for o in found if o.undeclared]
    print(f"{len(found)} graphs: {len(whole)} map fully, {len(undeclared)} hold ops "
          f"without a declaration, {len(found) - len(whole) - len(undeclared)} need "
          "values that are known at run time only")  # fmt: skip
    used = {name for o in whole for name in o.used} & set(mapping.translation.rows)
    print(f"{len(used)} declarations are used by them")
    told = verdicts(mapping, dictionary)
    back, usual = (sum(getattr(v, k) for v in told) for k in ("back", "usual"))
    print(f"{len(told)} declarations: {back} give back every op that they take, "
          f"{usual} at least an op with its defaults")  # fmt: skip
    for each in told:
        if not each.back:
            print(f"  {each.name}: {each.why}")


if __name__ == "__main__":
    main()
