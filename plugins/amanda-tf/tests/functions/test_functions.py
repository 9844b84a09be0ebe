"""Functions, control flow v2, tables, strings, sparse and ragged tensors of TensorFlow.

Every case is a `tf.function`, run by TensorFlow and through the hub by numpy.
"""

from __future__ import annotations

import numpy as np
import pytest

import amanda
from amanda.errors import AmandaError

tf = pytest.importorskip("tensorflow", reason="needs TensorFlow, to compare with")

X = np.array([1.0, -2.0, 3.0], "f")
M = np.arange(12, dtype="f").reshape(3, 4)
WORDS = np.array(["a", "zz", "b"], object)


def read(function, *feeds):
    specs = [
        tf.TensorSpec(np.shape(x), "string" if x.dtype == object else x.dtype)
        for x in map(np.asarray, feeds)
    ]
    concrete = tf.function(function).get_concrete_function(*specs)
    return amanda.load(concrete), concrete


def check(function, *feeds):
    graph, concrete = read(function, *feeds)
    hub = amanda.convert(graph, "std")
    got = list(amanda.compile(hub, "numpy")(list(feeds)).values())
    expected = concrete(*map(tf.constant, feeds))
    flat = tf.nest.flatten(expected, expand_composites=True)
    for value, wanted in zip(got, flat, strict=True):
        array = np.asarray(wanted.numpy())
        assert np.shape(value) == array.shape
        if array.dtype.kind in "OS":
            texts = [item.decode() for item in array.ravel()]
            assert list(np.asarray(value).ravel()) == texts
        else:
            assert np.asarray(value).dtype == array.dtype
            np.testing.assert_allclose(value, array, rtol=1e-5, atol=1e-6)
    return hub


def types(hub):
    return {op.type for part in hub.graphs() for op in part}


@pytest.mark.parametrize("index", [-1, 0, 1, 2, 7])
def test_a_choice_of_branches(index):
    def build(i, x):
        return tf.switch_case(i, [lambda: x * 2, lambda: x + 1, lambda: -x])

    assert "case" in types(check(build, np.int32(index), X))


def test_branches_of_a_choice_assign_variables():
    w = tf.Variable([1.0, 2.0, 3.0], name="w")

    def build(i, x):
        tf.switch_case(i, [lambda: w.assign_add(x), lambda: w.assign(x * 5)])
        return w + 0.0

    for index in (0, 1):
        check(build, np.int32(index), X)


def test_functions_mapped_over_rows():
    from tensorflow.python.data.experimental.ops import map_defun

    w = tf.Variable([1.0, 2.0], name="w")

    @tf.function(input_signature=[tf.TensorSpec([4], tf.float32)])
    def row(r):
        return r * 2 + w[0]

    check(lambda x: map_defun.map_defun(row, [x], [tf.float32], [(4,)])[0], M)


MAPPED = {
    "map_fn": lambda x: tf.map_fn(lambda r: r * 2 + 1, x),
    "nested map_fn": lambda x: tf.map_fn(lambda r: tf.map_fn(lambda s: s + 1, r), x),
    "vectorized_map": lambda x: tf.vectorized_map(lambda r: r * tf.reduce_sum(r), x),
    "scan": lambda x: tf.scan(lambda a, b: a + b, x),
    "foldl": lambda x: tf.foldl(lambda a, b: a * b, x),
}


@pytest.mark.parametrize("name", MAPPED)
def test_loops_over_rows(name):
    check(MAPPED[name], M)


def test_the_condition_of_a_loop_reads_a_variable():
    w = tf.Variable([1.0, 2.0, 3.0], name="w")

    def build(x):
        i = tf.constant(0)
        while tf.reduce_sum(w) < 100.0 and i < 5:
            w.assign(w * 2.0 + x * x)
            i += 1
        return i, w + 0.0

    check(build, X)


def words_to_numbers():
    pairs = tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2])
    return tf.lookup.StaticHashTable(pairs, -1)


