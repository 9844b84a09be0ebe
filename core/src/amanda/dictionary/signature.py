"""Entries as one line of text, and back.

    MatMul(a: T, b: T, *, transpose_a: bool = false) -> (product: T)  T in {f16, f32}

- `x: T`, `x?: T` (may be left out), `*x: T` (any number, all alike), `*x: any T` (each
  of its own type), `*x: T >= 0` (even none; without it, one at least)
- `x: N * T` (as many as the attribute N says), `x: *L` (one of each type in the list
  L), `x: ref<T>` (a place that others may write to)
- `x: tensor` (any tensor), `x: any` (any value), `x: any<int>` (one of the framework's
  own type), `x: T?` (given, but perhaps none), `x: T(a!)` (which memory it shares),
  `x: T[N, C, ...]` (what its axes are for); a port without a name is its type alone
- attributes after `*`: `a: int`, `a?: int` (may be left out, with no default),
  `a: int = 1`, `a: string = "A" in {"A", "B"}`, `a: int >= 1`, `a: int[]`; a body says
  how many values it takes and gives: `a: graph(inputs, outputs + 1)`; an enum what its
  values are: `a: enum<Mode> = OFF in {OFF = 0, ON = 1}`; `...` stands for others
- where order tells arguments, attributes may stand before the `*`, `attr a: int`, and
  ports behind it, `port out: T`
- variables after the outputs: `T in {f16, f32}`, `T: type`, `N: int >= 1`, `L: type[]`
- traits in brackets, `[nondeterministic, stateful]`; the framework's own tags, `#core
  #code=18`; at the end `deprecated 9 "why" use Tile`
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from amanda.dictionary.literals import format_literal, parse_literal
from amanda.dictionary.op_definition import (
    ATTR_KINDS,
    Attr,
    BodyArity,
    Deprecation,
    EnumMember,
    OpDef,
    Port,
    PortForm,
)
from amanda.dictionary.type_patterns import (
    NAME,
    SignatureScanner,
    TypePattern,
    format_pattern,
    parse_dtype_name,
)

__all__ = [
    "KIND",
    "format_attr",
    "format_definition",
    "format_port",
    "format_signature",
    "parse_definition",
    "parse_port_type",
    "parse_signature",
    "type_names",
]

_LEAST = {"many": 1, "each": 1}
_OP = re.compile(r"[^\s(]+")
_INT = re.compile(r"-?[0-9]+")
_COUNT = re.compile(r"(?:inputs|outputs)(?: [+-] [0-9]+)?|[0-9]+")
KIND = re.compile(
    rf"(?:{'|'.join(ATTR_KINDS)})(?![A-Za-z0-9_])(?:<[^<>]*>)?(?:\?|\[[0-9]*\])*"
)
_NAMED = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_.]*)?\??:")
_OF = re.compile(r"<[^<>]*>")
_ALIAS = re.compile(r"[^()]+")
_AXIS = re.compile(r"\.\.\.|[A-Za-z0-9_*/+-]+")
_TAG = re.compile(r"[^\s#,]+")
_REST = "..."
_ANY = "any"
_TRAITS = re.compile(r"[a-z_]+(?:, [a-z_]+)*")
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')


def format_signature(entry: OpDef) -> str:
    """The whole line of an entry: its name and what `terms` writes."""
    return entry.name + format_definition(entry)


def format_definition(entry: OpDef) -> str:
    """The line without the name in front."""
    given = [
        f"attr {format_attr(part)}" if isinstance(part, Attr) else format_port(part)
        for part in entry.arguments()
    ]
    named = [format_attr(attr) for attr in entry.attrs if attr.place is None]
    named += [f"port {format_port(port)}" for port in entry.inputs if port.keyword]
    named += [_REST] if entry.open else []
    given += ["*", *named] if named else []
    outputs = ", ".join(format_port(port) for port in entry.outputs)
    text = f"({', '.join(given)}) -> ({outputs})"
    if entry.variables:
        text += "  " + ", ".join(map(_variable, entry.variables))
    if entry.traits:
        text += f"  [{', '.join(sorted(entry.traits))}]"
    if entry.tags:
        text += "  " + " ".join(f"#{tag}" for tag in sorted(entry.tags))
    if entry.deprecated is not None:
        version, why, use = entry.deprecated
        text += f"  deprecated {version} {json.dumps(why, ensure_ascii=False)}"
        text += f" use {use}" if use else ""
    return text


def format_port(port: Port) -> str:
    """A port as it stands in a signature."""
    kind = port.type if isinstance(port.type, str) else format_pattern(port.type)
    kind = f"ref<{kind}>" if port.ref else kind
    kind += "?" if port.nullable else ""
    kind += f"({port.alias})" if port.alias else ""
    kind += f"[{', '.join(port.axes)}]" if port.axes else ""
    name = f"{port.name}: "
    match port.form:
        case "one":
            return f"{name if port.name else ''}{kind}"
        case "optional":
            return f"{port.name}?: {kind}"
        case "count":
            return f"{name}{port.number} * {kind}"
        case "list":
            return f"{name}*{kind}"
    least = f" >= {port.least}" if port.least != _LEAST[port.form] else ""
    each = "any " if port.form == "each" else ""
    return f"*{name if port.name else ''}{each}{kind}{least}"


def format_attr(attr: Attr) -> str:
    """An attribute as it stands in a signature.

    >>> format_attr(Attr("group", "int", required=False, default=1))
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
        text += f" = {format_literal(attr.kind, _plain(attr.default))}"
    if attr.minimum is not None:
        text += f" >= {attr.minimum}"
    if attr.allowed:
        values = ", ".join(
            format_literal(attr.element, value) for value in attr.allowed
        )
        text += f" in {{{values}}}"
    return text


