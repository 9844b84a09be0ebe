"""The readable form to parsed graphs: statements in order, with a stack of graphs.

docs/text-forms.md has the grammar.
"""

from __future__ import annotations

from amanda.files.text.construct.parsed_graph import (
    Address,
    ParsedEdge,
    ParsedEntry,
    ParsedGraph,
    ParsedOp,
    ParsedPort,
)
from amanda.files.text.readable.attribute_parser import ValueParser
from amanda.files.text.readable.printer import VERSION
from amanda.files.text.readable.tokens import Token, Tokens
from amanda.files.text.syntax.plain_data import quote_short
from amanda.graph import CONSTANT, CORE, is_version

__all__ = ["ReadableParser"]

_SIGNAL = -1


class ReadableParser:
    """Parses one text."""

    def __init__(self, text: str, name: str) -> None:
        self.tokens = Tokens(text, name)
        self.values = ValueParser(self.tokens)
        self.open: list[ParsedGraph] = []
        self.root: ParsedGraph | None = None

    def plan(self) -> ParsedGraph:
        tokens = self.tokens
        self._version()
        start = tokens.expect("graph").start
        root = ParsedGraph(start)
        self._title(root)
        self._header(root)
        while self.open:
            self._statement(self.open[-1])
        if tokens.here.kind != "end":
            raise tokens.unexpected_error("the end of the text")
        return root

    def _version(self) -> None:
        tokens = self.tokens
        if not tokens.at("amanda"):
            raise tokens.unexpected_error(f"`amanda {VERSION}` at the start")
        tokens.next()
        token = tokens.here
        if token.kind != "number" or not token.text.isdecimal() or len(token.text) > 9:
            raise tokens.unexpected_error("the number of a version")
        if int(token.text) > VERSION:
            raise tokens.error(
                "the text was written by a newer Amanda",
                token.start,
                expected=f"version {VERSION} or older",
                got=f"version {token.text}",
                hint="update amanda-core",
            )
        if int(token.text) < 1:
            raise tokens.unexpected_error("a version from 1 on")
        tokens.next()

    # -- graphs ------------------------------------------------------------------------

    def _title(self, plan: ParsedGraph) -> None:
        """`%name = Type in "namespace" made by ...`, all optional."""
        tokens = self.tokens
        if tokens.here.kind == "value" and tokens.here.text[0] == "%":
            plan.name = self._text_of(tokens.next())
        if tokens.consume_if("="):
            plan.type = self._op_type()
        while self._clause(plan):
            pass

    def _header(self, plan: ParsedGraph) -> None:
        """Ports and the brace that opens the graph."""
        plan.inputs = self._ports("$")
        self.tokens.expect("->")
        plan.outputs = self._ports("")
        self.tokens.expect("{")
        self.open.append(plan)

    def _statement(self, graph: ParsedGraph) -> None:
        tokens = self.tokens
        token = tokens.here
        if token.kind == "value" and token.text[0] == "%":
            self._op(graph)
        elif tokens.consume_if("}"):
            self.open.pop()
        elif token.kind == "word" and token.text in _STATEMENTS:
            tokens.next()
            _STATEMENTS[token.text](self, graph)
        else:
            words = ", ".join(f"`{word}`" for word in _STATEMENTS)
            raise tokens.unexpected_error(f"an op, {words} or `}}`")

    def _attrs(self, graph: ParsedGraph) -> None:
        graph.attrs = {**(graph.attrs or {}), **self.values.attrs()}

    def _imports(self, graph: ParsedGraph) -> None:
        start = self.tokens.here.start
        graph.imports = self.values.attrs()
        for domain, version in graph.imports.items():
            if not is_version(version):
                raise self.tokens.error(
                    f"the version of domain {quote_short(domain)} is an int64",
                    start,
                    got=quote_short(version),
                )

    def _body(self, graph: ParsedGraph) -> None:
        start = self.tokens.here.start
        label = self.values.name("the name of a body")
        if not graph.ops:
            raise self.tokens.error("a body without an op before it", start)
        op = graph.ops[-1]
        if op.bodies is None:
            op.bodies = {}
        if label in op.bodies:
            raise self.tokens.error(
                f"the op has a body {quote_short(label)} already", start
            )
        op.bodies[label] = body = ParsedGraph(start)
        self._title(body)
        self._header(body)

    def _function(self, graph: ParsedGraph) -> None:
        start = self.tokens.here.start
        label = self.values.name("the name of a function")
        if graph.functions is None:
            graph.functions = {}
        if label in graph.functions:
            raise self.tokens.error(f"a second function {quote_short(label)}", start)
        graph.functions[label] = function = ParsedGraph(start)
        self._title(function)
        self._header(function)

    def _entry(self, graph: ParsedGraph) -> None:
        start = self.tokens.here.start
        label = self.values.name("the name of an entry")
        if graph.entries is None:
            graph.entries = {}
        if label in graph.entries:
            raise self.tokens.error(f"a second entry {quote_short(label)}", start)
        inputs = self._labels()
        self.tokens.expect("->")
        graph.entries[label] = ParsedEntry(inputs, self._labels(), start)

    def _labels(self) -> dict[str, Address]:
        tokens = self.tokens
        tokens.expect("(")
        found: dict[str, Address] = {}
        while not tokens.at(")"):
            start = tokens.here.start
            label = self.values.name("a name")
            tokens.expect("=")
            if label in found:
                raise tokens.error(f"the name {quote_short(label)} stands twice", start)
            found[label] = self._ref()
            if not tokens.consume_if(","):
                break
        tokens.expect(")")
        return found

    def _return(self, graph: ParsedGraph) -> None:
        tokens = self.tokens
        assert not isinstance(graph.outputs, int)
        i = 0
        while tokens.here.kind == "value" or tokens.here.text[:1] in ("_", "^"):
            start = tokens.here.start
            if i >= len(graph.outputs):
                raise tokens.error(
                    "more results than the graph has",
                    start,
                    expected=f"{len(graph.outputs)}",
                )
            self._read(graph, Address(None, i))
            i += 1
            if not tokens.consume_if(","):
                break
        if i < len(graph.outputs):
            raise tokens.unexpected_error(
                f"result {i + 1} of {len(graph.outputs)}, or `_`"
            )
        if tokens.consume_if("after"):
            self._signals(graph, Address(None, _SIGNAL))

    # -- ops ---------------------------------------------------------------------------

    def _op(self, graph: ParsedGraph) -> None:
        tokens = self.tokens
        token = tokens.next()
        plan = ParsedOp(token.start)
        index = len(graph.ops)
        digits = token.text[1:]
        if not digits.isdecimal():
            plan.name = self._text_of(token)
        elif digits != str(index):
            raise tokens.error(
                "an op without a name is called by its position",
                token.start,
                expected=f"%{index}",
                got=token.text[:40],
                hint='write a name of digits in quotes: %"..."',
            )
        tokens.expect("=")
        plan.outputs = 1
        word = tokens.here
        if word.text == "tensor" and tokens.text.startswith("<", word.end):
            self._constant(plan)
        else:
            plan.type = self._op_type()
            self._inputs(graph, plan, index)
            if tokens.at("{"):
                plan.attrs = self.values.attrs()
        if tokens.consume_if(":"):
            plan.outputs = self._outputs()
        graph.ops.append(plan)
        while self._clause(plan, graph, index):
            pass
        if tokens.at("graph"):
            graph.ops[index] = self._subgraph(plan)

    def _op_type(self) -> str | None:
        if self.tokens.consume_if("_"):
            return None
        return self.values.name("the type of an op")

    def _constant(self, plan: ParsedOp) -> None:
        tensor = self.values.tensor(self.tokens.here)
        plan.type, plan.namespace, plan.attrs = CONSTANT, CORE, {"value": tensor}
        plan.outputs = [ParsedPort(None, tensor.type)]

    def _subgraph(self, plan: ParsedOp) -> ParsedGraph:
        """Read the ports and the ops of an op that is a graph."""
        if plan.outputs != 1:
            raise self.tokens.error(
                "the outputs of a graph stand in its header", self.tokens.here.start
            )
        self.tokens.expect("graph")
        graph = ParsedGraph(plan.place)
        for field in ("type", "name", "namespace", "attrs", "feedback", "provenance"):
            setattr(graph, field, getattr(plan, field))
        self._header(graph)
        assert not isinstance(plan.inputs, int)
        assert not isinstance(graph.inputs, int)
        if len(plan.inputs) != len(graph.inputs):
            raise self.tokens.error(
                "a graph gets another number of inputs than it has",
                plan.place,
                expected=f"{len(graph.inputs)}",
                got=f"{len(plan.inputs)}",
            )
        for port in plan.inputs:
            if port.name is not None or port.attrs:
                raise self.tokens.error(
                    "names and attributes of a graph's ports stand in its header",
                    port.place,
                )
        return graph

    def _inputs(self, graph: ParsedGraph, plan: ParsedOp, index: int) -> None:
        tokens = self.tokens
        tokens.expect("(")
        ports: list[ParsedPort] = []
        while not tokens.at(")"):
            token = tokens.here
            port = ParsedPort(None, None, token.start)
            if token.kind in ("word", "text") and token.text != "_":
                port.name = self.values.name("a value, or the name of an input")
                tokens.expect("=")
            self._read(graph, Address(index, len(ports)), port)
            ports.append(port)
            if not tokens.consume_if(","):
                break
        tokens.expect(")")
        plan.inputs = ports

    def _read(
        self, graph: ParsedGraph, target: Address, port: ParsedPort | None = None
    ) -> None:
        """An input: a value or `_`, with name and attributes of port and edge."""
        tokens = self.tokens
        start = tokens.here.start
        source = None if tokens.consume_if("_") else self._ref()
        attrs = None
        while tokens.at("edge") or tokens.at("port"):
            word = tokens.next()
            found = self.values.attrs()
            if word.text == "edge" and source is not None:
                attrs = found
            elif word.text == "port" and port is not None:
                port.attrs = found
            else:
                raise tokens.error(f"there is no {word.text} here", word.start)
        if source is not None:
            graph.edges.append(ParsedEdge(source, target, start, attrs))

    def _ref(self) -> Address:
        """`%op`, `%op#1`, `$input`, each with a `^` for every graph further out."""
        tokens = self.tokens
        up = 0
        if tokens.here.kind == "mark" and tokens.here.text[0] == "^":
            up = len(tokens.next().text)
        token = tokens.here
        if token.kind != "value":
            raise tokens.unexpected_error("a value such as %op or $input")
        tokens.next()
        digits = token.text[1:]
        key = self._index(token) if digits.isdecimal() else self._text_of(token)
        if token.text[0] == "$":
            return Address(None, key, up)
        port = 0
        if tokens.consume_if("#"):
            number = tokens.here
            if number.kind != "number":
                raise tokens.unexpected_error("the index of an output")
            port = self._index(tokens.next(), 0)
        return Address(key, port, up, exact=True)

    def _index(self, token: Token, start: int = 1) -> int:
        digits = token.text[start:]
        if not digits.isdecimal() or len(digits) > 18:
            raise self.tokens.error("not an index", token.start, got=token.text[:40])
        return int(digits)

    def _text_of(self, token: Token) -> str:
        """The name after a sign."""
        if token.text[1] == '"':
            return self.tokens.unquote(token, 1)
        return token.text[1:]

    def _outputs(self) -> list[ParsedPort]:
        tokens = self.tokens
        if tokens.at("("):
            return self._ports("")
        start = tokens.here.start
        if tokens.consume_if("_"):
            return [ParsedPort(None, None, start)]
        return [ParsedPort(None, self.values.type(), start)]

    def _ports(self, sign: str) -> list[ParsedPort]:
        """Ports in brackets; inputs of a graph have a sign."""
        tokens = self.tokens
        tokens.expect("(")
        ports: list[ParsedPort] = []
        while not tokens.at(")"):
            token = tokens.here
            port = ParsedPort(None, None, token.start)
            if sign and token.kind == "value" and token.text[0] == sign:
                port.name = self._text_of(tokens.next())
            elif not tokens.consume_if("_"):
                port.name = self.values.name("the name of a port, or `_`")
            if tokens.consume_if(":"):
                port.type = self.values.type()
            while tokens.consume_if("@"):
                label = self.values.name("a mark")
                port.marks = [*(port.marks or []), label]
            if tokens.at("{"):
                port.attrs = self.values.attrs()
            ports.append(port)
            if not tokens.consume_if(","):
                break
        tokens.expect(")")
        return ports

    # -- clauses -----------------------------------------------------------------------

    def _clause(
        self, plan: ParsedOp, graph: ParsedGraph | None = None, index: int = 0
    ) -> bool:
        """One clause after an op."""
        tokens = self.tokens
        if tokens.consume_if("in"):
            if tokens.here.kind != "text":
                raise tokens.unexpected_error("a namespace in quotes")
            plan.namespace = tokens.unquote(tokens.next())
        elif tokens.consume_if("feedback"):
            plan.feedback = True
        elif tokens.consume_if("made"):
            self._provenance(plan)
        elif graph is not None and tokens.consume_if("after"):
            self._signals(graph, Address(index, _SIGNAL))
        else:
            return False
        return True

    def _provenance(self, plan: ParsedOp) -> None:
        tokens = self.tokens
        tokens.expect("by")
        by = self.values.name("a name")
        tokens.expect("from")
        start = tokens.here.start
        sources = self.values.value()
        if not isinstance(sources, list) or any(type(s) is not str for s in sources):
            raise tokens.error("the sources are a list of texts", start)
        plan.provenance = (tuple(sources), by)

    def _signals(self, graph: ParsedGraph, target: Address) -> None:
        tokens = self.tokens
        while True:
            start = tokens.here.start
            if tokens.consume_if("$"):
                source = Address(None, _SIGNAL)
            else:
                source = self._ref()
                if source.op is None or source.up or source.port:
                    raise tokens.error(
                        "`after` names ops of the same graph, or `$`, the graph itself",
                        start,
                    )
                source = source._replace(port=_SIGNAL)
            attrs = self.values.attrs() if tokens.consume_if("edge") else None
            graph.edges.append(ParsedEdge(source, target, start, attrs))
            if not tokens.consume_if(","):
                return


_STATEMENTS = {
    "attrs": ReadableParser._attrs,
    "imports": ReadableParser._imports,
    "body": ReadableParser._body,
    "function": ReadableParser._function,
    "entry": ReadableParser._entry,
    "return": ReadableParser._return,
}
