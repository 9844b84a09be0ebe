"""`amanda rules`: the rules of mappings: list, search, show, export, test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import click

from amanda.cli.group import verb
from amanda.cli.output.answer import Answer, Table
from amanda.cli.rule_mappings import (
    InstalledMapping,
    find_rule_mapping,
    installed_mappings,
    newest_version,
)
from amanda.errors import UsageError

if TYPE_CHECKING:
    from amanda.mapping import RuleSet
    from amanda.mapping.rules.rule_set import AnyRule
    from amanda.mapping.rules.samples import RuleSample

__all__ = ["command"]

FORMS = ("yaml", "proto", "text")


class RuleFilter(NamedTuple):
    """Which rules to list."""

    op: str | None
    tag: str | None
    text: str | None

    @property
    def is_all(self) -> bool:
        return not any(self)


@verb("rules", "the rules between two frameworks: list, show, export, test")
@click.argument("mapping", required=False)
@click.option("--op", help="Only rules with this op, on either side.")
@click.option("--tag", help="Only rules with this tag.")
@click.option("--search", "text", metavar="TEXT", help="Only rules that contain TEXT.")
@click.option("--show", "rule", metavar="RULE", help="Show one rule, by its file:line.")
@click.option("--rules", "files", multiple=True, help="A rule file, tried first.")
@click.option("--to", "form", type=click.Choice(FORMS), help="Export the rules.")
@click.option(
    "--output",
    type=click.Path(),
    help="The file to export to; default: standard output.",
)
@click.option(
    "--test", is_flag=True, help="Test the laws of lenses, and a sample of each rule."
)
def command(
    mapping: str | None,
    *,
    op: str | None,
    tag: str | None,
    text: str | None,
    rule: str | None,
    files: tuple[str, ...],
    form: str | None,
    output: str | None,
    test: bool,
) -> Answer:
    """List the rules of MAPPING; without it, list the mappings.

    --test checks the laws of each lens on random values, and converts a sample of each
    rule, in both directions where possible. Exit code 1 means that a test failed, or
    that nothing was found.

    Examples:
        amanda rules
        amanda rules onnx-std --op Conv
        amanda rules onnx-std --op Softmax --test
    """
    if mapping is None:
        return _list_mappings()
    there = find_rule_mapping(mapping)
    if files:
        there = InstalledMapping(there.entry, there.mapping.with_rules(*files))
    if form is not None:
        return _export_rules(there.mapping.rules, form, output)
    if rule is not None:
        return _show_rule(there, rule)
    asked = RuleFilter(op, tag, text)
    found = [r for r in _rules(there.mapping.rules) if _is_meant(r, asked)]
    return _test_rules(there, found) if test else _list_rules(there, found, asked)


def _rules(rules: RuleSet) -> list[AnyRule]:
    return [*rules.rows, *rules.functions]


def _is_meant(rule: AnyRule, asked: RuleFilter) -> bool:
    from amanda.mapping.rules.rule_order import rule_tags
    from amanda.mapping.rules.terms import Equation, OpTerm, subterms

    terms = (rule.left, rule.right) if isinstance(rule, Equation) else (rule.term,)
    if asked.op is not None:
        ops = {p.type for t in terms for p in subterms(t) if isinstance(p, OpTerm)}
        if asked.op not in ops:
            return False
    if asked.tag is not None:
        tags = rule_tags(rule) if isinstance(rule, Equation) else ()
        if asked.tag not in tags:
            return False
    said = rule.full_text if isinstance(rule, Equation) else f"{rule.term} {rule.id}"
    return asked.text is None or asked.text.lower() in said.lower()


# -- lists --------------------------------------------------------------------------


def _list_mappings() -> Answer:
    rows, data = [], []
    for there in installed_mappings():
        rules = there.mapping.rules
        single = sum(row.left.size == row.right.size == 1 for row in rules.rows)
        counts = (single, len(rules.rows) - single, len(rules.functions))
        rows.append((there.entry.name, *there.ends, *counts))
        data.append(
            {
                "mapping": there.entry.name, "left": rules.left, "right": rules.right,
                "rows": counts[0], "patterns": counts[1], "functions": counts[2],
            }
        )  # fmt: skip
    headings = ("mapping", "left", "right", "rows", "patterns", "functions")
    text: list[str | Table] = [Table(headings, rows)] if rows else []
    return Answer({"mappings": data}, text or ["no mapping has rules"])


def _list_rules(
    there: InstalledMapping, found: list[AnyRule], asked: RuleFilter
) -> Answer:
    total = len(_rules(there.mapping.rules))

    def text() -> Iterator[str | Table]:
        if found:
            yield Table(("rule", "what"), [(r.id, _rule_text(r)) for r in found])
            yield ""
        yield f"{len(found)} of {total} rules of {there.entry.name}"

    data = {
        "mapping": there.entry.name,
        "count": len(found),
        "rules": [_rule_data(rule) for rule in found],
    }
    return Answer(data, text(), exit_code=int(not found and not asked.is_all))


def _rule_text(rule: AnyRule) -> str:
    from amanda.mapping.rules.terms import Equation

    if isinstance(rule, Equation):
        return rule.full_text
    arrow = "=>" if rule.forward else "<="
    return f"{rule.term.type}{rule.term.versions}  {arrow}  {rule.name}(), a function"


def _rule_data(rule: AnyRule) -> dict[str, object]:
    from amanda.mapping.rules.terms import Equation

    if not isinstance(rule, Equation):
        return {"id": rule.id, "text": _rule_text(rule), "function": rule.name,
                "place": rule.place}  # fmt: skip
    return {
        "id": rule.id,
        "text": rule.full_text,
        "left": str(rule.left),
        "right": str(rule.right),
        "arrow": rule.arrow,
        "guard": None if rule.guard is None else str(rule.guard),
        "loss": rule.loss,
        "tags": list(rule.tags),
        "after": list(rule.after),
        "place": rule.id,
    }


# -- one rule -----------------------------------------------------------------------


def _show_rule(there: InstalledMapping, id: str) -> Answer:
    from difflib import get_close_matches

    from amanda.mapping.rules.terms import Equation

    rules = there.mapping.rules
    rule = rules.rule(id)
    if rule is None:
        near = get_close_matches(id, [r.id for r in _rules(rules)], n=1)
        raise UsageError(
            f"{there.entry.name} has no rule {id!r}",
            hint=f"did you mean {near[0]!r}?" if near else "list them: no --show",
        )
    data = _rule_data(rule)
    if not isinstance(rule, Equation):
        return Answer(data, [_rule_text(rule), f"where: {rule.place}"])
    samples = [
        (forward, _sample(there, rule, forward=forward))
        for forward in (True, False)
        if rule.runs(forward)
    ]
    data["samples"] = [
        {"forward": forward, "from": _ops(s.graph), "to": _ops(s.made), "why": s.why}
        for forward, s in samples
    ]
    return Answer(data, _rule_lines(there, rule, samples))


def _rule_lines(
    there: InstalledMapping, rule: AnyRule, samples: list[tuple[bool, RuleSample]]
) -> Iterator[str | Table]:
    data, (left, right) = _rule_data(rule), there.ends
    yield f"{left}:  {data['left']}"
    yield f"{right}:  {data['right']}"
    words = {"<=>": "both ways", "=>": f"to {right} only", "<=": f"to {left} only"}
    yield f"runs: {words[str(data['arrow'])]}"
    for key in ("guard", "loss"):
        if data[key] is not None:
            yield f"{key}: {data[key]}"
    for key in ("tags", "after"):
        if data[key]:
            yield f"{key}: {', '.join(data[key])}"  # type: ignore[arg-type]
    yield f"where: {data['place']}"
    for forward, found in samples:
        yield f"\na sample to {right if forward else left}:"
        if found.graph is None:
            yield f"  none: {found.why}"
            continue
        yield from (f"  {line}" for line in _ops(found.graph))
        yield "  becomes"
        yield from (f"  {line}" for line in _ops(found.made))


def _ops(graph: object) -> list[str]:
    """The ops of a small graph, one line each."""
    from amanda.graph import Graph

    if not isinstance(graph, Graph):
        return []
    return [f"{op!r} {op.attrs}" if op.has_attrs else f"{op!r}" for op in graph]


def _sample(there: InstalledMapping, rule: AnyRule, *, forward: bool) -> RuleSample:
    from amanda.mapping.rules.samples import generate_sample
    from amanda.mapping.rules.terms import Equation

    assert isinstance(rule, Equation)
    ends = [newest_version(end) for end in there.ends]
    source, target = ends if forward else ends[::-1]
    with there.calling(f"making a sample of {rule.id}"):
        return generate_sample(there.mapping, rule, source, target, forward=forward)


# -- files and tests ----------------------------------------------------------------


def _export_rules(rules: RuleSet, form: str, output: str | None) -> Answer:
    from amanda.files.atomic import replace_file
    from amanda.mapping.rules import protobuf, rule_file

    made = (
        protobuf.dumps(rules)
        if form == "proto"
        else rule_file.dumps(rules, form=form).encode()
    )
    data = {"form": form, "rules": len(_rules(rules)), "output": output}
    if output is not None:
        with replace_file(Path(output)) as file:
            file.write(made)
        return Answer(data, [f"{len(_rules(rules))} rules are written as {output}"])
    if form == "proto":
        if sys.stdout.isatty():
            raise UsageError("protobuf is binary", hint="name an --output")
        return Answer(data, content=made)
    return Answer({**data, "text": made.decode()}, [made.decode().rstrip("\n")])


class RuleTest(NamedTuple):
    """What became of a sample of one rule, in one direction."""

    rule: str
    to: str
    sample: str
    """The ops of the sample, and those that they became."""
    result: str
    """`passed`, `not back`, `no sample`, or `function`."""
    why: str = ""


def _test_rules(there: InstalledMapping, found: list[AnyRule]) -> Answer:
    broken = list(_broken_lenses(there))
    tests = [each for rule in found for each in _test_rule(there, rule)]
    by_result = {
        result: [each for each in tests if each.result == result]
        for result in ("passed", "not back", "no sample", "function")
    }

    def text() -> Iterator[str | Table]:
        count = len(there.mapping.rules.lenses)
        yield f"{count} lenses: {len(broken)} break their laws"
        yield from (f"  {name}: {why}" for name, why in broken)
        yield from (f"{t.result}: {t.rule}, to {t.to}: {t.sample}" for t in tests)
        passed = len(by_result["passed"])
        yield f"{passed} samples passed, in both directions where possible"
        for result, words in (
            ("not back", "did not come back"),
            ("no sample", "without a sample, to be covered by other tests"),
        ):
            if some := by_result[result]:
                yield f"{len(some)} {words}:"
                yield from (f"  {t.rule}, to {t.to}: {t.why}" for t in some)

    data = {
        "broken_lenses": dict(broken),
        "samples": len(by_result["passed"]),
        "not_back": [(t.rule, t.why) for t in by_result["not back"]],
        "without": [(t.rule, t.why) for t in by_result["no sample"]],
        "tests": [each._asdict() for each in tests],
    }
    return Answer(data, text(), exit_code=int(bool(broken or by_result["not back"])))


def _test_rule(there: InstalledMapping, rule: AnyRule) -> Iterator[RuleTest]:
    """The tests of a rule, one for each direction that it runs in."""
    from amanda.mapping.rules.terms import Equation

    left, right = there.ends
    if not isinstance(rule, Equation):
        to = right if rule.forward else left
        why = "a function: what it maps cannot be drawn from its declaration"
        yield RuleTest(rule.id, to, "", "function", why)
        return
    for forward in (True, False):
        if rule.runs(forward):
            made, to = _sample(there, rule, forward=forward), right if forward else left
            sample = _sample_text(made)
            if made.made is None:
                yield RuleTest(rule.id, to, sample, "no sample", made.why)
            else:
                result = "not back" if made.why else "passed"
                yield RuleTest(rule.id, to, sample, result, made.why)


def _sample_text(sample: RuleSample) -> str:
    """The ops of a sample and of its conversion, in one line."""
    if sample.made is None:
        return ""
    return " -> ".join("; ".join(_ops(each)) for each in (sample.graph, sample.made))


def _broken_lenses(there: InstalledMapping) -> Iterator[tuple[str, str]]:
    from amanda.mapping.lenses.lens import find_broken_law

    for name, lens in there.mapping.rules.lenses.items():
        with there.calling(f"testing the lens {name!r}"):
            laws = (find_broken_law(lens, Random(seed)) for seed in range(50))
            why = next(filter(None, laws), "")
        if why:
            yield name, why
