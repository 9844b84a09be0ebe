"""Shapes, types, their text, and what they say about each other."""

import copy
import pickle
import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import examples

from amanda.errors import AmandaError, InvalidTypeError, LimitError, Undecided
from amanda.types import (
    DType,
    MapType,
    OpaqueType,
    OptionalType,
    Quantized,
    RefType,
    ResourceType,
    SequenceType,
    Shape,
    Sym,
    Symbols,
    TensorType,
    TokenType,
    TupleType,
    Type,
    VoidType,
    accepts,
    float32,
    join,
    meet,
    parse_dim,
    parse_element,
    parse_shape,
    parse_type,
)
from amanda.types.dtypes import dtype_names

n = Sym.named("n")

WRITTEN = [
    "float32[batch, 3, 224]",
    "float32[...]",
    "float32[]",
    "?[2]",
    "?[...]",
    "float32[N=batch, C=3]",
    "float32[N=n, 3]",
    'float32["a b"=n, "c=d"]',
    "int64[2] = [1, batch]",
    "int64[] = -n+3",
    "int64[2, 0] = [[], []]",
    "bool[2] = [true, false]",
    "uint8[2, 2] = [[1, 2], [3, n]]",
    "sequence<float32[...]>",
    "optional<sequence<int64[2] = [1, n]>>",
    "tuple<>",
    "tuple<int64[] = n, float32[2*n+1]>",
    "map<int64, float32[]>",
    "map<int64[], float32[]>",
    "map<string, tuple<token, void>>",
    "ref<float32[2]>",
    "resource",
    'resource<"table \\"x\\"">',
    "resource[2]",
    "variant[...]",
    "token",
    "void",
    'opaque<"std::vector<int>\\n[3] \\u2028 é">',
    'opaque<"">',
    "quantized<int8, float32, scale=0.5, zero_point=-3>[2]",
    "quantized<int4, bfloat16, scale=[0.5, 1e-05], axis=0, block=32>[...]",
    "quantized<uint8, float32>[]",
]


@pytest.mark.parametrize("text", WRITTEN)
def test_text_is_read_and_written(text: str) -> None:
    found = parse_type(text)
    assert str(found) == text
    assert parse_type(text) == found
    assert hash(parse_type(text)) == hash(found)
    for again in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert again == found
        assert str(again) == text


def test_all_written_forms_differ() -> None:
    types = [parse_type(text) for text in WRITTEN]
    assert len(set(types)) == len(types)
    for i, a in enumerate(types):
        assert [a == b for b in types] == [i == j for j in range(len(types))]


dims = st.integers(0, 2**63 - 1) | st.sampled_from(
    ["n", "2*n+1", "min(n, 4)//m", "a b", "?"]
).map(lambda text: Sym.named(text) if text in ("a b", "?") else parse_dim(text))
dtypes = st.sampled_from(dtype_names()).map(DType)
quantized = st.builds(
    Quantized,
    st.sampled_from(["int8", "uint4"]),
    scale=st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=3),
    zero_point=st.lists(st.integers(-300, 300), max_size=3),
    axis=st.integers(-2, 3),
    block=st.none() | st.integers(1, 64),
)
names = st.text(min_size=1, max_size=5).filter(
    lambda t: not any(0xD800 <= ord(c) < 0xE000 for c in t)
)


@st.composite
def tensor_types(draw: st.DrawFn) -> TensorType:
    shape = draw(st.none() | st.lists(dims | st.builds(Sym.unknown), max_size=4))
    axes = None
    if shape is not None and draw(st.booleans()):
        axes = [draw(st.none() | names) for _ in shape]
    return TensorType(draw(dtypes | quantized), shape, axes)


leaves = st.one_of(
    tensor_types(),
    st.builds(OpaqueType, names),
    st.builds(ResourceType, names),
    st.builds(TokenType),
    st.builds(VoidType),
)
types = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(SequenceType, inner),
        st.builds(OptionalType, inner),
        st.builds(RefType, inner),
        st.builds(TupleType, st.lists(inner, max_size=3)),
        st.builds(MapType, dtypes | inner, inner),
    ),
    max_leaves=6,
)


@settings(max_examples=examples(120), derandomize=True, deadline=None)
@given(st.lists(types, max_size=3))
def test_documents_round_trip(given_types: list[Type]) -> None:
    writing, reading, again = Symbols(), Symbols(), Symbols()
    texts = [t.text(writing) for t in given_types]
    found = [parse_type(text, reading) for text in texts]
    assert [t.text(again) for t in found] == texts
    assert list(map(str, found)) == list(map(str, given_types))