def test_tables_are_constants():
    table = words_to_numbers()
    numbers = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(
            tf.constant([5, 7], tf.int64), tf.constant(["x", "y"])
        ),
        "?",
    )
    hub = check(lambda s: (table.lookup(s), table.size()), WORDS)
    assert "lookup" in types(hub)
    check(lambda i: numbers.lookup(i), np.array([7, 8], np.int64))
    empty = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    check(lambda s: empty.lookup(s), WORDS)

    def build(s):
        zeros = tf.zeros(tf.shape(s), tf.int32)
        return tf.cond(tf.size(s) > 2, lambda: table.lookup(s), lambda: zeros)

    check(build, WORDS)


def test_tables_with_an_initializer_in_the_graph():
    v1 = tf.compat.v1
    with tf.Graph().as_default() as graph:
        x = v1.placeholder("string", [3], "x")
        tf.identity(words_to_numbers().lookup(x), "y")
    read_graph = amanda.load(graph)
    read_graph.result(read_graph.ops["y"].output, "y")
    hub = amanda.convert(read_graph, "std")
    assert amanda.compile(hub, "numpy")([WORDS])["y"].tolist() == [1, -1, 2]


def test_tables_of_saved_models(tmp_path):
    class Model(tf.Module):
        def __init__(self):
            super().__init__()
            self.table = words_to_numbers()

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
        def __call__(self, s):
            return {"y": self.table.lookup(s)}

    tf.saved_model.save(Model(), str(tmp_path))
    hub = amanda.convert(amanda.load(tmp_path), "std")
    assert amanda.compile(hub, "numpy")([WORDS])["y"].tolist() == [1, -1, 2]


def test_tables_that_change_are_declined():
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    table.insert(["a"], [3])
    check(lambda s: table.lookup(s), WORDS)

    def build(s):
        table.insert(s, tf.constant([1, 2, 3], tf.int64))
        return table.lookup(s)

    with pytest.raises(AmandaError, match="changes the table"):
        check(build, WORDS)


SPACED = np.array([" a", "b c", "d  e f"], object)
NUMBERS = np.array(["15", "-2"], object)
strings = tf.strings
TEXTS = {
    "join": (lambda s: strings.join([s, "x", s], separator="-"), WORDS),
    "lower": (lambda s: strings.lower(s), np.array(["AbC"], object)),
    "lower UTF-8": (lambda s: strings.lower(s, encoding="utf-8"),
                    np.array(["ÄB"], object)),
    "upper": (lambda s: strings.upper(s), WORDS),
    "strip": (lambda s: strings.strip(s), SPACED),
    "length": (lambda s: strings.length(s), np.array(["é", "ab"], object)),
    "characters": (lambda s: strings.length(s, unit="UTF8_CHAR"),
                   np.array(["é", "ab"], object)),
    "replace": (lambda s: strings.regex_replace(s, "(z)", r"\1q"), WORDS),
    "replace the whole match": (
        lambda s: strings.regex_replace(s, "[0-9]", r"<\0\0>"), NUMBERS),
    "replace one": (lambda s: strings.regex_replace(s, "z", "q", False), WORDS),
    "replace given": (
        lambda s: tf.raw_ops.RegexReplace(input=s, pattern="z+", rewrite="q"), WORDS),
    "match": (lambda s: strings.regex_full_match(s, "z.*"), WORDS),
    "match given": (lambda s: tf.raw_ops.RegexFullMatch(input=s, pattern="z+"), WORDS),
    "number": (lambda s: strings.to_number(s), NUMBERS),
    "integer": (lambda s: strings.to_number(s, tf.int64), NUMBERS),
    "text of integers": (lambda i: strings.as_string(i), np.array([1, -2])),
    "text of floats": (lambda s: strings.as_string(strings.to_number(s)), NUMBERS),
    "substring": (lambda s: strings.substr(s, 0, 1), NUMBERS),
    "buckets": (lambda s: strings.to_hash_bucket_fast(s, 9), NUMBERS),
    "join all": (lambda s: strings.reduce_join(s, [0, 1], separator=","),
                 WORDS.reshape(1, 3)),
    "join rows": (lambda s: strings.reduce_join(s, 0, keepdims=True),
                  np.array([["a", "b"], ["c", "d"]], object)),
    "split": (lambda s: strings.split(s, "z").to_tensor(), WORDS),
    "split at spaces": (lambda s: strings.split(s).to_tensor("-"), SPACED),
    "split once": (lambda s: strings.split(s, " ", maxsplit=1).to_tensor(), SPACED),
    "ragged split": (lambda s: strings.split(s), SPACED),
    "equal": (lambda s: tf.where(tf.equal(s, "a"), s, "none"), WORDS),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_strings(name):
    check(*TEXTS[name])


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda s: strings.regex_replace(s, "(1)", r"\0\9"), "more than nine groups"),
        (lambda s: tf.raw_ops.RegexReplace(input=s, pattern=s[0], rewrite="q"),
         "pattern is not constant"),
        (lambda s: strings.unicode_transcode(s, "UTF-8", "UTF-16-BE"),
         "no rule maps it"),
        (lambda s: strings.ngrams(s, 2), "no rule maps it"),
    ],
)  # fmt: skip
def test_strings_that_the_hub_does_not_have(function, reason):
    with pytest.raises(AmandaError, match=reason):
        check(function, NUMBERS)


