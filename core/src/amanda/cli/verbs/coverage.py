"""`amanda coverage`: which ops of a framework can be mapped, and by what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from amanda.cli.group import verb
from amanda.cli.output.answer import Answer, Table
from amanda.cli.rule_mappings import (
    InstalledMapping,
    installed_mappings,
    newest_version,
)
from amanda.errors import ConversionError, NamespaceError, UsageError

if TYPE_CHECKING:
    from amanda.mapping.routes.coverage import Coverage

__all__ = ["command"]


@verb("coverage", "which ops of a framework can be mapped to another")
@click.argument("source", required=False, metavar="[FROM")
@click.argument("target", required=False, metavar="TO]")
@click.option("--gaps", is_flag=True, help="Only gaps.")
@click.option(
    "--write", "folder", type=click.Path(), help="Write a page for each pair."
)
def command(
    source: str | None, target: str | None, *, gaps: bool, folder: str | None
) -> Answer:
    """List ops by what maps them: a rule, a pattern, a function, their definition; or a
    gap.

    FROM and TO are frameworks or versions of them, such as onnx@18 std; the default is
    a summary of all installed mappings. --write writes the pages of docs/coverage.

    Examples:
        amanda coverage onnx std --gaps
    """
    if (source is None) is not (target is None):
        raise UsageError("coverage is between two frameworks", expected="FROM and TO")
    if source is not None and target is not None:
        return _answer(_coverage_between(source, target), gaps=gaps)
    pairs, skipped = [], {}
    for there in installed_mappings():
        try:
            pairs.append((there, _both_directions(there)))
        except NamespaceError as error:  # its dictionary needs files of the user
            skipped[there.entry.name] = error.message
    if folder is not None:
        return _write_pages(pairs, Path(folder))
    found = [one for _, both in pairs for one in both]
    data: dict[str, object] = {"coverage": [_data(one) for one in found]}
    lines = [str(one) for one in found] or ["no mapping has rules"]
    if skipped:
        data["skipped"] = skipped
        lines += [f"{name} is not counted: {why}" for name, why in skipped.items()]
    return Answer(data, lines)


def _both_directions(there: InstalledMapping) -> list[Coverage]:
    """The coverage of each direction of a mapping."""
    ends = [newest_version(end) for end in there.ends]
    ways = [ends, ends[::-1]] if there.entry.manifest.get("both") else [ends]
    return [coverage_of(there, *way) for way in ways]


def coverage_of(there: InstalledMapping, source: str, target: str) -> Coverage:
    """The coverage of one direction of a mapping."""
    from amanda.api.namespaces import namespace
    from amanda.mapping.routes.coverage import coverage

    dictionary: Any = namespace(source)
    told = getattr(there.mapping, "composites", None)
    whole: Iterable[str] = told() if told is not None else ()
    composites = whole if source == newest_version(there.ends[1]) else ()
    with there.calling("counting what it maps"):
        return coverage(there.mapping, source, target, dictionary, composites)


def _coverage_between(source: str, target: str) -> Coverage:
    from amanda.api.namespaces import namespace
    from amanda.dictionary import parse_name

    names = [namespace(name).name for name in (source, target)]
    paths = tuple(parse_name(name).path for name in names)
    for there in installed_mappings():
        if paths in (there.ends, there.ends[::-1]):
            return coverage_of(there, *names)
    raise ConversionError(f"no installed mapping is between {paths[0]} and {paths[1]}")


def _answer(found: Coverage, *, gaps: bool) -> Answer:
    ops = [op for op in found.ops if not gaps or op.kind == "gap"]

    def text() -> Iterator[str | Table]:
        yield Table(("op", "by"), [(op.op, op.summary) for op in ops])
        yield f"\n{found}"

    return Answer({**_data(found), "ops": [op._asdict() for op in ops]}, text())


def _data(found: Coverage) -> dict[str, object]:
    return {
        "source": found.source,
        "target": found.target,
        "counts": dict(found.counts),
    }


# -- pages --------------------------------------------------------------------------


def _write_pages(
    pairs: list[tuple[InstalledMapping, list[Coverage]]], folder: Path
) -> Answer:
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for there, both in pairs:
        file = folder / f"{there.entry.name}.md"
        file.write_text(page_text(there.entry.name, both), encoding="utf-8")
        files.append(str(file))
    return Answer({"files": files}, [f"{file} is written" for file in files])


def page_text(name: str, both: list[Coverage]) -> str:
    """The page of a mapping, in Markdown."""
    from amanda.mapping.routes.coverage import KINDS

    lines = [
        f"# Coverage of {name}",
        "",
        "Generated by `amanda coverage --write docs/coverage`. An op is mapped by a",
        "row (an equation of one op), a pattern (of several), a function or its",
        "definition (composite), left unchanged (same), or not mapped (gap).",
        "",
        f"| from | to | ops | {' | '.join(KINDS)} |",
        f"|---|---|{'--:|' * (1 + len(KINDS))}",
    ]
    for found in both:
        counts = [str(found.counts[kind]) for kind in KINDS]
        ends = f"| {found.source} | {found.target} | {len(found.ops)} "
        lines.append(f"{ends}| {' | '.join(counts)} |")
    for found in both:
        lines += ["", f"## {found.source} to {found.target}", "", "| op | by |"]
        lines += ["|---|---|", *(f"| `{op.op}` | {op.summary} |" for op in found.ops)]
    return "\n".join(lines) + "\n"
