"""Parsing of `--option`, for one backend or for several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

from amanda.errors import UsageError

__all__ = [
    "backend_label",
    "backend_option",
    "fallback_option",
    "parse_backend_options",
    "parse_options_per_backend",
    "strict_shapes_option",
]

_NOT_OPTIONS: Final = (
    "graph", "feeds", "targets", "backend", "fallback", "host", "strict_shapes",
)  # fmt: skip
"""Arguments of `amanda.run` that are not options of a backend."""
_TRUTH: Final = {"true": True, "false": False}
_FORM: Final = "NAME=VALUE"

backend_option = click.option(
    "--option",
    "options_told",
    multiple=True,
    metavar=_FORM,
    help="An option of the backend; its documentation lists them.",
)
"""The option that `parse_backend_options` parses, for verbs with one backend."""

fallback_option = click.option(
    "--fallback",
    multiple=True,
    metavar="NAME",
    help="A backend for the ops that the chosen one does not support; may be repeated.",
)
"""Backends that run what the chosen one does not support."""

strict_shapes_option = click.option(
    "--strict-shapes",
    is_flag=True,
    help="Refuse inputs that differ in the size of one symbolic dim, also where the "
    "format of the model has dim names as documentation only.",
)
"""Checks sizes of dims by name for models of every format."""


def parse_backend_options(
    told: Sequence[str], own: Sequence[str] = ()
) -> dict[str, Any]:
    """Parse options of a backend; numbers and truth values are converted.

    `own` are names that the verb has arguments for, which are refused here.

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
    """Parse options of several backends; those without a prefix are for all.

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
    """A backend with its options, for a line of an answer.

    >>> backend_label("jax:gpu", {"precision": "high", "programs": 8})
    'jax:gpu (precision=high, programs=8)'
    """
    told = ", ".join(f"{name}={value}" for name, value in options.items())
    return f"{backend} ({told})" if told else backend


def _option_name(text: str, form: str) -> str:
    """The text before the first `=`."""
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
    """Add an option; an error if it is invalid or given twice."""
    if name in (*_NOT_OPTIONS, *own):
        raise UsageError(
            f"invalid --option {name!r}: it is not an option",
            where=f"--option {text}",
            expected="an option of a backend; its documentation lists them",
            got=name,
            hint="`--help` lists the arguments of the verb",
        )
    if name in found:
        raise UsageError(
            f"invalid --option {name!r}: it is given twice{whom}",
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
