"""Passes that are made of rules: every row fires, and changes no bit of a result."""

from __future__ import annotations

import math

import numpy as np
import pytest

from amanda.errors import AmandaError, UsageError
from amanda.graph import Graph
from amanda.mapping import RuleSet, answer_question
from amanda.mapping.rules.terms import ConstantTerm, OpTerm, Var
from amanda.passes import Rewriting, apply_passes, inline
from amanda.types import TensorType, parse_type
from amanda_std import grad, ops, trace, tracing
from amanda_std.engine.values import Value
from amanda_std.hub.mapping_side import STD_SIDE
from amanda_std.passes import (
    branches,
    canonical,
    channels_first,
    channels_last,
    drop,
    fold,
    fold_norms,
    infer,
    share,
    simplify,
    sink,
    stable,
)
from amanda_std.passes.simplify import rules_of

X = parse_type("float32[n, 4]")
ODD = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 0.5, 3e38, 1e-45, np.inf, -np.inf, np.nan]


def kinds(graph):
    return [op.type for op in graph]


# -- every row, on its own left side ----------------------------------------------


def rows(file):
    return [pytest.param(row, id=row.text) for row in rules_of(file).rows]


def sample_type(row):
    """The element type of a row's variables: what its ops and its guard ask for."""
    text = str(row.text)
    if "logical_not(c)" not in text and "logical_not" in text and "(x, y)" in text:
        return "int32" if "['int', 'uint']" in text else "float64"
    if ("logical" in text and "(c)" not in text) or "True, False" in text:
        return "bool"
    if "bitwise" in text or "['int', 'uint']" in text:
        return "int32"
    return "float64"


def sample(name, dtype, where, values=ODD):
    if name == "c" and where:
        return np.array([[True], [False], [True]] * 4)
    if name in ("c", "d"):
        return np.array(7, dtype)
    if dtype == "bool":
        return np.array([[True], [False], [True]])
    if dtype == "int32":
        return np.array([[-(2**31), -3, -1, 0, 1, 2, 7, 2**31 - 1]], dtype)
    row = np.array(values, dtype)
    return row[:, None] + np.zeros(len(row)) if name == "x" else row


def built(term, values, dtype):
    """The left side of a row as a call of ops."""
    args = []
    for part in term.args:
        match part:
            case Var(name=name):
                args.append(values[name])
            case ConstantTerm(value=value):
                args.append(np.array(value, dtype))
            case OpTerm():
                args.append(built(part, values, dtype))
    attrs = {
        key: part.value if isinstance(part, ConstantTerm) else values[part.name]
        for key, part in term.attrs.items()
    }
    return ops.OPS[term.type](*args, **attrs)


def names_of(term):
    for part in [*term.args, *term.attrs.values()]:
        if isinstance(part, Var):
            yield part.name
        elif isinstance(part, OpTerm):
            yield from names_of(part)


def left_side(row, values=ODD):
    """A row's own left side as a graph, and what it may be fed."""
    dtype, where = sample_type(row), row.left.type == "where"
    known = {"a": (1,), "k": True}
    names = [n for n in dict.fromkeys(names_of(row.left)) if n not in known]
    arrays = {n: sample("c" if n == "_" else n, dtype, where, values) for n in names}
    fixed = {n: arrays[n] for n in names if n in ("c", "d") and not where}
    fed = [n for n in names if n not in fixed]
    types = [TensorType(str(arrays[n].dtype), arrays[n].shape) for n in fed]
    graph = trace(
        lambda *xs: built(
            row.left, {**known, **fixed, **dict(zip(fed, xs, strict=True))}, dtype
        ),
        types,
    )
    return graph, [arrays[n] for n in fed]


def fires(row, run, values=ODD):
    """What a row makes of its own left side, and what that gave before."""
    graph, fed = left_side(row, values)
    before = run(graph, *fed)
    rules = RuleSet("one", "amanda/std", "amanda/std")
    rules.equations(row.text)
    assert Rewriting(rules, STD_SIDE)(graph) >= 1
    drop(graph)
    return before, run(graph, *fed)


