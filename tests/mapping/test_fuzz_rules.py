"""Broken files of rules: rules or an error of ours with its place, soon."""

from __future__ import annotations

import copy
import os
import random
import time

import pytest
from mapping.files import COMMITTED, EVERYTHING, TABLES, empty
from mapping.toys import TO, A, B, chain
from text.mutations import mutated

from amanda.errors import AmandaError, InternalError
from amanda.files.binary import mapping_messages
from amanda.mapping import PlainSide, RuleMapping
from amanda.mapping.lenses.builtin import LENSES
from amanda.mapping.rules import protobuf, rule_file
from amanda.mapping.rules.parser import parse_rules

pytestmark = pytest.mark.fuzz
ROUNDS = int(os.environ.get("AMANDA_FUZZ_ROUNDS", "500"))
SLOW = 5.0  # seconds that no file of this size may take
ENDS = (
    PlainSide("toy/a/13", {key: kept[-1] for key, kept in A.items()}.get),
    PlainSide(TO, B.get),
)


def fault_of(read, *args):
    """What is wrong with the answer; None where nothing is."""
    start = time.perf_counter()
    try:
        read(*args)
    except AmandaError as error:
        if isinstance(error, InternalError):
            return f"a bug in Amanda: {error}"
        if error.where is None and error.who is None:
            return f"an error without its place: {error!r}"
    if time.perf_counter() - start > SLOW:
        return "it took too long"
    return None


def text_in(data):
    """The rules of a text; what is read is written and read again the same."""
    text = data.decode("utf-8", "replace")
    for row in parse_rules(text, LENSES, "fuzz"):
        [again] = parse_rules(row.full_text, LENSES, "fuzz")
        assert again.full_text == row.full_text


def used(rules):
    """Rules that were read map a graph, or decline."""
    ops = [("Relu", {}), ("Softmax", {"axis": 1}), ("Conv", {"group": 2}),
           ("Gemm", {"alpha": 1.0}), ("Concat", {"axis": 0}), ("Drop", {})]  # fmt: skip
    mapping = RuleMapping(*ENDS, rules)
    made = mapping.conversion(chain(*ops), TO, keep_foreign=True).graph
    assert made.check() == []


def yaml_in(data):
    rules = empty()
    rule_file.loads(rules, data.decode("utf-8", "replace"), "fuzz.yaml")
    used(rules)


def binary_in(data):
    rules = empty()
    protobuf.loads(rules, data, "fuzz.pb")
    used(rules)


SAID = [path.read_bytes() for path in COMMITTED]
SAID += [EVERYTHING.partition("rules: |\n")[2].encode()]


@pytest.mark.parametrize(
    ("read", "good"),
    [(text_in, SAID), (yaml_in, [EVERYTHING.encode(), TABLES.encode()])],
    ids=["text", "yaml"],
)
def test_texts(read, good):
    dice, bad = random.Random(7), 0
    for i in range(ROUNDS):
        data = mutated(good, dice)
        fault = fault_of(read, data)
        assert fault is None, (i, fault, data)
        bad += 1
    assert bad == ROUNDS


def coded():
    rules = empty()
    rule_file.loads(rules, EVERYTHING, "all.yaml")
    return protobuf.dumps(rules)


def test_bytes():
    dice, good = random.Random(8), [coded()]
    for i in range(ROUNDS):
        data = mutated(good, dice)
        fault = fault_of(binary_in, data)
        assert fault is None, (i, fault, data)


WORDS = [
    *("", "x", "Relu", "only", "rank", "op", "lens", "variable", "list", "rest", "and"),
    *("compare", "not", "constant", "question", "(" * 9, "a b", "\0", "<=>", "==", "_"),
    *("if", "9" * 99, "é", "*", "drop", "toys", "first"),
]


def changed(message, dice):
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
            changed(dice.choice(value), dice)
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


def test_messages():
    dice, good = random.Random(9), coded()
    for i in range(ROUNDS):
        file = protobuf.decode_file(good)
        for _ in range(dice.choice([1, 1, 2, 4])):
            changed(file if dice.random() < 0.1 else dice.choice(file.rules), dice)
        data = mapping_messages.write(file)
        fault = fault_of(binary_in, data)
        assert fault is None, (i, fault, file)
