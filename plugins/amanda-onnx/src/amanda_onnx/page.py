"""The page docs/scoreboard-onnx.md, made of what `amanda scoreboard onnx --json` says.

amanda scoreboard onnx --backend numpy --json > numpy.json
amanda scoreboard onnx --second --json > second.json
python -m amanda_onnx.page numpy.json second.json > docs/scoreboard-onnx.md

In the same way for `--backend jax`, and with `--fallback numpy`; one after the other.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from amanda_onnx.scoreboard import KINDS, OUTCOMES, cases

__all__ = ["listed", "page"]

_HEAD: Final = """\
# The ONNX project's own cases

Made by `python -m amanda_onnx.page`; a test runs a part of the cases and compares.
Every case is loaded, brought to what the backend takes, run there, and compared with
what the suite expects: the number of outputs and of the items of sequences, element
types, shapes and values. Nothing of it is run by onnx itself.
"""
_LONGEST: Final = 160


def page(answers: Sequence[Mapping[str, Any]], totals: Mapping[str, int]) -> str:
    """The page of some answers; `totals` says how many cases a kind has."""
    parts = [_HEAD]
    for answer in answers:
        told = [case for case in answer["cases"] if case["kind"] in totals]
        parts += [f"## {_title(answer)}\n", _table(told, totals), *_reasons(told)]
    return "\n".join(parts)


def _title(answer: Mapping[str, Any]) -> str:
    other = answer.get("fallback")
    more = f", what it does not take on {other}" if other else ""
    again = ", with a second data set" if answer.get("second") else ""
    return f"{answer['backend']}{more}{again}"


def _table(told: Sequence[Mapping[str, Any]], totals: Mapping[str, int]) -> str:
    found = Counter((case["kind"], case["status"]) for case in told)
    shown = [s for s in OUTCOMES if s == "pass" or any(c["status"] == s for c in told)]
    rows = []
    for kind, total in totals.items():
        rest = [found[kind, status] for status in shown[1:]]
        rows.append([kind, total, total - sum(rest), *rest])
    whole = [sum(column) for column in zip(*(row[1:] for row in rows), strict=True)]
    rows.append(["all", *whole])
    lines = [_row(["kind", "cases", *shown]), _row(["---"] * (len(shown) + 2))]
    return "\n".join([*lines, *map(_row, rows), ""])


def _row(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _reasons(told: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Every case that does not pass, by outcome and reason."""
    for status in OUTCOMES:
        groups: dict[str, list[str]] = {}
        for case in told:
            if case["status"] == status:
                groups.setdefault(_why(case), []).append(case["case"])
        if groups:
            yield f"### {status}: {OUTCOMES[status]}\n"
            for why, names in sorted(groups.items()):
                yield f"- {why}: {', '.join(sorted(names))}"
            yield ""


def _why(case: Mapping[str, Any]) -> str:
    if case["status"] == "drawn":
        return "other numbers"
    text = str(case["why"]).replace("|", "/").replace("<", "&lt;")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def listed(text: str, title: str) -> dict[str, str]:
    """The cases that a section of the page names, each with its outcome."""
    found: dict[str, str] = {}
    section = status = ""
    for line in text.splitlines():
        if line.startswith("## "):
            section = line[3:]
        elif line.startswith("### "):
            status = line[4:].partition(":")[0]
        elif line.startswith("- ") and section == title:
            names = line.rpartition(": ")[2].split(", ")
            found.update((name, status) for name in names)
    return found


def _main(files: Sequence[str]) -> None:
    answers = [json.loads(Path(file).read_text("utf-8")) for file in files]
    totals = Counter(kind for kind, _ in cases())
    sys.stdout.write(page(answers, {kind: totals[kind] for kind in KINDS}))


if __name__ == "__main__":
    _main(sys.argv[1:])