@settings(max_examples=examples(400), derandomize=True, deadline=None)
@given(st.sampled_from(WRITTEN), st.data())
def test_mutated_text_gives_our_errors_only(text: str, data: st.DataObject) -> None:
    letters = list(text)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(letters) - 1))
        letters[at] = data.draw(st.sampled_from(list('[]<>(),=+-*/%?"\\.n1 \x00é')))
    with suppress(AmandaError):
        found = parse_type("".join(letters))
        assert str(parse_type(str(found))) == str(found)


def test_anonymous_dims_keep_identity_in_a_document() -> None:
    a, b = Sym.unknown(), Sym.unknown()
    scope = Symbols()
    first = TensorType(float32, [b, a, b]).text(scope)
    second = TensorType(float32, [a * 2, 3]).text(scope)
    assert (first, second) == ("float32[?1, ?2, ?1]", "float32[2*?2, 3]")
    read = Symbols()
    x, y = (parse_type(text, read) for text in (first, second))
    assert isinstance(x, TensorType)
    assert isinstance(y, TensorType)
    assert x.shape[0] == x.shape[2]
    assert y.shape[0] == x.shape[1] * 2
    assert str(x) == "float32[?, ?, ?]"
    assert x != TensorType(float32, [b, a, b])
    assert parse_type("float32[?]") != parse_type("float32[?]")


@pytest.mark.parametrize(
    ("text", "where", "expected", "got"),
    [
        ("", "column 1", "a type", "the end"),
        ("float33[2]", "column 1", "one of bool", "'float33'"),
        ("float32", "column 8", "'['", "the end"),
        ("float32[2", "column 10", "',' or ']'", "the end"),
        ("float32[2,]", "column 11", "a dim", "']'"),
        ("float32[2]]", "column 11", "the end", "']'"),
        ("float32[2.5]", "column 9", "an integer", "'2.5]'"),
        ("float32[ $]", "column 10", "a name, a number or a mark", "'$]'"),
        ("sequence<float32[]", "column 19", "'>'", "the end"),
        ("opaque<text>", "column 8", "a quoted string", "'text>'"),
        ('opaque<"\\x">', "column 8", "the escapes of JSON", "'\"\\\\x\">'"),
        ("map<int64>", "column 10", "'['", "'>'"),
        ("int64[2] = [1]", None, "2 items", "1 items"),
        ("float32[-1]", None, "0 to 9223372036854775807", "-1"),
    ],
)
def test_faults_tell_the_place(
    text: str, where: str | None, expected: str, got: str
) -> None:
    with pytest.raises(InvalidTypeError) as caught:
        parse_type(text)
    error = caught.value
    assert error.where is not None
    assert where is None or error.where == where
    assert expected in (error.expected or "")
    assert error.got == got


HUGE = 10_000_000


