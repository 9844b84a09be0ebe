"""Files of rules: plain text, or YAML with a header.

    source: amanda/onnx          the left side
    target: amanda/std           the right side
    tags: [activations]
    tables:
      mode: {constant: fill, edge: copy}
    read: {Gemm: gemm}           functions that the rule set registered, by name
    write: {dim: dim}
    rules: |
      Relu(x)  <=>  relu(x)
      Pad(x, mode=m)  <=>  pad(x, mode=mode(m))

A file runs no code: it names lenses and functions that somebody registered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amanda.dictionary import parse_name
from amanda.errors import FormatError, LimitError
from amanda.mapping.parse import parse
from amanda.mapping.terms import Term
from amanda.mapping.tokens import MAX_TEXT

if TYPE_CHECKING:
    from amanda.mapping.rules import RuleSet

__all__ = ["header", "load", "loads"]

_KEYS: Final = ("source", "target", "tags", "tables", "read", "write", "rules")


def load(rules: RuleSet, path: Path) -> None:
    """Add the rules of a file to a set; all of them, or none where one is faulty."""
    from amanda.text.plain import decoded

    if path.stat().st_size > MAX_TEXT:
        raise LimitError("the file of rules is absurdly long", where=path)
    text = decoded(path.read_bytes(), str(path))
    if path.suffix in (".yaml", ".yml"):
        loads(rules, text, path.name)
    else:
        rules.equations(text, path.name)


def header(text: str, file: str) -> dict[str, Any]:
    """What a YAML file of rules says, its keys checked and the ends there."""
    from amanda.text.yaml_parse import parse as parse_yaml

    data = parse_yaml(text, file)
    if not isinstance(data, dict):
        raise FormatError(
            "a file of rules is a map", where=file, expected=f"keys {', '.join(_KEYS)}"
        )
    for key, value in data.items():
        if key not in _KEYS:
            near = get_close_matches(key, _KEYS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else None
            raise _fault(text, file, f"no file of rules has a {key!r}", key, hint=hint)
        kind = list if key == "tags" else dict if key in _KEYS[3:6] else str
        if not isinstance(value, kind):
            raise _fault(
                text, file, f"{key!r} is of another kind", key,
                expected={list: "a list", dict: "a map", str: "a text"}[kind],
            )  # fmt: skip
    for key in ("source", "target"):
        if key not in data:
            raise FormatError(f"a file of rules has a {key!r}", where=file)
    return data


def loads(rules: RuleSet, text: str, file: str = "<rules>") -> None:
    """Add the rules of a YAML text to a set."""
    data = header(text, file)
    for key, end in (("source", rules.left), ("target", rules.right)):
        if parse_name(data[key]).path != end:
            raise _fault(text, file, f"rules of another {key}", key,
                         expected=end, got=data[key])  # fmt: skip
    lenses = dict(rules.lenses)
    try:
        for name, rows in data.get("tables", {}).items():
            _table(rules, text, file, name, rows)
        found = [
            (_function(rules, text, file, way, head, name), forward)
            for way, forward in (("read", True), ("write", False))
            for head, name in data.get(way, {}).items()
        ]
        block, line = _block(text, str(data.get("rules", "")))
        rules.equations(block, file, line)
    except BaseException:
        rules.lenses = lenses
        raise
    for (call, term), forward in found:
        rules.attach(call, term, forward=forward)
    if data.get("tags"):
        rules.tags[file] = tuple(map(str, data["tags"]))


def _table(rules: RuleSet, text: str, file: str, name: str, rows: Any) -> None:
    pairs = rows.items() if isinstance(rows, dict) else rows
    try:
        made = [(_plain(left), _plain(right)) for left, right in pairs]
    except (TypeError, ValueError):
        raise _fault(
            text, file, f"the table {name!r} is of another kind", "tables",
            expected="a map, or a list of pairs, of numbers and texts",
        ) from None  # fmt: skip
    rules.table(name, made)


def _plain(value: Any) -> Any:
    if not isinstance(value, str | int | float | None):
        raise TypeError
    return value


def _function(
    rules: RuleSet, text: str, file: str, way: str, head: str, name: object
) -> tuple[Callable[..., Any], Term]:
    known: Mapping[str, Callable[..., Any]] = rules.callables
    if not isinstance(name, str) or name not in known:
        near = get_close_matches(str(name), known, n=1)
        raise _fault(
            text, file, f"no function {name!r} is registered", way,
            hint=f"did you mean {near[0]!r}?" if near else None,
        )  # fmt: skip
    [row] = parse(f"{head}() => {head}()", (), file)
    return known[name], row.left


def _block(text: str, rules: str) -> tuple[str, int]:
    """The text of the rules as it stands in the file, and its first line there."""
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


def _fault(text: str, file: str, message: str, key: str, **parts: Any) -> FormatError:
    from amanda.text.plain import Path as Inside
    from amanda.text.plain import place
    from amanda.text.yaml_parse import locate

    return FormatError(
        message, where=place(file, locate(text, Inside(None, key))), **parts
    )
