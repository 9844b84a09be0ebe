"""Files of rules: plain text, YAML with a header, or protobuf (protobuf.py).

    source: amanda/onnx          the left side
    target: amanda/std           the right side
    tags: [activations]          of all rules of the file
    apply_after: [elementwise]   tags of rules that are tried before those of this file
    hints: {source: [cudnn_*]}   attributes that need no rule
    tables:
      mode: {constant: fill, edge: copy}
    read: {Gemm: gemm}           functions that the rule set registered, by name
    write: {dim: dim}
    rules: |
      Relu(x)  <=>  relu(x)
      Pad(x, mode=m)  <=>  pad(x, mode=mode(m))

A file contains no code: it refers to lenses and functions of the rule set by name. One
with `src_namespace` is in table form, see table_form.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amanda.dictionary import parse_name
from amanda.errors import (
    FormatError,
    InvalidTypeError,
    LimitError,
    NamespaceError,
    UsageError,
)
from amanda.mapping.rules.parser import MAX_DEPTH, is_name, parse_head, parse_rules
from amanda.mapping.rules.terms import Equation, OpTerm
from amanda.mapping.rules.tokenizer import MAX_TEXT
from amanda.types import DType

if TYPE_CHECKING:
    from amanda.mapping.rules.rule_set import RuleSet

__all__ = [
    "dumps",
    "file_ends",
    "fault_at",
    "read_header",
    "load",
    "loads",
    "namespace_path",
]

_KINDS: Final[Mapping[str, type]] = {
    "source": str, "target": str, "tags": list, "apply_after": list, "hints": dict,
    "tables": dict, "read": dict, "write": dict, "rules": str,
}  # fmt: skip
_KEYS: Final = tuple(_KINDS)
BINARY: Final = (".pb", ".rpb")


def load(rules: RuleSet, path: Path) -> None:
    """Add the rules of a file to a set; none of them if one is faulty."""
    from amanda.files.text.syntax.plain_data import decode_text

    try:
        if path.stat().st_size > MAX_TEXT:
            raise LimitError("the file of rules is absurdly long", where=path)
        data = path.read_bytes()
    except OSError as error:
        raise FormatError(
            "the file of rules cannot be read", where=path, got=error.strerror
        ) from error
    if path.suffix in BINARY:
        from amanda.mapping.rules import protobuf

        protobuf.loads(rules, data, path.name)
        return
    text = decode_text(data, str(path))
    if path.suffix in (".yaml", ".yml"):
        loads(rules, text, path.name)
    else:
        rules.equations(text, path.name)


def file_ends(path: Path) -> tuple[str, str] | None:
    """The two sides in the header of a file; None for plain text."""
    from amanda.files.text.syntax.plain_data import decode_text

    data = path.read_bytes()
    if path.suffix in BINARY:
        from amanda.mapping.rules import protobuf

        header = protobuf.decode_file(data, path.name)
        return header.source, header.target
    if path.suffix not in (".yaml", ".yml"):
        return None
    found = read_header(decode_text(data, str(path)), path.name)
    return found["source"], found["target"]


def read_header(text: str, file: str) -> dict[str, Any]:
    """The checked header of a YAML rule file."""
    from amanda.files.text.syntax.yaml_parser import parse as parse_yaml
    from amanda.mapping.rules import table_form

    data = parse_yaml(text, file)
    if not isinstance(data, dict):
        raise FormatError(
            "a file of rules is a map", where=file, expected=f"keys {', '.join(_KEYS)}"
        )
    if table_form.KEY in data:
        return table_form.table_header(data, text, file)
    for key, value in data.items():
        if key not in _KEYS:
            near = get_close_matches(str(key), _KEYS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else None
            raise fault_at(
                text, file, f"rule files have no key {key!r}", key, hint=hint
            )
        expect_kind(value, _KINDS[key], text, file, key)
    for key in ("source", "target"):
        if key not in data:
            raise FormatError(f"a rule file needs the key {key!r}", where=file)
    return data


def expect_kind(value: object, kind: type, text: str, file: str, key: str) -> None:
    """FormatError where the value of a key has another type."""
    words: dict[type, str] = {list: "a list", dict: "a map", str: "a text"}
    if not isinstance(value, kind):
        raise fault_at(
            text,
            file,
            f"{key!r} has a value of the wrong type",
            key,
            expected=words[kind],
        )
    if key in ("tags", "apply_after"):
        assert isinstance(value, list)
        if not all(map(is_name, value)):
            raise fault_at(text, file, f"{key!r} has a value of the wrong type", key,
                        expected="a list of words")  # fmt: skip


def loads(rules: RuleSet, text: str, file: str = "<rules>") -> None:
    """Add the rules of a YAML text to a set."""
    data = read_header(text, file)
    for key, end in (("source", rules.left), ("target", rules.right)):
        if namespace_path(data[key]) != end:
            raise fault_at(text, file, f"rules of another {key}",
                        data.get("keys", {}).get(key, key),
                        expected=end, got=data[key])  # fmt: skip
    with rules.all_or_nothing():
        for name, rows in data.get("tables", {}).items():
            _add_table(rules, text, file, name, rows)
        for way, forward in (("read", True), ("write", False)):
            for head, names in data.get(way, {}).items():
                for name in names if isinstance(names, list) else [names]:
                    call, term = _attach_function(rules, text, file, way, head, name)
                    rules.attach(call, term, forward=forward)
        hints = data.get("hints", {})
        rules.hint(
            left=_read_hints(hints, "source", text, file),
            right=_read_hints(hints, "target", text, file),
        )
        tags, after = data.get("tags", ()), data.get("apply_after", ())
        rules.add(_parse_rows(rules, data, text, file), tags=tags, after=after)


def _parse_rows(
    rules: RuleSet, data: dict[str, Any], text: str, file: str
) -> list[Equation]:
    rules_text = data.get("rules", "")
    if isinstance(rules_text, str):
        block, line = _find_block(text, rules_text)
        return parse_rules(block, rules.lenses, file, line)
    from amanda.mapping.rules import table_form

    found = table_form.rule_texts(rules_text, text, file, rules.lenses)
    return [
        row for rule, n in found for row in parse_rules(rule, rules.lenses, file, n)
    ]


def namespace_path(name: str) -> str:
    """The path of a namespace; empty for an invalid name."""
    try:
        return parse_name(name).path
    except NamespaceError:
        return ""


def _read_hints(hints: dict[str, Any], end: str, text: str, file: str) -> list[str]:
    found = hints.get(end, [])
    is_names = isinstance(found, list) and all(isinstance(n, str) for n in found)
    if not is_names or not {"source", "target"}.issuperset(hints):
        raise fault_at(text, file, "'hints' has a value of the wrong type", "hints",
                    expected="source and target, a list of names each")  # fmt: skip
    return list(found)


def _add_table(rules: RuleSet, text: str, file: str, name: str, rows: Any) -> None:
    pairs = rows.items() if isinstance(rows, dict) else rows
    try:
        made = [(_check_plain(left), _check_plain(right)) for left, right in pairs]
    except (TypeError, ValueError):
        raise fault_at(
            text, file, f"the table {name!r} has a value of the wrong type", "tables",
            expected="a map, or a list of pairs, of numbers and texts",
        ) from None  # fmt: skip
    try:
        rules.table(str(name), made)
    except UsageError as error:
        raise fault_at(text, file, error.message, "tables") from error


def _read_dtype(name: Any) -> DType:
    try:
        return DType(name)
    except InvalidTypeError as error:
        raise ValueError(error.message) from error


def _check_plain(value: Any, deep: int = 0) -> Any:
    if isinstance(value, dict) and value.keys() == {"dtype"}:
        return _read_dtype(value["dtype"])
    if isinstance(value, list) and deep < MAX_DEPTH:
        return [_check_plain(item, deep + 1) for item in value]
    if not isinstance(value, str | int | float | None):
        raise TypeError
    return value


def _attach_function(
    rules: RuleSet, text: str, file: str, way: str, head: object, name: object
) -> tuple[Callable[..., Any], OpTerm]:
    known: Mapping[str, Callable[..., Any]] = rules.callables
    if not isinstance(name, str) or name not in known:
        near = get_close_matches(str(name), known, n=1)
        raise fault_at(
            text, file, f"no function {name!r} is registered", way,
            hint=f"did you mean {near[0]!r}?" if near else None,
        )  # fmt: skip
    return known[name], parse_head(str(head), file)


def _find_block(text: str, rules: str) -> tuple[str, int]:
    """The rules' text in the file, and its first line number."""
    lines = text.split("\n")
    wanted = [line.strip() for line in rules.split("\n") if line.strip()]
    if not wanted:
        return "", 1
    for start, line in enumerate(lines):
        if line.strip() == wanted[0]:
            there = [other.strip() for other in lines[start:] if other.strip()]
            if there[: len(wanted)] == wanted:
                indent = len(line) - len(line.lstrip())
                kept = rules.strip("\n").split("\n")
                return "\n".join(" " * indent + each for each in kept), start + 1
    return rules, 1


