"""docs/models.md: written of what was seen, and read again by its test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

from models.judging import BACKENDS, CLOSE, RETURNED

__all__ = ["HEAD", "HEADS", "page", "read"]

HEADS: Final = ("model", "nodes", "largest", *BACKENDS, "back", "memory")
HEAD: Final = """\
# Models that run

Networks of real size, taken through the whole house: loaded from `.onnx`, validated
against the dictionary, run on three backends, converted `onnx -> std -> onnx`, and run
once more. This page is made, in the environment that `tox run -e models` leaves, by

    tox exec -e models -- python tests/models table FOLDER

where AMANDA_TEST_DATA names the folder of test data and FOLDER keeps what is fetched;
`tox run -e models` tests the same.

Under each backend stands the largest absolute difference of any element of any output.
For models that PyTorch exports (configurations of `transformers`, random weights) it is
the difference from what PyTorch computes; for those that others published and trained,
from what onnxruntime computes, which is why its own column has zeros. *Back* is the
converted model in onnxruntime, without us. *Largest* is the largest element expected: a
model is right where no element is off by more than 1e-4 of that, or by 1e-4 where that
is below 1. *Nodes* are those of the file, and of what came back, with those in bodies.
*Memory* is the most that the process had which exported, loaded, ran and converted the
model.

"""


def page(seen: Sequence[Mapping[str, Any]]) -> str:
    """The page, of what was seen of each model."""
    return "".join(_parts(seen))


def _parts(seen: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield HEAD
    tools = ("torch", "transformers", "onnx", "onnxruntime", "jax", "numpy")
    yield f"By {', '.join(f'{tool} {version(tool)}' for tool in tools)}.\n"
    for source, title in (
        ("PyTorch", "Exported by PyTorch, full size"),
        ("onnxruntime", "Published, trained"),
    ):
        part = [each for each in seen if each["expected_of"] == source]
        yield f"\n## {title}\n\n"
        yield f"| {' | '.join(HEADS)} |\n{'|---' * len(HEADS)}|\n"
        for each in part:
            yield _row(each, (*BACKENDS, RETURNED))
    open_ = [each for each in seen if each["gaps"]]
    yield (
        f"\n{len(seen)} models; {len(seen) - len(open_)} on every backend within "
        f"{CLOSE:g}, {len(open_)} with ops that std has no rule for yet.\n"
    )


def _row(each: Mapping[str, Any], ways: Sequence[str]) -> str:
    before, after = each["nodes"]
    gaps = ", ".join(f"{number} {op}" for op, number in each["gaps"].items())
    off = each["differences"]
    cells = [
        each["model"],
        f"{before}" if after is None else f"{before} to {after}",
        f"{each['largest']:.2g}",
        *(f"{off[way]:.1e}" if way in off else f"gap: {gaps}" for way in ways),
        f"{each['peak'] / 1e9:.1f} GB",
    ]
    return f"| {' | '.join(cells)} |\n"


def read(text: str) -> dict[str, dict[str, str]]:
    """The cells of each model, by their heads."""
    rows = (line.strip("| ").split(" | ") for line in text.splitlines()
            if line.startswith("| "))  # fmt: skip
    found = (dict(zip(HEADS, row, strict=True)) for row in rows)
    return {row["model"]: row for row in found if row["model"] != HEADS[0]}
