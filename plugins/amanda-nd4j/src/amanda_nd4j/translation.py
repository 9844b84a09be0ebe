"""Declarations to a rule set of ours.

A rule set of Deeplearning4j has no versions: it means the ops as they were when it was
written. So a declaration is read against the newest version of the framework whose op
has all the names that its rules use; for other versions the engine decides, from the
names that are there, whether the rows hold.
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
from amanda_nd4j.draft import Draft
from amanda_nd4j.meanings import PRESENT, READS_INPUTS, apply, cases
from amanda_nd4j.namespace import Descriptor
from amanda_nd4j.rulesets import Declaration

__all__ = ["Translation", "translated"]

_FRAMING: Final = {"onnx": "both ends"}


class Translation(NamedTuple):
    """`rows` are the texts for each op of the source; `left` says of the declarations
    that became none why; `extra` has the arguments of nd4j's ops that its descriptors
    do not have, `needed` the places of inputs that have to be constant."""

    rules: RuleSet
    rows: dict[str, tuple[str, ...]]
    left: dict[str, str]
    extra: dict[str, dict[str, str]]
    needed: dict[str, frozenset[int]]


def translated(
    framework: str, found: Sequence[Declaration], ops: Iterable[Descriptor]
) -> Translation:
    """The declarations as a rule set; FormatError with all that mean nothing.

    Of several that become the same op of nd4j, one comes back: one that loses nothing,
    whose op is not deprecated, and then the one declared first.
    """
    known = {op.name: op for op in ops}
    rules = RuleSet(f"nd4j-{framework}", f"amanda/{framework}", "amanda/nd4j")
    made = Translation(rules, {}, {}, {}, {})
    lenses.declare(made.rules)
    faults = []
    order: list[tuple[bool, bool, int]] = []
    for place, each in enumerate(found):
        try:
            entry = _translate(each, known.get(each.target), made)
        except FormatError as fault:
            faults.append(f"{each.where}: {fault.message}; got {fault.got}")
        else:
            if entry is not None:
                loses = any("  losing " in row for row in made.rows[each.source])
                order.append((loses, entry.deprecated is not None, place))
    if faults:
        raise FormatError("declarations that mean nothing", problems=faults)
    for *_, place in sorted(order):
        each = found[place]
        made.rules.equations("\n".join(made.rows[each.source]), each.where)
    return made


def _translate(
    declaration: Declaration, target: Descriptor | None, made: Translation
) -> OpDef | None:
    """The op of the source, if its declaration became rows."""
    entry = _entry(declaration)
    if declaration.rules and entry is not None and target is not None:
        made.rows[declaration.source] = _rows(declaration, entry, target, made)
        return entry
    if not declaration.rules:
        why = "it has no rules: its import is code"
    elif entry is None:
        why = f"no version of {declaration.framework} has it"
    else:
        why = f"nd4j has no op {declaration.target}"
    made.left[declaration.source] = why
    return None


def _rows(
    declaration: Declaration, entry: OpDef, target: Descriptor, made: Translation
) -> tuple[str, ...]:
    framing = _FRAMING.get(declaration.framework, "channels within")
    plain = Draft(entry, target, {}, framing=framing)
    texts: list[str] = []
    for case in cases(plain, declaration.rules):
        fixed = {key: value for key, value in case.items() if value is not PRESENT}
        present = case.keys() - fixed.keys()
        draft = Draft(entry, target, fixed, present=present, framing=framing)
        for rule in declaration.rules:
            apply(draft, rule)
        texts += draft.rows()
        if draft.extra:
            made.extra.setdefault(target.name, {}).update(draft.extra)
        if draft.needed():
            made.needed[entry.name] = draft.needed()
    return tuple(dict.fromkeys(texts))


# -- the source op ---------------------------------------------------------------------


def _entry(declaration: Declaration) -> OpDef | None:
    """The op as the rules know it: as of the newest version that has all its names."""
    first: OpDef | None = None
    for entry in _definitions(declaration.framework, declaration.source):
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
def _definitions(framework: str, name: str) -> tuple[OpDef, ...]:
    """An op in every version in which it is another one, the newest first."""
    found: dict[OpDef, None] = {}
    for version in _versions(framework):
        dictionary = amanda.namespace(f"amanda/{framework}/{version}")
        if name in dictionary:
            found[dictionary[name]] = None
            if not re.fullmatch(r"[0-9]+", version):
                break  # releases: their ops get more attributes, and keep the others
    return tuple(found)


@cache
def _versions(framework: str) -> tuple[str, ...]:
    host = host_in_use()
    provider = host.load(host.find("namespaces", framework))
    return tuple(sorted(provider.versions(), key=version_key, reverse=True))
