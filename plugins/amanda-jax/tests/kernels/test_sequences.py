"""Sequences, optionals and tuples: in, out, and through choices and loops."""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.errors import AmandaError, UsageError
from amanda.types import parse_type
from amanda_std import ops, trace

ROWS = [np.float32([1, 2]), np.float32([3]), np.float32([])]
PAIRS = [np.float32([1, 2]), np.float32([3, 4])]


def compiled(function, *types: str, **options):
    graph = trace(function, [parse_type(t) for t in types])
    return amanda.compile(graph, "jax", **options)


def lists(results) -> list:
    """What came out as numbers in lists."""
    return [_listed(value) for value in results.values()]


def _listed(value):
    if isinstance(value, list):
        return [_listed(each) for each in value]
    return None if value is None else np.asarray(value).tolist()


def expect_all_in_xla(run) -> None:
    report = run.executable.report()
    assert report.outside == {}
    assert report.python_driven == ()


class TestInAndOut:
    def test_a_sequence_is_fed_and_returned(self):
        run = compiled(
            lambda xs: ops.sequence_map(lambda x: x * 2.0, xs)[0],
            "sequence<float32[n]>",
        )
        assert lists(run([ROWS])) == [[[2, 4], [6], []]]
        assert lists(run([ROWS[:1]])) == [[[2, 4]]]
        assert lists(run([[]])) == [[]]
        expect_all_in_xla(run)

    def test_programs_that_are_fed_some_are_compiled_beside_the_cache(self, tmp_path):
        for _ in range(2):
            run = compiled(
                lambda xs, x: (ops.sequence_at(xs, 0) + x, ops.tanh(x)),
                "sequence<float32[2]>", "float32[2]", cache=tmp_path,
            )  # fmt: skip
            for xs in (PAIRS, [*PAIRS, PAIRS[0]]):
                assert lists(run([xs, PAIRS[1]]))[0] == [4, 6]
            assert run.executable.report().disk_cache == {}
            assert run.executable.cost().flops >= 2

    @pytest.mark.parametrize("results", ["numpy", "jax"])
    def test_results_share_no_memory_with_feeds(self, results):
        run = compiled(
            lambda xs, x: ops.sequence_insert(xs, x),
            "sequence<float32[n]>", "float32[n]", results=results,
        )  # fmt: skip
        feeds = [row.copy() for row in ROWS], np.float32([7])
        [made] = run(feeds).values()
        feeds[0][0][:] = 100
        feeds[1][:] = 100
        assert [np.asarray(each).tolist() for each in made] == [[1, 2], [3], [], [7]]

    def test_an_optional_that_holds_nothing(self):
        def shown(x):
            [y] = ops.if_(
                ops.has_element(x),
                lambda: ops.get_element(x),
                lambda: ops.zeros((1,), dtype="float32"),
            )
            return x, y

        run = compiled(shown, "optional<float32[n]>")
        assert lists(run([np.float32([4, 5])])) == [[4, 5], [4, 5]]
        assert lists(run([None])) == [None, [0]]
        expect_all_in_xla(run)

    def test_texts_in_sequences_are_declined(self):
        with pytest.raises(AmandaError, match="XLA has no element type string"):
            compiled(ops.sequence_length, "sequence<string[n]>")


class TestPlacesThatDataDecides:
    def at(self):
        return compiled(
            lambda xs, at: ops.sequence_at(xs, at), "sequence<float32[n]>", "int64[]"
        )

    def test_a_program_for_each_place(self):
        run = self.at()
        for place in (0, 1, 2, -1, -3, 0):
            [made] = run([ROWS, np.int64(place)]).values()
            assert made.tolist() == ROWS[place].tolist()
        expect_all_in_xla(run)
        report = run.executable.report()
        assert report.decided_by == ("input 1",)
        assert report.compilations == 5

    @pytest.mark.parametrize("place", [3, -4])
    def test_no_such_place(self, place):
        with pytest.raises(AmandaError, match="sequence index out of range"):
            self.at()([ROWS, np.int64(place)])

    def test_a_place_that_is_computed(self):
        run = compiled(
            lambda xs, x: ops.sequence_at(xs, ops.argmax(ops.tanh(x), 0)) * 2.0,
            "sequence<float32[n]>", "float32[3]",
        )  # fmt: skip
        for place in range(3):
            scores = np.float32([0, 0, 0])
            scores[place] = 1
            assert lists(run([ROWS, scores])) == [(ROWS[place] * 2).tolist()]
        expect_all_in_xla(run)

    def test_sizes_of_parts(self):
        run = compiled(
            lambda x, sizes: ops.split_to_sequence(x, sizes, axis=1),
            "float32[2, n]", "int64[2]",
        )  # fmt: skip
        x = np.arange(10, dtype="float32").reshape(2, 5)
        for sizes in ([1, 4], [3, 2], [5, 0]):
            expected = np.split(x, sizes[:1], 1)
            found = lists(run([x, np.int64(sizes)]))
            assert found == [[part.tolist() for part in expected]]
        expect_all_in_xla(run)


