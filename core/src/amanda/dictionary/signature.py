"""Op definitions as one line of text, and back.

    MatMul(a: T, b: T, *, transpose_a: bool = false) -> (product: T)  T in {f16, f32}

- `x: T`, `x?: T` (optional), `*x: T` (variadic, of one type), `*x: any T` (variadic,
  of independent types), `*x: T >= 0` (the default minimum is one)
- `x: N * T` (as many as the attribute N), `x: *L` (one of each type in the list L),
  `x: ref<T>` (a mutable reference)
- `x: tensor` (any tensor), `x: any` (any value), `x: any<int>` (a type of the
  framework), `x: T?` (required, may be none), `x: T(a!)` (shared memory),
  `x: T[N, C, ...]` (the meaning of its axes); a port without a name is its type alone
- attributes after `*`: `a: int`, `a?: int` (optional, without a default), `a: int = 1`,
  `a: string = "A" in {"A", "B"}`, `a: int >= 1`, `a: int[] in 1..8`, `a: int[]`; a body
  with its numbers of parameters and results: `a: graph(inputs, outputs + 1)`; an enum
  with its members: `a: enum<Mode> = OFF in {OFF = 0, ON = 1}`; `...` allows others
- positional attributes stand before the `*`, `attr a: int`, and keyword ports after it,
  `port out: T`
- variables after the outputs: `T in {f16, f32}`, `T: type`, `N: int >= 1`, `L: type[]`
- traits in brackets, `[nondeterministic, stateful]`; tags of the framework, `#core
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


def format_signature(op_def: OpDef) -> str:
    """A definition as text, with its name."""
    return op_def.name + format_definition(op_def)


def format_definition(op_def: OpDef) -> str:
    """A definition as text, without its name."""
    arguments = [
        f"attr {format_attr(part)}" if isinstance(part, Attr) else format_port(part)
        for part in op_def.arguments()
    ]
    keywords = [format_attr(attr) for attr in op_def.attrs if attr.position is None]
    keywords += [f"port {format_port(port)}" for port in op_def.inputs if port.keyword]
    keywords += [_REST] if op_def.open else []
    arguments += ["*", *keywords] if keywords else []
    outputs = ", ".join(format_port(port) for port in op_def.outputs)
    text = f"({', '.join(arguments)}) -> ({outputs})"
    if op_def.variables:
        text += "  " + ", ".join(map(_format_variable, op_def.variables))
    if op_def.traits:
        text += f"  [{', '.join(sorted(op_def.traits))}]"
    if op_def.tags:
        text += "  " + " ".join(f"#{tag}" for tag in sorted(op_def.tags))
    if op_def.deprecated is not None:
        version, why, use = op_def.deprecated
        text += f"  deprecated {version} {json.dumps(why, ensure_ascii=False)}"
        text += f" use {use}" if use else ""
    return text


def format_port(port: Port) -> str:
    """A port as text."""
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
    """An attribute as text.

    >>> format_attr(Attr("group", "int", required=False, default=1))
    'group: int = 1'
    """
    return (
        f"{attr.name}{_optional_mark(attr)}: {_format_kind(attr)}{_format_limits(attr)}"
    )


def _optional_mark(attr: Attr) -> str:
    return "" if attr.required or attr.default is not None else "?"


def _format_kind(attr: Attr) -> str:
    if attr.body is None:
        return attr.kind
    return f"{attr.kind}({attr.body.parameters}, {attr.body.results})"


def _format_limits(attr: Attr) -> str:
    text = ""
    if attr.default is not None:
        text += f" = {format_literal(attr.kind, _without_numbers(attr.default))}"
    if attr.minimum is not None:
        text += f" >= {attr.minimum}"
    if attr.bounds is not None:
        text += f" in {attr.bounds[0]}..{attr.bounds[1]}"
    if attr.allowed:
        values = ", ".join(
            format_literal(attr.element, value) for value in attr.allowed
        )
        text += f" in {{{values}}}"
    return text


def _without_numbers(value: object) -> object:
    """A default with names of enum members only; `in {...}` has their numbers."""
    if isinstance(value, tuple | list):
        return [_without_numbers(item) for item in value]
    return str(value) if isinstance(value, EnumMember) else value


def _format_variable(attr: Attr) -> str:
    is_type = attr.kind == "type" and attr.allowed
    return attr.name + ("" if is_type else f": {attr.kind}") + _format_limits(attr)


def parse_signature(text: str) -> OpDef:
    """Parse a definition from one line of text.

    >>> op_def = parse_signature("Sum(*xs: T, *, axis: int = 0) -> (y: T)  T in {f32}")
    >>> op_def.inputs[0].form, op_def.attr("axis").default
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
    """Parse the rest of the text, after the name of the op."""
    inputs, attrs, is_open = _parse_inputs(words)
    words.expect("->")
    outputs = _parse_outputs(words)
    variables: list[Attr] = []
    while not (words.peek("[") or words.peek("#") or _at_end(words)):
        if variables:
            words.expect(",")
        variables.append(_parse_attr(words, is_variable=True))
    traits: frozenset[str] = frozenset()
    if words.take("["):
        traits = frozenset(words.match(_TRAITS, "traits").split(", "))
        words.expect("]")
    tags: list[str] = []
    while words.take("#"):
        tags.append(words.match(_TAG, "a tag"))
    deprecated = _parse_deprecation(words)
    if not _is_done(words):
        raise words.fault("the end")
    names = type_names((*attrs, *variables))
    return OpDef(
        name,
        tuple(_resolve_type(port, names, words) for port in inputs),
        tuple(_resolve_type(port, names, words) for port in outputs),
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


def _parse_deprecation(words: SignatureScanner) -> Deprecation | None:
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
    """Names of the attributes and variables whose values are types."""
    return {attr.name for attr in attrs if attr.element in ("dtype", "type")}


def parse_port_type(text: str, names: set[str]) -> str | TypePattern:
    """Parse the type of a port."""
    words = SignatureScanner(text)
    kind, _ = _parse_type(words)
    return _resolve_type(Port("", kind), names, words).type


def _resolve_type(port: Port, names: set[str], words: SignatureScanner) -> Port:
    """Replace the name of an element type by the type, unless it names a variable."""
    if not isinstance(port.type, str) or port.type in names:
        return port
    if port.type == _ANY or port.type.startswith(f"{_ANY}<"):
        return port
    dtype = parse_dtype_name(port.type)
    if dtype is None:
        raise words.fault(f"a type for port {port.name!r}; {port.type!r} is unknown")
    return port._replace(type=dtype)


def _parse_inputs(words: SignatureScanner) -> tuple[list[Port], tuple[Attr, ...], bool]:
    """Ports, attributes, and whether other attributes are allowed."""
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
            ports.append(_parse_port(words)._replace(keyword=True))
        elif starred:
            attrs.append(_parse_attr(words))
        elif words.peek("*, "):
            words.take("*")
            starred = True
        elif words.take("attr "):
            attrs.append(_parse_attr(words)._replace(position=len(ports) + len(attrs)))
        else:
            ports.append(_parse_port(words))
    return ports, tuple(attrs), is_open


def _parse_outputs(words: SignatureScanner) -> list[Port]:
    ports: list[Port] = []
    words.expect("(")
    while not words.take(")"):
        if ports:
            words.expect(",")
        ports.append(_parse_port(words))
    return ports


def _parse_port(words: SignatureScanner) -> Port:
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
        form = "each" if _take_any(words) else "many"
    elif words.take("*"):
        form = "list"
    kind, ref = _parse_type(words)
    if isinstance(kind, str) and words.take("*"):
        form, number = "count", kind
        kind, ref = _parse_type(words)
    nullable = words.take("?")
    alias = ""
    if words.take("("):
        alias = words.match(_ALIAS, "an alias set")
        words.expect(")")
    axes = _parse_axes(words)
    if many:
        least = int(words.match(_INT, "an int")) if words.take(">=") else _LEAST[form]
    return Port(name, kind, form, least, number, ref, nullable, alias, axes)


def _take_any(words: SignatureScanner) -> bool:
    """Accept `any` before a type (`any T`); `any` alone is itself a type."""
    begin = words.at
    if words.take("any ") and not words.peek(">"):
        return True
    words.at = begin
    return False


def _parse_axes(words: SignatureScanner) -> tuple[str, ...]:
    if not words.take("["):
        return ()
    axes: list[str] = []
    while not words.take("]"):
        if axes:
            words.expect(",")
        axes.append(words.match(_AXIS, "the name of an axis"))
    return tuple(axes)


def _parse_type(words: SignatureScanner) -> tuple[str | TypePattern, bool]:
    ref = words.take("ref<")
    kind = words.word_or_pattern()
    if kind == _ANY and words.peek("<"):
        kind += words.match(_OF, "the framework's name of the type")
    if ref:
        words.expect(">")
    return kind, ref


def _parse_attr(words: SignatureScanner, is_variable: bool = False) -> Attr:
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
    bounds = _parse_bounds(words)
    allowed: list[object] = []
    if words.take("in {"):
        element = Attr(name, kind).element
        while not words.take("}"):
            if allowed:
                words.expect(",")
            allowed.append(parse_literal(element, words))
    required = not optional and default is None
    return Attr(
        name, kind, required, default, tuple(allowed), minimum, body, bounds=bounds
    )


def _parse_bounds(words: SignatureScanner) -> tuple[int, int] | None:
    """`in 1..8`: the least and the greatest value; None for `in {...}`, or neither."""
    if words.peek("in {") or not words.take("in "):
        return None
    words.peek("")
    least = int(words.match(_INT, "an int"))
    words.expect("..")
    return least, int(words.match(_INT, "an int"))
