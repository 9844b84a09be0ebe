"""Entries as one line of text, and back.

    MatMul(a: T, b: T, *, transpose_a: bool = false) -> (product: T)  T in {f16, f32}

- `x: T`, `x?: T` (may be left out), `*x: T` (any number, all alike), `*x: any T` (each
  of its own type), `*x: T >= 0` (even none; without it, one at least)
- `x: N * T` (as many as the attribute N says), `x: *L` (one of each type in the list
  L), `x: ref<T>` (a place that others may write to)
- attributes after `*`: `a: int`, `a?: int` (may be left out, with no default),
  `a: int = 1`, `a: string = "A" in {"A", "B"}`, `a: int >= 1`, `a: int[]`; a body says
  how many values it takes and gives: `a: graph(inputs, outputs + 1)`
- variables after the outputs: `T in {f16, f32}`, `T: type`, `N: int >= 1`, `L: type[]`
- traits in brackets, `[nondeterministic, stateful]`; at the end `deprecated 9 "why"`
"""

from __future__ import annotations

import json
import re

from amanda.dictionary.literals import literal, read_literal
from amanda.dictionary.model import KINDS, Attr, Body, Deprecation, Form, OpDef, Port
from amanda.dictionary.patterns import (
    NAME,
    Pattern,
    Words,
    dtype_called,
    written_pattern,
)

__all__ = [
    "parse_signature",
    "read_signature",
    "terms",
    "written",
    "written_attr",
    "written_port",
]

_LEAST = {"many": 1, "each": 1}
_OP = re.compile(r"[^\s(]+")
_INT = re.compile(r"-?[0-9]+")
_COUNT = re.compile(r"(?:inputs|outputs)(?: [+-] [0-9]+)?|[0-9]+")
_KIND = re.compile(rf"(?:{'|'.join(KINDS)})(?:\[\])?(?![A-Za-z0-9_])")
_TRAITS = re.compile(r"[a-z_]+(?:, [a-z_]+)*")
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')


def written(entry: OpDef) -> str:
    """The whole line of an entry: its name and what `terms` writes."""
    return entry.name + terms(entry)


def terms(entry: OpDef) -> str:
    """The line without the name in front."""
    inputs = [written_port(port) for port in entry.inputs]
    if entry.attrs:
        inputs += ["*", *map(written_attr, entry.attrs)]
    outputs = ", ".join(written_port(port) for port in entry.outputs)
    text = f"({', '.join(inputs)}) -> ({outputs})"
    if entry.variables:
        text += "  " + ", ".join(map(_variable, entry.variables))
    if entry.traits:
        text += f"  [{', '.join(sorted(entry.traits))}]"
    if entry.deprecated is not None:
        why = json.dumps(entry.deprecated.why, ensure_ascii=False)
        text += f"  deprecated {entry.deprecated.version} {why}"
    return text


def written_port(port: Port) -> str:
    """A port as it stands in a signature."""
    kind = port.type if isinstance(port.type, str) else written_pattern(port.type)
    kind = f"ref<{kind}>" if port.ref else kind
    match port.form:
        case "one":
            return f"{port.name}: {kind}"
        case "optional":
            return f"{port.name}?: {kind}"
        case "count":
            return f"{port.name}: {port.number} * {kind}"
        case "list":
            return f"{port.name}: *{kind}"
    least = f" >= {port.least}" if port.least != _LEAST[port.form] else ""
    each = "any " if port.form == "each" else ""
    return f"*{port.name}: {each}{kind}{least}"


def written_attr(attr: Attr) -> str:
    """An attribute as it stands in a signature.

    >>> written_attr(Attr("group", "int", required=False, default=1))
    'group: int = 1'
    """
    return f"{attr.name}{_absent(attr)}: {_kind(attr)}{_limits(attr)}"


def _absent(attr: Attr) -> str:
    return "" if attr.required or attr.default is not None else "?"


def _kind(attr: Attr) -> str:
    if attr.body is None:
        return attr.kind
    return f"{attr.kind}({attr.body.parameters}, {attr.body.results})"


def _limits(attr: Attr) -> str:
    text = ""
    if attr.default is not None:
        text += f" = {literal(attr.kind, attr.default)}"
    if attr.minimum is not None:
        text += f" >= {attr.minimum}"
    if attr.allowed:
        values = ", ".join(literal(attr.element, value) for value in attr.allowed)
        text += f" in {{{values}}}"
    return text


def _variable(attr: Attr) -> str:
    plain = attr.kind == "type" and attr.allowed
    return attr.name + ("" if plain else f": {attr.kind}") + _limits(attr)


