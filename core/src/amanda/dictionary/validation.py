"""Validate a graph against its dictionaries: all faults, with their locations."""

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
    "location_of",
    "validate",
]

FindDictionary: TypeAlias = Callable[[str], object]
"""Returns the dictionary of a namespace, by its full name; None if there is none."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault of a graph.

    - `kind`: the kind of fault, one of a fixed list
    - `op`: the label of the op, `Conv 'stem'`; `location`: the graph that contains it
    - `message`: what is wrong; `hint`: what to do

    >>> print(Problem("unknown op", "Rleu 'a'", "", "is not in onnx@18", "try Relu"))
    Rleu 'a' is not in onnx@18 (try Relu)
    """

    kind: str
    op: str
    location: str
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        location = f", {self.location}," if self.location else ""
        colon = "" if self.message.startswith(("is ", "has ")) else ":"
        hint = f" ({self.hint})" if self.hint else ""
        return f"{self.op}{location}{colon} {self.message}{hint}"


@dataclass
class ValidationResult:
    """The result of validating a graph.

    - `problems`: the faults, in the order of the ops
    - `ops`: the number of ops, without constants of the core
    - `unchecked`: the number of ops without a dictionary, by namespace
    """

    problems: list[Problem] = field(default_factory=list)
    ops: int = 0
    unchecked: dict[str, int] = field(default_factory=dict)


def validate(graph: Graph, find: FindDictionary) -> list[Problem]:
    """All faults of a graph; `find` looks up the dictionary of each namespace.

    `Dictionary.validate` uses one dictionary, and those of the same data folder.
    """
    return check_graph(graph, find).problems


def check_graph(
    graph: Graph, find: FindDictionary | None = None, against: Dictionary | None = None
) -> ValidationResult:
    """Validate a graph. `against` replaces the dictionary of the graph's namespace.

    Without `find`, other namespaces are looked up in the data folder of `against`.
    """
    return _Validator(graph, find, against).validate()


class _NamespaceChecks:
    """One namespace of the graph: its dictionary, and a checker for each op type."""

    def __init__(self, name: str | None, dictionary: Dictionary | None) -> None:
        self.name = name
        self.dictionary = dictionary
        # cached in the dictionary, for the next graph
        self.checkers: dict[str | None, OpChecker]
        self.checkers = {} if dictionary is None else dictionary.cache
        self.hints: dict[str, str | None] = {}

    def checker(self, op_type: str | None) -> OpChecker | None:
        dictionary = self.dictionary
        return None if dictionary is None else get_checker(dictionary, op_type)

    def unknown_op(self, op_type: str) -> OpFault:
        """The fault of an op that the dictionary lacks."""
        dictionary = self.dictionary
        assert dictionary is not None
        if op_type not in self.hints:  # comparing with all names is slow
            self.hints[op_type] = dictionary.suggest(op_type)
        name = Name(dictionary.path, dictionary.version).short
        return OpFault("unknown op", f"is not in {name}", self.hints[op_type])


class _Validator:
    """Validates one graph."""

    def __init__(
        self, graph: Graph, find: FindDictionary | None, against: Dictionary | None
    ) -> None:
        self.root = graph
        self.find = find
        self.against = against
        self.namespaces: dict[str | None, _NamespaceChecks] = {}
        self.functions = frozenset(graph.functions)
        # a key may be longer than the op type of calls: domain::type::overload
        self.function_types = {
            key.split("::")[1] for key in graph.functions if "::" in key
        }
        self.function_types |= self.functions
        self.result = ValidationResult()
        self.locations: dict[Graph, str] = {}
        self.imported: set[tuple[Graph, _NamespaceChecks]] = set()

    def validate(self) -> ValidationResult:
        for graph in self.root.graphs():
            home = self._checks(graph.namespace)
            for i, op in enumerate(graph):
                if op.__class__ is not Op:
                    continue  # a graph as an op: its ops are validated separately
                own = op.own_namespace
                checks = home if own is None else self._checks(own)
                checker = checks.checkers.get(op.type)
                if checker is None or not checker.passes(op):
                    self._check_op(op, i, checks)
                self.result.ops += own != CORE
            self._check_imports(graph)
        return self.result

    # -- which dictionary ------------------------------------------------------------

    def _checks(self, name: str | None) -> _NamespaceChecks:
        checks = self.namespaces.get(name)
        if checks is None:
            checks = self.namespaces[name] = _NamespaceChecks(
                name, self._dictionary(name)
            )
        return checks

    def _dictionary(self, name: str | None) -> Dictionary | None:
        against = self.against
        if against is not None and name in (None, self.root.namespace):
            return against
        if name is None or name == CORE:
            return None
        if self.find is not None:
            found = self.find(name)
            return found if isinstance(found, Dictionary) else None
        return None if against is None else _sibling(against, name)

    # -- faults ----------------------------------------------------------------------

    def _check_op(self, op: Op, i: int, checks: _NamespaceChecks) -> None:
        """Report the faults of an op that did not pass the fast check."""
        checker = checks.checker(op.type)
        if checks.name == CORE:
            self._check_constant(op, i)
        elif checker is not None:
            faults = [] if checker.passes(op) else checker.faults(op, self.functions)
            for fault in faults:
                self._report(op, i, fault)
        elif op.type is None:
            self._report(op, i, OpFault("unknown op", "has no type"))
        elif op.type in self.function_types:
            return
        elif checks.dictionary is not None:
            self._report(op, i, checks.unknown_op(op.type))
        else:
            name = checks.name or "no namespace"
            self.result.unchecked[name] = self.result.unchecked.get(name, 0) + 1

    def _report(self, op: Op, i: int, fault: OpFault) -> None:
        graph = op.graph
        assert graph is not None
        if graph not in self.locations:
            self.locations[graph] = location_of(op)
        label = op.label if op.name is not None else f"{op.type or 'op'} #{i}"
        kind, message, hint = fault
        problem = Problem(kind, label, self.locations[graph], message, hint)
        self.result.problems.append(problem)

    def _check_constant(self, op: Op, i: int) -> None:
        if op.type != CONSTANT:
            message = f"is not an op of the core; {CONSTANT!r} is the only one"
            self._report(op, i, OpFault("unknown op", message))
        elif not isinstance(op.attrs.get("value"), Tensor):
            message = "attribute 'value' is missing"
            self._report(op, i, OpFault("missing attribute", message))

    def _check_imports(self, graph: Graph) -> None:
        """Compare the imports of the graph with the namespaces of its ops."""
        importer = _importer(graph)
        if importer is None:
            return
        for checks in list(self.namespaces.values()):
            dictionary = checks.dictionary
            if dictionary is None or not dictionary.header.domains:
                continue
            if (importer, checks) in self.imported or not _uses(graph, checks.name):
                continue
            self.imported.add((importer, checks))
            fault = _import_fault(importer.imports, dictionary, self.against)
            if fault is not None:
                label, place = importer.label, location_of(importer)
                self.result.problems.append(
                    Problem(fault.kind, label, place, fault.message, fault.hint)
                )


