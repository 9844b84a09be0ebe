"""`amanda validate`: checks a model against the dictionaries of its namespaces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from amanda.cli.group import verb
from amanda.cli.inputs.model import load_option, open_model
from amanda.cli.output.answer import Answer
from amanda.cli.output.terminal import show_progress
from amanda.cli.verbs.ops import open_dictionary
from amanda.errors import NamespaceError, UsageError

if TYPE_CHECKING:
    from amanda.dictionary import Dictionary, ValidationResult

__all__ = ["command"]


@verb("validate", "check a model against its dictionary")
@click.argument("file", type=click.Path())
@click.option("--format", "form", help="The format of the file; default: detected.")
@load_option
@click.option(
    "--against", metavar="NAMESPACE", help="Another namespace than that of the model."
)
def command(file: str, *, form: str | None, against: str | None) -> Answer:
    """Check every op of FILE against the dictionary of its namespace.

    All faults are listed with their location. Exit code 1 means that there are some.

    Examples:
        amanda validate digits.onnx
        amanda validate digits.onnx --against onnx@1  # exit code 1: it has faults
    """
    from amanda.dictionary import check_graph

    graph, form = open_model(file, form)
    name = against or graph.namespace
    if name is None:
        raise UsageError(
            "the graph does not say which namespace its ops are of",
            who=file,
            hint="name one: --against onnx@18",
        )
    dictionary = open_dictionary(name)
    with show_progress("checking every op"):
        found = check_graph(graph, _other_dictionary, dictionary)
    data = {
        "file": file,
        "format": form,
        "namespace": dictionary.name,
        "ops": found.ops,
        "problems": [
            {
                "kind": problem.kind,
                "op": problem.op,
                "place": problem.location or None,
                "message": problem.message,
                "hint": problem.hint,
            }
            for problem in found.problems
        ],
        "unchecked": found.unchecked,
    }
    return Answer(
        data, _problem_lines(dictionary, found), exit_code=int(bool(found.problems))
    )


def _other_dictionary(name: str) -> Dictionary | None:
    """The dictionary of another namespace of some ops, if installed."""
    try:
        return open_dictionary(name)
    except NamespaceError:
        return None


def _problem_lines(dictionary: Dictionary, found: ValidationResult) -> Iterator[str]:
    yield from map(str, found.problems)
    if found.problems:
        yield ""
    for name, count in found.unchecked.items():
        yield f"{_count_text(count)} not checked: no dictionary of {name} is installed"
    number = len(found.problems)
    faults = "1 fault" if number == 1 else f"{number or 'no'} faults"
    yield f"{faults} in {_count_text(found.ops)}, by {dictionary.name}"


def _count_text(count: int) -> str:
    return "1 op" if count == 1 else f"{count:,} ops"
