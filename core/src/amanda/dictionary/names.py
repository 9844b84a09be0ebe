"""Names of namespaces: parsing, short forms, ordering and resolution.

    amanda/tensorflow/1.13.1     a full name: owner, framework, version
    tensorflow@1.13.1, onnx@18   short for amanda/tensorflow/1.13.1, amanda/onnx/18
    acme/dialect@2               short for acme/dialect/2
    torch                        the newest version that is installed
    amanda/onnx/7..18            a span of versions, inclusive; 7.. has no end
    amanda/onnx/*                every version

Dictionaries are installed under the entry-point group `amanda.namespaces`: the name of
an entry point is the path (`amanda/onnx`, or `onnx`), its object a `NamespaceProvider`.
The manifest may list the versions, so that choosing one imports nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

from amanda.addons import advise_dictionary
from amanda.errors import NamespaceError

__all__ = [
    "Name",
    "Namespace",
    "NamespaceProvider",
    "Span",
    "newest_version",
    "parse_name",
    "parse_span",
    "resolve_name",
    "version_key",
]

DEFAULT_OWNER = "amanda"
"""The owner of names without one."""

_MOST_LETTERS = 256
"""Characters of a name; also keeps the numbers of versions small."""

_GRAMMAR = "names are like amanda/onnx/18, onnx@18 or onnx"
_PART = r"[A-Za-z_][A-Za-z0-9_.+-]*"
_VERSION = r"[0-9][A-Za-z0-9_.+!-]*"
_NAME = re.compile(
    rf"(?P<path>{_PART}(?:/{_PART})*)(?:(?P<mark>[@/])(?P<version>{_VERSION}))?"
)
_SPAN = re.compile(
    rf"(?P<low>[0-9](?:[A-Za-z0-9_.+!-]*?[A-Za-z0-9])?)\.\.(?P<high>(?:{_VERSION})?)|\*"
)


@runtime_checkable
class Namespace(Protocol):
    """The dictionary of one version: op definitions by type."""

    name: str

    def __contains__(self, op_type: object, /) -> bool: ...
    def __getitem__(self, op_type: str, /) -> Any: ...
    def __iter__(self) -> Iterator[str]: ...


@runtime_checkable
class NamespaceProvider(Protocol):
    """All versions of a dictionary, as `amanda.namespaces` entry points name it."""

    def versions(self) -> Sequence[str]:
        """The known versions, oldest first."""

    def at(self, version: str) -> Namespace:
        """The dictionary of one of these versions."""


class Name(NamedTuple):
    """A parsed name. `version` is None if the name has none."""

    path: str
    version: str | None

    def __str__(self) -> str:
        return self.path if self.version is None else f"{self.path}/{self.version}"

    @property
    def number(self) -> int:
        """The version as a whole number, 1 for none; NamespaceError for 1.5 and 1rc1.

        >>> parse_name("onnx@18").number
        18
        """
        version = self.version or "1"
        if not (version.isascii() and version.isdigit()):
            raise NamespaceError(
                f"the versions of {self.path} are whole numbers", got=version
            )
        return int(version)

    @property
    def short(self) -> str:
        """
        >>> parse_name("amanda/onnx/18").short, parse_name("acme/dialect/2").short
        ('onnx@18', 'acme/dialect@2')
        """
        path = self.path.removeprefix(f"{DEFAULT_OWNER}/")
        return path if self.version is None else f"{path}@{self.version}"


@dataclass(frozen=True, slots=True)
class Span:
    """The versions `low` to `high` of a path, inclusive; None leaves an end open.

    >>> onnx = parse_span("amanda/onnx/7..18")
    >>> parse_name("onnx@12") in onnx, parse_name("onnx@19") in onnx
    (True, False)
    """

    path: str
    low: str | None = None
    high: str | None = None

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, Name) or name.path != self.path:
            return False
        if name.version is None:
            return True
        key = version_key(name.version)
        below = self.low is not None and key < version_key(self.low)
        above = self.high is not None and key > version_key(self.high)
        return not below and not above

    def meet(self, other: Span) -> Span | None:
        """The intersection with another span, or None if it is empty.

        >>> str(parse_span("onnx@7..18").meet(parse_span("amanda/onnx/13..")))
        'amanda/onnx/13..18'
        """
        if self.path != other.path:
            return None
        lows = [end for end in (self.low, other.low) if end is not None]
        highs = [end for end in (self.high, other.high) if end is not None]
        low = max(lows, key=version_key, default=None)
        high = min(highs, key=version_key, default=None)
        if (
            low is not None
            and high is not None
            and version_key(low) > version_key(high)
        ):
            return None
        return Span(self.path, low, high)

    @property
    def exact(self) -> Name | None:
        """The only name in this span, or None if there are several."""
        if self.low is None or self.high is None:
            return None
        if version_key(self.low) != version_key(self.high):
            return None
        return Name(self.path, self.low)

    @classmethod
    def of(cls, name: Name) -> Self:
        return cls(name.path, name.version, name.version)

    def __str__(self) -> str:
        if self.exact is not None:
            return str(self.exact)
        if self.low is None and self.high is None:
            return f"{self.path}/*"
        return f"{self.path}/{self.low or '0'}..{self.high or ''}"


def version_key(version: str) -> tuple[tuple[int, ...], int, str]:
    """The sort key of a version: numeric, a pre-release before its release.

    >>> sorted(["1.13.1", "2.0", "1.9", "2.0rc1"], key=version_key)
    ['1.9', '1.13.1', '2.0rc1', '2.0']
    >>> version_key("2") == version_key("2.0.0")
    True
    """
    numbers = re.match(r"[0-9]+(?:\.[0-9]+)*", version)
    if numbers is None:
        return (), 0, version
    release = [int(number) for number in numbers[0].split(".")]
    while len(release) > 1 and release[-1] == 0:
        release.pop()
    rest = version[numbers.end() :]
    early = re.match(
        r"[._-]?(?:a|alpha|b|beta|rc|c|pre|preview|dev)", rest, re.IGNORECASE
    )
    return tuple(release), -1 if early else 1 if rest else 0, rest


def parse_name(text: str) -> Name:
    """Parse a full or short name.

    >>> str(parse_name("onnx@18")), str(parse_name("torch"))
    ('amanda/onnx/18', 'amanda/torch')
    """
    if len(text) > _MOST_LETTERS:
        raise NamespaceError(
            "the name of a namespace is too long",
            expected=f"at most {_MOST_LETTERS} characters",
            got=f"{len(text)}, beginning with {text[:40]!r}",
        )
    found = _NAME.fullmatch(text)
    if found is None:
        raise NamespaceError(
            f"{text!r} is not the name of a namespace", hint=_GRAMMAR, got=repr(text)
        )
    path, version = found["path"], found["version"]
    if "/" not in path:
        if found["mark"] == "/":
            raise NamespaceError(
                f"the namespace name {text!r} has no owner",
                hint=f"write {DEFAULT_OWNER}/{text}, or {path}@{version} for short",
            )
        path = f"{DEFAULT_OWNER}/{path}"
    return Name(path, version)


def parse_span(text: str) -> Span:
    """Parse a name whose version may be a span; no version means every version.

    >>> str(parse_span("amanda/onnx/7..")), str(parse_span("onnx"))
    ('amanda/onnx/7..', 'amanda/onnx/*')
    """
    path, mark, versions = _split_version(text)
    is_short = len(text) <= _MOST_LETTERS
    found = _SPAN.fullmatch(versions) if mark and is_short else None
    if found is None:
        return Span.of(parse_name(text))
    if mark == "/" and "/" not in path:
        raise NamespaceError(
            f"the namespace name {text!r} has no owner",
            hint=f"write {DEFAULT_OWNER}/{text}",
        )
    span = Span(parse_name(path).path, found["low"] or None, found["high"] or None)
    if span.low and span.high and version_key(span.low) > version_key(span.high):
        raise NamespaceError(f"the span {text!r} ends before it begins")
    return span


def _split_version(text: str) -> tuple[str, str, str]:
    at = max(text.rfind("/"), text.rfind("@"))
    return (text, "", "") if at < 0 else (text[:at], text[at], text[at + 1 :])


def newest_version(versions: Iterable[str]) -> str | None:
    """The highest version; pre-releases count only if there is nothing else.

    >>> newest_version(["1.9", "2.0rc1", "1.13.1"])
    '1.13.1'
    """
    known = list(versions)
    released = [version for version in known if version_key(version)[1] >= 0]
    return max(released or known, key=version_key, default=None)


def resolve_name(
    text: str, known: Mapping[str, Sequence[str]], *, assume: bool = False
) -> Name:
    """Resolve a name to a full one, given the known versions of each path.

    A path without versions in `known` accepts any version. With `assume`, the nearest
    lower version replaces an unknown one.

    >>> str(resolve_name("torch", {"amanda/torch": ["2.4", "2.13"]}))
    'amanda/torch/2.13'
    """
    name = parse_name(text)
    if name.path not in known:
        raise NamespaceError(
            f"no dictionary of {name.short!r} is installed",
            expected=f"one of {_list_paths(known)}" if known else None,
            hint=_suggest_path(name, known),
        )
    versions = known[name.path]
    if name.version is None:
        return Name(name.path, newest_version(versions))
    if not versions or name.version in versions:
        return name
    key = version_key(name.version)
    same = [version for version in versions if version_key(version) == key]
    lower = [version for version in versions if version_key(version) < key]
    if assume and not same and lower:
        return Name(name.path, max(lower, key=version_key))
    if not same:
        raise NamespaceError(
            f"{name.path} has no version {name.version}",
            expected=f"one of {_list_versions(versions)}",
            hint=f"the nearest is {_nearest(name, versions).short}",
        )
    return Name(name.path, same[0])


def _nearest(name: Name, versions: Sequence[str]) -> Name:
    """The known version nearest to an unknown one.

    The first with it as a prefix (1.13 -> 1.13.1), else the next lower one, else the
    lowest.
    """
    assert name.version is not None
    ordered = sorted(versions, key=version_key)
    within = [v for v in ordered if v.startswith(f"{name.version}.")]
    key = version_key(name.version)
    lower = [version for version in ordered if version_key(version) < key]
    return Name(name.path, (within or lower[-1:] or ordered)[0])


def _list_versions(versions: Sequence[str], most: int = 12) -> str:
    ordered = sorted(versions, key=version_key)
    if len(ordered) <= most:
        return ", ".join(ordered)
    ends = [*ordered[:3], "...", *ordered[-3:]]
    return f"{', '.join(ends)} ({len(ordered)} versions)"


def _list_paths(known: Mapping[str, Sequence[str]]) -> str:
    return ", ".join(Name(path, None).short for path in sorted(known))


def _suggest_path(name: Name, known: Mapping[str, Sequence[str]]) -> str:
    shorts = [Name(path, None).short for path in known]
    wanted = Name(name.path, None).short
    near = get_close_matches(wanted, shorts, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return advise_dictionary(name.path) or "`amanda ops` lists the dictionaries"
