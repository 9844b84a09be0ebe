"""Options that `--option` tells a backend, or one of those that are compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

from amanda.errors import UsageError

__all__ = [
    "backend_label",
    "backend_option",
    "parse_backend_options",
    "parse_options_per_backend",
]

_NOT_OPTIONS: Final = ("graph", "feeds", "targets", "backend", "host")
"""What `amanda.run` takes besides options of a backend, and a verb has words for."""
_TRUTH: Final = {"true": True, "false": False}
_FORM: Final = "NAME=VALUE"

backend_option = click.option(
    "--option",
    "options_told",
    multiple=True,
    metavar=_FORM,
    help="An option of the backend; its documentation lists them.",
)
"""What `options_of` reads, for a verb that takes one backend."""


def parse_backend_options(
    told: Sequence[str], own: Sequence[str] = ()
) -> dict[str, Any]:
    """Options of a backend; what reads as a number or a truth value is one. `own`: for
    what else the verb has words, so that it is none here.

    >>> parse_backend_options(["programs=8", "fast=true", "mesh=data=4,model=2"])
    {'programs': 8, 'fast': True, 'mesh': 'data=4,model=2'}
    """
    found: dict[str, str] = {}
    for text in told:
        _add_option(found, _option_name(text, _FORM), text, own=own)
    return _option_values(found)


def parse_options_per_backend(
    told: Sequence[str], backends: Sequence[str]
) -> list[dict[str, Any]]:
    """Options of each of several backends; what is told to none of them is for all.

    >>> backends = ["jax", "jax:gpu", "numpy"]
    >>> parse_options_per_backend(["depth=2", "jax.fast=true"], backends)
    [{'depth': 2, 'fast': True}, {'depth': 2, 'fast': True}, {'depth': 2}]
    >>> parse_options_per_backend(["2.fast=true"], ["jax", "jax"])
    [{}, {'fast': True}]
    """
    found: list[dict[str, str]] = [{} for _ in backends]
    for text in told:
        which, _, name = _option_name(text, f"{_FORM}, or BACKEND.{_FORM}").rpartition(
            "."
        )
        for i in _backend_indices(which, backends, text):
            _add_option(found[i], name, text, f" for {backends[i]}")
    return [_option_values(each) for each in found]


def backend_label(backend: str, options: dict[str, Any]) -> str:
    """A backend and what it is told, for a line of an answer.

    >>> backend_label("jax:gpu", {"precision": "high", "programs": 8})
    'jax:gpu (precision=high, programs=8)'
    """
    told = ", ".join(f"{name}={value}" for name, value in options.items())
    return f"{backend} ({told})" if told else backend


def _option_name(text: str, form: str) -> str:
    """What stands before the first `=`: values may have some, too."""
    name, mark, value = text.partition("=")
    if not mark or not name.rpartition(".")[2] or not value:
        raise UsageError(
            f"--option takes {_FORM}", where=f"--option {text}", expected=form, got=text
        )
    return name


def _backend_indices(which: str, backends: Sequence[str], text: str) -> list[int]:
    """The places of the backends that are meant: by name, with or without the device,
    or by place, since one backend can be compared with itself, told otherwise."""
    if not which and not text.startswith("."):
        return [*range(len(backends))]
    found = [
        i
        for i, backend in enumerate(backends)
        if which == str(i + 1) or f"{backend}:".startswith(f"{which}:")
    ]
    if not found:
        from difflib import get_close_matches

        near = get_close_matches(which, backends, n=1)
        raise UsageError(
            "no backend that is compared is meant by an option",
            where=f"--option {text}",
            expected=f"one of {', '.join(dict.fromkeys(backends))}, or its place, "
            f"1 to {len(backends)}",
            got=which or "nothing before the dot",
            hint=f"did you mean {near[0]!r}?" if near else None,
        )
    return found


def _add_option(
    found: dict[str, str],
    name: str,
    text: str,
    whom: str = "",
    own: Sequence[str] = (),
) -> None:
    """Note an option with how it was told; an error for one that cannot be."""
    if name in (*_NOT_OPTIONS, *own):
        raise UsageError(
            f"--option cannot say {name!r}: it is no option",
            where=f"--option {text}",
            expected="an option of a backend; its documentation lists them",
            got=name,
            hint="`--help` tells what the verb itself takes",
        )
    if name in found:
        raise UsageError(
            f"--option cannot say {name!r}: it is given twice{whom}",
            where=f"--option {text}",
            expected="each option once for a backend",
            got=f"--option {found[name]} before it",
        )
    found[name] = text


def _option_values(told: dict[str, str]) -> dict[str, Any]:
    return {name: _parse_value(text.partition("=")[2]) for name, text in told.items()}


def _parse_value(text: str) -> Any:
    if text.removeprefix("-").isdecimal():
        return int(text)
    return _TRUTH.get(text.lower(), text)