def fault_at(
    text: str, file: str, message: str, key: str, *more: str | int, **parts: Any
) -> FormatError:
    """An error at the location of a key, or of what `more` selects inside it."""
    from amanda.files.text.syntax.plain_data import Path as Inside
    from amanda.files.text.syntax.plain_data import extend_path, format_position
    from amanda.files.text.syntax.yaml_parser import locate

    at = extend_path(Inside(None, key), *more)
    return FormatError(message, where=format_position(file, locate(text, at)), **parts)


# -- writing ------------------------------------------------------------------------


def dumps(rules: RuleSet, *, form: str = "yaml") -> str:
    """The rules of a set as YAML; or as plain text, without the header."""
    rows = [row.full_text for row in rules.rows]
    if form == "text":
        return "".join(f"{row}\n" for row in rows)
    return "\n".join(
        [*_header_lines(rules), "rules: |", *(f"  {row}" for row in rows), ""]
    )


def _header_lines(rules: RuleSet) -> Iterator[str]:
    yield f"source: {rules.left}"
    yield f"target: {rules.right}"
    hints = {"source": rules.hints[True], "target": rules.hints[False]}
    if any(hints.values()):
        hints_text = [f"{end}: {_yaml(sorted(names))}" for end, names in hints.items()]
        yield f"hints: {{{', '.join(hints_text)}}}"
    tables = {n: lens for n, lens in rules.lenses.items() if lens.rows is not None}
    if tables:
        yield "tables:"
        for name, lens in tables.items():
            yield f"  {name}: {_yaml(lens.rows)}"
    for way, forward in (("read", True), ("write", False)):
        named: dict[str, list[str]] = {}
        for function in rules.functions:
            if function.forward is forward:
                head = f"{function.term.type}{function.term.versions}"
                named.setdefault(head, []).append(function.name)
        if named:
            yield f"{way}:"
            for head, names in named.items():
                yield f"  {_yaml(head)}: {_yaml(names if names[1:] else names[0])}"


def _yaml(value: Any) -> str:
    """A value as YAML on one line."""
    if isinstance(value, DType):
        return f"{{dtype: {_yaml(str(value))}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_yaml, value))}]"
    if isinstance(value, float) and value - value != 0:
        return ".nan" if value != value else ".inf" if value > 0 else "-.inf"
    if isinstance(value, str):
        quoted = json.dumps(value, ensure_ascii=False)
        return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in quoted)
    return json.dumps(value)
