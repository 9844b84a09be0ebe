"""Documents to parsed graphs: the schema of YAML and JSON.

A document with a version number (`amanda: 1`) is exact. One without follows any
revision of the published specification: names and kinds may be in `attrs`, a port type
may be any text, `attrs` may be a list of keys and values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NoReturn

from amanda.errors import AmandaError, FormatError, InvalidTypeError, LimitError
from amanda.files.text.construct.parsed_graph import (
    Address,
    End,
    ParsedEdge,
    ParsedEntry,
    ParsedGraph,
    ParsedOp,
    ParsedPort,
    Ports,
    Where,
)
from amanda.files.text.document.attribute_values import ValueDecoder
from amanda.files.text.syntax.plain_data import (
    Path,
    Plain,
    Tagged,
    extend_path,
    locate_error,
    quote_short,
)
from amanda.graph import is_version
from amanda.types import OpaqueType, Symbols, Type, parse_type

__all__ = ["MAX_COUNT", "VERSION", "DocumentReader"]

VERSION = 1
MAX_COUNT = 255  # ports given by their number; more are listed

_GRAPH_ONLY = frozenset({"ops", "edges", "functions", "entries", "imports"})
_PORT_KEYS = frozenset({"name", "type", "attrs", "marks"})
_OTHERS = {
    "namespace": "a namespace schema",
    "namespace_schema": "a namespace schema",
    "table": "a mapping table",
}
_KINDS = {
    dict: "a map",
    list: "a list",
    str: "text",
    bool: "true or false",
    int: "an int",
    float: "a float",
    type(None): "null",
}


class DocumentReader:
    """Reads one document."""

    def __init__(self, where: Where) -> None:
        self.where = where
        self.exact = False
        self.symbols = Symbols()
        self.decoder = ValueDecoder(self.symbols, where)
        self.table: list[Plain] = []
        self.used: set[int] = set()
        # nested parts to read next, instead of recursion
        self.pending: list[Callable[[], None]] = []
        self.types: dict[str, Type] = {}

    # -- the top -----------------------------------------------------------------

    def document(self, data: Plain) -> ParsedOp | ParsedEdge:
        """The graph, op or edge that a document describes."""
        if isinstance(data, str):
            return self._edge(data, None)
        top = self._map(data, None)
        top = {key: value for key, value in top.items() if not key.startswith("x-")}
        made = self._read_exact(top) if "amanda" in top else self._read_published(top)
        self._finish()
        return made

    def _read_exact(self, top: dict[str, Plain]) -> ParsedOp:
        version = top.pop("amanda")
        path = Path(None, "amanda")
        if type(version) is not int or version < 1:
            self._refuse("the version of the schema is a number", path, got=version)
        if version > VERSION:
            self._refuse(
                "the document was written by a newer Amanda",
                path,
                expected=f"version {VERSION} or older",
                got=f"version {version}",
                hint="update amanda-core",
            )
        self.exact = True
        self._check_keys(top, {"graph", "graphs"}, None)
        if "graph" not in top:
            self._refuse("the document holds no graph", None)
        table = top.get("graphs", [])
        self.table = self._list(table, Path(None, "graphs"))
        return self._op(top["graph"], Path(None, "graph"), None, is_graph=True)

    def _read_published(self, top: dict[str, Plain]) -> ParsedOp | ParsedEdge:
        if len(top) != 1:
            if "ops" in top:
                return self._op(top, None, None, is_graph=True)
            self._refuse(
                "the document is not one graph, op or edge",
                None,
                expected="one of the keys graph, op, subgraph, edge, or an op's name",
                got=", ".join(map(quote_short, list(top)[:10])) or "nothing",
            )
        ((key, value),) = top.items()
        path = Path(None, key)
        if key == "edge":
            return self._edge(value, path)
        if key in _OTHERS:
            self._refuse(f"the document is {_OTHERS[key]}, not a graph", path)
        name = None if key in ("graph", "op", "subgraph") else key
        return self._op(value, path, name, is_graph=key in ("graph", "subgraph"))

    def _finish(self) -> None:
        while self.pending:
            self.pending.pop()()
        unused = set(range(len(self.table))) - self.used
        if unused:
            path = Path(Path(None, "graphs"), min(unused))
            self._refuse("a graph of the table stands in no place", path)

    # -- ops and graphs ------------------------------------------------------------

    def _op(
        self, data: Plain, path: Path | None, name: str | None, is_graph: bool = False
    ) -> ParsedOp:
        fields = {} if data is None else self._map(data, path)
        if type(fields.get("graph")) is int:
            self._check_keys(fields, {"name", "graph"}, path)
            own = self._text(fields.get("name"), extend_path(path, "name"))
            return self._from_table(
                fields["graph"], extend_path(path, "graph"), name or own
            )
        if is_graph or not _GRAPH_ONLY.isdisjoint(fields):
            plan: ParsedOp = ParsedGraph(path)
        else:
            plan = ParsedOp(path)
        plan.name = name
        for key, value in fields.items():
            read = _FIELDS.get(key)
            if read is not None:
                read(self, plan, value, Path(path, key))
            elif key == "bodies":
                at = Path(path, key)
                self.pending.append(partial(self._bodies, plan, value, at))
            elif key not in _GRAPH_ONLY:
                self._unknown_key(plan, key, value, Path(path, key))
        if not self.exact and plan.attrs:
            self._lift_builtin_attrs(plan)
        if isinstance(plan, ParsedGraph):
            self.pending.append(partial(self._inside, plan, fields, path))
        return plan

    def _from_table(self, index: int, path: Path | None, name: str | None) -> ParsedOp:
        if not 0 <= index < len(self.table):
            self._refuse(
                "no such graph in the table `graphs`",
                path,
                expected=f"an index below {len(self.table)}",
                got=index,
            )
        if index in self.used:
            self._refuse(f"graph {index} of the table stands in two places", path)
        self.used.add(index)
        row = self.table[index]
        if isinstance(row, dict) and type(row.get("graph")) is int:
            self._refuse("a graph of the table is only a pointer to another", path)
        there = Path(Path(None, "graphs"), index)
        return self._op(row, there, name, is_graph=True)

    def _unknown_key(self, plan: ParsedOp, key: str, value: Plain, path: Path) -> None:
        if key.startswith("x-"):
            return
        if key == "default_type_system" and not self.exact:
            plan.attrs = {**(plan.attrs or {}), key: self._text(value, path)}
            return
        known = [*_FIELDS, "bodies", *sorted(_GRAPH_ONLY)]
        self._refuse(
            f"an op or graph has no field {quote_short(key)}",
            path,
            expected=", ".join(known),
            hint="what the framework calls so belongs into `attrs`",
        )

    def _lift_builtin_attrs(self, plan: ParsedOp) -> None:
        """Move built-in attributes, which the published form has in `attrs`."""
        assert plan.attrs is not None
        for key in ("name", "type", "namespace"):
            if getattr(plan, key) is None and isinstance(plan.attrs.get(key), str):
                setattr(plan, key, plan.attrs.pop(key))

    def _inside(
        self, plan: ParsedGraph, fields: dict[str, Plain], path: Path | None
    ) -> None:
        plan.ops = list(self._ops(fields.get("ops"), Path(path, "ops")))
        edges_at = Path(path, "edges")
        for i, edge in enumerate(self._list(fields.get("edges"), edges_at)):
            plan.edges.append(self._edge(edge, Path(edges_at, i)))
        for name, version in self._map(fields.get("imports"), path, "imports").items():
            if not is_version(version):
                at = extend_path(path, "imports", name)
                self._refuse("the version of a domain is an int64", at, got=version)
            plan.imports = {**(plan.imports or {}), name: version}
        functions = self._map(fields.get("functions"), path, "functions")
        if functions:
            plan.functions = {
                name: self._graph(value, extend_path(path, "functions", name))
                for name, value in functions.items()
            }
        entries = self._map(fields.get("entries"), path, "entries")
        if entries:
            plan.entries = {
                name: self._entry(value, extend_path(path, "entries", name))
                for name, value in entries.items()
            }

    def _graph(self, data: Plain, path: Path | None) -> ParsedGraph:
        plan = self._op(data, path, None, is_graph=True)
        assert isinstance(plan, ParsedGraph)
        return plan

    def _ops(self, data: Plain, path: Path) -> Iterator[ParsedOp]:
        if isinstance(data, dict):
            for name, value in data.items():
                at = Path(path, name)
                plan = self._op(value, at, name)
                if plan.name != name:
                    self._duplicate_name(at, name, plan.name)
                yield plan
            return
        for i, value in enumerate(self._list(data, path)):
            yield self._op(self._map(value, Path(path, i)), Path(path, i), None)

    def _bodies(self, plan: ParsedOp, data: Plain, path: Path) -> None:
        plan.bodies = {
            name: self._graph(value, Path(path, name))
            for name, value in self._map(data, path).items()
        }

    def _entry(self, data: Plain, path: Path | None) -> ParsedEntry:
        sides = self._map(data, path)
        self._check_keys(sides, {"inputs", "outputs"}, path)
        ends = [
            {
                label: self._end(value, extend_path(path, side, label))
                for label, value in self._map(sides.get(side), path, side).items()
            }
            for side in ("inputs", "outputs")
        ]
        return ParsedEntry(ends[0], ends[1], path)

    # -- simple fields ---------------------------------------------------------------

    def _name(self, plan: ParsedOp, data: Plain, path: Path) -> None:
        name = self._text(data, path)
        if plan.name is not None and name != plan.name:
            self._duplicate_name(path, plan.name, name)
        plan.name = name

    def _type(self, plan: ParsedOp, data: Plain, path: Path) -> None:
        plan.type = self._text(data, path)

    def _namespace(self, plan: ParsedOp, data: Plain, path: Path) -> None:
        plan.namespace = self._text(data, path)

    def _own_attrs(self, plan: ParsedOp, data: Plain, path: Path) -> None:
        attrs = self.attrs(data, path)
        plan.attrs = attrs if plan.attrs is None else {**plan.attrs, **attrs}

    def _inputs(self, plan: ParsedOp, data: Plain, path: Path) -> None:
        plan.inputs = self._ports(data, path)

    def _outputs(self, plan: ParsedOp, data: Plain, path: Path) -> None:
        plan.outputs = self._ports(data, path)

    def _feedback(self, plan: ParsedOp, data: Plain, path: Path) -> None:
        if type(data) is not bool:
            self._refuse("`feedback` is true or false", path, got=_kind(data))
        plan.feedback = data

    def _provenance(self, plan: ParsedOp, data: Plain, path: Path) -> None:
        fields = self._map(data, path)
        self._check_keys(fields, {"sources", "by"}, path)
        by = self._text(fields.get("by"), Path(path, "by"))
        if by is None:
            self._refuse("`provenance` says by what the op was made", path)
        sources = self._texts(fields.get("sources"), Path(path, "sources"))
        plan.provenance = (tuple(sources), by)

    # -- ports, edges, attributes ----------------------------------------------------

    def attrs(self, data: Plain, path: Path) -> dict[str, Any]:
        if data is None:
            return {}
        if isinstance(data, list):
            return self._pairs(data, path)
        return {
            key: self.decoder.value(value, Path(path, key))
            for key, value in self._map(data, path).items()
        }

    def _pairs(self, data: list[Plain], path: Path) -> dict[str, Any]:
        """The oldest published form of attributes: `- key: k` with `value: v`."""
        attrs: dict[str, Any] = {}
        for i, item in enumerate(data):
            at = Path(path, i)
            pair = self._map(item, at)
            self._check_keys(pair, {"key", "value"}, at)
            key = pair.get("key")
            if type(key) is not str or "value" not in pair:
                self._refuse("an attribute is a key and a value", at)
            if key in attrs:
                self._refuse(f"the attribute {quote_short(key)} stands twice", at)
            attrs[key] = self.decoder.value(pair["value"], Path(at, "value"))
        return attrs

    def _ports(self, data: Plain, path: Path) -> Ports:
        if data is None:
            return 0
        if type(data) is int:
            if not 0 <= data <= MAX_COUNT:
                raise LimitError(
                    "too many ports are claimed by a number",
                    where=self.where(path),
                    expected=f"0 to {MAX_COUNT}; list the ports where there are more",
                    got=f"{data:,}" if abs(data) < 1 << 64 else "a much larger number",
                )
            return data
        if isinstance(data, dict):
            return [self._port_of(k, v, Path(path, k)) for k, v in data.items()]
        ports = []
        for i, item in enumerate(self._list(data, path)):
            at = Path(path, i)
            if type(item) is str:
                ports.append(ParsedPort(item, None, at))
                continue
            fields = self._map(item, at)
            if len(fields) == 1 and _PORT_KEYS.isdisjoint(fields):
                ((name, value),) = fields.items()
                ports.append(self._port_of(name, value, Path(at, name)))
            else:
                ports.append(self._port(fields, at))
        return ports

    def _port_of(self, name: str, value: Plain, path: Path) -> ParsedPort:
        if isinstance(value, dict):
            port = self._port(value, path)
            if port.name is not None and port.name != name:
                self._duplicate_name(path, name, port.name)
            port.name = name
            return port
        return ParsedPort(name, self._port_type(value, path), path)

    def _port(self, fields: dict[str, Plain], path: Path) -> ParsedPort:
        self._check_keys(fields, _PORT_KEYS, path)
        port = ParsedPort(None, None, path)
        if "type" in fields:
            port.type = self._port_type(fields["type"], Path(path, "type"))
        if "attrs" in fields:
            port.attrs = self.attrs(fields["attrs"], Path(path, "attrs"))
        if "marks" in fields:
            port.marks = self._texts(fields["marks"], Path(path, "marks"))
        port.name = self._text(fields.get("name"), Path(path, "name"))
        if port.name is None and port.attrs and not self.exact:
            name = port.attrs.get("name")
            if isinstance(name, str):
                port.name = name
                del port.attrs["name"]
        return port

    def _port_type(self, data: Plain, path: Path) -> Type | None:
        if data is None:
            return None
        if isinstance(data, Tagged) and data.tag in ("type", "opaque"):
            made: Type = self.decoder.value(data, path)
            return made
        if type(data) is not str:
            self._refuse("the type of a port is text", path, got=_kind(data))
        known = self.types.get(data)
        if known is not None:
            return known
        try:
            made = parse_type(data, self.symbols)
            if "?" not in data:  # an anonymous dim is new each time
                self.types[data] = made
            return made
        except AmandaError as error:
            if isinstance(error, InvalidTypeError) and not self.exact:
                return OpaqueType(data)
            error.hint = error.hint or "types of other systems are tagged `opaque`"
            raise locate_error(error, self.where(path)) from error

    def _edge(self, data: Plain, path: Path | None) -> ParsedEdge:
        if type(data) is str:
            parts = data.split(" -> ")
            if len(parts) != 2:
                parts = data.split("->")
            if len(parts) != 2 or not all(part.strip() for part in parts):
                self._refuse(
                    "this is not an edge", path,
                    expected="op.port -> op.port", got=quote_short(data),
                )  # fmt: skip
            return ParsedEdge(parts[0].strip(), parts[1].strip(), path)
        fields = dict(self._map(data, path))
        if "input_port" not in fields and "input_ports" in fields:
            fields["input_port"] = fields.pop("input_ports")
        self._check_keys(fields, {"output_port", "input_port", "attrs"}, path)
        ends = []
        for side in ("output_port", "input_port"):
            if side not in fields:
                self._refuse(f"an edge without `{side}`", path)
            ends.append(self._end(fields[side], Path(path, side)))
        attrs = None
        if "attrs" in fields:
            attrs = self.attrs(fields["attrs"], Path(path, "attrs"))
        return ParsedEdge(ends[0], ends[1], path, attrs)

    def _end(self, data: Plain, path: Path | None) -> End:
        if type(data) is str:
            return data
        fields = self._map(data, path)
        self._check_keys(fields, {"op", "port", "up"}, path)
        op, port, up = fields.get("op"), fields.get("port"), fields.get("up", 0)
        if op is not None and type(op) not in (str, int):
            self._refuse("an op is named by text or index", path, got=_kind(op))
        if type(port) is not str and type(port) is not int:
            self._refuse("a port is named by text or index", path, got=_kind(port))
        if type(up) is not int or not 0 <= up < 1 << 30:
            self._refuse("`up` counts the graphs between", path, got=up)
        return Address(op, port, up)

    # -- kinds of plain values -------------------------------------------------------

    def _refuse(self, message: str, path: Path | None, **parts: Any) -> NoReturn:
        got = parts.get("got")
        if got is not None:
            parts["got"] = got[:200] if isinstance(got, str) else repr(got)[:80]
        raise FormatError(message, where=self.where(path), **parts)

    def _duplicate_name(self, path: Path | None, *names: str | None) -> NoReturn:
        self._refuse(
            "two names for one thing", path, got=", ".join(map(quote_short, names))
        )

    def _map(
        self, data: Plain, path: Path | None, step: str | None = None
    ) -> dict[str, Plain]:
        if data is None and step is not None:
            return {}
        if not isinstance(data, dict):
            at = path if step is None else Path(path, step)
            self._refuse("this must be a map", at, got=_kind(data))
        return data

    def _list(self, data: Plain, path: Path | None) -> list[Plain]:
        if data is None:
            return []
        if not isinstance(data, list):
            self._refuse("this must be a list", path, got=_kind(data))
        return data

    def _text(self, data: Plain, path: Path | None) -> str | None:
        if data is not None and type(data) is not str:
            hint = "put it in quotes" if isinstance(data, int | float) else None
            self._refuse("this must be text", path, got=_kind(data), hint=hint)
        return data

    def _texts(self, data: Plain, path: Path) -> list[str]:
        items = self._list(data, path)
        for i, item in enumerate(items):
            if type(item) is not str:
                self._refuse("this must be text", Path(path, i), got=_kind(item))
        return items

    def _check_keys(self, fields: Any, known: Any, path: Path | None) -> None:
        for key in fields:
            if key not in known and not key.startswith("x-"):
                self._refuse(
                    f"{quote_short(key)} means nothing here",
                    Path(path, key),
                    expected=", ".join(sorted(known)),
                )


def _kind(data: Plain) -> str:
    if isinstance(data, Tagged):
        return f"a value tagged {data.tag}"
    return _KINDS.get(type(data), type(data).__name__)


_FIELDS: dict[str, Callable[[DocumentReader, ParsedOp, Plain, Path], None]] = {
    "type": DocumentReader._type,
    "name": DocumentReader._name,
    "namespace": DocumentReader._namespace,
    "attrs": DocumentReader._own_attrs,
    "input_ports": DocumentReader._inputs,
    "output_ports": DocumentReader._outputs,
    "feedback": DocumentReader._feedback,
    "provenance": DocumentReader._provenance,
}
