"""Three toy namespaces for the tests of mapping: framework a, framework b, a hub."""

from __future__ import annotations

from amanda.graph import Graph
from amanda.mapping import REQUIRED, Decline, PlainSide, RuleMapping, RuleSet, Signature
from amanda.types import TensorType, parse_type

TO = "toy/b/1"

# Framework a has versions: what an op type means since which.
A = {
    "Relu": [Signature(("x",), since=1)],
    "Add": [Signature(("a", "b"), since=1)],
    "Mul": [Signature(("a", "b"), since=1)],
    "Identity": [Signature(("x",), since=1)],
    "Softmax": [
        Signature(("x",), {"axis": 1}, since=1),
        Signature(("x",), {"axis": -1}, since=13),
    ],
    "Sum": [
        Signature(("x",), {"axes": None, "keep": 1}, since=1),
        Signature(("x", "axes"), {"keep": 1}, optional=frozenset({"axes"}), since=13),
    ],
    "Conv": [
        Signature(
            ("x", "w", "b"),
            {"pads": None, "strides": None, "group": 1, "auto": "NOTSET"},
            optional=frozenset({"b"}),
            hints=frozenset({"cudnn", "_*"}),
            since=1,
        )
    ],
    "Clip": [
        Signature(("x",), {"lo": None, "hi": None}, since=1),
        Signature(("x", "lo", "hi"), since=11),
    ],
    "Concat": [Signature(("xs",), {"axis": REQUIRED}, variadic="xs", since=1)],
    "Split": [Signature(("x",), {"axis": 0}, outputs=None, since=1)],
    "Drop": [Signature(("x",), {"ratio": 0.5}, outputs=None, since=1)],
    "If": [Signature(("c",), {"then": REQUIRED, "else": REQUIRED}, outputs=None)],
    "Gemm": [
        Signature(
            ("a", "b", "c"),
            {"alpha": 1.0, "transB": 0},
            optional=frozenset({"c"}),
            since=7,
        )
    ],
    "Next": [Signature(("x",), feedback=True)],
    "Merge": [Signature(("x", "y"))],
}

B = {
    "relu": Signature(("x",)),
    "plus": Signature(("a", "b"), commutative=True),
    "times": Signature(("a", "b"), commutative=True),
    "dot": Signature(("a", "b")),
    "swap": Signature(("x",), {"order": None}),
    "same": Signature(("x",)),
    "soft": Signature(("x",), {"axes": REQUIRED}),
    "total": Signature(("x", "axes"), {"keep": True}, optional=frozenset({"axes"})),
    "conv": Signature(
        ("x", "w", "b"),
        {"padding": None, "steps": None, "groups": 1},
        optional=frozenset({"b"}),
    ),
    "clamp": Signature(("x", "lo", "hi")),
    "join": Signature(("xs",), {"axis": 0}, variadic="xs"),
    "parts": Signature(("x",), {"axis": 0}, outputs=None),
    "choose": Signature(("c",), {"yes": REQUIRED, "no": REQUIRED}, outputs=None),
    "next": Signature(("x",), feedback=True),
    "merge": Signature(("x", "y")),
    "fused": Signature(("x", "y")),
    "three": Signature(("x",), outputs=3),
}

TEXT = """
    Relu(x)                   <=>  relu(x)
    Add(a, b)                 <=>  plus(a, b)
    Mul(a, b)                 <=>  times(a, b)
    Identity(x)               <=>  same(x)
    Softmax[13:](x, axis=a)   <=>  soft(x, axes=only(a))
    Softmax[:12](x, axis=a)   <=>  soft(x, axes=trailing(a, rank(x)))
    Sum[:12](x, axes=a, keep=k)   <=>  total(x, a, keep=flag(k))
    Sum[13:](x, a, keep=k)        <=>  total(x, a, keep=flag(k))
    Conv(x, w, b, pads=p, strides=s, group=g, auto="NOTSET")
        <=>  conv(x, w, b, padding=pairs(p), steps=s, groups=g)
    Clip[11:](x, lo, hi)      <=>  clamp(x, lo, hi)
    Clip[:10](x, lo=l, hi=h)  <=>  clamp(x, l, h)
    Concat(*xs, axis=a)       <=>  join(*xs, axis=a)
    Split(x, axis=a)          <=>  parts(x, axis=a)
    If(c, then=t, else=e)     <=>  choose(c, yes=t, no=e)
    Next(x)                   <=>  next(x)
    Merge(x, y)               <=>  merge(x, y)
    Gemm(a, b, c)             <=   plus(dot(a, b), c)  if rank(a) == 2
    Gemm(a, b, c, transB=1)   <=   plus(dot(a, swap(b, order=[1, 0])), c)
                                   if rank(a) == 2
"""


class Typing(PlainSide):
    """A side that infers types while it builds: those of the first input."""

    def build(self, graph, type, args, attrs, **more):
        outputs = super().build(graph, type, args, attrs, **more)
        first = outputs[0].op.inputs[:1]
        for port in outputs:
            if first and first[0] is not None and port.type is None:
                port.type = first[0].type
        return outputs


def a_side(name: str) -> PlainSide:
    version = int(name.rpartition("/")[2])

    def signature(type):
        found = [s for s in A.get(type, ()) if s.since <= version]
        return found[-1] if found else None

    return PlainSide(name, signature)


def b_side(name: str = "toy/b/1") -> PlainSide:
    return Typing(name, B.get)


def toys(text: str = TEXT, **more) -> RuleMapping:
    rules = RuleSet("toys", "toy/a", "toy/b")
    rules.equations(text, "toys.rules")

    @rules.read("Gemm")
    def gemm(o, a, b, c=None, *, alpha, transB):  # noqa: N803
        if alpha != 1:
            raise Decline("alpha is not 1")
        y = o.dot(a, o.swap(b, order=[1, 0]) if transB else b)
        return y if c is None else o.plus(y, c)

    return RuleMapping(a_side, b_side, rules)


def chain(*ops, namespace="toy/a/13", type="float32[2, 3]", **inputs):
    """A graph in which each op reads the one before it: (type, attrs, *more inputs)."""
    graph = Graph(namespace, name="g")
    value = graph.parameter(parse_type(type) if type else None, name="x")
    for i, (kind, attrs, *more) in enumerate(ops):
        value = graph.add(kind, [value, *more], attrs, name=f"{kind}_{i}").outputs[0]
    graph.result(value, name="y")
    return graph


def lines(graph: Graph) -> list[str]:
    """The ops of a graph, short."""
    return [f"{op!r} {op.attrs or ''}".strip() for op in graph]


def float32(*dims) -> TensorType:
    return TensorType("float32", dims)


def there(graph, mapping=None, **options):
    done = (mapping or toys()).conversion(graph, TO, **options)
    assert done.graph.check() == []
    return done
