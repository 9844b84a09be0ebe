"""Translates declarations to a rule set.

A rule set of Deeplearning4j has no versions: it is for the ops as they were when it was
written. A declaration is therefore read against the newest version of the framework
whose op has all names that its rules use; for other versions the engine decides by
signature whether the rows apply.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final, NamedTuple

import amanda
from amanda.dictionary import OpDef, version_key
from amanda.errors import FormatError
from amanda.host import host_in_use
from amanda.mapping import RuleSet
from amanda_nd4j import lenses
from amanda_nd4j.draft import RowDraft
from amanda_nd4j.meanings import IS_PRESENT, READS_INPUTS, apply_rule, rule_cases
from amanda_nd4j.namespace import Descriptor
from amanda_nd4j.rulesets import Declaration

__all__ = ["TranslatedRules", "translate_declarations"]

_FRAMING: Final = {"onnx": "both ends"}


class TranslatedRules(NamedTuple):
    """`rows` has the texts for each op of the source; `left` the reasons for
    declarations without rows; `extra` the arguments of nd4j's ops that are not in its
    descriptors; `needed` the indices of inputs that must be constant."""

    rules: RuleSet
    rows: dict[str, tuple[str, ...]]
    left: dict[str, str]
    extra: dict[str, dict[str, str]]
    needed: dict[str, frozenset[int]]


def translate_declarations(
    framework: str, found: Sequence[Declaration], ops: Iterable[Descriptor]
) -> TranslatedRules:
    """The declarations as a rule set; FormatError with all invalid ones.

    Of several ops that map to the same op of nd4j, one is mapped back: one without
    loss, whose op is not deprecated, and then the one declared first.
    """
    known = {op.name: op for op in ops}
    rules = RuleSet(f"nd4j-{framework}", f"amanda/{framework}", "amanda/nd4j")
    made = TranslatedRules(rules, {}, {}, {}, {})
    lenses.add_lenses(made.rules)
    faults = []
    order: list[tuple[bool, bool, int]] = []
    for place, each in enumerate(found):
        try:
            entry = _translate_one(each, known.get(each.target), made)
        except FormatError as fault:
            faults.append(f"{each.where}: {fault.message}; got {fault.got}")
        else:
            if entry is not None:
                loses = any("  losing " in row for row in made.rows[each.source])
                order.append((loses, entry.deprecated is not None, place))
    if faults:
        raise FormatError("invalid declarations", problems=faults)
    for *_, place in sorted(order):
        each = found[place]
        made.rules.equations("\n".join(made.rows[each.source]), each.where)
    return made


def _translate_one(
    declaration: Declaration, target: Descriptor | None, made: TranslatedRules
) -> OpDef | None:
    """The op definition of the source, if its declaration has rows."""
    entry = _source_definition(declaration)
    if declaration.rules and entry is not None and target is not None:
        made.rows[declaration.source] = _rule_rows(declaration, entry, target, made)
        return entry
    if not declaration.rules:
        why = "it has no rules: its import is code"
    elif entry is None:
        why = f"no version of {declaration.framework} has it"
    else:
        why = f"nd4j has no op {declaration.target}"
    made.left[declaration.source] = why
    return None


def _rule_rows(
    declaration: Declaration, entry: OpDef, target: Descriptor, made: TranslatedRules
) -> tuple[str, ...]:
    framing = _FRAMING.get(declaration.framework, "channels within")
    plain = RowDraft(entry, target, {}, framing=framing)
    texts: list[str] = []
    for case in rule_cases(plain, declaration.rules):
        fixed = {key: value for key, value in case.items() if value is not IS_PRESENT}
        present = case.keys() - fixed.keys()
        draft = RowDraft(entry, target, fixed, present=present, framing=framing)
        for rule in declaration.rules:
            apply_rule(draft, rule)
        texts += draft.rows()
        if draft.extra:
            made.extra.setdefault(target.name, {}).update(draft.extra)
        if draft.constant_inputs():
            made.needed[entry.name] = draft.constant_inputs()
    return tuple(dict.fromkeys(texts))


# -- the source op ---------------------------------------------------------------------


def _source_definition(declaration: Declaration) -> OpDef | None:
    """The op definition of the newest version that has all names in the rules."""
    first: OpDef | None = None
    for entry in _definitions_by_version(declaration.framework, declaration.source):
        first = first or entry
        inputs = {port.name for port in entry.inputs}
        attrs = {a.name for a in (*entry.attrs, *entry.variables)}
        if all(
            name in (inputs if rule.name in READS_INPUTS else attrs)
            for rule in declaration.rules
            for name in rule.pairs.values()
        ):
            return entry
    return first


@cache
def _definitions_by_version(framework: str, name: str) -> tuple[OpDef, ...]:
    """The different definitions of an op, newest version first."""
    found: dict[OpDef, None] = {}
    for version in _framework_versions(framework):
        dictionary = amanda.namespace(f"amanda/{framework}/{version}")
        if name in dictionary:
            found[dictionary[name]] = None
            if not re.fullmatch(r"[0-9]+", version):
                break  # releases only add attributes
    return tuple(found)


@cache
def _framework_versions(framework: str) -> tuple[str, ...]:
    host = host_in_use()
    provider = host.load(host.find("namespaces", framework))
    return tuple(sorted(provider.versions(), key=version_key, reverse=True))
