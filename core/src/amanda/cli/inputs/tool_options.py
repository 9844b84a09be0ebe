"""Tools of `amanda instrument`, created with the options of the command line."""

from __future__ import annotations

import inspect
from ast import literal_eval
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from amanda.errors import UsageError

if TYPE_CHECKING:
    from amanda.instrument import Tool

__all__ = ["create_tools", "parse_tool_options"]

_TRUTH: Final = {"true": True, "false": False, "none": None}


def create_tools(names: Sequence[str], told: Sequence[str]) -> list[Tool]:
    """The tools of these names, with the options that `--option` gives each."""
    from amanda.host import default_host

    host = default_host()
    options = parse_tool_options(told, names)
    return [
        _create(name, host.get("tools", name), options[name])
        for name in dict.fromkeys(names)
    ]


def parse_tool_options(
    told: Sequence[str], tools: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Options by tool: `NAME=VALUE` for the only one, `TOOL.NAME=VALUE` for several.

    Values are literals of Python, true, false or none; anything else is text.

    >>> parse_tool_options(["bits=4", "ops=['conv']", "deep=true"], ["quantise"])
    {'quantise': {'bits': 4, 'ops': ['conv'], 'deep': True}}
    >>> parse_tool_options(["b.k=x"], ["a", "b"])
    {'a': {}, 'b': {'k': 'x'}}
    """
    found: dict[str, dict[str, Any]] = {name: {} for name in tools}
    for text in told:
        key, mark, value = text.partition("=")
        tool, dot, name = key.rpartition(".")
        tool = tool if dot else tools[0] if len(found) == 1 else ""
        if not mark or not name or tool not in found:
            form = "NAME=VALUE" if len(found) == 1 else "TOOL.NAME=VALUE"
            raise UsageError(
                f"--option takes {form}",
                where=f"--option {text}",
                expected=f"the option of one of {', '.join(found)}",
                got=text,
            )
        if name in found[tool]:
            raise UsageError(
                f"the option {name!r} is given twice", where=f"--option {text}"
            )
        found[tool][name.replace("-", "_")] = _parse_value(value)
    return found


def _parse_value(text: str) -> Any:
    if text.lower() in _TRUTH:
        return _TRUTH[text.lower()]
    try:
        return literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


def _create(name: str, tool: Any, options: Mapping[str, Any]) -> Tool:
    """A tool with options; an error names those that it has."""
    parameters = inspect.signature(tool).parameters.values()
    known = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    is_open = any(p.kind is p.VAR_KEYWORD for p in parameters)
    unknown = [each for each in options if each not in known]
    if unknown and not is_open:
        raise UsageError(
            f"the tool {name} has no option {unknown[0]!r}",
            expected=f"one of {', '.join(known)}" if known else "no options",
            got=unknown[0],
        )
    made: Tool = tool(**options)
    return made