def parse_signature(text: str) -> OpDef:
    """The entry that a line of text describes.

    >>> entry = parse_signature("Sum(*xs: T, *, axis: int = 0) -> (y: T)  T in {f32}")
    >>> entry.inputs[0].form, entry.attr("axis").default
    ('many', 0)
    """
    words = Words(text)
    return read_signature(words.match(_OP, "the name of an op"), words)


def read_signature(
    name: str, words: Words, since: str = "", until: str | None = None, doc: str = ""
) -> OpDef:
    """The entry whose line, after the name, comes next in `words`; all of it."""
    inputs, attrs = _inputs(words)
    words.expect("->")
    outputs = _outputs(words)
    variables: list[Attr] = []
    while words.at < len(words.text) and not (words.peek("[") or _at_end(words)):
        if variables:
            words.expect(",")
        variables.append(_read_attr(words, is_variable=True))
    traits: frozenset[str] = frozenset()
    if words.take("["):
        traits = frozenset(words.match(_TRAITS, "traits").split(", "))
        words.expect("]")
    deprecated = None
    if words.take("deprecated "):
        version = int(words.match(_INT, "a version"))
        deprecated = Deprecation(version, json.loads(words.match(_TEXT, "a reason")))
    if not _is_done(words):
        raise words.fault("the end")
    names = {a.name for a in (*attrs, *variables) if a.element in ("dtype", "type")}
    return OpDef(
        name,
        tuple(_resolved(port, names, words) for port in inputs),
        tuple(_resolved(port, names, words) for port in outputs),
        attrs,
        tuple(variables),
        traits,
        deprecated,
        since,
        until,
        doc,
    )


def _is_done(words: Words) -> bool:
    words.peek("")
    return words.at == len(words.text)


def _at_end(words: Words) -> bool:
    return words.peek("deprecated ") or _is_done(words)


def _resolved(port: Port, names: set[str], words: Words) -> Port:
    """A port whose type is no longer a word, unless an attribute is called so."""
    if not isinstance(port.type, str) or port.type in names:
        return port
    dtype = dtype_called(port.type)
    if dtype is None:
        raise words.fault(f"what {port.type!r} is, which port {port.name!r} has")
    return port._replace(type=dtype)


def _inputs(words: Words) -> tuple[list[Port], tuple[Attr, ...]]:
    ports: list[Port] = []
    attrs: list[Attr] = []
    words.expect("(")
    starred = False
    while not words.take(")"):
        if starred or ports:
            words.expect(",")
        if not starred and words.peek("*, "):
            words.take("*")
            starred = True
        elif starred:
            attrs.append(_read_attr(words))
        else:
            ports.append(_read_port(words))
    return ports, tuple(attrs)


def _outputs(words: Words) -> list[Port]:
    ports: list[Port] = []
    words.expect("(")
    while not words.take(")"):
        if ports:
            words.expect(",")
        ports.append(_read_port(words))
    return ports


def _read_port(words: Words) -> Port:
    many = words.take("*")
    name = words.match(NAME, "the name of a port")
    form: Form = "optional" if words.take("?") else "one"
    words.expect(":")
    least, number = 0, ""
    if many:
        form = "each" if words.take("any ") else "many"
    elif words.take("*"):
        form = "list"
    kind, ref = _port_type(words)
    if isinstance(kind, str) and words.take("*"):
        form, number = "count", kind
        kind, ref = _port_type(words)
    if many:
        least = int(words.match(_INT, "an int")) if words.take(">=") else _LEAST[form]
    return Port(name, kind, form, least, number, ref)


def _port_type(words: Words) -> tuple[str | Pattern, bool]:
    ref = words.take("ref<")
    kind = words.word_or_pattern()
    if ref:
        words.expect(">")
    return kind, ref


def _read_attr(words: Words, is_variable: bool = False) -> Attr:
    name = words.match(NAME, "the name of an attribute")
    optional = words.take("?")
    kind = "type"
    if not is_variable or words.peek(":"):
        words.expect(":")
        kind = words.match(_KIND, f"a kind: {', '.join(KINDS)}")
    body = None
    if kind == "graph" and words.take("("):
        takes = words.match(_COUNT, "a number of values")
        words.expect(",")
        words.peek("")
        body = Body(takes, words.match(_COUNT, "a number of values"))
        words.expect(")")
    default = read_literal(kind, words) if words.take("=") else None
    minimum = int(words.match(_INT, "an int")) if words.take(">=") else None
    allowed: list[object] = []
    if words.take("in {"):
        element = kind.removesuffix("[]")
        while not words.take("}"):
            if allowed:
                words.expect(",")
            allowed.append(read_literal(element, words))
    required = not optional and default is None
    return Attr(name, kind, required, default, tuple(allowed), minimum, body)
