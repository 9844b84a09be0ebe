"""The readable form to plans: statements, one after the other, with a stack of graphs.

docs/text-forms.md has the grammar.
"""

from __future__ import annotations

from amanda.files.text.construct.parsed_graph import (
    Address,
    EdgePlan,
    EntryPlan,
    GraphPlan,
    OpPlan,
    PortPlan,
)
from amanda.files.text.readable.attribute_parser import Values
from amanda.files.text.readable.printer import VERSION
from amanda.files.text.readable.tokens import Token, Tokens
from amanda.files.text.syntax.plain_data import short
from amanda.graph import CONSTANT, CORE

__all__ = ["Parser"]

_SIGNAL = -1


class Parser:
    """Reads one text."""

    def __init__(self, text: str, name: str) -> None:
        self.tokens = Tokens(text, name)
        self.values = Values(self.tokens)
        self.open: list[GraphPlan] = []
        self.root: GraphPlan | None = None

    def plan(self) -> GraphPlan:
        tokens = self.tokens
        self._version()
        start = tokens.need("graph").start
        root = GraphPlan(start)
        self._title(root)
        self._header(root)
        while self.open:
            self._statement(self.open[-1])
        if tokens.here.kind != "end":
            raise tokens.unexpected("the end of the text")
        return root

    def _version(self) -> None:
        tokens = self.tokens
        if not tokens.sees("amanda"):
            raise tokens.unexpected(f"`amanda {VERSION}` at the start")
        tokens.take()
        token = tokens.here
        if token.kind != "number" or not token.text.isdecimal() or len(token.text) > 9:
            raise tokens.unexpected("the number of a version")
        if int(token.text) > VERSION:
            raise tokens.error(
                "the text was written by a newer Amanda",
                token.start,
                expected=f"version {VERSION} or older",
                got=f"version {token.text}",
                hint="update amanda-core",
            )
        if int(token.text) < 1:
            raise tokens.unexpected("a version from 1 on")
        tokens.take()

    # -- graphs ------------------------------------------------------------------------

    def _title(self, plan: GraphPlan) -> None:
        """`%name = Type in "namespace" made by ...`, all optional."""
        tokens = self.tokens
        if tokens.here.kind == "value" and tokens.here.text[0] == "%":
            plan.name = self._text_of(tokens.take())
        if tokens.skip("="):
            plan.type = self._op_type()
        while self._clause(plan):
            pass

    def _header(self, plan: GraphPlan) -> None:
        """Ports and the brace that opens the graph."""
        plan.inputs = self._ports("$")
        self.tokens.need("->")
        plan.outputs = self._ports("")
        self.tokens.need("{")
        self.open.append(plan)

    def _statement(self, graph: GraphPlan) -> None:
        tokens = self.tokens
        token = tokens.here
        if token.kind == "value" and token.text[0] == "%":
            self._op(graph)
        elif tokens.skip("}"):
            self.open.pop()
        elif token.kind == "word" and token.text in _STATEMENTS:
            tokens.take()
            _STATEMENTS[token.text](self, graph)
        else:
            words = ", ".join(f"`{word}`" for word in _STATEMENTS)
            raise tokens.unexpected(f"an op, {words} or `}}`")

    def _attrs(self, graph: GraphPlan) -> None:
        graph.attrs = {**(graph.attrs or {}), **self.values.attrs()}

    def _imports(self, graph: GraphPlan) -> None:
        start = self.tokens.here.start
        graph.imports = self.values.attrs()
        for domain, version in graph.imports.items():
            if type(version) is not int:
                raise self.tokens.error(
                    f"the version of domain {short(domain)} is an int",
                    start,
                    got=short(version),
                )

    def _body(self, graph: GraphPlan) -> None:
        start = self.tokens.here.start
        label = self.values.name("the name of a body")
        if not graph.ops:
            raise self.tokens.error("a body without an op before it", start)
        op = graph.ops[-1]
        if op.bodies is None:
            op.bodies = {}
        if label in op.bodies:
            raise self.tokens.error(f"the op has a body {short(label)} already", start)
        op.bodies[label] = body = GraphPlan(start)
        self._title(body)
        self._header(body)

    def _function(self, graph: GraphPlan) -> None:
        start = self.tokens.here.start
        label = self.values.name("the name of a function")
        if graph.functions is None:
            graph.functions = {}
        if label in graph.functions:
            raise self.tokens.error(f"a second function {short(label)}", start)
        graph.functions[label] = function = GraphPlan(start)
        self._title(function)
        self._header(function)

    def _entry(self, graph: GraphPlan) -> None:
        start = self.tokens.here.start
        label = self.values.name("the name of an entry")
        if graph.entries is None:
            graph.entries = {}
        if label in graph.entries:
            raise self.tokens.error(f"a second entry {short(label)}", start)
        inputs = self._labels()
        self.tokens.need("->")
        graph.entries[label] = EntryPlan(inputs, self._labels(), start)

    def _labels(self) -> dict[str, Address]:
        tokens = self.tokens
        tokens.need("(")
        found: dict[str, Address] = {}
        while not tokens.sees(")"):
            start = tokens.here.start
            label = self.values.name("a name")
            tokens.need("=")
            if label in found:
                raise tokens.error(f"the name {short(label)} stands twice", start)
            found[label] = self._ref()
            if not tokens.skip(","):
                break
        tokens.need(")")
        return found

    def _return(self, graph: GraphPlan) -> None:
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
            if not tokens.skip(","):
                break
        if i < len(graph.outputs):
            raise tokens.unexpected(f"result {i + 1} of {len(graph.outputs)}, or `_`")
        if tokens.skip("after"):
            self._signals(graph, Address(None, _SIGNAL))

    # -- ops ---------------------------------------------------------------------------

    def _op(self, graph: GraphPlan) -> None:
        tokens = self.tokens
        token = tokens.take()
        plan = OpPlan(token.start)
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
        tokens.need("=")
        plan.outputs = 1
        word = tokens.here
        if word.text == "tensor" and tokens.text.startswith("<", word.end):
            self._constant(plan)
        else:
            plan.type = self._op_type()
            self._inputs(graph, plan, index)
            if tokens.sees("{"):
                plan.attrs = self.values.attrs()
        if tokens.skip(":"):
            plan.outputs = self._outputs()
        graph.ops.append(plan)
        while self._clause(plan, graph, index):
            pass
        if tokens.sees("graph"):
            graph.ops[index] = self._subgraph(plan)

    def _op_type(self) -> str | None:
        if self.tokens.skip("_"):
            return None
        return self.values.name("the type of an op")

    def _constant(self, plan: OpPlan) -> None:
        tensor = self.values.tensor(self.tokens.here)
        plan.type, plan.namespace, plan.attrs = CONSTANT, CORE, {"value": tensor}
        plan.outputs = [PortPlan(None, tensor.type)]

    def _subgraph(self, plan: OpPlan) -> GraphPlan:
        """The op that was read is a graph: it gets ports and an inside."""
        if plan.outputs != 1:
            raise self.tokens.error(
                "the outputs of a graph stand in its header", self.tokens.here.start
            )
        self.tokens.need("graph")
        graph = GraphPlan(plan.place)
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

    def _inputs(self, graph: GraphPlan, plan: OpPlan, index: int) -> None:
        tokens = self.tokens
        tokens.need("(")
        ports: list[PortPlan] = []
        while not tokens.sees(")"):
            token = tokens.here
            port = PortPlan(None, None, token.start)
            if token.kind in ("word", "text") and token.text != "_":
                port.name = self.values.name("a value, or the name of an input")
                tokens.need("=")
            self._read(graph, Address(index, len(ports)), port)
            ports.append(port)
            if not tokens.skip(","):
                break
        tokens.need(")")
        plan.inputs = ports

    def _read(
        self, graph: GraphPlan, target: Address, port: PortPlan | None = None
    ) -> None:
        """A value that is read, or `_`, and what is known of port and edge."""
        tokens = self.tokens
        start = tokens.here.start
        source = None if tokens.skip("_") else self._ref()
        attrs = None
        while tokens.sees("edge") or tokens.sees("port"):
            word = tokens.take()
            found = self.values.attrs()
            if word.text == "edge" and source is not None:
                attrs = found
            elif word.text == "port" and port is not None:
                port.attrs = found
            else:
                raise tokens.error(f"there is no {word.text} here", word.start)
        if source is not None:
            graph.edges.append(EdgePlan(source, target, start, attrs))

    def _ref(self) -> Address:
        """`%op`, `%op#1`, `$input`, each with a `^` for every graph further out."""
        tokens = self.tokens
        up = 0
        if tokens.here.kind == "mark" and tokens.here.text[0] == "^":
            up = len(tokens.take().text)
        token = tokens.here
        if token.kind != "value":
            raise tokens.unexpected("a value such as %op or $input")
        tokens.take()
        digits = token.text[1:]
        key = self._index(token) if digits.isdecimal() else self._text_of(token)
        if token.text[0] == "$":
            return Address(None, key, up)
        port = 0
        if tokens.skip("#"):
            number = tokens.here
            if number.kind != "number":
                raise tokens.unexpected("the index of an output")
            port = self._index(tokens.take(), 0)
        return Address(key, port, up, exact=True)

    def _index(self, token: Token, start: int = 1) -> int:
        digits = token.text[start:]
        if not digits.isdecimal() or len(digits) > 18:
            raise self.tokens.error("not an index", token.start, got=token.text[:40])
        return int(digits)

    def _text_of(self, token: Token) -> str:
        """The name behind a sign."""
        if token.text[1] == '"':
            return self.tokens.unquoted(token, 1)
        return token.text[1:]

    def _outputs(self) -> list[PortPlan]:
        tokens = self.tokens
        if tokens.sees("("):
            return self._ports("")
        start = tokens.here.start
        if tokens.skip("_"):
            return [PortPlan(None, None, start)]
        return [PortPlan(None, self.values.type(), start)]

    def _ports(self, sign: str) -> list[PortPlan]:
        """Ports in brackets; those of a graph's inputs bear their sign."""
        tokens = self.tokens
        tokens.need("(")
        ports: list[PortPlan] = []
        while not tokens.sees(")"):
            token = tokens.here
            port = PortPlan(None, None, token.start)
            if sign and token.kind == "value" and token.text[0] == sign:
                port.name = self._text_of(tokens.take())
            elif not tokens.skip("_"):
                port.name = self.values.name("the name of a port, or `_`")
            if tokens.skip(":"):
                port.type = self.values.type()
            while tokens.skip("@"):
                label = self.values.name("a mark")
                port.marks = [*(port.marks or []), label]
            if tokens.sees("{"):
                port.attrs = self.values.attrs()
            ports.append(port)
            if not tokens.skip(","):
                break
        tokens.need(")")
        return ports

    # -- clauses -----------------------------------------------------------------------

    def _clause(
        self, plan: OpPlan, graph: GraphPlan | None = None, index: int = 0
    ) -> bool:
        """One of the facts that may stand behind an op."""
        tokens = self.tokens
        if tokens.skip("in"):
            if tokens.here.kind != "text":
                raise tokens.unexpected("a namespace in quotes")
            plan.namespace = tokens.unquoted(tokens.take())
        elif tokens.skip("feedback"):
            plan.feedback = True
        elif tokens.skip("made"):
            self._provenance(plan)
        elif graph is not None and tokens.skip("after"):
            self._signals(graph, Address(index, _SIGNAL))
        else:
            return False
        return True

    def _provenance(self, plan: OpPlan) -> None:
        tokens = self.tokens
        tokens.need("by")
        by = self.values.name("a name")
        tokens.need("from")
        start = tokens.here.start
        sources = self.values.value()
        if not isinstance(sources, list) or any(type(s) is not str for s in sources):
            raise tokens.error("the sources are a list of texts", start)
        plan.provenance = (tuple(sources), by)

    def _signals(self, graph: GraphPlan, target: Address) -> None:
        tokens = self.tokens
        while True:
            start = tokens.here.start
            if tokens.skip("$"):
                source = Address(None, _SIGNAL)
            else:
                source = self._ref()
                if source.op is None or source.up or source.port:
                    raise tokens.error(
                        "`after` names ops of the same graph, or `$`, the graph itself",
                        start,
                    )
                source = source._replace(port=_SIGNAL)
            attrs = self.values.attrs() if tokens.skip("edge") else None
            graph.edges.append(EdgePlan(source, target, start, attrs))
            if not tokens.skip(","):
                return


_STATEMENTS = {
    "attrs": Parser._attrs,
    "imports": Parser._imports,
    "body": Parser._body,
    "function": Parser._function,
    "entry": Parser._entry,
    "return": Parser._return,
}
