"""Files of rules for tests: every one of this repository, and one of everything."""

from __future__ import annotations

import re
from pathlib import Path

from amanda.errors import FormatError
from amanda.mapping import Lens, RuleSet

ROOT = Path(__file__).resolve().parents[2]
COMMITTED = sorted(
    path
    for folder in ("core/src", "plugins", "namespaces/src")
    for path in (ROOT / folder).rglob("*.rules")
    if ".venv" not in path.parts
)

EVERYTHING = """\
source: toy/a
target: toy/b
tags: [toys]
apply_after: [first]
hints: {source: [vendor_*, trace], target: [note]}
tables:
  mode: {constant: fill, edge: 3}
  odd: [[null, 0.5], [true, -7], [[1, x], .inf], ["\\U0001f600 \\x01", ""]]
read:
  "Drop[1:7]": drop
  "Drop[8:]": [drop, other]
write: {parts: other}
rules: |
  Relu(x)  <=>  relu(x)
  Softmax[:12](x, axis=a)  <=>  soft(x, axes=trailing(a, rank(x)))
  Conv(x, w, b?, pads=[1, *p, 1], mode=mode(m), group=99999999999999999999)
      =>  conv(x, w, b, padding=pairs(p), m=m)  losing 'the "\\x00" of it'  @slow  @old
  Gemm[7](a, b, c)  <=  plus(dot(a, Split(b)[1]), c)
     if rank(a) == 2 and (kind(a) in ['int', -1.5, inf] or not given(c)) and a
  Join(*xs, y, axis=odd(k), ^Check(c))  <=>  join(y, *xs, axis=k, ^check(c))
  aten::add.Tensor(a, b, t=[[1, []], none, true], s="it's\\n\\t\\\\")  =>  plus(a, b)
"""

TABLES = """\
src_namespace: toy/a
dst_namespace: toy/b
tags: [old]
rules:
  - name: rectify
    matcher: {op: Relu, inputs: [$x]}
    mapper: {op: relu, inputs: [$x]}
    both: true
  - matcher:
      op: Gemm
      versions: "[7:]"
      inputs: [$a, $b, "$c?"]
      attrs: {alpha: 1.0, transB: 1}
    mapper:
      op: plus
      inputs:
        - {op: dot, inputs: [$a, {op: swap, inputs: [$b], attrs: {order: [1, 0]}}]}
        - $c
    guard: ${rank(a) == 2}
    losing: speed
    apply_after: [old_ones]
    tags: [big]
  - matcher: "${Concat(*xs, axis=a)}"
    mapper: {op: join, inputs: ["$*xs"], attrs: {axis: "${axis(a, 4)}"}}
  - matcher: {op: Join, inputs: [$x], after: [{op: Check, inputs: [$_]}]}
    mapper: {op: same, inputs: [{op: three, inputs: [$x], output: 2}], after: []}
    losing: the check of ${c}
    tags: [old_ones]
"""


def empty() -> RuleSet:
    """A set that has the functions and the tag that EVERYTHING names."""
    rules = RuleSet("mine", "toy/a", "toy/b")

    @rules.function
    def drop(o, x, **_):
        return x

    @rules.function
    def other(o, *xs, **_):
        return xs

    rules.equations("Add(a, b)  <=>  plus(a, b)  @first", "first.rules")
    return rules


def committed(path: Path) -> RuleSet:
    """The rules of a file; lenses that its own plug-in has are stood for."""
    rules = RuleSet("mine", "toy/a", "toy/b")
    while True:
        try:
            rules.load(path)
        except FormatError as error:
            told = " ".join([error.message, *error.problems])
            missing = re.findall(r"no lens is called '(\w+)'", told)
            if not missing:
                raise
            rules.lenses |= {name: stand(name) for name in missing}
        else:
            return rules


def stand(name: str) -> Lens:
    return Lens(name, lambda v, *_: v, lambda v, *_: v, lambda _: (1,), "as it is")
