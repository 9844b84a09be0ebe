"""Dictionary histories, and the dictionary of one version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Any

from amanda.dictionary import datafile
from amanda.dictionary.call_signature import Signature, signature_of
from amanda.dictionary.datafile import GONE, DictionaryHeader, OpHistory
from amanda.dictionary.names import (
    Name,
    Namespace,
    parse_name,
    resolve_name,
    version_key,
)
from amanda.dictionary.op_definition import OpDef
from amanda.dictionary.signature import (
    format_definition,
    parse_definition,
    parse_signature,
)
from amanda.dictionary.type_patterns import SignatureScanner
from amanda.errors import NamespaceError

if TYPE_CHECKING:
    from amanda.dictionary.differences import Difference
    from amanda.dictionary.op_builder import OpBuilder
    from amanda.dictionary.validation import FindDictionary, Problem
    from amanda.graph import Graph, Op

__all__ = ["Dictionary", "DictionaryHistory", "OpRecord"]

_MAX_LISTED = 8
"""Overloads that a message lists."""


class OpRecord:
    """One op of a history; definitions are parsed on first use."""

    __slots__ = ("_definitions", "block", "positions")

    def __init__(self, history: DictionaryHistory, block: OpHistory) -> None:
        self.block = block
        self.positions = [history.order[version] for version, _ in block.steps]
        self._definitions: dict[int, OpDef] = {}

    def step(self, at: int) -> int | None:
        """The index of the definition in the version at position `at`, if any."""
        found = None
        for i, position in enumerate(self.positions):
            if position > at:
                break
            found = i
        if found is None or self.block.steps[found][1] == GONE:
            return None
        return found

    def definition(self, step: int) -> OpDef:
        """The definition with this index."""
        op_def = self._definitions.get(step)
        if op_def is None:
            steps = self.block.steps
            since, text = steps[step]
            until = steps[step + 1][0] if step + 1 < len(steps) else None
            name, doc = self.block.name, self.block.doc
            op_def = parse_definition(name, SignatureScanner(text), since, until, doc)
            if self.block.docs:
                op_def = op_def.with_docs(self.block.docs)
            self._definitions[step] = op_def
        return op_def

    def spans(self) -> Iterator[tuple[str, str | None]]:
        """Ranges of versions that have the op; the end is the one that removed it."""
        start = None
        for version, text in self.block.steps:
            if text == GONE:
                assert start is not None
                yield start, version
                start = None
            elif start is None:
                start = version
        if start is not None:
            yield start, None


class DictionaryHistory:
    """The dictionaries of all versions of a framework. The file is read on first use.

    `read` returns the content of the data file; `sibling` finds the history of another
    path in the same folder, for graphs that use several namespaces.
    """

    def __init__(
        self,
        path: str,
        read: Callable[[], bytes],
        sibling: Callable[[str], DictionaryHistory | None] = lambda _: None,
    ) -> None:
        self.path = path
        self._read = read
        self.sibling = sibling
        self._records: dict[str, OpRecord] = {}
        self._opened: dict[str, Dictionary] = {}

    @classmethod
    def parse(cls, path: str, versions: Mapping[str, str]) -> DictionaryHistory:
        """A small history written as text: for each version a definition a line.

        >>> text = "Relu(x: T) -> (y: T)  T in {f32, f64}"
        >>> acme = DictionaryHistory.parse("acme/net", {"1": text})
        >>> acme.at("1")["Relu"].inputs[0].name
        'x'
        """
        lines = {v: filter(None, text.splitlines()) for v, text in versions.items()}
        found = {v: [*map(parse_signature, lines[v])] for v in versions}
        ops = {v: {op.name: op for op in found[v]} for v in versions}
        names = {name: None for each in ops.values() for name in each}
        blocks = [
            OpHistory(
                name,
                "",
                datafile.definition_steps((v, ops[v].get(name)) for v in versions),
            )
            for name in names
        ]
        header = DictionaryHeader(path, tuple(versions), "written by hand")
        content = datafile.encode_data_file(header, blocks)
        return cls(path, lambda: content)

    @cached_property
    def _data(self) -> bytes:
        return self._read()

    def clear_cache(self) -> None:
        """Read the file again on the next use."""
        for name in ("_data", "header", "order", "names", "_places"):
            self.__dict__.pop(name, None)
        self._records.clear()
        self._opened.clear()

    @cached_property
    def header(self) -> DictionaryHeader:
        """Properties of all versions."""
        return datafile.parse_header(self._data, self.path)

    @cached_property
    def order(self) -> Mapping[str, int]:
        """The position of each version."""
        return {version: i for i, version in enumerate(self.header.versions)}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The ops of all versions, sorted."""
        return tuple(self._places)

    @cached_property
    def _places(self) -> dict[str, int]:
        """Where the data file has each op."""
        return datafile.op_places(self._data)

    def versions(self) -> tuple[str, ...]:
        """All versions, oldest first."""
        return self.header.versions

    def at(self, version: str, *, assume: bool = False) -> Dictionary:
        """The dictionary of one version.

        An unknown version is an error; with `assume`, the nearest lower version is used
        instead, and is recorded in `Dictionary.assumed`.
        """
        known = {self.path: self.header.versions}
        found = resolve_name(f"{self.path}/{version}", known, assume=assume)
        if found.version is None or found.version not in self.order:
            raise NamespaceError(f"{self.path} has no versions")
        return self._open(version, found.version)

    def _open(self, requested: str, version: str) -> Dictionary:
        dictionary = self._opened.get(requested)
        if dictionary is None:
            dictionary = self._opened[requested] = Dictionary(self, version, requested)
        return dictionary

    def record(self, op_type: str) -> OpRecord | None:
        """All versions of an op; None if no version has it."""
        try:
            return self._records[op_type]
        except KeyError:
            at = self._places.get(op_type)
            if at is None:
                return None
            record = OpRecord(self, datafile.parse_op(self._data, at))
            self._records[op_type] = record
            return record

    def __repr__(self) -> str:
        return f"<the dictionary history {self.path}>"


