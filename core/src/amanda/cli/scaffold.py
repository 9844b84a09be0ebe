"""Templates of plug-ins: `amanda plugin new NAME --kind KIND`.

A new plug-in is a copy of plugins/_template/KIND of the repository, which wheels of the
core carry along, under another name. It is complete: installed, it passes its tests.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from importlib_metadata import PackageNotFoundError, distribution

from amanda import __version__
from amanda.errors import AmandaError, UsageError

__all__ = ["TEMPLATES", "new_plugin", "plugin_name"]

TEMPLATES: Final = ("format", "mapping", "backend", "namespace", "pass", "tool")
"""The kinds of plug-in that there is a template of."""

_STEM: Final = "template"
_NOT_COPIED: Final = {
    "__pycache__",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    "dist",
}


def new_plugin(
    name: str, directory: str | os.PathLike[str] = ".", kind: str = "format"
) -> Path:
    """Creates the folder `amanda-NAME` in `directory`, and returns it.

    `name` may be written with or without `amanda-`. An existing folder is refused;
    after an error nothing is left behind.
    """
    dist = plugin_name(name)
    around = Path(directory)
    folder = around / dist
    if folder.exists():
        raise UsageError(
            f"{folder} exists already", hint="choose another name or folder"
        )
    source = _template(kind)
    try:
        around.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=around, prefix=f".{dist}-") as temporary:
            copy = Path(temporary, dist)
            for file in _files(source):
                _copy_file(file, source, copy, dist)
            copy.rename(folder)
    except OSError as error:
        raise UsageError(
            f"{folder} cannot be created", got=(error.strerror or str(error)).lower()
        ) from error
    return folder


def plugin_name(name: str) -> str:
    """The name of the distribution.

    >>> plugin_name("Fast_Math"), plugin_name("amanda-fast")
    ('amanda-fast-math', 'amanda-fast')
    """
    stem = re.sub(r"[-_.]+", "-", name).lower().removeprefix("amanda-")
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", stem):
        raise UsageError(
            f"{name!r} cannot be the name of a plug-in",
            expected="a letter, then letters, digits and single dashes, such as "
            "fast-math",
        )
    dist = f"amanda-{stem}"
    if _is_installed(dist):
        raise UsageError(
            f"{dist} is the name of an installed plug-in or part of Amanda",
            hint="choose another name",
        )
    return dist


def _is_installed(dist: str) -> bool:
    try:
        distribution(dist)
    except PackageNotFoundError:
        return find_spec(dist.replace("-", "_")) is not None
    return True


def core_range(version: str = __version__) -> str:
    """The requirement on this core and on those with the same interfaces.

    >>> core_range("0.3.1"), core_range("1.4.0")
    ('amanda-core>=0.3,<0.4', 'amanda-core>=1.4,<2')
    """
    major, minor = map(int, re.findall(r"\d+", version)[:2])
    end = f"{major + 1}" if major else f"0.{minor + 1}"
    return f"amanda-core>={major}.{minor},<{end}"


def _template(kind: str) -> Path:
    if kind not in TEMPLATES:
        raise UsageError(
            f"there is no template of a {kind}",
            expected=f"one of {', '.join(TEMPLATES)}",
        )
    here = Path(__file__).parents[1]
    for place in (here / "_template", here.parents[2] / "plugins" / "_template"):
        if (place / kind / "pyproject.toml").is_file():
            return place / kind
    raise AmandaError(
        "the templates of plug-ins are not part of this installation",
        hint="pip install --force-reinstall amanda-core",
    )


def _files(source: Path) -> Iterator[Path]:
    for file in sorted(source.rglob("*")):
        if file.is_file() and not _NOT_COPIED.intersection(
            file.relative_to(source).parts
        ):
            yield file


def _copy_file(file: Path, source: Path, copy: Path, dist: str) -> None:
    place = copy / _rename_in(str(file.relative_to(source)), dist)
    place.parent.mkdir(parents=True, exist_ok=True)
    text = _rename_in(file.read_text(encoding="utf-8"), dist)
    if file.name == "pyproject.toml":
        text = re.sub(r"amanda-core[^\"]*", core_range(), text)
    place.write_text(text, encoding="utf-8")


def _rename_in(text: str, dist: str) -> str:
    """Replaces the names of the distribution, its package and its entries.

    >>> _rename_in("amanda_template, amanda-template: template", "amanda-my-own")
    'amanda_my_own, amanda-my-own: my-own'
    """
    package = dist.replace("-", "_")
    text = text.replace(f"amanda_{_STEM}", package).replace(f"amanda-{_STEM}", dist)
    return re.sub(rf"\b{_STEM}\b", dist.removeprefix("amanda-"), text)