@pytest.mark.parametrize(
    "text",
    [
        "optional<" * (HUGE // 9),
        "(" * HUGE,
        "float32[" + "(" * HUGE,
        "float32[" + "min(" * (HUGE // 4),
        "int64[] = " + "[" * HUGE,
        "map<" * (HUGE // 4),
        "float32[" + "9" * HUGE + "]",
        "float32[?" + "9" * HUGE + "]",
        "x" * HUGE,
        '"' + "\\" * HUGE,
        "float32[" + "a+b*".join(f"n{i}" for i in range(HUGE // 40)) + "]",
        "float32[" + "n*" * (HUGE // 2) + "n]",
        "float32[" + "99*" * (HUGE // 3) + "1]",
        " " * HUGE,
        "float32[2]" + " " * HUGE + "x",
    ],
    ids=lambda text: text[:16],
)
def test_hostile_text_is_refused_soon(text: str) -> None:
    start = time.process_time()
    with pytest.raises(AmandaError) as caught:
        parse_type(text)
    assert time.process_time() - start < 5
    assert len(str(caught.value)) < 2000


def test_deep_types_are_refused_when_made() -> None:
    found: Type = TokenType()
    for _ in range(63):
        found = OptionalType(found)
    assert parse_type(str(found)) == found
    with pytest.raises(LimitError, match="nested absurdly deep"):
        OptionalType(found)
    wide: Type = TokenType()
    for _ in range(15):
        wide = TupleType([wide, wide])
    with pytest.raises(LimitError, match="absurdly many parts"):
        TupleType([wide, wide])


def test_shapes() -> None:
    shape = Shape([2, n, 3])
    assert (len(shape), shape.rank, shape[0], list(shape)[2]) == (3, 3, 2, 3)
    assert str(shape[1:]) == "[n, 3]"
    assert str(shape.size) == "6*n"
    assert not shape.is_static
    assert Shape([2, 3]) is Shape((2, 3))
    assert Shape(shape) is shape
    assert Shape(None).key is None
    assert not Shape(None).has_rank
    assert Shape([]).size == 1
    for text in ("[n, 3]", "[]", "[...]"):
        assert str(parse_shape(text)) == text
    for question in ("dims", "rank", "size"):
        with pytest.raises(Undecided, match="rank"):
            getattr(Shape(None), question)
    assert str(shape.map(lambda d: 5)) == "[2, 5, 3]"
    with pytest.raises(AttributeError):
        shape.x = 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("dim", [-1, 2**63, True, 1.0, "n", None])
def test_what_is_no_dim_is_refused(dim: object) -> None:
    with pytest.raises(InvalidTypeError):
        Shape([2, dim])  # type: ignore[list-item]
    with pytest.raises(InvalidTypeError):
        Shape((dim,))  # type: ignore[arg-type]


def test_tensor_types() -> None:
    found = TensorType("f32", (2, 3))
    assert found is TensorType(float32, Shape([2, 3]))
    assert TensorType() == parse_type("?[...]")
    assert TensorType("int64", [2], value=[1, n]).value == (1, n)
    with pytest.raises(InvalidTypeError, match="2 items"):
        TensorType("int64", [2], value=[1])
    with pytest.raises(InvalidTypeError, match="static shape"):
        TensorType("int64", [n], value=[1])
    with pytest.raises(InvalidTypeError, match="only integer"):
        TensorType("float32", [1], value=[1])
    with pytest.raises(InvalidTypeError, match="bools and Syms"):
        TensorType("bool", [1], value=[1])
    with pytest.raises(InvalidTypeError, match="too much content"):
        TensorType("int64", [2**40], value=[])
    with pytest.raises(InvalidTypeError, match="axis names"):
        TensorType("int64", [2], axes=["N", "C"])
    with pytest.raises(InvalidTypeError, match="a scalar is 'float32\\[\\]'"):
        SequenceType("float32")
    with pytest.raises(InvalidTypeError, match="not a type"):
        TupleType([5])  # type: ignore[arg-type]
    assert str(SequenceType("float32[n]")) == "sequence<float32[n]>"
    with pytest.raises(InvalidTypeError, match="no Unicode"):
        OpaqueType("\ud800")


def test_elements() -> None:
    for name in dtype_names():
        assert parse_element(name) is DType(name)
    found = parse_element("quantized<int8, float32, scale=[0.1, 0.2], axis=1>")
    assert found == Quantized("int8", "float32", [0.1, 0.2], axis=1)
    assert hash(found) == hash(Quantized("int8", "float32", [0.1, 0.2], axis=1))


def tensor(text: str) -> TensorType:
    found = parse_type(text)
    assert isinstance(found, TensorType)
    return found


@pytest.mark.parametrize(
    ("wanted", "got", "answer"),
    [
        ("?[...]", "float32[2]", True),
        ("float32[?, 3]", "float32[n, 3]", True),
        ("float32[n, 3]", "float32[4, 3]", None),
        ("float32[n, 3]", "float32[4, 2]", False),
        ("float32[2]", "float32[...]", None),
        ("float32[2]", "?[2]", None),
        ("float32[2]", "int8[2]", False),
        ("float32[2]", "float32[2, 2]", False),
        ("int64[1] = [2]", "int64[1]", None),
        ("int64[1]", "int64[1] = [2]", True),
        ("int64[1] = [2]", "int64[1] = [2]", True),
        ("int64[2] = [2, 3]", "int64[2] = [n, 4]", False),
        ("int64[1] = [2]", "int64[1] = [n]", None),
    ],
)
def test_accepts(wanted: str, got: str, answer: bool | None) -> None:
    assert accepts(tensor(wanted), tensor(got)) is answer


def test_join_and_meet() -> None:
    a, b = tensor("float32[2, n, 3]"), tensor("float32[2, 4, n]")
    assert str(join(a, b)) == "float32[2, ?, ?]"
    assert str(meet(a, b)) == "float32[2, 4, 3]"
    assert str(join(a, tensor("int8[2]"))) == "?[...]"
    assert str(meet(tensor("?[...]"), a)) == str(a)
    assert str(meet(tensor("float32[?]"), tensor("float32[n]"))) == "float32[n]"
    known = tensor("int64[2] = [1, n]")
    assert str(meet(known, tensor("int64[2] = [1, 4]"))) == str(known)
    assert str(join(known, tensor("int64[2]"))) == "int64[2]"
    with pytest.raises(InvalidTypeError, match="no tensor has both"):
        meet(known, tensor("int64[2] = [2, n]"))
    for other in ("int8[2, n, 3]", "float32[2]", "float32[3, n, 3]"):
        with pytest.raises(InvalidTypeError, match="no tensor has both"):
            meet(a, tensor(other))