class Dictionary:
    """The op definitions of one version of a framework, by op type.

    - `name`: the full name of the namespace, `amanda/onnx/18`
    - `assumed`: the version used in place of an unknown one; None if it is known
    """

    def __init__(
        self, history: DictionaryHistory, version: str, requested: str | None = None
    ) -> None:
        self.history = history
        if version not in history.order:
            raise NamespaceError(
                f"there is no version {version!r} of {history.path}",
                expected=", ".join(history.order),
            )
        self.position = history.order[version]
        same = requested is None or requested == version
        known = same or version_key(requested or "") == version_key(version)
        self.version = version if known or requested is None else requested
        self.assumed = None if known else version
        self.name = str(Name(history.path, self.version))
        self.cache: dict[Any, Any] = {}  # for users of the dictionary, by op type

    @classmethod
    def of(cls, namespace: Namespace) -> Dictionary | None:
        """Convert a namespace of `OpDef`s; None if it has other definitions."""
        if isinstance(namespace, Dictionary):
            return namespace
        own_name: object = namespace.name
        if not isinstance(own_name, str):
            return None
        op_defs = [namespace[name] for name in namespace]
        path, version = parse_name(namespace.name)
        if version is None or not all(isinstance(each, OpDef) for each in op_defs):
            return None
        header = DictionaryHeader(path, (version,))
        ops = [
            OpHistory(
                e.name,
                e.doc,
                ((version, format_definition(e)),),
                datafile.argument_docs([e]),
            )
            for e in op_defs
        ]
        return DictionaryHistory(
            path, lambda: datafile.encode_data_file(header, ops)
        ).at(version)

    @property
    def path(self) -> str:
        return self.history.path

    @property
    def header(self) -> DictionaryHeader:
        return self.history.header

    def get(self, op_type: object) -> OpDef | None:
        """The definition of an op, or None."""
        if not isinstance(op_type, str):
            return None
        record = self.history.record(op_type)
        step = None if record is None else record.step(self.position)
        return None if record is None or step is None else record.definition(step)

    def __getitem__(self, op_type: str, /) -> OpDef:
        found = self.get(op_type)
        if found is None:
            raise NamespaceError(
                f"{Name(self.path, self.version).short} has no op {op_type!r}",
                hint=self.suggest(op_type),
            )
        return found

    def __getattr__(self, op_type: str) -> OpDef:
        """`onnx.Relu` is `onnx["Relu"]`, unless there is a method of this name."""
        found = None if op_type.startswith("_") else self.get(op_type)
        if found is None:
            raise AttributeError(f"{self!r} has neither an op nor a method {op_type!r}")
        return found

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._names]

    def __contains__(self, op_type: object, /) -> bool:
        if not isinstance(op_type, str):
            return False
        record = self.history.record(op_type)
        return record is not None and record.step(self.position) is not None

    def __iter__(self) -> Iterator[str]:
        """Op types, sorted."""
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(name for name in self.history.names if name in self)

    def values(self) -> Iterator[OpDef]:
        """All definitions, sorted by name."""
        return (self[name] for name in self._names)

    def overloads(self, name: str) -> list[OpDef]:
        """All overloads of a name, such as PyTorch's `aten.add`.

        If the dictionary has no overloads, that is the op itself.
        """
        mark = self.header.overload
        found = [self.get(name)]
        if mark and found == [None]:
            within = (other for other in self._names if other.startswith(name + mark))
            found += [self.get(o) for o in within if o.rpartition(mark)[0] == name]
        return [op_def for op_def in found if op_def is not None]

    def with_tag(self, tag: str) -> list[OpDef]:
        """The ops with a tag of the framework, such as `core`."""
        return [op_def for op_def in self.values() if op_def.tag(tag) is not None]

    def search(self, text: str) -> list[OpDef]:
        """The ops whose name or documentation contains every word of `text`."""
        words = text.lower().split()
        found = []
        for name in self._names:
            record = self.history.record(name)
            assert record is not None
            content = f"{name} {record.block.doc}".lower()
            if all(word in content for word in words):
                found.append(self[name])
        return found

    def suggest(self, op_type: str) -> str | None:
        """A hint for an unknown op: other versions, overloads, or similar names."""
        record = self.history.record(op_type)
        if record is not None:
            spans = [_span(Name(self.path, a).short, b) for a, b in record.spans()]
            return f"it exists {' and '.join(spans)}"
        overloads = self.overloads(op_type)
        if overloads:
            names = ", ".join(op_def.name for op_def in overloads[:_MAX_LISTED])
            more = len(overloads) - _MAX_LISTED
            return f"which overload: {names}{f' and {more} more' if more > 0 else ''}?"
        return suggest_names(op_type, self._names)

    def signature(self, op_type: str, /) -> Signature | None:
        """The call signature of an op; None if it is unknown."""
        op_def = self.get(op_type)
        return None if op_def is None else signature_of(op_def, self.header)

    def diff(self, other: Dictionary, only: str | None = None) -> Difference:
        """The changes from this dictionary to `other`, or those of `only` one op."""
        from amanda.dictionary.differences import compare_dictionaries

        return compare_dictionaries(self, other, only)

    def build(self, graph: Graph) -> OpBuilder:
        """A builder that adds checked ops to a graph: `onnx.build(graph).Relu(x)`."""
        from amanda.dictionary.op_builder import OpBuilder

        return OpBuilder(self, graph)

    def fill(self, graph: Graph) -> list[tuple[Op, str]]:
        """Add omitted attributes with their default values; return those added."""
        from amanda.dictionary.defaults import fill_defaults

        return fill_defaults(graph, self)

    def strip(self, graph: Graph, only: Iterable[tuple[Op, str]] | None = None) -> int:
        """Remove attributes that are equal to their defaults; return how many.

        With `only`, the result of `fill`, this restores the graph.
        """
        from amanda.dictionary.defaults import strip_defaults

        return strip_defaults(graph, self, only)

    def validate(
        self, graph: Graph, find: FindDictionary | None = None
    ) -> list[Problem]:
        """All faults of a graph of this namespace.

        Ops of other namespaces are looked up with `find`, or in the same data folder.
        """
        from amanda.dictionary.validation import check_graph

        return check_graph(graph, find, against=self).problems

    def __repr__(self) -> str:
        assumed = "" if self.assumed is None else f", as of {self.assumed}"
        return f"<the dictionary {self.name}{assumed}>"


def suggest_names(name: str, known: Iterable[str]) -> str | None:
    """A hint with known names similar to `name`."""
    names = list(known)
    exact = [other for other in names if other.lower() == name.lower()]
    near = exact or get_close_matches(name, names, n=3, cutoff=0.7)
    if not near:
        return None
    return f"did you mean {' or '.join(map(repr, near))}?"


def _span(start: str, end: str | None) -> str:
    return f"from {start} on" if end is None else f"from {start} on, until {end}"