@pytest.mark.parametrize("row", rows("algebra.rules"))
def test_algebra_changes_no_bit(row, run):
    before, after = fires(row, run)
    for a, b in zip(before, after, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        same = a.tobytes() == b.tobytes()
        assert same or ((np.isnan(a) == np.isnan(b)).all() and _equal_but_nan(a, b))


def _equal_but_nan(a, b):
    """A NaN has many bit patterns, all of which mean the same."""
    known = ~np.isnan(a)
    return a[known].tobytes() == b[known].tobytes()


WIDE = [0.0, -0.0, 0.5, 1.0, -2.5, 30.0, -30.0, np.inf]
NEAR = [0.0, -0.0, 0.5, 1.0, -2.5, 8.0, -8.0]
"""Where 1 - sigmoid(x) has digits left."""


def picks(row):
    """Whether a row is of targets: tested below."""
    return "t" in names_of(row.left)


@pytest.mark.parametrize("row", rows("stable.rules"))
def test_the_stable_path_is_right_where_the_formula_is(row, run):
    if picks(row):
        pytest.skip("its arguments are targets: tested below")
    loses = any(part in row.text for part in ("1, sigmoid", "log1p(negative"))
    before, after = fires(row, run, NEAR if loses else WIDE)
    for a, b in zip(before, after, strict=True):
        fine = np.isfinite(a)
        np.testing.assert_allclose(b[fine], a[fine], rtol=1e-6, atol=1e-7)


PICKED = {
    "gather": lambda p: ops.gather(p, np.array([2, 0]), 1),
    "gather_elements": lambda p: ops.gather_elements(p, np.array([[3], [1]]), axis=1),
    "gather_nd": lambda p: ops.gather_nd(p, np.array([[0, 3], [1, 1]])),
    "reshape": lambda p: ops.reshape(p, (4, 2)),
    "squeeze": lambda p: ops.squeeze(
        ops.gather_elements(p, np.array([[3], [1]]), axis=1), (1,)
    ),
    "transpose": lambda p: ops.transpose(p, perm=(1, 0)),
    "slice": lambda p: ops.slice_(p, [1], [3], [1]),
    "expand_dims of gather": lambda p: ops.expand_dims(
        ops.gather(p, np.array(1), 1), (1,)
    ),
}
LARGE = np.float64([[0.0, 800.0, -900.0, 3.0], [1.0, 2.0, -1.0, 0.5]])


def log_shares(x):
    """By the formula, in Python's numbers, with the largest taken out."""
    tops = [max(row) for row in x.tolist()]
    sums = [
        math.log(math.fsum(math.exp(v - top) for v in row))
        for row, top in zip(x.tolist(), tops, strict=True)
    ]
    return x - np.array(tops)[:, None] - np.array(sums)[:, None]


def picked_side(row):
    """The left side of a row whose variables are targets."""
    assert row.left.args[0].type == "sigmoid"
    return trace(
        lambda x, t: ops.binary_cross_entropy(ops.sigmoid(x), t, reduction="sum"),
        [parse_type("float64[2, 4]")] * 2,
    )


def taken_by(rewriting, op):
    """The rule that an op goes to, among all of them."""
    for way in rewriting.program.candidates(op.type).for_op(op):
        slots = [None] * way.width
        if way.match(op, slots, []) is None:
            try:
                for step in way.steps:
                    step(slots, answer_question)
            except AmandaError:
                continue
            return way.id
    return None


@pytest.mark.parametrize("file", ["algebra.rules", "stable.rules"])
def test_no_row_is_shadowed_by_another(file):
    """Its own left side goes to it: a row that never comes to its turn is dead."""
    rules = rules_of(file)
    rewriting = Rewriting(rules, STD_SIDE, "identity")
    for row in rules.rows:
        graph = picked_side(row) if picks(row) else left_side(row)[0]
        assert taken_by(rewriting, graph.results[0].op) == row.id, row.text


@pytest.mark.parametrize("turned", [False, True])
def test_commutative_inputs_need_one_row(turned):
    def two(a, b, op):
        return op(b, a) if turned else op(a, b)

    graph = trace(lambda x, y: two(x, ops.negative(y), ops.add), [X, X])
    assert simplify(graph) == 1
    op = graph.results[0].op
    assert (op.type, [*op.inputs]) == ("subtract", [*graph.parameters])
    graph = trace(lambda x: two(x, ops.sigmoid(x), ops.multiply), [X])
    assert stable(graph) == 1
    assert graph.results[0].op.type == "silu"


@pytest.mark.parametrize("name", PICKED)
def test_elements_of_a_softmax_have_finite_logarithms(name, run):
    """In value and in gradient: by softmax, the shares of what was picked."""

    def function(x):
        return ops.log(PICKED[name](ops.softmax(x, axes=(1,))))

    graph = trace(function, [parse_type("float64[2, 4]")])
    port = graph.results[0]
    with tracing(graph):
        total = ops.sum(Value(port)).port
    for slope in grad(graph, total, graph.parameters):
        graph.result(slope)
    value, slope = run(graph, LARGE)
    np.testing.assert_allclose(value, PICKED[name](log_shares(LARGE)), rtol=1e-12)
    counts = np.zeros((2, 4))  # how often each element was picked
    for at in PICKED[name](np.arange(8).reshape(2, 4)).ravel():
        counts.ravel()[at] += 1
    shares = np.exp(log_shares(LARGE))
    want = counts - counts.sum(1, keepdims=True) * shares
    np.testing.assert_allclose(slope, want, rtol=1e-12, atol=1e-12)


def test_cross_entropy_of_a_sigmoid_has_a_gradient_where_it_is_saturated(run):
    def function(x, t):
        return ops.binary_cross_entropy(ops.sigmoid(x), t, reduction="sum")

    types = [parse_type("float32[5]")] * 2
    graph = trace(function, types, names=["x", "t"])
    graph.result(grad(graph, graph.results[0], graph.parameters[:1])[0])
    x = np.float32([200.0, -300.0, 0.0, 2.0, -90.0])
    t = np.float32([0.0, 1.0, 0.25, 1.0, 0.0])
    value, slope = run(graph, x, t)
    losses = [200.0, 300.0, math.log(2), math.log1p(math.exp(-2.0)), 0.0]
    np.testing.assert_allclose(value, math.fsum(losses), rtol=1e-6)
    shares = [1.0, 0.0, 0.5, 1 / (1 + math.exp(-2.0)), 0.0]
    np.testing.assert_allclose(slope, np.float32(shares) - t, rtol=1e-6)


def test_cross_entropy_is_flat_where_it_is_cut_off(run):
    """Of shares that are 0 and 1 as they come: the logarithm has no slope there."""
    types = [parse_type("float64[3]")] * 2
    graph = trace(
        lambda p, t: ops.binary_cross_entropy(p, t, reduction="sum"), types
    )  # fmt: skip
    graph.result(grad(graph, graph.results[0], graph.parameters[:1])[0])
    value, slope = run(graph, np.array([0.0, 1.0, 0.25]), np.array([1.0, 0.0, 1.0]))
    np.testing.assert_allclose(value, 200 - math.log(0.25), rtol=1e-12)
    np.testing.assert_allclose(slope, [0.0, 0.0, -4.0])


def test_a_gradient_by_a_share_is_that_of_the_formula(run):
    """What the shares themselves have as a gradient is still asked of them."""

    def function(x):
        shares = ops.softmax(x, axes=(1,), name="shares")
        return ops.sum(ops.log(shares))

    graph = trace(function, [parse_type("float64[1, 4]")])
    (slope,) = grad(graph, graph.results[0], [graph["shares"].output])
    graph.result(slope)
    x = np.array([[0.5, 1.0, -1.0, 2.0]])
    shares = np.exp(log_shares(x))
    np.testing.assert_allclose(run(graph, x)[1], 1 / shares, rtol=1e-12)


def test_a_softmax_written_out_no_longer_overflows(run):
    def written_out(x):
        e = ops.exp(x)
        return ops.log(e / ops.sum(e, (1,), keepdims=True))

    graph = trace(written_out, [X])
    apply_passes(graph, [stable, drop])
    assert kinds(graph) == ["log_softmax"]
    x = np.float32([[1000.0, 1000.0, -1000.0, 1000.0]])
    expected = np.float32([[-np.log(3), -np.log(3), -2000 - np.log(3), -np.log(3)]])
    np.testing.assert_allclose(run(graph, x)[0], expected, rtol=1e-6)


def twice(x):
    """Negative, and negative again."""
    return ops.negative(ops.negative(x))


# -- how rules are applied -----------------------------------------------------------


def test_what_follows_from_a_rule_is_looked_at_again():
    graph = trace(lambda x: twice(twice(x)) * 1.0, [X])
    assert simplify(graph) == 3  # two pairs and the factor
    drop(graph)
    assert kinds(graph) == []


def test_a_shape_that_would_change_is_declined():
    """x + 0 is no x where the zero broadcasts it."""
    zero = np.zeros((3, 1), "int32")
    graph = trace(lambda x: x + zero, [parse_type("int32[4]")])
    assert simplify(graph) == 0
    open_rank = trace(lambda x: x * 1.0, [parse_type("float32[...]")])
    assert simplify(open_rank) == 0


def test_names_handles_and_sources_survive():
    graph = Graph("amanda/std/1")
    x = graph.parameter(X)
    with tracing(graph):
        held = ops.add(x, ops.negative(x), name="difference").port
    held.name = "out"
    graph.result(held)
    simplify(graph)
    drop(graph)
    [value] = graph.results
    assert (value.op.type, value.op.name, value.name) == (
        "subtract",
        "difference",
        "out",
    )
    assert held.resolve() is value
    sources, by = value.op.provenance
    assert set(sources) == {"difference", "negative"}
    assert "algebra.rules" in by


def test_what_is_kept_stays():
    graph = trace(twice, [X])
    graph.results[0].mark("keep")
    assert simplify(graph) == 0


def test_rules_that_go_round_are_told():
    rules = RuleSet("wheel", "amanda/std", "amanda/std")
    rules.equations("add(x, y) => multiply(x, y)\nmultiply(x, y) => add(x, y)")
    graph = trace(lambda x: x + x, [X])
    with pytest.raises(UsageError, match="wheel are cyclic"):
        Rewriting(rules, STD_SIDE)(graph)
    assert graph.check() == []


def test_a_rule_does_not_do_again_what_others_need():
    """Two ops in place of a pattern whose inside is read elsewhere: more work."""
    rules = RuleSet("costly", "amanda/std", "amanda/std")
    rules.equations("abs(exp(x)) => square(tanh(x))")
    alone = trace(lambda x: ops.abs(ops.exp(x)), [X])
    assert Rewriting(rules, STD_SIDE)(alone) == 1

    def both(x):
        e = ops.exp(x)
        return ops.abs(e), e

    shared = trace(both, [X])
    before = shared.clone()
    assert Rewriting(rules, STD_SIDE)(shared) == 0
    assert shared.difference(before) is None


def test_bodies_are_rewritten_too():
    def function(c, x):
        return ops.if_(c, twice, ops.tanh, x)[0]

    graph = trace(function, [parse_type("bool[]"), X])
    assert simplify(graph) == 1
    drop(graph)
    assert kinds(graph[0].bodies["then"]) == []


def test_passes_are_applied_until_nothing_changes():
    graph = trace(lambda x: 1.0 * (2.0 * x - 0.0), [X])
    applied = apply_passes(graph, [canonical, simplify, drop])
    assert kinds(graph) == ["constant", "multiply"]
    assert applied.changes["canonical"] == 2
    assert not applied.rounds[-1].get("simplify")
    assert str(applied).endswith("rounds)")
    assert not apply_passes(graph, {"again": simplify})


def test_a_pass_that_counts_nothing_is_told():
    with pytest.raises(UsageError, match=r"pass 'mute' does not return"):
        apply_passes(Graph("amanda/std/1"), {"mute": lambda graph: None})


# -- moves of elements -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "left"),
    [
        (lambda x: ops.transpose(ops.transpose(x, perm=(1, 0)), perm=(1, 0)), []),
        (lambda x: ops.transpose(x, perm=(0, 1)), []),
        (lambda x: ops.transpose(ops.transpose(x)), []),
        (lambda x: ops.reshape(ops.reshape(x, [-1]), [2, 4]), []),
        (lambda x: ops.reshape(ops.reshape(x, [-1]), [4, 2]), ["reshape"]),
        (lambda x: ops.astype(ops.astype(x, dtype="float64"), dtype="float32"), []),
        (
            lambda x: ops.astype(ops.astype(x, dtype="int32"), dtype="float32"),
            ["astype", "astype"],
        ),
        (lambda x: ops.broadcast_to(x, [2, 4]), []),
        (lambda x: ops.concat(x, axis=0), []),
        (lambda x: ops.tile(x, [1, 1]), []),
        (lambda x: ops.pad(x, [(0, 0), (0, 0)]), []),
        (lambda x: ops.squeeze(ops.expand_dims(x, (1,)), (1,)), []),
        (
            lambda x: ops.squeeze(ops.expand_dims(x, (0,)), (0,)) + ops.sum_to(x, x),
            ["add"],
        ),
    ],
)
def test_moves_that_lead_back(function, left, run):
    graph = trace(function, [parse_type("float32[2, 4]")])
    x = np.float32([[1, -2, 3, 4.5], [5, 6, -7, 8]])
    before = run(graph, x)
    apply_passes(graph, [canonical, simplify, drop])
    assert kinds(graph) == left
    assert run(graph, x)[0].tobytes() == before[0].tobytes()


