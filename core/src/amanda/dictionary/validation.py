"""A whole graph against its dictionaries: every fault, each with its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from amanda.dictionary.attributes import cast_value
from amanda.dictionary.history import Dictionary
from amanda.dictionary.names import Name, parse_name, version_key
from amanda.dictionary.op_checker import OpChecker, OpFault, get_checker
from amanda.errors import NamespaceError
from amanda.graph import CONSTANT, CORE, Graph, Op
from amanda.tensors import Tensor

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "FindDictionary",
    "Problem",
    "ValidationResult",
    "cast_attributes",
    "check_graph",
    "validate",
]

FindDictionary: TypeAlias = Callable[[str], object]
"""Gives the dictionary of a namespace, by its full name; None where there is none."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of a graph.

    - `kind`: what sort of fault, in a word or two that never change
    - `op`: what messages call the op, `Conv 'stem'`; `place`: where it stands
    - `message`: what is wrong; `hint`: what may be meant

    >>> print(Problem("unknown op", "Rleu 'a'", "", "is not in onnx@18", "try Relu"))
    Rleu 'a' is not in onnx@18 (try Relu)
    """

    kind: str
    op: str
    place: str
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        place = f", {self.place}," if self.place else ""
        colon = "" if self.message.startswith(("is ", "has ")) else ":"
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.op}{place}{colon} {self.message}{hint}"


@dataclass
class ValidationResult:
    """What looking through a graph found.

    - `problems`: the faults, in the order of the ops
    - `ops`: how many ops were looked at, constants of the core not counted
    - `unchecked`: how many of them have no dictionary here, by namespace
    """

    problems: list[Problem] = field(default_factory=list)
    ops: int = 0
    unchecked: dict[str, int] = field(default_factory=dict)


def validate(graph: Graph, find: FindDictionary) -> list[Problem]:
    """Every fault of a graph, each namespace in it looked up with `find`.

    `Dictionary.validate` looks at a graph with one dictionary, and those beside it.
    """
    return check_graph(graph, find).problems


def check_graph(
    graph: Graph, find: FindDictionary | None = None, against: Dictionary | None = None
) -> ValidationResult:
    """The whole result. `against` stands for the namespace of the graph.

    Without `find` other namespaces are looked up beside `against`.
    """
    return _Look(graph, find, against).through()


class _Space:
    """One namespace: its dictionary, and a checker for each op type that it has."""

    def __init__(self, name: str | None, dictionary: Dictionary | None) -> None:
        self.name = name
        self.dictionary = dictionary
        # kept with the dictionary, so that the next graph finds them made
        self.checkers: dict[str | None, OpChecker]
        self.checkers = {} if dictionary is None else dictionary.made
        self.hints: dict[str, str | None] = {}

    def checker(self, op_type: str | None) -> OpChecker | None:
        dictionary = self.dictionary
        return None if dictionary is None else get_checker(dictionary, op_type)

    def unknown(self, op_type: str) -> OpFault:
        """The fault of an op that the dictionary does not have."""
        dictionary = self.dictionary
        assert dictionary is not None
        if op_type not in self.hints:  # comparing with all names takes its time
            self.hints[op_type] = dictionary.instead(op_type)
        name = Name(dictionary.path, dictionary.version).short
        return OpFault("unknown op", f"is not in {name}", self.hints[op_type])


class _Look:
    """One look through one graph."""

    def __init__(
        self, graph: Graph, find: FindDictionary | None, against: Dictionary | None
    ) -> None:
        self.root = graph
        self.find = find
        self.against = against
        self.spaces: dict[str | None, _Space] = {}
        self.functions = frozenset(graph.functions)
        # a key may say more than the type that ops call it by: domain::type::overload
        self.called = {key.split("::")[1] for key in graph.functions if "::" in key}
        self.called |= self.functions
        self.found = ValidationResult()
        self.places: dict[Graph, str] = {}
        self.imported: set[tuple[Graph, _Space]] = set()

    def through(self) -> ValidationResult:
        for graph in self.root.graphs():
            home = self._space(graph.namespace)
            for i, op in enumerate(graph):
                if op.__class__ is not Op:
                    continue  # a graph as an op: its ops are looked at in their turn
                own = op.own_namespace
                space = home if own is None else self._space(own)
                checker = space.checkers.get(op.type)
                if checker is None or not checker.passes(op):
                    self._closer(op, i, space)
                self.found.ops += own != CORE
            self._imports(graph)
        return self.found

    # -- which dictionary ------------------------------------------------------------

    def _space(self, name: str | None) -> _Space:
        space = self.spaces.get(name)
        if space is None:
            space = self.spaces[name] = _Space(name, self._dictionary(name))
        return space

    def _dictionary(self, name: str | None) -> Dictionary | None:
        against = self.against
        if against is not None and name in (None, self.root.namespace):
            return against
        if name is None or name == CORE:
            return None
        if self.find is not None:
            found = self.find(name)
            return found if isinstance(found, Dictionary) else None
        return None if against is None else _beside(against, name)

    # -- faults ----------------------------------------------------------------------

    def _closer(self, op: Op, i: int, space: _Space) -> None:
        """An op that a quick look did not find to be fine."""
        checker = space.checker(op.type)
        if space.name == CORE:
            self._core(op, i)
        elif checker is not None:
            faults = [] if checker.passes(op) else checker.faults(op, self.functions)
            for fault in faults:
                self._tell(op, i, fault)
        elif op.type is None:
            self._tell(op, i, OpFault("unknown op", "has no type"))
        elif op.type in self.called:
            return
        elif space.dictionary is not None:
            self._tell(op, i, space.unknown(op.type))
        else:
            name = space.name or "no namespace"
            self.found.unchecked[name] = self.found.unchecked.get(name, 0) + 1

    def _tell(self, op: Op, i: int, fault: OpFault) -> None:
        graph = op.graph
        assert graph is not None
        if graph not in self.places:
            self.places[graph] = location_of(op)
        label = op.label if op.name is not None else f"{op.type or 'op'} #{i}"
        kind, message, hint = fault
        problem = Problem(kind, label, self.places[graph], message, hint)
        self.found.problems.append(problem)

    def _core(self, op: Op, i: int) -> None:
        if op.type != CONSTANT:
            message = f"is not an op of the core, which has {CONSTANT!r} only"
            self._tell(op, i, OpFault("unknown op", message))
        elif not isinstance(op.attrs.get("value"), Tensor):
            message = "attribute 'value' is missing"
            self._tell(op, i, OpFault("missing attribute", message))

    def _imports(self, graph: Graph) -> None:
        """Does the graph import what its ops are of, in the version that they have?"""
        importer = _importer(graph)
        if importer is None:
            return
        for space in list(self.spaces.values()):
            dictionary = space.dictionary
            if dictionary is None or not dictionary.header.domains:
                continue
            if (importer, space) in self.imported or not _uses(graph, space.name):
                continue
            self.imported.add((importer, space))
            fault = _import_fault(importer.imports, dictionary, self.against)
            if fault is not None:
                label, place = importer.label, location_of(importer)
                self.found.problems.append(
                    Problem(fault.kind, label, place, fault.message, fault.hint)
                )


def _beside(dictionary: Dictionary, name: str) -> Dictionary | None:
    """The dictionary of another namespace that came with this one."""
    try:
        path, version = parse_name(name)
        history = dictionary.history
        if path != dictionary.path:
            found = history.sibling(path)
            if found is None:
                return None
            history = found
        return None if version is None else history.at(version)
    except NamespaceError:  # no such name, or no such version: nothing to check by
        return None


def _importer(graph: Graph) -> Graph | None:
    """The graph that says which versions the ops of `graph` are of."""
    at: Graph | None = graph
    while at is not None:
        if at.imports:
            return at
        around = at.holder if at.holder is not None else at
        at = around.graph if around.graph is not None else at.root
    return None


def _uses(graph: Graph, namespace: str | None) -> bool:
    return any(op.namespace == namespace for op in graph if op.__class__ is Op)


def _import_fault(
    imports: Mapping[str, int], dictionary: Dictionary, against: Dictionary | None
) -> OpFault | None:
    domains = dictionary.header.domains
    said = [imports[domain] for domain in domains if domain in imports]
    domain = domains[-1]
    if not said:
        message = f"imports no {domain}, which its ops are of"
        return OpFault("import", message, f"import {domain} {dictionary.version}")
    if dictionary is against:
        return None
    if version_key(str(said[0])) != version_key(dictionary.version):
        message = f"imports {domain} {said[0]}, but its ops are of {dictionary.version}"
        return OpFault("import", message)
    return None


def location_of(op: Op) -> str:
    """Where an op stands, from the inside out; empty in the root graph.

    `in body 'then_branch' of If 'choose'`, `in function 'f'`.
    """
    return ", ".join(_places(op))


def _places(op: Op) -> Iterator[str]:
    at = op.graph if op.graph is not None else getattr(op, "holder", None)
    while isinstance(at, Graph):
        holder = at.holder
        if holder is not None:
            yield f"in body {at.body_name!r} of {holder.label}"
            at = holder.graph
        elif at.root is not None:
            names = [name for name, graph in at.root.functions.items() if graph is at]
            yield f"in function {names[0]!r}"
            return
        else:
            around = at.graph
            if around is not None:
                yield f"in {at.label}"
            at = around


def cast_attributes(graph: Graph, dictionary: Dictionary) -> int:
    """Gives untagged values their kinds, as `dictionary` has them; how many it gave.

    `dtype: float32` in a text becomes the element type, `shape: [1, 784]` the shape.
    """
    count = 0
    for op in graph.walk():
        if op.__class__ is not Op or not op.has_attrs or op.own_namespace == CORE:
            continue
        entry = dictionary.get(op.type)
        for name, value in op.attrs.items() if entry is not None else ():
            attr = entry.attr(name) if entry is not None else None
            if attr is None:
                continue
            made = cast_value(attr, value)
            if made.__class__ is not value.__class__ or attr.is_list:
                count += made != value or made.__class__ is not value.__class__
                op.attrs[name] = made
    return count
