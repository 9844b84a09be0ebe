"""The engine: matches the ops of a graph by rules and builds those of another.

compiled_rule.py   a rule compiled for one direction and two sides
matcher.py         the side of a rule that is matched
emitter.py         the side of a rule that is built
commutative.py     input orders of commutative ops
neighbors.py       the ops that a pattern requires around its root
rule_index.py      candidate rules of an op, by its neighbors
program.py         all rules of one direction, compiled on first use
cover.py           which rules together match a graph
conversion_run.py  one conversion
carry.py           constants, foreign ops and names that are copied
adapters.py        foreign Python values in mapping functions
"""
