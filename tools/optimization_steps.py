"""Writes the table of optimization steps into the README of amanda-jax.

    python tools/optimization_steps.py            writes it
    python tools/optimization_steps.py --check    exits with 1 if it is out of date

The rows are those of `amanda_jax.cpu_tuning.steps`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

README = Path(__file__).resolve().parent.parent / "plugins/amanda-jax/README.md"
BEGIN = "<!-- steps: written by tools/optimization_steps.py -->"
END = "<!-- end of steps -->"


def table() -> str:
    """The table, with a row for each step."""
    from amanda_jax.cpu_tuning.steps import STEPS

    return "\n".join(_lines(STEPS))


def _lines(steps: Any) -> Iterator[str]:
    yield "| step | what it does | for | measured with |"
    yield "|---|---|---|---|"
    for step in steps:
        jaxlib = f"jaxlib {step.jaxlib}" if step.jaxlib else ""
        yield f"| `{step.name}` | {step.reason} | {_conditions(step)} | {jaxlib} |"


def _conditions(step: Any) -> str:
    cores = {"one": " with one core", "several": " with several cores"}
    where = f"{step.platform.upper()}{cores.get(step.cores, '')}" or "all platforms"
    if step.precisions:
        where += ", `precision` " + " or ".join(f'`"{p}"`' for p in step.precisions)
    required = f", with `{step.requires}`" if step.requires else ""
    return where + required + (f", without `{step.unless}`" if step.unless else "")


def updated_page(text: str) -> str:
    """The page with the current table between its marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{README} lacks the marks {BEGIN} and {END}")
    return f"{before}{begin}\n{table()}\n{end}{after}"


def main() -> int:
    text = README.read_text("utf-8")
    page = updated_page(text)
    if "--check" not in sys.argv[1:]:
        README.write_text(page, "utf-8")
    elif page != text:
        print(f"{README} is out of date: run tools/optimization_steps.py")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
