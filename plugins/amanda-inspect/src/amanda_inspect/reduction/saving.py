"""A folder with a reduced model, its feeds, a script that shows the failure, and the
steps that led to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import amanda
from amanda.errors import AmandaError
from amanda.graph import Graph
from amanda_inspect.reduction.failures import Test
from amanda_inspect.reduction.isolation import IsolatedTest, ScriptTest, save_feeds
from amanda_inspect.reduction.models import is_array
from amanda_inspect.reduction.reducer import Reduction
from amanda_inspect.reduction.running import ConversionTest, RunTest
from amanda_inspect.reproduction import write_script

__all__ = ["save_reduction"]

ARCHIVE: Final = ".amanda"


def save_reduction(
    found: Reduction,
    test: Test,
    folder: Path,
    *,
    suffix: str = ARCHIVE,
    form: str | None = None,
    preload: Sequence[Path] = (),
) -> list[str]:
    """Write a reduced model, its feeds, `reproduce.py` and `steps.txt`.

    Returns the names of the files. Where the format cannot hold the model, or what is
    read again does not fail, it is written as `model.amanda`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    model = _save_model(found, test, folder, suffix, form)
    feeds = _save_feeds(found.feeds, folder)
    lines = [f"{step.ops:6} ops after {step.tests:4} tests: {step.what}"
             for step in found.steps]  # fmt: skip
    (folder / "steps.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")
    kind: Test = test.test if isinstance(test, IsolatedTest) else test
    if isinstance(kind, RunTest) and kind.expected is not None:
        _save_arrays(kind.expected, folder / "expected.npz")
    body = _script_body(kind, feeds)
    write_script(folder, str(found.failure), model, body, preload)
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def _save_model(
    found: Reduction, test: Test, folder: Path, suffix: str, form: str | None
) -> str:
    """The name of the model file, from which the model is read and fails again."""
    try:
        path = folder / f"model{suffix}"
        amanda.save(found.graph, path, form)
        if _fails(amanda.load(path, form), found, test):
            return path.name
    except AmandaError:
        if suffix == ARCHIVE:
            raise
    path = folder / f"model{ARCHIVE}"
    amanda.save(found.graph, path)
    return path.name


def _fails(graph: Graph, found: Reduction, test: Test) -> bool:
    failure = test(graph, found.feeds)
    return failure is not None and failure.is_like(found.failure)


def _save_feeds(feeds: Mapping[str, Any], folder: Path) -> str:
    """The line of the script that reads the feeds."""
    if all(is_array(x) and x.dtype.kind != "V" for x in feeds.values()):
        _save_arrays(feeds, folder / "feeds.npz")
        return 'feeds = dict(np.load(HERE / "feeds.npz"))'
    save_feeds(feeds, folder / "feeds.amanda")
    return (
        'constants = amanda.load(HERE / "feeds.amanda")\n'
        'feeds = {op.name: op.attrs["value"].numpy() for op in constants}'
    )


def _save_arrays(arrays: Mapping[str, Any], path: Path) -> None:
    import numpy as np

    with path.open("wb") as file:
        np.savez(file, **arrays)


def _script_body(test: Test, feeds: str) -> str:
    """The part of the script that shows the failure."""
    if isinstance(test, ConversionTest):
        return f"print(amanda.convert(graph, {test.target!r}))\n"
    if isinstance(test, ScriptTest):
        return (
            "places = {'{feeds}': HERE / 'feeds.npz', '{}': HERE / MODEL}\n"
            f"words = {test.words!r}\n"
            "for mark, path in places.items():\n"
            "    words = [word.replace(mark, str(path)) for word in words]\n"
            "sys.exit(subprocess.run(words).returncode)\n"
        )
    if not isinstance(test, RunTest):
        return f"{feeds}\n"
    lines = [feeds, _run_line("found", test.backend)]
    if test.expected is not None:
        lines.append('wanted = dict(np.load(HERE / "expected.npz"))')
    elif test.reference is not None:
        lines.append(_run_line("wanted", test.reference))
    else:
        lines.append("print(found)")
        return "\n".join([*lines, ""])
    lines += [
        "for name, value in wanted.items():",
        "    print(name, compare_values(np.asarray(found[name]), value))",
    ]
    return "\n".join([*lines, ""])


def _run_line(name: str, backend: Any) -> str:
    options = {"seed": 0, **backend.options}
    return f"{name} = amanda.run(graph, feeds, backend={backend.name!r}, **{options!r})"
