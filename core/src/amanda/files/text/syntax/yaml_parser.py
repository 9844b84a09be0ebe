"""YAML text to plain data, in one pass over the parser's events, without recursion.

The syntax is PyYAML's (libyaml if installed); scalars are resolved here. Anchors and
aliases are refused, since small documents can claim much memory with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from amanda.errors import FormatError, LimitError
from amanda.files.text.syntax.locate import DocumentEvent, find_mark
from amanda.files.text.syntax.plain_data import (
    MAX_NESTING,
    Path,
    Plain,
    Tagged,
    TextPosition,
    format_position,
    quote_short,
    too_deep,
)
from amanda.files.text.syntax.scalars import (
    Scalar,
    holds_surrogate,
    may_hold_surrogates,
    parse_number,
    resolve_scalar,
)

__all__ = ["locate", "parse"]

_STANDARD = "tag:yaml.org,2002:"
_TOO_DEEP = "exceeded maximum nesting depth"
"""The problem that libyaml 0.2.6 names: its scanner, which reads ahead, has a limit."""
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse(text: str, name: str) -> Plain:
    """The document in `text`; `name` is its name in errors."""
    composer = _Composer(text, name)
    for event in _events(text, name):
        composer.take(event)
    if not composer.documents:
        raise FormatError("the document is empty", where=name)
    return composer.top


def locate(text: str, path: Path | None) -> TextPosition:
    """The position of the value at `path`, in a valid text."""
    return find_mark(_steps(text), path) or TextPosition(1, 1)


def _steps(text: str) -> Iterator[DocumentEvent[TextPosition]]:
    levels: list[bool | None] = []  # True: a map whose next event is a key
    for event in _events(text, ""):
        kind = type(event)
        if kind is SequenceEndEvent or kind is MappingEndEvent:
            levels.pop()
            yield DocumentEvent("end", "", _spot(event))
            continue
        if not isinstance(event, NodeEvent):
            continue
        waits = levels[-1] if levels else None
        if waits is not None:
            levels[-1] = not waits
        if waits:
            yield DocumentEvent("key", getattr(event, "value", ""), _spot(event))
        elif kind is ScalarEvent:
            yield DocumentEvent("scalar", "", _spot(event))
        else:
            is_map = kind is MappingStartEvent
            levels.append(True if is_map else None)
            yield DocumentEvent("map" if is_map else "list", "", _spot(event))


def _events(text: str, name: str) -> Iterator[Event]:
    try:
        yield from yaml.parse(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        spot = None if mark is None else TextPosition(mark.line + 1, mark.column + 1)
        if error.problem and _TOO_DEEP in error.problem:
            raise too_deep(format_position(name, spot)) from error
        raise FormatError(
            f"the text is not YAML: {error.problem or error.context}",
            where=format_position(name, spot),
            got=error.context if error.problem else None,
        ) from error
    except yaml.reader.ReaderError as error:
        raise FormatError(
            "the text is not YAML: it holds characters that YAML does not allow",
            where=format_position(name, _first_control(text)),
            hint='write them as escapes in double quotes, such as "\\x00"',
        ) from error
    except UnicodeEncodeError as error:
        raise FormatError(
            "the text holds half of a surrogate pair",
            where=format_position(name, TextPosition.at(text, error.start)),
        ) from error


def _first_control(text: str) -> TextPosition | None:
    match = yaml.reader.Reader.NON_PRINTABLE.search(text)
    return TextPosition.at(text, match.start()) if match else None


def _spot(event: Event) -> TextPosition:
    mark = event.start_mark
    assert mark is not None
    return TextPosition(mark.line + 1, mark.column + 1)


class _Composer:
    """Builds the value of a document from events."""

    def __init__(self, text: str, name: str) -> None:
        self.text, self.name = text, name
        self.watchful = may_hold_surrogates(text)
        self.documents = 0
        self.top: Plain = None
        # open containers: each with its tag, and the key without a value
        self.stack: list[tuple[list[Any] | dict[str, Any], str | None]] = []
        self.keys: list[str | None] = []

    def take(self, event: Event) -> None:
        kind = type(event)
        if kind is ScalarEvent:
            self._scalar(event)  # type: ignore[arg-type]
        elif kind is MappingStartEvent or kind is SequenceStartEvent:
            self._open_container(event)  # type: ignore[arg-type]
        elif kind is MappingEndEvent or kind is SequenceEndEvent:
            self._close_container()
        elif kind is DocumentStartEvent:
            self.documents += 1
            if self.documents > 1:
                raise self._error("a second document in one text", event)
        elif kind is AliasEvent:
            raise self._anchor_error(event)

    def _error(self, message: str, event: Event, **parts: Any) -> FormatError:
        return FormatError(
            message, where=format_position(self.name, _spot(event)), **parts
        )

    def _anchor_error(self, event: Event) -> LimitError:
        return LimitError(
            "anchors and aliases (`&`, `*`) are not read",
            where=format_position(self.name, _spot(event)),
            hint="write the value out; put text that starts so in quotes",
        )

    def _open_container(self, event: MappingStartEvent | SequenceStartEvent) -> None:
        if event.anchor is not None:
            raise self._anchor_error(event)
        if self.stack and self._expects_key():
            raise self._error("a key is a list or map", event, expected="text")
        if len(self.stack) >= MAX_NESTING:
            raise too_deep(format_position(self.name, _spot(event)))
        is_map = type(event) is MappingStartEvent
        tag = event.tag
        if tag == _STANDARD + ("map" if is_map else "seq") or tag == "!":
            tag = None
        elif tag is not None and not _own_tag(tag):
            raise self._unknown_tag(tag, event)
        self.stack.append(({} if is_map else [], tag))
        self.keys.append(None)

    def _unknown_tag(self, tag: str, event: Event) -> FormatError:
        return self._error(f"the tag {quote_short(tag)} means nothing here", event)

    def _expects_key(self) -> bool:
        return type(self.stack[-1][0]) is dict and self.keys[-1] is None

    def _close_container(self) -> None:
        value, tag = self.stack.pop()
        self.keys.pop()
        self._put(value if tag is None else Tagged(tag[1:], value))

    def _scalar(self, event: ScalarEvent) -> None:
        if event.anchor is not None:
            raise self._anchor_error(event)
        if self.watchful and holds_surrogate(event.value):
            raise self._error("a text holds half of a surrogate pair", event)
        if self.stack and self._expects_key():
            self._key(event)
        elif event.tag is None:
            plain = event.implicit[0]
            self._put(self._resolve(event) if plain else event.value)
        else:
            self._put(self._resolve_tagged(event, event.tag))

    def _resolve(self, event: ScalarEvent) -> Scalar:
        try:
            return resolve_scalar(event.value)
        except OverflowError as error:
            raise self._error(
                "a number out of range", event, got=error,
                hint="infinity is written .inf",
            ) from error  # fmt: skip

    def _resolve_tagged(self, event: ScalarEvent, tag: str) -> Plain:
        text = event.value
        if tag in ("!", _STANDARD + "str"):
            return text
        if tag == _STANDARD + "binary":
            return Tagged("bytes", text)
        if not tag.startswith(_STANDARD):
            if not _own_tag(tag):
                raise self._unknown_tag(tag, event)
            return Tagged(tag[1:], text)
        kinds = {"int": int, "float": float, "bool": bool, "null": type(None)}
        kind = kinds.get(tag.removeprefix(_STANDARD))
        if kind is None:
            raise self._unknown_tag(tag, event)
        value = self._resolve(event)
        if kind is float and type(value) is int:
            number = parse_number(text + ".0" if text.isdigit() else text)
            value = number if number is None else _float(number)
        if type(value) is not kind:
            raise self._error(f"not a {kind.__name__}", event, got=repr(text[:60]))
        return value

    def _key(self, event: ScalarEvent) -> None:
        key = event.value
        if event.tag not in (None, "!", _STANDARD + "str"):
            raise self._unknown_tag(str(event.tag), event)
        if not key and event.implicit[0]:
            raise self._error("a key is missing before `:`", event)
        if key in self.stack[-1][0]:
            raise self._duplicate_key_error(key, event)
        self.keys[-1] = key

    def _duplicate_key_error(self, key: str, event: ScalarEvent) -> FormatError:
        path: Path | None = None
        for (container, _), step in zip(self.stack, self.keys, strict=True):
            last = len(container) if type(container) is list else step
            path = Path(path, key if last is None else last)
        return self._error(
            f"the key {quote_short(key)} stands twice in one map",
            event,
            got=f"the first at {format_position(self.name, locate(self.text, path))}",
        )

    def _put(self, value: Plain) -> None:
        if not self.stack:
            self.top = value
            return
        container = self.stack[-1][0]
        if type(container) is list:
            container.append(value)
        else:
            key = self.keys[-1]
            assert key is not None
            container[key] = value  # type: ignore[call-overload]
            self.keys[-1] = None


def _own_tag(tag: str) -> bool:
    return tag.startswith("!") and tag[1:].isidentifier()


def _float(number: float) -> float | None:
    return float(number) if abs(number) < 1 << 1000 else None
