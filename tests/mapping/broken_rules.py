"""Files of rules to break: their readers, and what is done with rules."""

from __future__ import annotations

import copy

from mapping.files import COMMITTED, EVERYTHING, empty
from mapping.toys import TO, A, B, chain

from amanda.files.binary import mapping_messages
from amanda.mapping import PlainSide, RuleMapping
from amanda.mapping.lenses.builtin import LENSES
from amanda.mapping.rules import protobuf, rule_file
from amanda.mapping.rules.parser import parse_rules

ENDS = (
    PlainSide("toy/a/13", {key: kept[-1] for key, kept in A.items()}.get),
    PlainSide(TO, B.get),
)


def read_text(data):
    """The rules of a text; what is read is written and read again the same."""
    text = data.decode("utf-8", "replace")
    for row in parse_rules(text, LENSES, "fuzz"):
        [again] = parse_rules(row.full_text, LENSES, "fuzz")
        assert again.full_text == row.full_text


def map_with(rules):
    """Rules that were read map a graph, or decline."""
    ops = [("Relu", {}), ("Softmax", {"axis": 1}), ("Conv", {"group": 2}),
           ("Gemm", {"alpha": 1.0}), ("Concat", {"axis": 0}), ("Drop", {})]  # fmt: skip
    mapping = RuleMapping(*ENDS, rules)
    made = mapping.conversion(chain(*ops), TO, keep_foreign=True).graph
    assert made.check() == []


def read_yaml(data):
    rules = empty()
    rule_file.loads(rules, data.decode("utf-8", "replace"), "fuzz.yaml")
    map_with(rules)


def read_binary(data):
    rules = empty()
    protobuf.loads(rules, data, "fuzz.pb")
    map_with(rules)


TEXTS = [path.read_bytes() for path in COMMITTED]
TEXTS += [EVERYTHING.partition("rules: |\n")[2].encode()]


def binary_file():
    rules = empty()
    rule_file.loads(rules, EVERYTHING, "all.yaml")
    return protobuf.dumps(rules)


WORDS = [
    *("", "x", "Relu", "only", "rank", "op", "lens", "variable", "list", "rest", "and"),
    *("compare", "not", "constant", "question", "(" * 9, "a b", "\0", "<=>", "==", "_"),
    *("if", "9" * 99, "é", "*", "drop", "toys", "first"),
]


def change_row(message, dice):
    """Some field of a message, or of one inside it, at another value."""
    name = dice.choice(list(type(message).__dataclass_fields__))
    value = getattr(message, name)
    if isinstance(value, list):
        what = dice.randrange(4)
        if value and what == 0:
            value.pop(dice.randrange(len(value)))
        elif value and what == 1:
            value.insert(dice.randrange(len(value)), copy.deepcopy(dice.choice(value)))
        elif value and type(value[0]).__name__ in mapping_messages.CODEC.classes:
            change_row(dice.choice(value), dice)
        elif value or name in ("tags", "after"):
            value.append(dice.choice(WORDS))
    elif isinstance(value, bool) or name in ("waits", "optional", "boolean", "writes"):
        setattr(message, name, dice.random() < 0.5)
    elif isinstance(value, int) or name in ("low", "high", "integer", "list"):
        setattr(message, name, dice.choice([0, 1, 2, 3, 9, 1 << 31, (1 << 63) - 1]))
    elif name == "real":
        message.real = dice.choice([float("nan"), 1e308, -0.0])
    else:
        setattr(message, name, dice.choice(WORDS))
