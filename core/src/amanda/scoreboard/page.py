"""The page of a scoreboard, from answers of `amanda scoreboard SUITE --json`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from amanda.scoreboard.outcomes import OUTCOMES

__all__ = ["format_page", "parse_section", "print_page"]

_MAX_REASON: Final = 160


def format_page(head: str, answers: Sequence[Mapping[str, Any]]) -> str:
    """The page of some answers; their `totals` are numbers of cases by kind.

    Answers of one backend have their kinds in their titles, those of another suite than
    the first one its name.
    """
    parts = [head]
    titles = [_title(answer, answers[0].get("suite")) for answer in answers]
    repeats = Counter(titles)
    for answer, title in zip(answers, titles, strict=True):
        failing, totals = answer["cases"], answer["totals"]
        if repeats[title] > 1:
            title += f": {', '.join(totals)}"
        parts += [f"## {title}\n", _table(failing, totals)]
        parts += _modes(answer.get("modes", {}))
        parts += _compilations(answer.get("compilations", {}))
        parts += _reasons(failing)
    return "\n".join(parts)


def _title(answer: Mapping[str, Any], suite: str | None) -> str:
    own = answer.get("suite")
    name = "" if own == suite else f"{own}: "
    other = answer.get("fallback")
    more = f", unsupported ops on {other}" if other else ""
    again = ", with a second data set" if answer.get("second") else ""
    every = answer.get("every", 1)
    part = f", one of {every} cases" if every > 1 else ""
    return f"{name}{answer['backend']}{more}{again}{part}"


def _table(failing: Sequence[Mapping[str, Any]], totals: Mapping[str, int]) -> str:
    counts = Counter((case["kind"], case["status"]) for case in failing)
    present = {"pass", *(case["status"] for case in failing)}
    columns = [status for status in OUTCOMES if status in present]
    rows = []
    for kind, total in totals.items():
        rest = [counts[kind, status] for status in columns[1:]]
        rows.append([kind, total, total - sum(rest), *rest])
    whole = [sum(column) for column in zip(*(row[1:] for row in rows), strict=True)]
    rows.append(["all", *whole])
    lines = [_row(["kind", "cases", *columns]), _row(["---"] * (len(columns) + 2))]
    return "\n".join([*lines, *map(_row, rows), ""])


def _row(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _modes(modes: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """How the cases ran: their number in each mode, and all names but of the most."""
    if not modes:
        return
    in_order = sorted(modes, key=lambda mode: -len(modes[mode]))
    yield "\n".join(
        [
            _row(["cases", "ran as"]),
            _row(["---"] * 2),
            *(_row([len(modes[mode]), mode]) for mode in in_order),
            "",
        ]
    )
    for mode in in_order[1:]:
        yield f"* {mode}: {', '.join(sorted(modes[mode]))}"
    if in_order[1:]:
        yield ""


def _compilations(counts: Mapping[str, int]) -> Iterator[str]:
    """How many programs were compiled for a case, in all of its runs."""
    if counts:
        rows = [_row([n, times]) for times, n in counts.items()]
        head = [_row(["cases", "programs compiled in all runs"]), _row(["---"] * 2)]
        yield "\n".join([*head, *rows, ""])


def _reasons(failing: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Every case that does not pass, by outcome and reason."""
    for status in OUTCOMES:
        groups: dict[str, list[str]] = {}
        for case in failing:
            if case["status"] == status:
                groups.setdefault(_why(case), []).append(case["case"])
        if groups:
            yield f"### {status}: {OUTCOMES[status]}\n"
            for why, names in sorted(groups.items()):
                yield f"- {why}: {', '.join(sorted(names))}"
            yield ""


def _why(case: Mapping[str, Any]) -> str:
    if case["status"] == "drawn":
        return "other values"
    text = str(case["why"]).replace("|", "/").replace("<", "&lt;")
    return text if len(text) <= _MAX_REASON else f"{text[:_MAX_REASON]}..."


def parse_section(text: str, title: str) -> dict[str, str]:
    """The cases listed in a section of the page, each with its outcome."""
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


def print_page(head: str, files: Sequence[str]) -> None:
    """Print the page of answers in JSON files, in the order of its sections."""
    answers = [json.loads(Path(file).read_text("utf-8")) for file in files]
    sys.stdout.write(format_page(head, answers))
