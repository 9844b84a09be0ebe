"""Write docs/models.md from reports, and parse it again for its test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

from models.checking import BACKENDS, ROUND_TRIP, TOLERANCE

__all__ = ["COLUMNS", "HEAD", "parse_page", "render_page"]

COLUMNS: Final = ("model", "nodes", "largest", *BACKENDS, "back", "memory")
HEAD: Final = """\
# Models that run

Full-size models, tested end to end: loaded from `.onnx`, validated against the
dictionary, run on three backends, converted `onnx -> std -> onnx`, and run again in
onnxruntime. This page is generated, in the environment of `tox run -e models`, by

    tox exec -e models -- python tests/models table FOLDER

where AMANDA_TEST_DATA is the folder of test data and FOLDER caches the downloads.
`tox run -e models` runs the same checks.

Each backend column has the largest absolute difference over all elements of all
outputs. The reference for models exported by PyTorch (configurations of `transformers`,
random weights) is PyTorch; the reference for published, trained models is onnxruntime,
so its own column is zero. *Back* is the converted model, run directly in onnxruntime.
*Largest* is the largest absolute value expected. A model passes if no element differs
by more than 1e-4 of that, or by more than 1e-4 where it is below 1. *Nodes* are counted
in the file and after the conversion, including bodies. *Memory* is the peak of the
process that exported, loaded, ran and converted the model.

"""


def render_page(reports: Sequence[Mapping[str, Any]]) -> str:
    """Return the page for the reports of all models."""
    return "".join(_sections(reports))


def _sections(reports: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield HEAD
    tools = ("torch", "transformers", "onnx", "onnxruntime", "jax", "numpy")
    yield f"Versions: {', '.join(f'{tool} {version(tool)}' for tool in tools)}.\n"
    for source, title in (
        ("PyTorch", "Exported by PyTorch, full size"),
        ("onnxruntime", "Published, trained"),
    ):
        section = [each for each in reports if each["expected_of"] == source]
        yield f"\n## {title}\n\n"
        yield f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|\n"
        for each in section:
            yield _table_row(each, (*BACKENDS, ROUND_TRIP))
    incomplete = [each for each in reports if each["gaps"]]
    complete = len(reports) - len(incomplete)
    yield (
        f"\n{len(reports)} models; {complete} on every backend within {TOLERANCE:g}, "
        f"{len(incomplete)} with ops that std has no rule for.\n"
    )


def _table_row(report: Mapping[str, Any], columns: Sequence[str]) -> str:
    before, after = report["nodes"]
    gaps = ", ".join(f"{number} {op}" for op, number in report["gaps"].items())
    differences = report["differences"]
    cells = [
        report["model"],
        f"{before}" if after is None else f"{before} to {after}",
        f"{report['largest']:.2g}",
        *(
            f"{differences[column]:.1e}" if column in differences else f"gap: {gaps}"
            for column in columns
        ),
        f"{report['peak'] / 1e9:.1f} GB",
    ]
    return f"| {' | '.join(cells)} |\n"


def parse_page(text: str) -> dict[str, dict[str, str]]:
    """Return the cells of each model, by column."""
    rows = (line.strip("| ").split(" | ") for line in text.splitlines()
            if line.startswith("| "))  # fmt: skip
    cells = (dict(zip(COLUMNS, row, strict=True)) for row in rows)
    return {row["model"]: row for row in cells if row["model"] != COLUMNS[0]}
