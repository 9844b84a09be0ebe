"""What each of the 28 types of rules means, as a part of a row.

A meaning tells a draft what the rule says of the two ops. `form` is what stands in the
row then, `back` whether the row leads back, or why it does not; the table in the README
is made of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from amanda.errors import FormatError
from amanda_nd4j.draft import Draft, literal
from amanda_nd4j.rulesets import Given, PublishedRule

__all__ = [
    "MEANINGS",
    "PRESENT",
    "READS_INPUTS",
    "Meaning",
    "apply",
    "cases",
    "table",
]

READS_INPUTS: Final = frozenset({
    "multiinputindex", "ndarrayinputtonumericalattribute", "ndarraymapping",
    "ndarraysizeat", "ndarraytointattributevalue", "passthrough",
})  # fmt: skip
"""Rules whose names of the source are inputs; those of all others are attributes."""

_Tell: TypeAlias = "Callable[[Draft, PublishedRule], None]"


class Meaning(NamedTuple):
    """A type of rules: how it is told to a draft, what it becomes, what leads back."""

    tell: _Tell
    form: str
    back: str


def apply(draft: Draft, rule: PublishedRule) -> None:
    """Tell a draft what a rule says; FormatError where nobody knows the rule."""
    meaning = MEANINGS.get(rule.name)
    if meaning is None:
        raise FormatError(
            f"a rule of the unknown type {rule.name!r}",
            expected=f"one of the {len(MEANINGS)} that Deeplearning4j has",
            got=draft.entry.name,
        )
    meaning.tell(draft, rule)


def table() -> str:
    """The table of all types for the README."""
    rows = [f"| `{k}` | {m.form} | {m.back} |" for k, m in sorted(MEANINGS.items())]
    return "\n".join(["| type of rule | in our row | back |", "|---|---|---|", *rows])


def cases(
    draft: Draft, rules: tuple[PublishedRule, ...]
) -> Iterator[Mapping[str, Any]]:
    """The cases in which rules mean different things, each to be a row of its own.

    A case is what is known of the source op then: the value of an attribute, that it is
    left out, or (under `constant:NAME`) whether an input is constant.
    """
    known: list[dict[str, Any]] = [{}]
    for name, values in _choices(draft, rules):
        known = [{**case, name: value} for case in known for value in values]
    yield from known


def _choices(
    draft: Draft, rules: tuple[PublishedRule, ...]
) -> Iterator[tuple[str, list[Any]]]:
    seen: set[str] = set()
    for rule in rules:
        for key, name in rule.pairs.items():
            choice = _choice(draft, rule, key, name)
            if choice is not None and choice[0] not in seen:
                seen.add(choice[0])
                yield choice


def _choice(
    draft: Draft, rule: PublishedRule, key: str, name: str
) -> tuple[str, list[Any]] | None:
    if rule.name.startswith("conditionalfieldvalueintindex"):
        wanted = _named(rule.values(key), "targetValue").fields["stringValue"]
        other = _other(draft, name, wanted)
        return name, [wanted] if other is None else [other, wanted]
    if rule.name == "ndarraysizeat":
        return f"constant:{name}", [True, False]
    if rule.name in ("listattributevaluelookuptoindex", "mapstringtoindex"):
        attr = draft.attr(name)
        has_default = rule.name[0] == "l" and len(rule.values(key)) > 1
        if attr is not None and not (attr.required or has_default or attr.default):
            return name, [PRESENT, None]
    return None


PRESENT: Final = object()
"""An attribute that is there, whatever it is."""


def _named(values: tuple[Given, ...], name: str) -> Given:
    for each in values:
        if each.name == name:
            return each
    raise FormatError(f"a rule without {name}", got=[each.name for each in values])


def _other(draft: Draft, name: str, wanted: str) -> str | None:
    """What a text is where it is not the one that a rule asks for, if that is told."""
    attr = draft.attr(name)
    told = [] if attr is None else [attr.default, *attr.allowed]
    return next((t for t in told if isinstance(t, str) and t != wanted), None)


# -- tensors ---------------------------------------------------------------------------


def _inputs(draft: Draft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        if draft.port(name) is not None:
            draft.place(key, name)


def _passthrough(draft: Draft, _rule: PublishedRule) -> None:
    draft.place_all()


# -- constants, values and texts -------------------------------------------------------

_NUMBERED: Final = {
    "BOOL": "BOOL", "DATA_TYPE": "DATA_TYPE", "DOUBLE": "DOUBLE", "FLOAT": "DOUBLE",
    "INT32": "INT64", "INT64": "INT64", "STRING": "STRING",
}  # fmt: skip


def _constants(draft: Draft, rule: PublishedRule) -> None:
    for given in rule.values("value"):
        kind = _NUMBERED[given.kind]
        draft.put(given.name, kind, literal(given.value), given.place)


def _values(draft: Draft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        draft.put(key, draft.kind(name), draft.say(name))


def _signs(draft: Draft, rule: PublishedRule) -> None:
    """A bool to 0 or 1; a number to whether it is more than 0. Nothing is inverted."""
    for key, name in rule.pairs.items():
        told = draft.say(name)
        if draft.kind(name) == "BOOL":
            draft.put(key, "INT64", f"numeral({told})")
        else:
            draft.put(key, "BOOL", f"flag({told})", loose=f"positive({told})")
            draft.partial.append(name)


def _equal(draft: Draft, rule: PublishedRule) -> None:
    _compare(draft, rule, yes=True)


def _unequal(draft: Draft, rule: PublishedRule) -> None:
    _compare(draft, rule, yes=False)


def _compare(draft: Draft, rule: PublishedRule, *, yes: bool) -> None:
    for key, name in rule.pairs.items():
        given = rule.values(key)[0]
        wanted = str(given.fields.get("stringValue", ""))
        kinds = draft.kinds(key, "INT64", "BOOL") or ["INT64"]
        for kind in kinds:
            place = given.place if len(kinds) == 1 else None
            words = (1, 0) if kind == "INT64" else (True, False)
            match, differ = words if yes else words[::-1]
            if name in draft.fixed:
                draft.say(name)
                is_same = draft.fixed[name] == wanted
                draft.put(key, kind, literal(match if is_same else differ), place)
                continue
            other = _other(draft, name, wanted)
            told = draft.say(name)
            loose = f"equals({told}, {literal(wanted)})"
            loose = loose if yes else f"inverted({loose})"
            loose = f"numeral({loose})" if kind == "INT64" else loose
            if other is None:
                draft.one_way.append(f"what {name} is, if not {wanted}")
                draft.put(key, kind, loose, place)
                continue
            pairs = [[wanted, match], [other, differ]]
            if len(draft.attr(name).allowed) != 2:  # type: ignore[union-attr]
                draft.partial.append(name)
            draft.put(key, kind, f"lookup({told}, {literal(pairs)})", place, loose)


def _contained(draft: Draft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        whole = str(rule.values(key)[0].fields.get("stringValue", ""))
        for kind in draft.kinds(key, "INT64", "BOOL") or ["INT64"]:
            text = f"within({draft.say(name)}, {literal(whole)})"
            draft.put(key, kind, f"numeral({text})" if kind == "INT64" else text)
        draft.one_way.append(f"which part of {whole} {name} is, or what else")


def _place_in(draft: Draft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        words = [str(each.fields.get("stringValue", "")) for each in rule.values(key)]
        text = f"index_in({draft.say(name)}, {literal(words)})"
        draft.put(key, "INT64", text, rule.values(key)[0].place)


def _codes(draft: Draft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        draft.put(key, "INT64", f"type_code({draft.say(name)})")


# -- lists -----------------------------------------------------------------------------


def _listed(draft: Draft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        draft.put(key, draft.kind(name), draft.say(name))


def _items(draft: Draft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        if _is_left_out(draft, name):
            continue
        index, *default = rule.values(key)
        usual = default[0].value if default else None
        text = draft.item(name, index.value, key, usual)
        draft.put(key, draft.kind(name), text, index.place)


def _is_left_out(draft: Draft, name: str) -> bool:
    return draft.fixed.get(name, PRESENT) is None


def _looked_up(draft: Draft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        if _is_left_out(draft, name):
            continue
        words = rule.values(key)
        index = rule.values("index")[0].fields.get("int64Value", 0)
        pairs = [[each.name, each.fields.get("int64Value", 0)] for each in words]
        text = f"lookup({draft.item(name, index, key)}, {literal(pairs)})"
        draft.put(key, "INT64", text, words[0].place)


def _conditional(draft: Draft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        values = rule.values(key)
        wanted = _named(values, "targetValue").fields["stringValue"]
        holds = draft.fixed.get(name) == wanted
        index = _named(values, "trueIndex" if holds else "falseIndex")
        of = _named(values, "attributeNameOfListAttribute").fields["stringValue"]
        draft.put(key, "INT64", draft.item(of, index.fields["int64Value"], key),
                  index.place)  # fmt: skip


def _threshold(draft: Draft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        values = rule.values(key)
        index, least, other = (
            _named(values, each).fields.get("int64Value", 0)
            for each in ("index", "sizeThreshold", "fallbackIndex")
        )
        text = f"item_or({draft.say(name)}, {index}, {least}, {other})"
        draft.put(key, draft.kind(name), text)
        draft.one_way.append(f"all of {name}")


def _flat(draft: Draft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        axis = rule.values(key)[0].fields.get("int64Value", 0)
        draft.put(key, "INT64", f"flat_dims({draft.say(name)}, {axis})")
        draft.one_way.append(f"all of {name}")


# -- attributes that become inputs -----------------------------------------------------


def _tensors(draft: Draft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        if draft.port(name) is not None:  # newer versions have it as an input anyway
            draft.place(key, name)
            continue
        dtype = "int64" if draft.kind(name) == "INT64" else "float32"
        draft.place_text(key, f"numbers({draft.say(name)}, {literal(dtype)})")


def _scalars(draft: Draft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        dtype = "int64" if draft.kind(name) == "INT64" else "float32"
        draft.place_text(key, f"one_by_one({draft.say(name)}, {literal(dtype)})")


def _texts(draft: Draft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        draft.place_text(key, f"text_tensor({draft.say(name)})")


def _held(draft: Draft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        draft.place_text(key, draft.say(name))
        draft.one_way.append(f"that {name} was an attribute")


# -- constants that become arguments ---------------------------------------------------


def _first(draft: Draft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        draft.number(name, "first")
        kinds = draft.kinds(key, "INT64", "DOUBLE") or ["DOUBLE"]
        draft.put_number(key, kinds[0], name)


def _all(draft: Draft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        if draft.port(name) is None:  # older versions have it as an attribute
            draft.put(key, "INT64", draft.say(name))
            continue
        draft.number(name, "all")
        draft.put_number(key, "INT64", name)


def _element(draft: Draft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        variable = draft.say(name)
        draft.say_as(name, f'one_element({variable}, "float32")', variable)
        draft.put(key, "DOUBLE", variable, loose=f"element({variable})")
        draft.partial.append(name)


def _dims(draft: Draft, rule: PublishedRule) -> None:
    for key, name in rule.pairs.items():
        given = rule.values(key)[0]
        index = given.fields.get("int64Value", 0)
        variable = draft.variable(name)
        is_constant = draft.fixed[f"constant:{name}"]
        guard = f"{'' if is_constant else 'not '}is_constant({variable})"
        if guard not in draft.guards:
            draft.guards.append(guard)
        text = f"dim(-1, shape({variable}), {index})" if is_constant else "-1"
        draft.put(key, "INT64", text, given.place)


_YES: Final = "yes"
_ITEMS: Final = "yes, where the items that no rule reads are 1 (for pads, repeated)"
_TEXT: Final = "yes, for the two texts that the op may have"

MEANINGS: Final[Mapping[str, Meaning]] = {
    "ndarraymapping": Meaning(_inputs, "an input `x`", _YES),
    "multiinputindex": Meaning(_inputs, "inputs `*xs`", _YES),
    "passthrough": Meaning(_passthrough, "all inputs, in their order", _YES),
    "argdescriptorconstant": Meaning(_constants, "a constant `a=0`", _YES),
    "valuemapping": Meaning(_values, "a variable `a=v`", _YES),
    "invertbooleannumber": Meaning(
        _signs, "`numeral(v)` of a bool, `flag(v)` of a number",
        "yes; other numbers than 0 and 1 are lost"),
    "stringequals": Meaning(_equal, "a table in place, `lookup`", _TEXT),
    "stringnotequalsadapterrule": Meaning(
        _unequal, "a table in place, `lookup`", _TEXT),
    "stringcontains": Meaning(
        _contained, "`within(v, whole)`", "no: true does not say which part"),
    "stringtoindex": Meaning(_place_in, "`index_in(v, words)`", _YES),
    "mapstringtoindex": Meaning(
        _looked_up, "`lookup` of an item of a list", _YES),
    "conditionalfieldvalueintindex": Meaning(
        _conditional, "a row for each case, the list as a pattern", _ITEMS),
    "conditionalfieldvalueintindexndarray": Meaning(
        _conditional, "a row for each case, a constant input as a pattern", _ITEMS),
    "listattributevaluelookuptoindex": Meaning(
        _items, "the list as a pattern; `stated` where it may be left out", _ITEMS),
    "listnumbertolistnumber": Meaning(_listed, "a list `a=v`", _YES),
    "listnumbertondarray": Meaning(_tensors, "an input `numbers(v, dtype)`", _YES),
    "convertinputnumberlisttondarray": Meaning(
        _tensors, "an input `numbers(v, dtype)`", _YES),
    "attributescalarndarrayattribute": Meaning(
        _scalars, "an input `one_by_one(v, dtype)`", _YES),
    "convertinputstringtondarray": Meaning(_texts, "an input `text_tensor(v)`", _YES),
    "ndarrayinputtondarray": Meaning(
        _held, "the attribute as an input", "no: it reads like any constant input"),
    "ndarrayinputtonumericalattribute": Meaning(
        _first, "`first(x)` of an input; `number(v, dtype)` where it is none of nd4j's",
        "yes, with the usual element type where nothing tells it"),
    "ndarraytointattributevalue": Meaning(
        _all, "the content of an input; `numbers(v, dtype)` where it is none of nd4j's",
        "yes, with the usual element type where nothing tells it"),
    "attributendarraytoscalarattribute": Meaning(
        _element, "`one_element(v, dtype)` at the source",
        "yes, for one element of float32"),
    "ndarrayextractscalarvalue": Meaning(
        _element, "`one_element(v, dtype)` at the source",
        "yes, for one element of float32"),
    "ndarraysizeat": Meaning(
        _dims, "`dim(-1, shape(x), i)`, with a row for inputs that are not constant",
        _YES),
    "datatypetoint": Meaning(_codes, "`type_code(v)`", _YES),
    "flattendims": Meaning(
        _flat, "`flat_dims(v, axis)`", "no: a product does not tell its factors"),
    "sizethresholdarrayint": Meaning(
        _threshold, "`item_or(v, index, least, other)`",
        "no: nothing tells the other items"),
}  # fmt: skip
"""Every type of rules that Deeplearning4j has, by its name."""