# -- norms, layouts, branches, graphs in graphs ----------------------------------


def random(*shape):
    return np.random.default_rng(len(shape)).uniform(0.5, 1.5, shape).astype("float32")


@pytest.mark.parametrize("groups", [1, 2])
def test_a_norm_folds_into_the_convolution_before_it(groups, run):
    def function(x):
        y = ops.conv(x, random(4, 4 // groups, 3), random(4), groups=groups)
        y = ops.batch_norm(y, random(4), random(4) - 1, random(4), random(4))
        return ops.relu(y * random(4, 1) + random(4, 1))

    graph = trace(function, [parse_type("float32[n, 4, 9]")])
    x = random(2, 4, 9) - 1
    before = run(graph, x)
    apply_passes(graph, [fold_norms, fold, drop])
    assert [k for k in kinds(graph) if k != "constant"] == ["conv", "relu"]
    np.testing.assert_allclose(run(graph, x)[0], before[0], rtol=2e-5, atol=1e-5)


def test_a_norm_folds_into_a_product(run):
    def function(x):
        y = ops.matmul(x, random(4, 3))
        return ops.batch_norm(y, random(3), random(3), random(3), random(3), axis=-1)

    graph = trace(function, [X])
    x = random(5, 4)
    before = run(graph, x)
    apply_passes(graph, [fold_norms, fold, drop])
    assert [k for k in kinds(graph) if k != "constant"] == ["linear"]
    np.testing.assert_allclose(run(graph, x)[0], before[0], rtol=2e-5)


def test_a_norm_stays_where_the_layer_is_read_by_others():
    def function(x):
        y = ops.matmul(x, random(4, 3))
        return y, ops.batch_norm(y, *(random(3) for _ in range(4)), axis=-1)

    assert fold_norms(trace(function, [X])) == 0


def residual_block(x):
    y = ops.relu(ops.conv(x, random(8, 8, 3, 3), padding=((1, 1), (1, 1))))
    y = ops.batch_norm(y, *(random(8) for _ in range(4)))
    y = ops.concat(y, ops.max_pool(x, window=(3, 3), padding=((1, 1), (1, 1))), axis=1)
    y = ops.conv(y, random(8, 16, 1, 1)) * random(8, 1, 1)
    return ops.softmax(ops.mean(ops.gelu(x + y), (2, 3)), axes=(1,))


def test_a_layout_moves_through_a_network_and_its_transposes_cancel(run):
    graph = trace(residual_block, [parse_type("float32[n, 8, 6, 6]")])
    x = random(2, 8, 6, 6)
    before = run(graph, x)
    channels_last(graph)
    apply_passes(graph, [fold, simplify, share, drop])
    assert {op.attrs["layout"] for op in graph if "layout" in op.attrs} == {"N*C"}
    assert kinds(graph).count("transpose") == 1  # that of the input
    np.testing.assert_allclose(run(graph, x)[0], before[0], rtol=1e-5)
    channels_first(graph)
    apply_passes(graph, [fold, simplify, share, drop])
    assert kinds(graph).count("transpose") == 0
    np.testing.assert_allclose(run(graph, x)[0], before[0], rtol=1e-5)


@pytest.mark.parametrize("condition", [True, False])
def test_a_branch_that_is_always_taken_takes_the_place_of_the_if(condition, run):
    def function(x):
        return ops.if_(np.bool_(condition), ops.tanh, lambda x: x + x, x)[0]

    graph = trace(function, [X])
    assert branches(graph) == 1
    drop(graph)
    assert kinds(graph) == (["tanh"] if condition else ["add"])
    assert str(graph.results[0].type) == "float32[n, 4]"


def test_ops_are_outlined_and_put_back(run):
    graph = trace(residual_block, [parse_type("float32[n, 8, 6, 6]")])
    before = graph.clone()
    block = [op for op in graph if op.type in ("conv", "relu", "batch_norm", "concat")]
    between = [op for op in graph.between(block[:1], block[-1:]) if op not in block]
    inner = graph.outline([*block, *between], name="block")
    assert graph.check() == []
    assert (len(inner), "conv" in kinds(graph)) == (len(block) + len(between), False)
    held = block[0].output.resolve()
    assert held.graph is inner
    infer(graph)
    x = random(2, 8, 6, 6)
    np.testing.assert_array_equal(run(graph, x)[0], run(before, x)[0])
    assert inline(graph) == 1
    assert graph.check() == []
    assert held.resolve().graph is graph
    assert graph.same_as(before, names=False)


def test_sink_meets_the_result():
    graph = trace(lambda x: ops.tanh(ops.transpose(x, perm=(1, 0))), [X])
    assert sink(graph) == 1
    drop(graph)
    assert kinds(graph) == ["tanh", "transpose"]


def test_a_computed_shape_with_one_unknown_dim_is_constant(run):
    def function(x):
        rows = ops.dim(x, axis=0) * ops.dim(x, axis=1)
        return ops.reshape(x, ops.stack(rows, np.asarray(4), axis=0))

    graph = trace(function, [parse_type("float32[n, 3, 4]")])
    x = random(2, 3, 4)
    before = run(graph, x)
    apply_passes(graph, [simplify, drop])
    assert kinds(graph) == ["constant", "reshape"] or kinds(graph) == ["reshape"]
    np.testing.assert_array_equal(run(graph, x)[0], before[0])
    assert run(graph, random(0, 3, 4))[0].shape == (0, 4)


def test_a_computed_shape_with_a_zero_stays(run):
    """-1 would be ambiguous."""

    def function(x):
        return ops.reshape(x, ops.stack(ops.dim(x, axis=0), np.asarray(0), axis=0))

    graph = trace(function, [parse_type("float32[n, 0]")])
    apply_passes(graph, [simplify, drop])
    assert run(graph, random(2, 0))[0].shape == (2, 0)


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (lambda x, a, b, c: x + c * (ops.negative(a) * b), "float32"),
        (lambda x, a, b, c: x + ((a + b) + c), "int32"),
        (lambda x, a, b, c: x - (a * b) * c, "int32"),
    ],
)
def test_rules_of_constants_end_where_nothing_is_folded(run, function, dtype):
    x, a, b, c = np.arange(1, 17).reshape(4, 4).astype(dtype)
    graph = trace(lambda x: function(x, a, b, c), [TensorType(dtype, [4])])
    improved = graph.clone()
    apply_passes(improved, [canonical, simplify])
    np.testing.assert_array_equal(run(improved, x), run(graph, x))
