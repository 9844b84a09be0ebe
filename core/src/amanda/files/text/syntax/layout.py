"""Formats plain data: what fits is on one line, the rest has one item a line.

YAML and JSON differ only in their punctuation, which a style class defines. Recursion
is bounded by the width of a line.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from amanda.files.text.syntax.plain_data import Block, Plain, Rows, Tagged
from amanda.files.text.syntax.scalars import (
    format_float,
    format_text,
    holds_surrogate,
    lone_surrogate,
)

__all__ = ["JsonStyle", "YamlStyle", "format_document"]

_WIDTH = 88
_MIN_WIDTH = 40  # minimum width of a line's items, at any depth
_LONG_KEY = 1000  # longer keys need another syntax in YAML


class Style(ABC):
    """How scalars are written; `flow`: inside a list or map in flow style."""

    def scalar(self, value: Any, flow: bool) -> str:
        if value is None:
            return "null"
        if value is True or value is False:
            return "true" if value else "false"
        if isinstance(value, int):
            return str(value)
        return (
            self.number(value) if isinstance(value, float) else self.text(value, flow)
        )

    def joins(self, value: Plain) -> bool:
        """Whether the items of a list or map may share a line."""
        return type(value) is not Block and type(value) is not Rows

    @abstractmethod
    def key(self, text: str, flow: bool) -> str: ...

    @abstractmethod
    def text(self, text: str, flow: bool) -> str: ...

    @abstractmethod
    def number(self, value: float) -> str: ...

    @abstractmethod
    def format_tagged(self, tag: str, text: str) -> str: ...


class YamlStyle(Style):
    """Block style, with lists and maps that fit in flow style."""

    def key(self, text: str, flow: bool) -> str:
        return format_text(text, flow)

    def text(self, text: str, flow: bool) -> str:
        return format_text(text, flow)

    def number(self, value: float) -> str:
        return format_float(value)

    def format_tagged(self, tag: str, text: str) -> str:
        return f"!{tag} {text}"


class JsonStyle(Style):
    """JSON; tagged values are objects with one key `$kind`."""

    def joins(self, value: Plain) -> bool:
        if type(value) is Block:  # a map of scalars only
            return all(type(item) not in _CONTAINERS for item in value.values())
        return super().joins(value)

    def key(self, text: str, flow: bool) -> str:
        return self.text("$" + text if text.startswith("$") else text, flow)

    def number(self, value: float) -> str:
        return repr(value) if math.isfinite(value) else f'{{"$float": "{value}"}}'

    def format_tagged(self, tag: str, text: str) -> str:
        return f'{{"${tag}": {text}}}'

    def text(self, text: str, flow: bool) -> str:  # noqa: ARG002  (flow is all there is)
        if holds_surrogate(text):
            raise lone_surrogate(text)
        return json.dumps(text, ensure_ascii=False)


def format_inline(style: Style, value: Plain, room: int) -> str | None:
    """A value in flow style; None if it does not fit or needs several lines."""
    kind = type(value)
    if kind is Tagged:
        text = format_inline(style, value.value, room - len(value.tag) - 2)
        return None if text is None else style.format_tagged(value.tag, text)
    if kind not in _CONTAINERS:
        return style.scalar(value, True)
    is_list = isinstance(value, list)
    if not value:
        return "[]" if is_list else "{}"
    room -= 2
    if not style.joins(value) or 3 * len(value) > room + 2:
        return None
    parts = []
    for item in value:
        part = item if is_list else value[item]
        text = format_inline(style, part, room)
        if text is None:
            return None
        if not is_list:
            text = f"{style.key(item, True)}: {text}"
        room -= len(text) + 2
        if room < -2:
            return None
        parts.append(text)
    inner = ", ".join(parts)
    return f"[{inner}]" if is_list else f"{{{inner}}}"


def _format_on_key_line(style: Style, value: Plain, room: int) -> str | None:
    """A value on the line of its key; None if it needs several lines."""
    inner = value.value if type(value) is Tagged else value
    if type(inner) in _CONTAINERS:
        return format_inline(style, value, max(room, _MIN_WIDTH))
    text = style.scalar(inner, False)
    return style.format_tagged(value.tag, text) if type(value) is Tagged else text


_CONTAINERS = frozenset({dict, list, Block, Rows})


class _OpenContainer:
    """A list or map whose remaining items are to be written."""

    __slots__ = ("closer", "holder", "items", "pad")

    def __init__(self, holder: Plain, pad: str, closer: str = "") -> None:
        self.holder, self.pad, self.closer = holder, pad, closer
        self.items: Iterator[Any] = iter(holder)


_DONE: Any = object()


def format_document(style: Style, value: Plain) -> str:
    """The text of a document."""
    text = _format_on_key_line(style, value, _WIDTH)
    if text is not None:
        return text + "\n"
    pieces: list[str] = []
    write = _write_yaml if isinstance(style, YamlStyle) else _write_json
    write(style, value, pieces.append)
    return "".join(pieces)


def _write_yaml(style: Style, top: Plain, put: Callable[[str], object]) -> None:
    if type(top) is Tagged:
        put(f"!{top.tag}\n")
        top = top.value
    stack = [_OpenContainer(top, "")]
    lead: str | None = None  # precedes the next item instead of its indentation
    while stack:
        frame = stack[-1]
        item = next(frame.items, _DONE)
        if item is _DONE:
            stack.pop()
            continue
        pad = frame.pad
        start, lead = (pad if lead is None else lead), None
        in_list = isinstance(frame.holder, list)
        if in_list:
            value: Plain = item
            start += "-"
        else:
            value = frame.holder[item]
            key = style.key(item, False)
            start += f"? {key}\n{pad}:" if len(key) > _LONG_KEY else f"{key}:"
        text = _format_on_key_line(style, value, _WIDTH - len(start) - 1)
        if text is not None:
            put(f"{start} {text}\n")
            continue
        if type(value) is Tagged:
            start, value = f"{start} !{value.tag}", value.value
        elif in_list and not isinstance(value, list):
            lead = start + " "  # the first key is on the line of the dash
        if lead is None:
            put(start + "\n")
        stack.append(_OpenContainer(value, pad + "  "))


def _write_json(style: Style, top: Plain, put: Callable[[str], object]) -> None:
    stack: list[_OpenContainer] = []

    def open_container(value: Plain, pad: str) -> None:
        opener = closer = ""
        if type(value) is Tagged:
            opener, closer, value = f'{{"${value.tag}": ', "}", value.value
        is_list = isinstance(value, list)
        put(opener + ("[" if is_list else "{"))
        stack.append(_OpenContainer(value, pad, ("]" if is_list else "}") + closer))

    open_container(top, "")
    first = True
    while stack:
        frame = stack[-1]
        item = next(frame.items, _DONE)
        if item is _DONE:
            put(f"\n{frame.pad}{frame.closer}")
            stack.pop()
            first = False
            continue
        pad = frame.pad + "  "
        start, value = pad, item
        if not isinstance(frame.holder, list):
            value = frame.holder[item]
            start += f"{style.key(item, False)}: "
        put(("\n" if first else ",\n") + start)
        text = _format_on_key_line(style, value, _WIDTH - len(start) - 1)
        first = text is None
        if text is None:
            open_container(value, pad)
        else:
            put(text)
    put("\n")
