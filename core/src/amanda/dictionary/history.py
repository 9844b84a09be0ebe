"""Vocabularies over all their versions, and the dictionary of one version."""

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
from amanda.dictionary.signature import format_definition, parse_definition
from amanda.dictionary.type_patterns import SignatureScanner
from amanda.errors import NamespaceError

if TYPE_CHECKING:
    from amanda.dictionary.differences import Difference
    from amanda.dictionary.op_builder import OpBuilder
    from amanda.dictionary.validation import FindDictionary, Problem
    from amanda.graph import Graph, Op

__all__ = ["Dictionary", "DictionaryHistory", "OpRecord"]

_SHOWN = 8
"""Overloads that a message names."""


class OpRecord:
    """What a history holds of one op, read from its lines; entries made when asked."""

    __slots__ = ("_entries", "_history", "block", "places")

    def __init__(self, history: DictionaryHistory, block: OpHistory) -> None:
        self._history = history
        self.block = block
        self.places = [history.order[version] for version, _ in block.steps]
        self._entries: dict[int, OpDef] = {}

    def step(self, at: int) -> int | None:
        """Which definition holds in the version of place `at`, if one does."""
        found = None
        for i, place in enumerate(self.places):
            if place > at:
                break
            found = i
        if found is None or self.block.steps[found][1] == GONE:
            return None
        return found

    def entry(self, step: int) -> OpDef:
        """The definition of a step."""
        made = self._entries.get(step)
        if made is None:
            steps = self.block.steps
            since, text = steps[step]
            until = steps[step + 1][0] if step + 1 < len(steps) else None
            name, doc = self.block.name, self.block.doc
            made = parse_definition(name, SignatureScanner(text), since, until, doc)
            self._entries[step] = made
        return made

    def spans(self) -> Iterator[tuple[str, str | None]]:
        """The versions in which the op is there: from, and where it went."""
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
    """All versions of one vocabulary. Reads its file when it is first asked.

    `read` gives the content of the data file; `sibling` finds the history of another
    path that came with this one, for graphs that use several.
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
        self._records: dict[str, OpRecord | None] = {}
        self._opened: dict[str, Dictionary] = {}

    @cached_property
    def _data(self) -> bytes:
        return self._read()

    def clear_cache(self) -> None:
        """What was read before is read anew."""
        for name in ("_data", "header", "order", "names"):
            self.__dict__.pop(name, None)
        self._records.clear()
        self._opened.clear()

    @cached_property
    def header(self) -> DictionaryHeader:
        """What holds for the vocabulary as a whole."""
        return datafile.parse_header(self._data, self.path)

    @cached_property
    def order(self) -> Mapping[str, int]:
        """The place of each version."""
        return {version: i for i, version in enumerate(self.header.versions)}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Every op that any version has, sorted."""
        return tuple(name for name, _ in datafile.list_ops(self._data))

    def versions(self) -> tuple[str, ...]:
        """Oldest first."""
        return self.header.versions

    def at(self, version: str, *, assume: bool = False) -> Dictionary:
        """The dictionary of one version.

        An unknown version is an error; with `assume` the nearest lower one stands for
        it, and the dictionary says so in `assumed`.
        """
        known = {self.path: self.header.versions}
        found = resolve_name(f"{self.path}/{version}", known, assume=assume)
        if found.version is None or found.version not in self.order:
            raise NamespaceError(f"{self.path} has no versions")
        return self._open(version, found.version)

    def _open(self, asked: str, version: str) -> Dictionary:
        made = self._opened.get(asked)
        if made is None:
            made = self._opened[asked] = Dictionary(self, version, asked)
        return made

    def record(self, op_type: str) -> OpRecord | None:
        """What there is of an op, in all versions."""
        try:
            return self._records[op_type]
        except KeyError:
            found = datafile.find_op_history(self._data, op_type)
            record = None if found is None else OpRecord(self, found)
            if record is not None or len(self._records) < 1 << 16:
                self._records[op_type] = record
            return record

    def __repr__(self) -> str:
        return f"<the vocabulary {self.path}>"


