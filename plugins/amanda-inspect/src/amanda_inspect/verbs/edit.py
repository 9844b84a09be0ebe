"""`amanda edit`: changes of a model in one line each, in the order given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import click

import amanda
from amanda.cli import Answer, Table, load_option, open_model, show_progress, verb
from amanda.errors import AmandaError, UsageError
from amanda.graph import Graph
from amanda_inspect.editing.checking import check_edit, find_lost_dims
from amanda_inspect.editing.commands import apply_edit

__all__ = ["command"]

_GIVEN: Final = "amanda_inspect.edits"


class EditOption(click.Option):
    """An option whose place among the others counts.

    click keeps values by option; this one keeps them in the order of the command line.
    """

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        super().add_to_parser(parser, ctx)
        option = parser._long_opt[self.opts[0]]
        process = option.process

        def keep_and_process(value: Any, state: Any) -> None:
            edits = ctx.meta.setdefault(_GIVEN, [])
            edits.append((self.opts[0].removeprefix("--"), value))
            process(value, state)

        option.process = keep_and_process


def _edit_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for name, metavar, help_text in reversed(_OPTIONS):
        kinds: dict[str, Any] = {"multiple": True, "metavar": metavar}
        if metavar is None:
            kinds = {"is_flag": True}
        option = click.option(
            f"--{name}", cls=EditOption, expose_value=False, help=help_text, **kinds
        )
        command = option(command)
    return command


_OPTIONS: Final = (
    ("rename-input", "OLD=NEW", "Rename an input."),
    ("rename-output", "OLD=NEW", "Rename an output."),
    ("dim", "INPUT:AXIS=DIM", "Give a dim of an input a size or a name."),
    ("fix-input", "INPUT=VALUE", "Replace an input by a constant."),
    ("cut", "FROM..TO", "Keep what computes values TO from values FROM."),
    ("keep-outputs", "NAMES", "Keep these outputs, and what they need."),
    ("add-output", "VALUES", "Make values inside of the model outputs, too."),
    ("remove", "OPS", "Remove ops: a name, a pattern, or type:TYPE."),
    ("replace-op", "OPS=OP", "Replace ops by OP with the same inputs."),
    ("replace-subgraph", "FROM..TO=OP", "Replace what is between values by one OP."),
    ("insert", "VALUE=OP", "Insert OP after a value, which it reads as _."),
    ("set", "OPS.ATTRIBUTE=VALUE", "Set an attribute of ops; None removes it."),
    ("opset", "VERSION", "Convert to another version of the framework."),
    ("fold", None, "Compute what constants alone decide."),
    ("strip", "PARTS", "Remove docs, training, names (with commas)."),
)


@verb("edit", "change a model: names, dims, parts, ops, weights")
@click.argument("file", type=click.Path())
@click.argument("output", type=click.Path(), required=False)
@_edit_options
@click.option(
    "--external-weights/--embed-weights",
    "external",
    default=None,
    help="Write weights beside the file, or into it; default: as they were.",
)
@click.option("--dry-run", is_flag=True, help="Check the edits, and write nothing.")
@click.option("--no-check", is_flag=True, help="Do not validate the edited model.")
@click.option("--format", "form", help="The format of the files; default: detected.")
@load_option
def command(
    file: str,
    output: str | None,
    *,
    external: bool | None,
    dry_run: bool,
    no_check: bool,
    form: str | None,
) -> Answer:
    """Change the model in FILE, and write it to OUTPUT.

    Edits are made in the order given. OP is a type with inputs and attributes, as in
    "Clip(_, 0.0, 6.0)" or "LeakyRelu(alpha=0.1)". The edited model is checked against
    its dictionary, and types are inferred; nothing is written if that fails.

    Examples:
        amanda edit digits.onnx batch.onnx --dim images:0=rows --rename-input images=x
        amanda edit digits.onnx --dry-run --remove /10/Softmax --strip docs,names
    """
    edits: list[tuple[str, Any]] = click.get_current_context().meta.get(_GIVEN, [])
    if output is None and not dry_run:
        raise UsageError(
            "there is no file to write", expected="OUTPUT, or --dry-run", got=file
        )
    before, name = open_model(file, form)
    graph, rows = _apply(before.clone(), edits)
    lost: list[str] = []
    if not no_check:
        with show_progress(f"checking {file}"):
            check_edit(before, graph)
        lost = find_lost_dims(before, graph)
    if output is not None and not dry_run:
        options: dict[str, Any] = {} if external is None else {"external": external}
        same = Path(output).suffix == Path(file).suffix
        amanda.save(graph, output, name if same else None, **options)
    written = None if dry_run else output
    data = {
        "file": file, "format": name, "output": written, "namespace": graph.namespace,
        "edits": [{"edit": e, "given": g, "changed": c} for e, g, c in rows],
        "ops": [len(before), len(graph)],
        "inputs": {str(p.name or p.index): str(p.type) for p in graph.parameters},
        "outputs": _outputs(graph),
        "checked": not no_check,
        "lost_dims": lost,
    }  # fmt: skip
    return Answer(data, _lines(data, rows))


def _apply(
    graph: Graph, edits: list[tuple[str, Any]]
) -> tuple[Graph, list[tuple[str, str, str]]]:
    """The edited graph, and each edit with what it changed."""
    rows = []
    for name, given in edits:
        text = given if isinstance(given, str) else ""
        try:
            graph, changed = apply_edit(graph, name, text)
        except AmandaError as error:
            error.who = error.who or f"--{name} {text}".rstrip()
            raise
        rows.append((name, text, changed))
    return graph, rows


def _outputs(graph: Graph) -> dict[str, str]:
    pairs = zip(graph.outputs, graph.results, strict=True)
    return {str(p.name or p.index): str(v.type if v else None) for p, v in pairs}


def _lines(data: dict[str, Any], rows: list[Any]) -> Iterator[str | Table]:
    if rows:
        yield Table(("edit", "given", "changed"), rows)
    ports = [("input", *row) for row in data["inputs"].items()]
    ports += [("output", *row) for row in data["outputs"].items()]
    yield Table(("", "name", "type"), ports)
    yield from data["lost_dims"]
    ops = f"{data['ops'][1]} ops, {data['ops'][0]} before"
    end = f"written to {data['output']}" if data["output"] else "nothing is written"
    yield f"{ops}; {end}"
