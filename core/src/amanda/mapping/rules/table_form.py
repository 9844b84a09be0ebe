"""Rules in table form, with a matcher and a mapper each.

    src_namespace: amanda/pytorch
    dst_namespace: amanda/std
    rules:
      - matcher: {op: conv2d, inputs: [$x, $w, $b?], attrs: {groups: $g, mode: zeros}}
        mapper: {op: conv, inputs: [$x, $w, $b], attrs: {groups: "${seq(g)}"}}
        guard: ${rank(x) == 4}
        apply_after: [norms]

`$x` is a variable, `$*xs` a variadic one, `${...}` a value in the notation of rules; an
op may be used as an input, and anything else is a constant. A rule runs from matcher to
mapper, with `both: true` in both directions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from amanda.errors import FormatError, LimitError
from amanda.mapping.rules.parser import (
    MAX_DEPTH,
    is_name,
    parse_guard,
    parse_head,
    parse_part,
)
from amanda.mapping.rules.terms import format_value

__all__ = ["KEY", "table_header", "rule_texts"]

KEY: Final = "src_namespace"
_HEADER: Final = (KEY, "dst_namespace", "tags", "apply_after", "tables", "rules")
_RULE: Final = (
    "name", "matcher", "mapper", "guard", "losing", "tags", "apply_after", "both",
)  # fmt: skip
_OP: Final = ("op", "versions", "inputs", "attrs", "after", "output")
_VARIABLE = re.compile(r"\$(\*?)([A-Za-z_]\w*)(\??)")


def table_header(data: dict[str, Any], text: str, file: str) -> dict[str, Any]:
    """The header under the keys of rule files."""
    from amanda.mapping.rules.rule_file import expect_kind, fault_at

    for key in data:
        if key not in _HEADER:
            raise fault_at(text, file, f"rule tables have no key {key!r}", str(key))
    if "dst_namespace" not in data:
        raise FormatError("a table of rules has a 'dst_namespace'", where=file)
    kinds = (str, str, list, list, dict, list)
    for key, kind in zip(_HEADER, kinds, strict=True):
        if key in data:
            expect_kind(data[key], kind, text, file, key)
    fields = {k: v for k, v in data.items() if not k.endswith("_namespace")}
    keys = {"source": KEY, "target": "dst_namespace"}
    ends = {end: data[key] for end, key in keys.items()}
    return {**fields, **ends, "keys": keys}


def rule_texts(
    found: list[Any], text: str, file: str, lenses: Collection[str]
) -> Iterator[tuple[str, int]]:
    """The text of each rule, with its line number."""
    from amanda.files.text.syntax.plain_data import Path
    from amanda.files.text.syntax.yaml_parser import locate

    for i, rule in enumerate(found):
        line = locate(text, Path(Path(None, "rules"), i)).line
        yield _RuleTextWriter(file, line, lenses).rule(rule), line


class _RuleTextWriter:
    def __init__(self, file: str, line: int, lenses: Collection[str]) -> None:
        self.file = file
        self.line = line
        self.lenses = lenses

    def fault(self, message: str, **parts: Any) -> FormatError:
        return FormatError(message, where=f"{self.file}:{self.line}", **parts)

    def keys(self, value: object, known: tuple[str, ...], what: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.fault(
                f"{what} must be a map", expected=f"keys {', '.join(known)}"
            )
        for key in value:
            if key not in known:
                raise self.fault(
                    f"no {what} has a {key!r}", expected=f"one of {', '.join(known)}"
                )
        return value

    def rule(self, value: object) -> str:
        fields = self.keys(value, _RULE, "rule")
        if "matcher" not in fields or "mapper" not in fields:
            raise self.fault("a rule has a matcher and a mapper")
        left, right = (self.side(fields[key]) for key in ("matcher", "mapper"))
        arrow = "<=>" if fields.get("both", False) is True else "=>"
        made = f"{left} {arrow} {right}"
        if "guard" in fields:
            made += f" if {self.guard(fields['guard'])}"
        if "losing" in fields:
            made += f" losing {format_value(str(fields['losing']))}"
        after = self.words(fields.get("apply_after", []), "apply_after")
        if after:
            made += f" after {', '.join(after)}"
        return made + "".join(
            f" @{t}" for t in self.words(fields.get("tags", []), "tags")
        )

    def words(self, value: object, key: str) -> list[str]:
        if not isinstance(value, list) or not all(map(is_name, value)):
            raise self.fault(
                f"{key!r} has a value of the wrong type", expected="a list of words"
            )
        return value

    def guard(self, value: object) -> str:
        text = value if isinstance(value, str) else ""
        if text.startswith("${") and text.endswith("}"):
            text = text[2:-1]
        return str(parse_guard(text, self.lenses, self.file, self.line))

    def side(self, value: object) -> str:
        if isinstance(value, str):
            return self.part(value, 0)
        return self.op(value, 0)

    def op(self, value: object, depth: int) -> str:
        if depth > MAX_DEPTH:
            raise LimitError(
                "a rule is nested too deep", where=f"{self.file}:{self.line}"
            )
        fields = self.keys(value, _OP, "op")
        head = parse_head(
            f"{fields.get('op', '')}{fields.get('versions', '')}", self.file, self.line
        )
        inputs, attrs = fields.get("inputs", []), fields.get("attrs", {})
        waits = fields.get("after", [])
        if not isinstance(inputs, list) or not isinstance(waits, list):
            raise self.fault("'inputs' and 'after' are lists")
        parts = [self.part(one, depth + 1) for one in inputs]
        parts += self.attrs(attrs)
        parts += [f"^{self.op(one, depth + 1)}" for one in waits]
        output = fields.get("output", 0)
        if type(output) is not int or output < 0:
            raise self.fault("'output' is the number of an output", got=repr(output))
        pick = f"[{output}]" if output else ""
        return f"{head.type}{head.versions}({', '.join(parts)}){pick}"

    def attrs(self, attrs: object) -> Iterator[str]:
        if not isinstance(attrs, Mapping):
            raise self.fault("'attrs' is a map of names to values")
        for key, value in attrs.items():
            if not is_name(key):
                raise self.fault("an attribute is a name", got=repr(key))
            yield f"{key}={self.part(value, MAX_DEPTH)}"

    def part(self, value: object, depth: int) -> str:
        """A value in the notation."""
        if isinstance(value, dict):
            return self.op(value, depth)
        if isinstance(value, list):
            if depth > 2 * MAX_DEPTH:
                raise self.fault("a list is nested too deep")
            items = [self.part(item, max(depth, MAX_DEPTH) + 1) for item in value]
            return f"[{', '.join(items)}]"
        if not isinstance(value, str):
            return self.constant(value)
        if found := _VARIABLE.fullmatch(value):
            return "".join(found.groups())
        if value.startswith("${") and value.endswith("}"):
            part = parse_part(value[2:-1], self.lenses, self.file, self.line)
            return str(part)
        if value.startswith("$"):
            raise self.fault("a variable is $name, a value ${...}", got=repr(value))
        return format_value(value)

    def constant(self, value: object) -> str:
        if isinstance(value, bool | int | float | None):
            return format_value(value)
        raise self.fault("a value that rules do not have", got=repr(value))