class Dictionary:
    """What one version of one framework calls its ops: a mapping of types to entries.

    - `name`: the full name of the namespace, `amanda/onnx/18`
    - `assumed`: the version that stands for the one asked for; None where it is known
    """

    def __init__(
        self, history: DictionaryHistory, version: str, asked: str | None = None
    ) -> None:
        self.history = history
        self.place = history.order[version]
        same = asked is None or asked == version
        known = same or version_key(asked or "") == version_key(version)
        self.version = version if known or asked is None else asked
        self.assumed = None if known else version
        self.name = str(Name(history.path, self.version))
        self.made: dict[Any, Any] = {}  # what those who use it keep for each op type

    @classmethod
    def of(cls, namespace: Namespace) -> Dictionary | None:
        """Any namespace whose entries are `OpDef`s, with all that a dictionary can do.

        None where its entries are something else.
        """
        if isinstance(namespace, Dictionary):
            return namespace
        entries = [namespace[name] for name in namespace]
        path, version = parse_name(namespace.name)
        if version is None or not all(isinstance(entry, OpDef) for entry in entries):
            return None
        head = DictionaryHeader(path, (version,))
        ops = [
            OpHistory(e.name, e.doc, ((version, format_definition(e)),))
            for e in entries
        ]
        return DictionaryHistory(path, lambda: datafile.encode_data_file(head, ops)).at(
            version
        )

    @property
    def path(self) -> str:
        return self.history.path

    @property
    def header(self) -> DictionaryHeader:
        return self.history.header

    def get(self, op_type: object) -> OpDef | None:
        """The entry of an op, or None."""
        if not isinstance(op_type, str):
            return None
        record = self.history.record(op_type)
        step = None if record is None else record.step(self.place)
        return None if record is None or step is None else record.entry(step)

    def __getitem__(self, op_type: str, /) -> OpDef:
        found = self.get(op_type)
        if found is None:
            raise NamespaceError(
                f"{Name(self.path, self.version).short} has no op {op_type!r}",
                hint=self.instead(op_type),
            )
        return found

    def __getattr__(self, op_type: str) -> OpDef:
        """`onnx.Relu`, the same object each time, where no method is called so."""
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
        return record is not None and record.step(self.place) is not None

    def __iter__(self) -> Iterator[str]:
        """Op types, sorted."""
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(name for name in self.history.names if name in self)

    def values(self) -> Iterator[OpDef]:
        """Every entry, sorted by its name."""
        return (self[name] for name in self._names)

    def overloads(self, name: str) -> list[OpDef]:
        """The ops that are called so, whatever they take: `aten.add` of PyTorch's.

        Where a vocabulary has no overloads, that is the op itself.
        """
        mark = self.header.overload
        found = [self.get(name)]
        if mark and found == [None]:
            within = (other for other in self._names if other.startswith(name + mark))
            found += [self.get(o) for o in within if o.rpartition(mark)[0] == name]
        return [entry for entry in found if entry is not None]

    def tagged(self, tag: str) -> list[OpDef]:
        """The ops that the framework gives a tag, such as `core`."""
        return [entry for entry in self.values() if entry.tag(tag) is not None]

    def search(self, text: str) -> list[OpDef]:
        """The ops whose names or doc lines have every word of `text` in them."""
        words = text.lower().split()
        found = []
        for name in self._names:
            record = self.history.record(name)
            assert record is not None
            told = f"{name} {record.block.doc}".lower()
            if all(word in told for word in words):
                found.append(self[name])
        return found

    def instead(self, op_type: str) -> str | None:
        """What who asked for an op that is not there may have meant."""
        record = self.history.record(op_type)
        if record is not None:
            told = [_span(Name(self.path, a).short, b) for a, b in record.spans()]
            return f"it is there {' and '.join(told)}"
        overloads = self.overloads(op_type)
        if overloads:
            names = ", ".join(entry.name for entry in overloads[:_SHOWN])
            more = len(overloads) - _SHOWN
            return f"which one: {names}{f' and {more} more' if more > 0 else ''}?"
        return suggest_names(op_type, self._names)

    def signature(self, op_type: str, /) -> Signature | None:
        """What a mapping asks of an op; None where it is not there."""
        entry = self.get(op_type)
        return None if entry is None else signature_of(entry, self.header)

    def diff(self, other: Dictionary, only: str | None = None) -> Difference:
        """What `other` has that is not here, or is another, and what it lacks.

        With `only`, as far as one op goes.
        """
        from amanda.dictionary.differences import compare_dictionaries

        return compare_dictionaries(self, other, only)

    def build(self, graph: Graph) -> OpBuilder:
        """Adds ops to a graph, each checked: `onnx.build(graph).Relu(x)`."""
        from amanda.dictionary.op_builder import OpBuilder

        return OpBuilder(self, graph)

    def fill(self, graph: Graph) -> list[tuple[Op, str]]:
        """Gives ops the attributes that they leave to their defaults; which it gave."""
        from amanda.dictionary.defaults import fill_defaults

        return fill_defaults(graph, self)

    def strip(self, graph: Graph, only: Iterable[tuple[Op, str]] | None = None) -> int:
        """Takes away attributes that say what their defaults say; how many there were.

        With `only`, none but these: what `fill` gave goes, and the graph is as before.
        """
        from amanda.dictionary.defaults import strip_defaults

        return strip_defaults(graph, self, only)

    def validate(
        self, graph: Graph, find: FindDictionary | None = None
    ) -> list[Problem]:
        """Every fault of a graph of this namespace.

        Ops of other namespaces are looked up with `find`, or beside this dictionary.
        """
        from amanda.dictionary.validation import check_graph

        return check_graph(graph, find, against=self).problems

    def __repr__(self) -> str:
        assumed = "" if self.assumed is None else f", as of {self.assumed}"
        return f"<the dictionary {self.name}{assumed}>"


def suggest_names(name: str, known: Iterable[str]) -> str | None:
    """The names that somebody who wrote `name` may have meant, as a question."""
    names = list(known)
    exact = [other for other in names if other.lower() == name.lower()]
    near = exact or get_close_matches(name, names, n=3, cutoff=0.7)
    if not near:
        return None
    return f"did you mean {' or '.join(map(repr, near))}?"


def _span(start: str, end: str | None) -> str:
    return f"from {start} on" if end is None else f"from {start} on, until {end}"
