"""Compatibility of distributions with this core, by their requirement on amanda-core.

It is read from metadata before the import, so that an incompatible plug-in is reported
as such, and not by an ImportError.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from amanda import __version__

if TYPE_CHECKING:
    from packaging.requirements import Requirement

CORE = "amanda-core"
_RELEASE = re.compile(r"\d+(?:\.\d+)*", re.ASCII)
_BOUND = re.compile(rf"(>=|<)({_RELEASE.pattern})", re.ASCII)


def canonical(name: str) -> str:
    """The canonical form of the name of a distribution.

    >>> canonical("Amanda_Foo.bar")
    'amanda-foo-bar'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def requirement_fault(
    requires: Iterable[str],
    provided: Collection[str] = (),
    wanted: Collection[str] = (),
    version: str = __version__,
) -> str:
    """Why these requirements exclude core `version`, or an empty string.

    A requirement of an extra counts if the entry point names that extra in `wanted`. A
    distribution that requires the core only in its extras (`provided`) is compatible if
    one of them is.

    >>> requirement_fault(["amanda-core>=1.2,<2"], version="0.9")
    'made for amanda-core <2,>=1.2; this is 0.9'
    >>> requirement_fault(["amanda-core>=0.1", "numpy"], version="0.9")
    ''
    """
    about = [text for text in requires if _is_core(text)]
    if all(_is_met(text, version) for text in about):
        return ""
    needs, unread = _parse_requirements(about)
    if unread:
        return f"its requirement {unread!r} cannot be read"
    plain = [need for need in needs if _holds(need, "")]
    asked = [need for extra in wanted for need in needs if _holds(need, extra)]
    if plain or asked:
        return _first_unmet([*plain, *asked], version)
    offers = [[need for need in needs if _holds(need, extra)] for extra in provided]
    faults = [_first_unmet(offer, version) for offer in offers if offer]
    return "" if not faults or "" in faults else faults[0]


def _is_met(text: str, version: str) -> bool:
    """Whether a requirement of the usual form holds, such as `amanda-core>=0.1,<2`.

    Importing `packaging` takes 20 ms, so this form is compared here. False for any
    other form, and where it does not hold.
    """
    given = text.strip()[len(CORE) :].replace(" ", "")
    bounds = [_BOUND.fullmatch(bound) for bound in given.split(",")] if given else []
    found = _RELEASE.fullmatch(version)
    if found is None or None in bounds:
        return False
    release = _numbers(version)
    return all(
        (release >= _numbers(bound[2])) == (bound[1] == ">=")
        for bound in bounds
        if bound
    )


def _numbers(release: str) -> list[int]:
    """The numbers of a release, without zeros at the end.

    >>> _numbers("1.20.0")
    [1, 20]
    """
    numbers = [int(part) for part in release.split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return numbers


def _parse_requirements(about: Iterable[str]) -> tuple[list[Requirement], str]:
    """The requirements, and the first one that is invalid."""
    from packaging.requirements import InvalidRequirement, Requirement

    needs = []
    for text in about:
        try:
            needs.append(Requirement(text))
        except InvalidRequirement:
            return [], text
    return needs, ""


def _is_core(text: str) -> bool:
    name = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)", text)
    return name is not None and canonical(name[1]) == CORE


def _holds(need: Requirement, extra: str) -> bool:
    return need.marker is None or need.marker.evaluate({"extra": extra})


def _first_unmet(needs: Iterable[Requirement], version: str) -> str:
    from packaging.version import Version

    # A core under development has the interfaces of the version that it will be.
    release = Version(version).base_version
    for need in needs:
        if not need.specifier.contains(release, prereleases=True):
            return f"made for {CORE} {need.specifier}; this is {version}"
    return ""
