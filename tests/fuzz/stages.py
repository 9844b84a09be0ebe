"""What a user does with a file: every stage answers, or raises an AmandaError."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import amanda
from amanda.errors import AmandaError, InternalError, PluginError

__all__ = ["foreign_fault", "try_stages"]

FORMS = ("yaml", "json", "amtxt", "ampb", "amanda")


def try_stages(path: Path, folder: Path, choose: random.Random) -> None:
    """Load a file, then inspect, validate, print, convert, save and compile it.

    Raises what is no AmandaError, and AssertionError for a broken promise.
    """
    graph = _step("load", amanda.load, path)
    if graph is None:
        return
    assert graph.check() == []
    _step("info", _info, graph)
    _step("validate", _validate, graph)
    _step("show", _show, graph)
    _save_and_load(graph, folder, choose)
    goals = ["amanda/std/1", "amanda/onnx/21"]
    made = _step("convert", amanda.convert, graph, choose.choice(goals))
    if made is not None:
        _save_and_load(made, folder, choose)
        _step("validate converted", _validate, made)
        if made.namespace == "amanda/onnx/21":
            _step("save onnx", amanda.save, made, folder / "out.onnx")
    _step("compile", amanda.compile, graph, "numpy")


def _step(name: str, call: Any, *args: Any) -> Any:
    try:
        return call(*args)
    except AmandaError as error:
        fault = foreign_fault(error)
        if fault:
            error.add_note(f"stage {name}")
            raise
        return None
    except BaseException as error:
        error.add_note(f"stage {name}")
        raise


def foreign_fault(error: AmandaError) -> bool:
    """Whether an error of ours reports a foreign exception."""
    broken = isinstance(error, InternalError | PluginError)
    return broken or " failed while " in error.message


def _info(graph: amanda.Graph) -> None:
    from amanda.cli.output.answer import plain_lines
    from amanda.cli.verbs import info

    counts = info.count_contents(graph)
    "\n".join(
        map(str, plain_lines(info._info_lines("f", "x", graph, counts, full=True)))
    )


def _validate(graph: amanda.Graph) -> None:
    from amanda.cli.verbs import validate
    from amanda.cli.verbs.ops import open_dictionary
    from amanda.dictionary import check_graph

    dictionary = open_dictionary(graph.namespace or "std")
    found = check_graph(graph, validate._other_dictionary, dictionary)
    list(validate._problem_lines(dictionary, found))


def _show(graph: amanda.Graph) -> None:
    from amanda.cli.verbs import show

    show._readable_text(graph, full=False, depth=None)


def _save_and_load(graph: amanda.Graph, folder: Path, choose: random.Random) -> None:
    """What is written is read as the same graph."""
    path = folder / f"saved.{choose.choice(FORMS)}"
    path.unlink(missing_ok=True)
    _step("save", amanda.save, graph, path)
    if path.exists():
        try:
            again = amanda.load(path)
        except AmandaError as error:
            error.add_note(f"saved as {path.suffix}, then not read")
            raise
        assert graph.same_as(again), f"another graph after {path.suffix}"
