"""What a user does with a file: every stage answers, or raises an AmandaError."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import amanda
from amanda.dictionary import Dictionary
from amanda.errors import AmandaError, InternalError, NamespaceError, PluginError

__all__ = ["FORMS", "REFUSED", "is_foreign", "run_stage", "try_stages"]

FORMS = ("yaml", "json", "amtxt", "ampb", "amanda")
REFUSED = "refused"
"""The outcome for files that cannot be read."""


def try_stages(
    path: Path, folder: Path, choose: random.Random, *, goals: Sequence[str] = ()
) -> str:
    """Load a file, then inspect, validate, print, save, convert and compile it.

    Returns the last of refused, read, converted and compiled. Raises what is no
    AmandaError, and AssertionError for a broken promise. `goals` are namespaces to
    convert to, one of which is chosen.
    """
    graph = run_stage("load", amanda.load, path)
    if graph is None:
        return REFUSED
    assert graph.check() == []
    run_stage("info", _info, graph)
    run_stage("validate", _validate, graph)
    run_stage("show", _show, graph)
    _save_and_load(graph, folder / f"saved.{choose.choice(FORMS)}")
    run_stage("save again", amanda.save, graph, folder / f"again{path.suffix}")
    outcome = "read"
    if goals:
        made = run_stage("convert", amanda.convert, graph, choose.choice(goals))
        if made is not None:
            outcome = "converted"
            _save_and_load(made, folder / f"saved.{choose.choice(FORMS)}")
            run_stage("validate converted", _validate, made)
            if (made.namespace or "").startswith("amanda/onnx/"):
                run_stage("save onnx", amanda.save, made, folder / "out.onnx")
        if run_stage("compile", amanda.compile, graph, "numpy") is not None:
            outcome = "compiled"
    return outcome


def run_stage(name: str, call: Any, *args: Any) -> Any:
    """The result of a call, or None for an AmandaError that reports a fault of the
    file; others are raised."""
    try:
        return call(*args)
    except AmandaError as error:
        if not is_foreign(error) and str(error):
            return None
        error.add_note(f"stage {name}")
        raise
    except BaseException as error:
        error.add_note(f"stage {name}")
        raise


def is_foreign(error: AmandaError) -> bool:
    """Whether an error of ours reports a foreign exception."""
    broken = isinstance(error, InternalError | PluginError)
    return broken or " failed while " in error.message


def _info(graph: amanda.Graph) -> None:
    from amanda.cli.output.answer import plain_lines
    from amanda.cli.verbs import info

    counts = info.count_contents(graph)
    "\n".join(
        map(str, plain_lines(info._info_lines("f", "json", graph, counts, full=True)))
    )


@cache
def _dictionary(name: str) -> Dictionary:
    from amanda.cli.verbs.ops import open_dictionary

    return open_dictionary(name)


def _other_dictionary(name: str) -> Dictionary | None:
    with suppress(NamespaceError):
        return _dictionary(name)
    return None


def _validate(graph: amanda.Graph) -> None:
    from amanda.cli.verbs import validate
    from amanda.dictionary import check_graph

    dictionary = _dictionary(graph.namespace or "std")
    found = check_graph(graph, _other_dictionary, dictionary)
    list(validate._problem_lines(dictionary, found))


def _show(graph: amanda.Graph) -> None:
    from amanda.cli.verbs import show

    show._readable_text(graph, full=False, depth=None)


def _save_and_load(graph: amanda.Graph, path: Path) -> None:
    """What is written is read as the same graph."""
    path.unlink(missing_ok=True)
    run_stage("save", amanda.save, graph, path)
    if path.exists():
        try:
            again = amanda.load(path)
        except AmandaError as error:
            error.add_note(f"saved as {path.suffix}, then not read")
            raise
        is_same = run_stage("compare", graph.same_as, again)
        assert is_same is not False, f"another graph after {path.suffix}"