def _plain(value: object) -> object:
    """A default with the names of members alone: their numbers stand in the list."""
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, EnumMember) else value


def _variable(attr: Attr) -> str:
    plain = attr.kind == "type" and attr.allowed
    return attr.name + ("" if plain else f": {attr.kind}") + _limits(attr)


def parse_signature(text: str) -> OpDef:
    """The entry that a line of text describes.

    >>> entry = parse_signature("Sum(*xs: T, *, axis: int = 0) -> (y: T)  T in {f32}")
    >>> entry.inputs[0].form, entry.attr("axis").default
    ('many', 0)
    """
    words = SignatureScanner(text)
    return parse_definition(words.match(_OP, "the name of an op"), words)


def parse_definition(
    name: str,
    words: SignatureScanner,
    since: str = "",
    until: str | None = None,
    doc: str = "",
) -> OpDef:
    """The entry whose line, after the name, comes next in `words`; all of it."""
    inputs, attrs, is_open = _inputs(words)
    words.expect("->")
    outputs = _outputs(words)
    variables: list[Attr] = []
    while not (words.peek("[") or words.peek("#") or _at_end(words)):
        if variables:
            words.expect(",")
        variables.append(_read_attr(words, is_variable=True))
    traits: frozenset[str] = frozenset()
    if words.take("["):
        traits = frozenset(words.match(_TRAITS, "traits").split(", "))
        words.expect("]")
    tags: list[str] = []
    while words.take("#"):
        tags.append(words.match(_TAG, "a tag"))
    deprecated = _read_deprecation(words)
    if not _is_done(words):
        raise words.fault("the end")
    names = type_names((*attrs, *variables))
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
        frozenset(tags),
        is_open,
    )


def _read_deprecation(words: SignatureScanner) -> Deprecation | None:
    if not words.take("deprecated "):
        return None
    version = int(words.match(_INT, "a version"))
    why = json.loads(words.match(_TEXT, "a reason"))
    use = words.match(_OP, "the op to use") if words.take("use ") else ""
    return Deprecation(version, why, use)


def _is_done(words: SignatureScanner) -> bool:
    words.peek("")
    return words.at == len(words.text)


def _at_end(words: SignatureScanner) -> bool:
    return words.peek("deprecated ") or _is_done(words)


def type_names(attrs: Iterable[Attr]) -> set[str]:
    """The attributes and variables that say types."""
    return {attr.name for attr in attrs if attr.element in ("dtype", "type")}


def parse_port_type(text: str, names: set[str]) -> str | TypePattern:
    """The type of a port, written as in a signature."""
    words = SignatureScanner(text)
    kind, _ = _port_type(words)
    return _resolved(Port("", kind), names, words).type