def _sibling(dictionary: Dictionary, name: str) -> Dictionary | None:
    """The dictionary of another namespace in the same data folder."""
    try:
        path, version = parse_name(name)
        history = dictionary.history
        if path != dictionary.path:
            found = history.sibling(path)
            if found is None:
                return None
            history = found
        return None if version is None else history.at(version)
    except NamespaceError:  # unknown name or version: not checked
        return None


def _importer(graph: Graph) -> Graph | None:
    """The graph whose imports state the versions of the ops of `graph`."""
    at: Graph | None = graph
    while at is not None:
        if at.imports:
            return at
        around = at.holder if at.holder is not None else at
        at = around.graph if around.graph is not None else at.owner
    return None


def _uses(graph: Graph, namespace: str | None) -> bool:
    return any(op.namespace == namespace for op in graph if op.__class__ is Op)


def _import_fault(
    imports: Mapping[str, int], dictionary: Dictionary, against: Dictionary | None
) -> OpFault | None:
    domains = dictionary.header.domains
    imported = [imports[domain] for domain in domains if domain in imports]
    domain = domains[-1]
    if not imported:
        message = f"does not import {domain}, which its ops belong to"
        return OpFault("import", message, f"import {domain} {dictionary.version}")
    if dictionary is against:
        return None
    if version_key(str(imported[0])) != version_key(dictionary.version):
        message = f"imports {domain} {imported[0]}, its ops have {dictionary.version}"
        return OpFault("import", message)
    return None


def location_of(op: Op) -> str:
    """The location of an op, from the inside out; empty in the root graph.

    `in body 'then_branch' of If 'choose'`, `in function 'f'`.
    """
    return ", ".join(_enclosing(op))


def _enclosing(op: Op) -> Iterator[str]:
    at = op.graph if op.graph is not None else getattr(op, "holder", None)
    while isinstance(at, Graph):
        holder = at.holder
        if holder is not None:
            yield f"in body {at.body_name!r} of {holder.label}"
            at = holder.graph
        elif at.owner is not None:
            names = [name for name, graph in at.owner.functions.items() if graph is at]
            yield f"in function {names[0]!r}"
            return
        else:
            around = at.graph
            if around is not None:
                yield f"in {at.label}"
            at = around


def cast_attributes(graph: Graph, dictionary: Dictionary) -> int:
    """Convert untagged attribute values to the kinds in `dictionary`; return how many.

    `dtype: float32` in a text form becomes an element type, `shape: [1, 784]` a shape.
    """
    count = 0
    for op in graph.walk():
        if op.__class__ is not Op or not op.has_attrs or op.own_namespace == CORE:
            continue
        op_def = dictionary.get(op.type)
        if op_def is None:
            continue
        for name, value in op.attrs.items():
            attr = op_def.attr(name)
            if attr is None:
                continue
            cast = cast_value(attr, value)
            if cast.__class__ is not value.__class__ or attr.is_list:
                count += cast != value or cast.__class__ is not value.__class__
                op.attrs[name] = cast
    return count
