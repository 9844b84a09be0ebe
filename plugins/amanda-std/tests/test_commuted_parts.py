"""Parts of a session that differ in the order of operands share an executable."""

from __future__ import annotations

import numpy as np

import amanda
from amanda.types import parse_type
from amanda_std import ops, trace

X = parse_type("float32[3]")
A, B, C, D = (np.float32([i, i + 0.5, -i]) for i in (1, 2, 3, 5))


def both(first, second):
    """A graph of two formulas, each of two inputs of its own."""

    def function(a, b, c, d):
        return {"first": first(a, b), "second": second(c, d)}

    return trace(function, [X] * 4, names=["a", "b", "c", "d"])


def ran(first, second):
    session = amanda.Session(both(first, second), "numpy")
    feeds = {"a": A, "b": B, "c": C, "d": D}
    compiled = []
    for name, function, args in (("first", first, (A, B)), ("second", second, (C, D))):
        made = session.run([name], feeds)[name]
        assert made.tobytes() == function(*args).tobytes()
        compiled.append(session.last.compiled)
    return compiled


def test_operands_of_what_commutes_count_in_any_order():
    # no order of the two inputs makes one of the other, without changing operands
    made = ran(lambda a, b: (a - b) * a + b, lambda c, d: d + c * (c - d))
    assert made == [1, 0]


def test_inputs_and_operands_are_exchanged_together():
    def other(c, d):
        product = c * d
        return ops.maximum(d - c, product)

    made = ran(lambda a, b: ops.maximum(a * b, a - b), other)
    assert made == [1, 0]


def test_operands_of_what_does_not_commute_stay():
    made = ran(lambda a, b: (a - b) * a, lambda c, d: c * (d - c))
    assert made == [1, 1]