def _resolved(port: Port, names: set[str], words: SignatureScanner) -> Port:
    """A port whose type is no longer a word, unless an attribute is called so."""
    if not isinstance(port.type, str) or port.type in names:
        return port
    if port.type == _ANY or port.type.startswith(f"{_ANY}<"):
        return port
    dtype = parse_dtype_name(port.type)
    if dtype is None:
        raise words.fault(f"what {port.type!r} is, which port {port.name!r} has")
    return port._replace(type=dtype)


def _inputs(words: SignatureScanner) -> tuple[list[Port], tuple[Attr, ...], bool]:
    """Ports, attributes, and whether there may be others."""
    ports: list[Port] = []
    attrs: list[Attr] = []
    words.expect("(")
    starred = is_open = False
    while not words.take(")"):
        if starred or ports or attrs:
            words.expect(",")
        if starred and words.take(_REST):
            is_open = True
        elif starred and words.take("port "):
            ports.append(_read_port(words)._replace(keyword=True))
        elif starred:
            attrs.append(_read_attr(words))
        elif words.peek("*, "):
            words.take("*")
            starred = True
        elif words.take("attr "):
            attrs.append(_read_attr(words)._replace(place=len(ports) + len(attrs)))
        else:
            ports.append(_read_port(words))
    return ports, tuple(attrs), is_open


def _outputs(words: SignatureScanner) -> list[Port]:
    ports: list[Port] = []
    words.expect("(")
    while not words.take(")"):
        if ports:
            words.expect(",")
        ports.append(_read_port(words))
    return ports


def _read_port(words: SignatureScanner) -> Port:
    many = words.take("*")
    name = ""
    form: PortForm = "one"
    words.peek("")
    if _NAMED.match(words.text, words.at):
        named = NAME.match(words.text, words.at)
        name = words.match(NAME, "the name of a port") if named else ""
        form = "optional" if words.take("?") else "one"
        words.expect(":")
    least, number = 0, ""
    if many:
        form = "each" if _each(words) else "many"
    elif words.take("*"):
        form = "list"
    kind, ref = _port_type(words)
    if isinstance(kind, str) and words.take("*"):
        form, number = "count", kind
        kind, ref = _port_type(words)
    nullable = words.take("?")
    alias = ""
    if words.take("("):
        alias = words.match(_ALIAS, "which memory it shares")
        words.expect(")")
    axes = _read_axes(words)
    if many:
        least = int(words.match(_INT, "an int")) if words.take(">=") else _LEAST[form]
    return Port(name, kind, form, least, number, ref, nullable, alias, axes)


def _each(words: SignatureScanner) -> bool:
    """`any T`: of their own types each. `any` alone is a type."""
    begin = words.at
    if words.take("any ") and not words.peek(">"):
        return True
    words.at = begin
    return False


def _read_axes(words: SignatureScanner) -> tuple[str, ...]:
    if not words.take("["):
        return ()
    axes: list[str] = []
    while not words.take("]"):
        if axes:
            words.expect(",")
        axes.append(words.match(_AXIS, "the name of an axis"))
    return tuple(axes)


def _port_type(words: SignatureScanner) -> tuple[str | TypePattern, bool]:
    ref = words.take("ref<")
    kind = words.word_or_pattern()
    if kind == _ANY and words.peek("<"):
        kind += words.match(_OF, "what the framework calls the type")
    if ref:
        words.expect(">")
    return kind, ref


def _read_attr(words: SignatureScanner, is_variable: bool = False) -> Attr:
    name = words.match(NAME, "the name of an attribute")
    optional = words.take("?")
    kind = "type"
    if not is_variable or words.peek(":"):
        words.expect(":")
        kind = words.match(KIND, f"a kind: {', '.join(ATTR_KINDS)}")
    body = None
    if kind.startswith("graph") and words.take("("):
        takes = words.match(_COUNT, "a number of values")
        words.expect(",")
        words.peek("")
        body = BodyArity(takes, words.match(_COUNT, "a number of values"))
        words.expect(")")
    default = parse_literal(kind, words) if words.take("=") else None
    minimum = int(words.match(_INT, "an int")) if words.take(">=") else None
    allowed: list[object] = []
    if words.take("in {"):
        element = Attr(name, kind).element
        while not words.take("}"):
            if allowed:
                words.expect(",")
            allowed.append(parse_literal(element, words))
    required = not optional and default is None
    return Attr(name, kind, required, default, tuple(allowed), minimum, body)
