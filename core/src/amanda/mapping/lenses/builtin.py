"""The lenses of the core: differences that recur between frameworks.

Each is a row: both directions, what it is for, what it declines, and how a test draws
values for it. No lens has the name of an op, so that `f(x)` is unambiguous.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final

from amanda.mapping.lenses.lens import Lens, equivalent_values
from amanda.mapping.side import Decline
from amanda.tensors import FunctionRef, Tensor

__all__ = ["LENSES"]

MAX_ITEMS: Final = 4096
"""The longest list that a lens builds from a number: rule files are untrusted."""


# -- random values for tests -----------------------------------------------------------


def _draw_number(random: Random) -> tuple[Any, ...]:
    return (random.choice([0, 1, -3, 7, 2**40]),)


def _draw_numbers(random: Random, least: int = 0, most: int = 5) -> list[int]:
    return [random.randint(0, 6) for _ in range(random.randint(least, most))]


def _draw_axis(random: Random) -> tuple[Any, ...]:
    rank = random.randint(1, 6)
    return random.randint(-rank, rank - 1), rank


def _draw_axes(random: Random) -> tuple[Any, ...]:
    rank = random.randint(1, 6)
    some = random.sample(range(rank), random.randint(0, rank))
    return random.choice([None, [a - rank * random.randint(0, 1) for a in some]]), rank


def _draw_even_list(random: Random) -> tuple[Any, ...]:
    return (_draw_numbers(random, 0, 3) * 2,)


# -- scalars -----------------------------------------------------------------------


def _to_bool(value: Any) -> bool:
    if value not in (0, 1):
        raise Decline(f"{value!r} is neither 0 nor 1")
    return bool(value)


def _scale(value: Any, by: Any) -> Any:
    if not isinstance(value, int | float) or not isinstance(by, int | float):
        raise Decline(f"{value!r} times {by!r} is not a number")
    return value * by


def _unscale(value: Any, by: Any) -> Any:
    if isinstance(value, int) and isinstance(by, int):
        if by == 0 or value % by:
            raise Decline(f"{value} is not a multiple of {by}")
        return value // by
    if by == 0:
        raise Decline("nothing is undone of a product with 0")
    return value / by


def _reciprocal(value: Any) -> Any:
    if value == 0:
        raise Decline("0 has no reciprocal")
    return 1 / value


def _equals(value: Any, yes: Any, no: Any = None) -> bool:
    if (
        not equivalent_values(value, yes)
        and no is not None
        and not equivalent_values(value, no)
    ):
        raise Decline(f"{value!r} is neither {yes!r} nor {no!r}")
    return equivalent_values(value, yes)


def _undo_equals(value: Any, yes: Any, no: Any = None) -> Any:
    if not value and no is None:
        raise Decline(f"the value is unknown where it is not {yes!r}")
    return yes if value else no


def _index_of(value: Any, items: Sequence[Any]) -> int:
    for i, item in enumerate(items):
        if equivalent_values(value, item):
            return i
    raise Decline(f"{value!r} is not one of {items}")


def _item_at(value: int, items: Sequence[Any]) -> Any:
    if not 0 <= value < len(items):
        raise Decline(f"there is no {value} in {items}")
    return items[value]


def _look_up(value: Any, pairs: Sequence[Sequence[Any]]) -> Any:
    return pairs[_index_of(value, [left for left, _ in pairs])][1]


def _look_up_reverse(value: Any, pairs: Sequence[Sequence[Any]]) -> Any:
    return pairs[_index_of(value, [right for _, right in pairs])][0]


def _undo_default(value: Any, default: Any) -> Any:
    return None if equivalent_values(value, default) else value


def _only_when(value: Any, other: Any, wanted: Any) -> Any:
    return value if equivalent_values(other, wanted) else None


def _decode(value: bytes) -> str:
    return value.decode()


# -- lists -------------------------------------------------------------------------


def _only_item(value: Sequence[Any]) -> Any:
    if len(value) != 1:
        raise Decline(f"{list(value)} is not one")
    return value[0]


def _collapse_repeats(value: Sequence[Any], times: int) -> Any:
    if len(value) != times or any(not equivalent_values(v, value[0]) for v in value):
        raise Decline(f"{list(value)} is not one value {times} times")
    return value[0]


def _repeat(value: Any, times: int) -> list[Any]:
    if not 0 < times <= MAX_ITEMS:
        raise Decline(f"a value is repeated 1 to {MAX_ITEMS} times, not {times}")
    return [value] * times


def _pick_items(
    value: Sequence[Any], start: int, step: int, fill: Any = None
) -> list[Any]:
    if start < 0 or step < 1:
        raise Decline(f"there is no position {start}, {start + step} ...")
    wanted = set(range(start, len(value), step))
    for i, item in enumerate(value):
        if i not in wanted and not equivalent_values(item, fill):
            raise Decline(f"item {i} of {list(value)} is not {fill!r}")
    return list(value[start::step])


def _place_items(
    value: Sequence[Any], start: int, step: int, fill: Any = None
) -> list[Any]:
    if not 0 <= start <= MAX_ITEMS or not 0 < step <= MAX_ITEMS:
        raise Decline(f"there is no position {start}, {start + step} ...")
    made = [fill] * (start + step * len(value))
    made[start::step] = value
    return made


def _join_lists(value: Sequence[Sequence[Any]], parts: int) -> list[Any]:
    if len(value) != parts or len({len(part) for part in value}) > 1:
        raise Decline(f"not {parts} lists of one length")
    return [item for part in value for item in part]


def _split_list(value: Sequence[Any], parts: int) -> list[list[Any]]:
    if len(value) % parts:
        raise Decline(f"{len(value)} items do not make {parts} parts")
    n = len(value) // parts
    return [list(value[i * n : i * n + n]) for i in range(parts)]


def _flatten_rows(value: Sequence[Sequence[Any]], width: int = 2) -> list[Any]:
    if any(len(row) != width for row in value):
        raise Decline(f"the rows do not have {width} items each")
    return [item for row in value for item in row]


def _unflatten_rows(value: Sequence[Any], width: int = 2) -> list[list[Any]]:
    if len(value) % width:
        raise Decline(f"{len(value)} items are not in rows of {width}")
    return [list(value[i : i + width]) for i in range(0, len(value), width)]


def _permute(value: Sequence[Any], order: Sequence[int]) -> list[Any]:
    if sorted(order) != list(range(len(value))):
        raise Decline(f"{list(order)} does not order {len(value)} items")
    return [value[i] for i in order]


def _unpermute(value: Sequence[Any], order: Sequence[int]) -> list[Any]:
    inverse = sorted(range(len(order)), key=lambda i: order[i])
    return _permute(value, inverse)


def _pair_ends(value: Any) -> list[list[Any]]:
    _require_numbers(value)
    begins, ends = _split_list(value, 2)
    return [[b, e] for b, e in zip(begins, ends, strict=True)]


def _unpair_ends(value: Any) -> list[Any]:
    _require_numbers(value)
    return [*(b for b, _ in value), *(e for _, e in value)]


def _require_numbers(value: Any) -> Any:
    if isinstance(value, str):
        raise Decline(f"padding {value!r} is not explicit")
    return value


def _mirror_pads(value: Sequence[Any]) -> list[list[Any]]:
    return [[item, item] for item in value]


def _unmirror_pads(value: Any) -> list[Any]:
    for begin, end in _require_numbers(value):
        if not equivalent_values(begin, end):
            raise Decline(f"{begin} before and {end} after are not symmetric")
    return [begin for begin, _ in value]


def _list_or_ones(value: Any, rank: int = 0, less: int = 0, fill: Any = 1) -> Any:
    if value is None:
        return [fill] * min(rank - less, MAX_ITEMS) if rank > less else None
    return list(value)


def _as_plain_list(value: Any, *_: Any) -> Any:
    return None if value is None else list(value)


def _require_nonzero(value: Any) -> Any:
    if 0 in value:
        raise Decline(f"{list(value)} has a zero")
    return list(value)


# -- axes --------------------------------------------------------------------------


def _axis_from_front(value: int, rank: int) -> int:
    if not -rank <= value < rank:
        raise Decline(f"there is no axis {value} of {rank}")
    return value % rank


def _axis_from_end(value: int, rank: int) -> int:
    return _axis_from_front(value, rank) - rank


def _all_axes(value: Any, rank: int) -> list[int]:
    if value is None:
        return list(range(rank))
    return [_axis_from_front(axis, rank) for axis in value]


def _trailing_axes(value: int, rank: int) -> list[int]:
    if value == rank:
        return []
    return list(range(_axis_from_front(value, rank), rank))


def _first_trailing_axis(value: Sequence[int], rank: int) -> int:
    axes = sorted(_axis_from_front(axis, rank) for axis in value)
    if axes != list(range(rank - len(axes), rank)):
        raise Decline(f"the axes {list(value)} are not the last ones")
    return rank - len(axes)


# -- tensors and names -------------------------------------------------------------


def _as_tensor(value: Any, dtype: str) -> Tensor:
    return Tensor.of(value, dtype)


def _as_list(value: Tensor, dtype: str | None = None) -> Any:
    if dtype is not None and str(value.dtype) != dtype:
        raise Decline(f"a tensor of {value.dtype}, not of {dtype}")
    return value.tolist()


def _draw_tensor(random: Random) -> tuple[Any, ...]:
    return _draw_numbers(random, 1), "int32"


_LIBRARY = (
    Lens("flag", _to_bool, int, lambda r: (r.randint(0, 1),),
         "0 or 1 to false or true", "other numbers"),
    Lens("numeral", int, _to_bool, lambda r: (r.random() < 0.5,),
         "false or true to 0 or 1", "other numbers"),
    Lens("real", float, int, lambda r: (r.randint(-9, 9),),
         "an integer to a float", exact=False),
    Lens("decoded", _decode, str.encode, lambda r: (r.choice([b"", b"ab"]),),
         "bytes to a string", "invalid UTF-8"),
    Lens("scaled", _scale, _unscale,
         lambda r: (r.randint(-9, 9), r.choice([1, 2, -5])),
         "times a factor", "integers that the factor does not divide"),
    Lens("negated", lambda v: -v, lambda v: -v, _draw_number, "the negative number"),
    Lens("inverted", lambda v: not _to_bool(v), lambda v: not _to_bool(v),
         lambda r: (r.random() < 0.5,), "logical not", "numbers other than 0 and 1"),
    Lens("one_over", _reciprocal, _reciprocal,
         lambda r: (r.choice([0.5, -4.0, 8.0]),), "the reciprocal", "0", exact=False),
    Lens("complement", lambda v: 1 - v, lambda v: 1 - v,
         lambda r: (r.choice([0.0, 0.25, 1.0]),), "one minus it", exact=False),
    Lens("equals", _equals, _undo_equals, lambda r: (r.choice("ab"), "a", "b"),
         "whether it equals a value: equals(v, yes) or equals(v, yes, no)",
         "undo: false, where no is not given"),
    Lens("contains", lambda v, part: part in v, _undo_equals, lambda _: ("ab", "ab"),
         "whether a string contains another", "undo: false", exact=False),
    Lens("index_in", _index_of, _item_at, lambda r: (r.choice("abc"), ["a", "b", "c"]),
         "the index in a list", "values that are not in the list"),
    Lens("lookup", _look_up, _look_up_reverse,
         lambda r: (r.choice("ab"), [["a", 1], ["b", 2]]),
         "an inline table: lookup(v, [[left, right], ...])",
         "values that are not in the table", takes_none=True),
    Lens("default", lambda v, d: d if v is None else v, _undo_default,
         lambda r: (r.choice([None, 3, 5]), 5),
         "the value that absence means", exact=False, takes_none=True),
    Lens("when", _only_when, _only_when, lambda _: (4, "a", "a"),
         "only where another attribute has this value: when(v, other, value)",
         exact=False),
    Lens("only", lambda v: [v], _only_item, _draw_number, "a list of one",
         "longer lists"),
    Lens("repeated", _repeat, _collapse_repeats,
         lambda r: (r.randint(0, 9), r.randint(1, 4)),
         "a list of one value n times: repeated(v, n)", "lists of several values"),
    Lens("picked", _pick_items, _place_items,
         lambda r: (_place_items(_draw_numbers(r), 1, 2, 0), 1, 2, 0),
         "every step-th item: picked(v, start, step, others)",
         "lists whose other items differ from others", exact=False),
    Lens("placed", _place_items, _pick_items, lambda r: (_draw_numbers(r), 1, 2, 0),
         "the items at every step-th position: placed(v, start, step, others)",
         "lists whose other items differ from others"),
    Lens("joined", _join_lists, _split_list,
         lambda r: ([[1, 2], [r.randint(0, 9), 4]], 2),
         "n lists of equal length, concatenated: joined(v, n)",
         "lists of different lengths"),
    Lens("parted", _split_list, _join_lists, lambda r: (_draw_numbers(r) * 3, 3),
         "n lists of equal length: parted(v, n)", "lengths that n does not divide"),
    Lens("flattened", _flatten_rows, _unflatten_rows,
         lambda r: ([[1, r.randint(0, 9)]] * r.randint(0, 3),),
         "rows concatenated: flattened(v, width)", "rows of another width"),
    Lens("permuted", _permute, _unpermute,
         lambda r: ([4, 5, r.randint(0, 9)], r.sample(range(3), 3)),
         "the items permuted: permuted(v, order)", "another number of items"),
    Lens("reversed", lambda v: list(v)[::-1], lambda v: list(v)[::-1],
         lambda r: (_draw_numbers(r),), "the items in reverse order"),
    Lens("pairs", _pair_ends, _unpair_ends, _draw_even_list,
         "all begins, then all ends, to a pair for each axis",
         "paddings given by name, lists of odd length"),
    Lens("unpaired", _unpair_ends, _pair_ends, lambda r: ([[1, r.randint(0, 9)]] * 2,),
         "a pair for each axis to all begins, then all ends",
         "paddings given by name, lists of odd length"),
    Lens("symmetric", _mirror_pads, _unmirror_pads, lambda r: (_draw_numbers(r),),
         "equal padding before and after each axis", "unequal padding"),
    Lens("explicit", _require_numbers, _require_numbers, _draw_even_list,
         "a padding given by numbers", "paddings given by name"),
    Lens("seq", _list_or_ones, _as_plain_list,
         lambda r: (r.choice([None, [2, 2]]), 4, 2),
         "a list, or ones if absent: seq(v) or seq(v, rank, less, fill)",
         exact=False, takes_none=True),
    Lens("nonzero", _require_nonzero, _require_nonzero,
         lambda r: ([1, r.randint(1, 9)],),
         "a list without zeros", "lists with a zero"),
    Lens("axis", _axis_from_front, _axis_from_front, _draw_axis,
         "an axis counted from the front: axis(v, rank)", "axes out of range",
         exact=False),
    Lens("axis_from_end", _axis_from_end, _axis_from_end, _draw_axis,
         "an axis counted from the end: axis_from_end(v, rank)", "axes out of range",
         exact=False),
    Lens("axes", _all_axes, _all_axes, _draw_axes,
         "axes counted from the front, all axes if absent: axes(v, rank)",
         "axes out of range", exact=False, takes_none=True),
    Lens("trailing", _trailing_axes, _first_trailing_axis,
         lambda r: (r.randint(0, 4), 4),
         "an axis to all axes from it on: trailing(v, rank)", "other axes",
         exact=False),
    Lens("tensor", _as_tensor, _as_list, _draw_tensor,
         "a list to a tensor: tensor(v, dtype)", "tensors of another element type"),
    Lens("array", _as_list, lambda v, d=None: Tensor.of(v, d),
         lambda r: (_as_tensor(*_draw_tensor(r)), "int32"),
         "a tensor to a list: array(v, dtype)", "tensors of another element type"),
    Lens("function", FunctionRef, lambda v: v.name, lambda r: (r.choice(["f", "g"]),),
         "a string to the name of a function"),
)  # fmt: skip

LENSES: Final = {lens.name: lens for lens in _LIBRARY}