AT = np.array([[0, 1], [1, 2]], np.int64)


def sparse(v, at=AT, shape=(2, 3)):
    return tf.SparseTensor(at, v, shape)


TWO = X[:2]
SPARSE = {
    "dense": lambda v: tf.sparse.to_dense(sparse(v)),
    "product": lambda v: tf.sparse.sparse_dense_matmul(sparse(v), M[:, :2]),
    "adjoint product": lambda v: tf.sparse.sparse_dense_matmul(
        sparse(v), M[:, :2], adjoint_a=True, adjoint_b=True),
    "sum": lambda v: tf.sparse.reduce_sum(sparse(v), 1, keepdims=True),
    "sum of all": lambda v: tf.sparse.reduce_sum(sparse(v)),
    "order": lambda v: tf.sparse.reorder(sparse(v, AT[::-1])),
    "concat": lambda v: tf.sparse.concat(-1, [sparse(v), sparse(v * 2)]),
    "reshape": lambda v: tf.sparse.reshape(sparse(v), [3, -1]),
    "slice": lambda v: tf.sparse.slice(sparse(v), [0, 1], [2, 1]),
    "empty rows": lambda v: tf.sparse.fill_empty_rows(
        sparse(v, AT[::-1] * 2, (4, 5)), 7.0),
    "from dense": lambda v: tf.sparse.from_dense(v),
    "bincount": lambda v: tf.math.bincount(tf.cast(v + 2, "int32"), minlength=2),
}  # fmt: skip


@pytest.mark.parametrize("name", SPARSE)
def test_sparse_tensors(name):
    check(SPARSE[name], TWO)


def test_embeddings_of_sparse_tensors():
    ids = sparse(tf.constant([1, 2], tf.int64), AT * 2, (3, 5))
    table = tf.Variable(M, name="table")
    check(lambda v: tf.nn.safe_embedding_lookup_sparse(table * v[0], ids), X)


def ragged(v):
    return tf.RaggedTensor.from_row_splits(v, [0, 1, 1, 3])


RAGGED = {
    "dense": lambda v: ragged(v).to_tensor(9.0),
    "dense shape": lambda v: ragged(v).to_tensor(shape=[2, 1]),
    "dense rows": lambda v: tf.RaggedTensor.from_value_rowids(
        v, [0, 0, 2], 4).to_tensor(),
    "sum": lambda v: tf.reduce_sum(ragged(v), axis=1),
    "mean": lambda v: tf.reduce_mean(ragged(v), axis=1),
    "gather": lambda v: tf.gather(ragged(v), [2, 0]),
    "concat": lambda v: tf.concat([ragged(v), ragged(v)], axis=1),
    "slice": lambda v: ragged(v)[:, :1],
    "map": lambda v: tf.ragged.map_flat_values(tf.nn.relu, ragged(v)),
    "lengths": lambda v: ragged(v).row_lengths(),
    "sparse": lambda v: ragged(v).to_sparse(),
}  # fmt: skip


@pytest.mark.parametrize("name", RAGGED)
def test_ragged_tensors(name):
    check(RAGGED[name], X)