class TestChoicesAndLoops:
    def test_branches_that_give_other_numbers_of_tensors(self):
        def chosen(c, x):
            return ops.if_(
                c,
                lambda: ops.sequence_construct(x, x * 2.0),
                lambda: ops.sequence_construct(x),
            )

        run = compiled(chosen, "bool[]", "float32[n]")
        x = np.float32([1, 2])
        assert lists(run([np.array(True), x])) == [[[1, 2], [2, 4]]]
        assert lists(run([np.array(False), x])) == [[[1, 2]]]
        expect_all_in_xla(run)

    def test_a_loop_that_gathers(self):
        def gathered(trips, x):
            def body(i, go, xs):
                return go, ops.sequence_insert(xs, x * ops.astype(i, dtype="float32"))

            return ops.loop(trips, None, body, ops.sequence_empty())

        run = compiled(gathered, "int64[]", "float32[n]")
        x = np.float32([1, 2])
        for trips in (3, 0, 1):
            expected = [(x * i).tolist() for i in range(trips)]
            assert lists(run([np.int64(trips), x])) == [expected]
        expect_all_in_xla(run)

    def test_a_loop_carries_a_sequence_of_the_same_tensors(self):
        def stepped(xs):
            def body(_, go, xs):
                [doubled] = ops.sequence_map(lambda x: x * 2.0, xs)
                return go, doubled

            return ops.loop(np.int64(100), None, body, xs)

        run = compiled(stepped, "sequence<float32[2]>")
        found = lists(run([[p * np.float32(2**-100) for p in PAIRS]]))
        assert found == [[p.tolist() for p in PAIRS]]
        report = run.executable.report()
        assert report.control_flow == ("loop: lax.while_loop",)


def test_what_is_put_together_again():
    run = compiled(
        lambda xs: (
            ops.concat_from_sequence(xs, axis=0),
            ops.concat_from_sequence(xs, axis=1, new_axis=True),
        ),
        "sequence<float32[2]>",
    )
    assert lists(run([PAIRS])) == [[1, 2, 3, 4], [[1, 3], [2, 4]]]
    with pytest.raises(AmandaError, match="an empty sequence"):
        run([[]])


def test_they_go_from_piece_to_piece():
    def cut(xs, x):
        more = ops.sequence_insert(xs, ops.nonzero(x)[0])
        return ops.sequence_map(lambda v: v + 1, more)[0]

    run = compiled(cut, "sequence<int64[n]>", "float32[m]")
    ones = [np.int64([5]), np.int64([6, 7])]
    found = lists(run([ones, np.float32([0, 1, 2])]))
    assert found == [[[6], [7, 8], [2, 3]]]
    assert run.executable.report().outside == {}


def test_a_tuple():
    run = compiled(
        lambda t: ops.tuple_push(t, ops.tuple_get(t, index=0) * 2.0),
        "tuple<float32[n], int64[]>",
    )
    [made] = run([(np.float32([1]), np.int64(3))]).values()
    assert [np.asarray(v).tolist() for v in made] == [[1], 3, [2]]
    assert isinstance(made, tuple)


def test_they_are_in_no_file(tmp_path):
    run = compiled(lambda xs: ops.sequence_at(xs, 0), "sequence<float32[n]>")
    run([ROWS])
    with pytest.raises(UsageError, match="files have no sequence"):
        run.executable.save(tmp_path / "program")
