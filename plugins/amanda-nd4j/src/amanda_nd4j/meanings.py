"""The meanings of the 28 types of rules, as parts of a row.

A meaning applies a rule to the draft of a row. `form` describes the resulting part of
the row, `back` whether the row runs both ways, or why not; the table in the README is
generated from these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from amanda.errors import FormatError
from amanda_nd4j.draft import RowDraft, format_literal
from amanda_nd4j.rulesets import PublishedRule, RuleArgument

__all__ = [
    "MEANINGS",
    "IS_PRESENT",
    "READS_INPUTS",
    "RuleMeaning",
    "apply_rule",
    "rule_cases",
    "meaning_table",
]

READS_INPUTS: Final = frozenset({
    "multiinputindex", "ndarrayinputtonumericalattribute", "ndarraymapping",
    "ndarraysizeat", "ndarraytointattributevalue", "passthrough",
})  # fmt: skip
"""Rules that name inputs of the source; all others name attributes."""

_Tell: TypeAlias = "Callable[[RowDraft, PublishedRule], None]"


class RuleMeaning(NamedTuple):
    """A type of rules: how it changes a draft, what it becomes, what runs both ways."""

    tell: _Tell
    form: str
    back: str


def apply_rule(draft: RowDraft, rule: PublishedRule) -> None:
    """Apply a rule to a draft; FormatError for an unknown type of rule."""
    meaning = MEANINGS.get(rule.name)
    if meaning is None:
        raise FormatError(
            f"a rule of the unknown type {rule.name!r}",
            expected=f"one of the {len(MEANINGS)} that Deeplearning4j has",
            got=draft.entry.name,
        )
    meaning.tell(draft, rule)


def meaning_table() -> str:
    """The table of all types, for the README."""
    rows = [f"| `{k}` | {m.form} | {m.back} |" for k, m in sorted(MEANINGS.items())]
    return "\n".join(["| type of rule | in our row | back |", "|---|---|---|", *rows])


def rule_cases(
    draft: RowDraft, rules: tuple[PublishedRule, ...]
) -> Iterator[Mapping[str, Any]]:
    """The cases in which rules have different meanings; each becomes a row.

    A case assumes the value of an attribute of the source op, that it is absent, or
    (under `constant:NAME`) whether an input is constant.
    """
    known: list[dict[str, Any]] = [{}]
    for name, values in _case_choices(draft, rules):
        known = [{**case, name: value} for case in known for value in values]
    yield from known


def _case_choices(
    draft: RowDraft, rules: tuple[PublishedRule, ...]
) -> Iterator[tuple[str, list[Any]]]:
    seen: set[str] = set()
    for rule in rules:
        for key, name in rule.pairs.items():
            choice = _case_choice(draft, rule, key, name)
            if choice is not None and choice[0] not in seen:
                seen.add(choice[0])
                yield choice


def _case_choice(
    draft: RowDraft, rule: PublishedRule, key: str, name: str
) -> tuple[str, list[Any]] | None:
    if rule.name.startswith("conditionalfieldvalueintindex"):
        wanted = _argument_of(rule.values(key), "targetValue").text
        other = _other_value(draft, name, wanted)
        return name, [wanted] if other is None else [other, wanted]
    if rule.name == "ndarraysizeat":
        return f"constant:{name}", [True, False]
    if rule.name in ("listattributevaluelookuptoindex", "mapstringtoindex"):
        attr = draft.attr(name)
        has_default = rule.name[0] == "l" and len(rule.values(key)) > 1
        if attr is not None and not (attr.required or has_default or attr.default):
            return name, [IS_PRESENT, None]
    return None


IS_PRESENT: Final = object()
"""Stands for any value of an attribute that is present."""


def _argument_of(values: tuple[RuleArgument, ...], name: str) -> RuleArgument:
    for each in values:
        if each.name == name:
            return each
    raise FormatError(f"a rule without {name}", got=[each.name for each in values])


def _other_value(draft: RowDraft, name: str, wanted: str) -> str | None:
    """The other one of two allowed strings, if there are exactly two."""
    attr = draft.attr(name)
    told = [] if attr is None else [attr.default, *attr.allowed]
    return next((t for t in told if isinstance(t, str) and t != wanted), None)


# -- tensors ---------------------------------------------------------------------------


def _map_inputs(draft: RowDraft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        if draft.port(name) is not None:
            draft.map_input(key, name)


def _map_all_inputs(draft: RowDraft, _rule: PublishedRule) -> None:
    draft.map_all_inputs()


# -- constants, values and strings ----------------------------------------------------

_NUMBERED: Final = {
    "BOOL": "BOOL", "DATA_TYPE": "DATA_TYPE", "DOUBLE": "DOUBLE", "FLOAT": "DOUBLE",
    "INT32": "INT64", "INT64": "INT64", "STRING": "STRING",
}  # fmt: skip


def _put_constants(draft: RowDraft, rule: PublishedRule) -> None:
    for given in rule.values("value"):
        kind = _NUMBERED.get(given.kind)
        if kind is None:
            raise FormatError(
                f"constant {given.name!r} is of a kind that has no values",
                expected=", ".join(_NUMBERED),
                got=given.kind,
            )
        draft.set_argument(given.name, kind, format_literal(given.value), given.place)


def _put_values(draft: RowDraft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        draft.set_argument(key, draft.kind(name), draft.text_of(name))


def _put_signs(draft: RowDraft, rule: PublishedRule) -> None:
    """A bool to 0 or 1; a number to whether it is positive. Nothing is inverted."""
    for key, name in rule.pairs.items():
        told = draft.text_of(name)
        if draft.kind(name) == "BOOL":
            draft.set_argument(key, "INT64", f"numeral({told})")
        else:
            draft.set_argument(key, "BOOL", f"flag({told})", loose=f"positive({told})")
            draft.partial.append(name)


def _put_equal(draft: RowDraft, rule: PublishedRule) -> None:
    _put_comparison(draft, rule, yes=True)


def _put_unequal(draft: RowDraft, rule: PublishedRule) -> None:
    _put_comparison(draft, rule, yes=False)


def _put_comparison(draft: RowDraft, rule: PublishedRule, *, yes: bool) -> None:
    for key, name in rule.pairs.items():
        given = rule.first(key)
        wanted = str(given.fields.get("stringValue", ""))
        kinds = draft.kinds(key, "INT64", "BOOL") or ["INT64"]
        for kind in kinds:
            place = given.place if len(kinds) == 1 else None
            words = (1, 0) if kind == "INT64" else (True, False)
            match, differ = words if yes else words[::-1]
            if name in draft.fixed:
                draft.text_of(name)
                is_same = draft.fixed[name] == wanted
                draft.set_argument(
                    key, kind, format_literal(match if is_same else differ), place
                )
                continue
            other = _other_value(draft, name, wanted)
            told = draft.text_of(name)
            loose = f"equals({told}, {format_literal(wanted)})"
            loose = loose if yes else f"inverted({loose})"
            loose = f"numeral({loose})" if kind == "INT64" else loose
            if other is None:
                draft.one_way.append(f"what {name} is, if not {wanted}")
                draft.set_argument(key, kind, loose, place)
                continue
            pairs = [[wanted, match], [other, differ]]
            if len(draft.attr(name).allowed) != 2:  # type: ignore[union-attr]
                draft.partial.append(name)
            draft.set_argument(
                key, kind, f"lookup({told}, {format_literal(pairs)})", place, loose
            )


def _put_containment(draft: RowDraft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        whole = str(rule.first(key).fields.get("stringValue", ""))
        for kind in draft.kinds(key, "INT64", "BOOL") or ["INT64"]:
            text = f"within({draft.text_of(name)}, {format_literal(whole)})"
            draft.set_argument(
                key, kind, f"numeral({text})" if kind == "INT64" else text
            )
        draft.one_way.append(f"which part of {whole} {name} is, or what else")


def _put_index(draft: RowDraft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        words = [str(each.fields.get("stringValue", "")) for each in rule.values(key)]
        text = f"index_in({draft.text_of(name)}, {format_literal(words)})"
        draft.set_argument(key, "INT64", text, rule.first(key).place)


def _put_type_codes(draft: RowDraft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        draft.set_argument(key, "INT64", f"type_code({draft.text_of(name)})")


# -- lists -----------------------------------------------------------------------------


def _put_list(draft: RowDraft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        draft.set_argument(key, draft.kind(name), draft.text_of(name))


def _put_items(draft: RowDraft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        if _is_absent(draft, name):
            continue
        index, default = rule.first(key), rule.values(key)[1:]
        usual = default[0].value if default else None
        text = draft.item(name, index.position, key, usual)
        draft.set_argument(key, draft.kind(name), text, index.place)


def _is_absent(draft: RowDraft, name: str) -> bool:
    return draft.fixed.get(name, IS_PRESENT) is None


def _put_lookup(draft: RowDraft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        if _is_absent(draft, name):
            continue
        words = rule.values(key)
        index = rule.first("index").integer
        pairs = [[each.name, each.integer] for each in words]
        text = f"lookup({draft.item(name, index, key)}, {format_literal(pairs)})"
        draft.set_argument(key, "INT64", text, rule.first(key).place)


def _put_conditional_item(draft: RowDraft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        values = rule.values(key)
        wanted = _argument_of(values, "targetValue").text
        holds = draft.fixed.get(name) == wanted
        index = _argument_of(values, "trueIndex" if holds else "falseIndex")
        of = _argument_of(values, "attributeNameOfListAttribute").text
        draft.set_argument(
            key, "INT64", draft.item(of, index.integer, key), index.place
        )


def _put_item_or_fallback(draft: RowDraft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        values = rule.values(key)
        index, least, other = (
            _argument_of(values, each).integer
            for each in ("index", "sizeThreshold", "fallbackIndex")
        )
        text = f"item_or({draft.text_of(name)}, {index}, {least}, {other})"
        draft.set_argument(key, draft.kind(name), text)
        draft.one_way.append(f"all of {name}")


def _put_flattened_dims(draft: RowDraft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        axis = rule.first(key).integer
        draft.set_argument(key, "INT64", f"flat_dims({draft.text_of(name)}, {axis})")
        draft.one_way.append(f"all of {name}")


# -- attributes that become inputs -----------------------------------------------------


def _put_number_inputs(draft: RowDraft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        if draft.port(name) is not None:  # newer versions have it as an input
            draft.map_input(key, name)
            continue
        dtype = "int64" if draft.kind(name) == "INT64" else "float32"
        draft.set_input(key, f"numbers({draft.text_of(name)}, {format_literal(dtype)})")


def _put_scalar_inputs(draft: RowDraft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        dtype = "int64" if draft.kind(name) == "INT64" else "float32"
        draft.set_input(
            key, f"one_by_one({draft.text_of(name)}, {format_literal(dtype)})"
        )


def _put_string_inputs(draft: RowDraft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        draft.set_input(key, f"text_tensor({draft.text_of(name)})")


def _put_attribute_input(draft: RowDraft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        draft.set_input(key, draft.text_of(name))
        draft.one_way.append(f"that {name} was an attribute")


# -- constants that become arguments ---------------------------------------------------


def _put_first_number(draft: RowDraft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        draft.number(name, "first")
        kinds = draft.kinds(key, "INT64", "DOUBLE") or ["DOUBLE"]
        draft.set_number_argument(key, kinds[0], name)


def _put_all_numbers(draft: RowDraft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        if draft.port(name) is None:  # older versions have it as an attribute
            draft.set_argument(key, "INT64", draft.text_of(name))
            continue
        draft.number(name, "all")
        draft.set_number_argument(key, "INT64", name)


def _put_single_element(draft: RowDraft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        variable = draft.text_of(name)
        draft.set_source(name, f'one_element({variable}, "float32")', variable)
        draft.set_argument(key, "DOUBLE", variable, loose=f"element({variable})")
        draft.partial.append(name)


def _put_dims(draft: RowDraft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        given = rule.first(key)
        index = given.integer
        variable = draft.variable(name)
        is_constant = draft.fixed[f"constant:{name}"]
        guard = f"{'' if is_constant else 'not '}is_constant({variable})"
        if guard not in draft.guards:
            draft.guards.append(guard)
        text = f"dim(-1, shape({variable}), {index})" if is_constant else "-1"
        draft.set_argument(key, "INT64", text, given.place)


_YES: Final = "yes"
_ITEMS: Final = "yes, where the items that no rule reads are 1 (for pads, repeated)"
_TWO_STRINGS: Final = "yes, for the two texts that the op may have"

MEANINGS: Final[Mapping[str, RuleMeaning]] = {
    "ndarraymapping": RuleMeaning(_map_inputs, "an input `x`", _YES),
    "multiinputindex": RuleMeaning(_map_inputs, "inputs `*xs`", _YES),
    "passthrough": RuleMeaning(_map_all_inputs, "all inputs, in their order", _YES),
    "argdescriptorconstant": RuleMeaning(_put_constants, "a constant `a=0`", _YES),
    "valuemapping": RuleMeaning(_put_values, "a variable `a=v`", _YES),
    "invertbooleannumber": RuleMeaning(
        _put_signs,
        "`numeral(v)` of a bool, `flag(v)` of a number",
        "yes; other numbers than 0 and 1 are lost",
    ),
    "stringequals": RuleMeaning(_put_equal, "a table in place, `lookup`", _TWO_STRINGS),
    "stringnotequalsadapterrule": RuleMeaning(
        _put_unequal, "a table in place, `lookup`", _TWO_STRINGS
    ),
    "stringcontains": RuleMeaning(
        _put_containment, "`within(v, whole)`", "no: true does not say which part"
    ),
    "stringtoindex": RuleMeaning(_put_index, "`index_in(v, words)`", _YES),
    "mapstringtoindex": RuleMeaning(_put_lookup, "`lookup` of an item of a list", _YES),
    "conditionalfieldvalueintindex": RuleMeaning(
        _put_conditional_item, "a row for each case, the list as a pattern", _ITEMS
    ),
    "conditionalfieldvalueintindexndarray": RuleMeaning(
        _put_conditional_item,
        "a row for each case, a constant input as a pattern",
        _ITEMS,
    ),
    "listattributevaluelookuptoindex": RuleMeaning(
        _put_items, "the list as a pattern; `stated` where it may be left out", _ITEMS
    ),
    "listnumbertolistnumber": RuleMeaning(_put_list, "a list `a=v`", _YES),
    "listnumbertondarray": RuleMeaning(
        _put_number_inputs, "an input `numbers(v, dtype)`", _YES
    ),
    "convertinputnumberlisttondarray": RuleMeaning(
        _put_number_inputs, "an input `numbers(v, dtype)`", _YES
    ),
    "attributescalarndarrayattribute": RuleMeaning(
        _put_scalar_inputs, "an input `one_by_one(v, dtype)`", _YES
    ),
    "convertinputstringtondarray": RuleMeaning(
        _put_string_inputs, "an input `text_tensor(v)`", _YES
    ),
    "ndarrayinputtondarray": RuleMeaning(
        _put_attribute_input,
        "the attribute as an input",
        "no: it reads like any constant input",
    ),
    "ndarrayinputtonumericalattribute": RuleMeaning(
        _put_first_number,
        "`first(x)` of an input; `number(v, dtype)` where it is none of nd4j's",
        "yes, with the usual element type where nothing tells it",
    ),
    "ndarraytointattributevalue": RuleMeaning(
        _put_all_numbers,
        "the content of an input; `numbers(v, dtype)` where it is none of nd4j's",
        "yes, with the usual element type where nothing tells it",
    ),
    "attributendarraytoscalarattribute": RuleMeaning(
        _put_single_element,
        "`one_element(v, dtype)` at the source",
        "yes, for one element of float32",
    ),
    "ndarrayextractscalarvalue": RuleMeaning(
        _put_single_element,
        "`one_element(v, dtype)` at the source",
        "yes, for one element of float32",
    ),
    "ndarraysizeat": RuleMeaning(
        _put_dims,
        "`dim(-1, shape(x), i)`, with a row for inputs that are not constant",
        _YES,
    ),
    "datatypetoint": RuleMeaning(_put_type_codes, "`type_code(v)`", _YES),
    "flattendims": RuleMeaning(
        _put_flattened_dims,
        "`flat_dims(v, axis)`",
        "no: a product does not tell its factors",
    ),
    "sizethresholdarrayint": RuleMeaning(
        _put_item_or_fallback,
        "`item_or(v, index, least, other)`",
        "no: nothing tells the other items",
    ),
}
"""Every type of rules of Deeplearning4j, by name."""
