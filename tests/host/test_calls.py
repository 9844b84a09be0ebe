"""Calls are functions: what is fed, what comes out, what is kept and found again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

import amanda
from amanda.errors import GoneError, UsageError
from amanda.graph import Graph
from amanda.host import Host
from amanda.tensors import Tensor

np = pytest.importorskip("numpy")

KERNELS = {
    "add": np.add,
    "negate": np.negative,
    "same": lambda x: x,
    "turn": lambda x: x.T,
    "pack": lambda x: [x, x],
}
ONE = np.ones((2, 3), "float32")


class Backend:
    """Runs ops by a table; counts how often it compiles, and what it is asked to."""

    name = "table"
    namespace = "test/table/1"

    def __init__(self):
        self.compiled = 0
        self.asked = []

    def devices(self):
        return ["cpu"]

    def takes(self, op):
        return op.type in KERNELS or "no kernel"

    def compile(self, graph, device, options):
        self.compiled += 1
        self.asked.append([op.name for op in graph if op.type != "constant"])
        ops = [(op.type, op.inputs, op.output, op.attrs) for op in graph]
        parameters, results = graph.parameters, graph.results

        def call(feeds, out=None):
            place = dict(zip(parameters, feeds.values(), strict=True))
            for type_, inputs, output, attrs in ops:
                if type_ == "constant":
                    place[output] = attrs["value"].numpy()
                else:
                    place[output] = KERNELS[type_](*(place[v] for v in inputs))
            return [place[value] for value in results]

        return call


@pytest.fixture
def backend():
    return Backend()


@pytest.fixture
def host(backend):
    made = Host(())
    made.register_backend("table", backend)
    return made


def chain(*types, shape="float32[a, b]"):
    """x through ops of these types, each named after its place."""
    graph = Graph("test/table/1")
    value = graph.parameter(amanda.parse_type(shape), "x")
    for i, type_ in enumerate(types):
        inputs = [value, value] if type_ == "add" else [value]
        value = graph.add(type_, inputs, name=f"op{i}").output
        value.type = amanda.parse_type(shape)
    graph.result(value, "y")
    return graph


# -- feeds ---------------------------------------------------------------------------


def test_feeds_that_fitted_once_are_not_a_pass_for_others(host):
    run = amanda.compile(chain("negate"), host=host)
    for feeds in ([ONE], {"x": ONE}, (ONE * 2,)):
        assert run(feeds)["y"].sum() < 0
    for wrong, text in (
        (ONE.astype("float64"), "float64, not float32"),
        (ONE[0], "of shape"),
        (ONE.astype(object), "string, not float32"),
    ):
        for feeds in ([wrong], {"x": wrong}):
            with pytest.raises(UsageError, match=text):
                run(feeds)
    with pytest.raises(UsageError, match="no input 'z'"):
        run({"x": ONE, "z": ONE})
    assert run([ONE])["y"].tolist() == (-ONE).tolist()


def test_symbols_are_compared_for_every_new_form(host):
    graph = Graph("test/table/1")
    ends = [graph.parameter(amanda.parse_type("float32[n]"), k) for k in "ab"]
    graph.result(graph.add("add", ends).output, "y")
    run = amanda.compile(graph, host=host)
    for n in (2, 3, 2):
        x = np.ones(n, "float32")
        assert run([x, x])["y"].tolist() == [2.0] * n
        with pytest.raises(UsageError, match="where n is"):
            run([x, np.ones(n + 1, "float32")])


def test_the_order_of_named_feeds_does_not_matter(host):
    graph = Graph("test/table/1")
    for key in "ab":
        graph.parameter(amanda.parse_type("float32[]"), key)
    graph.result(graph.parameters[1], "y")
    run = amanda.compile(graph, host=host)
    a, b = np.float32(1), np.float32(2)
    for _ in range(2):
        assert run({"b": b, "a": a})["y"] == 2
        assert run({"a": a, "b": b})["y"] == 2


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("sequence<float32[n]>", [ONE[0]], ONE),
        ("tuple<float32[n], float32[n]>", (ONE[0], ONE[0]), [ONE[0]]),
        ("map<int64, float32[]>", {1: np.float32(1)}, [1]),
    ],
)
def test_what_holds_values_is_fed_as_such(host, kind, good, bad):
    run = amanda.compile(chain("same", shape=kind), host=host)
    assert type(run([good])["y"]) is type(good)
    with pytest.raises(UsageError, match=f"not a {type(good).__name__}"):
        run([bad])


# -- results -------------------------------------------------------------------------


def test_results_are_apart_and_row_major(host):
    graph = Graph("test/table/1")
    x = graph.parameter(amanda.parse_type("float32[2, 3]"), "x")
    turned = graph.add("turn", [x]).output
    for value in (x, turned, turned, graph.add("pack", [x]).output):
        graph.result(value)
    run = amanda.compile(graph, host=host)
    given = ONE.copy()
    same, one, two, pack = run([given]).values()
    arrays = [given, same, one, two, *pack]
    assert all(a.flags.c_contiguous and a.flags.writeable for a in arrays)
    for i, array in enumerate(arrays):
        assert not any(np.shares_memory(array, other) for other in arrays[:i])
    given[...] = 7
    assert all((a == 1).all() for a in arrays[1:])


def test_arrays_to_write_to_are_written_to(host):
    run = amanda.compile(chain("negate"), host=host)
    y = np.zeros((2, 3), "float32")
    assert run([ONE], out={"y": y})["y"] is y
    assert (y == -1).all()
    wide = np.zeros((2, 6), "float32")[:, ::2]
    assert run([ONE], out={"y": wide})["y"] is wide
    assert (wide == -1).all()
    x = ONE.copy()
    assert run([x], out={"y": x})["y"] is x
    assert (x == -1).all()


@pytest.mark.parametrize(
    ("out", "text"),
    [
        ({"z": np.zeros((2, 3), "float32")}, "no result 'z'"),
        ({"y": [0]}, "'y' is list, not an array"),
        ({"y": np.zeros((2, 4), "float32")}, r"float32\[2, 4\], not float32\[2, 3\]"),
        ({"y": np.zeros((2, 3))}, r"float64\[2, 3\], not float32\[2, 3\]"),
    ],
)
def test_arrays_that_do_not_fit_are_told(host, out, text):
    run = amanda.compile(chain("negate"), host=host)
    with pytest.raises(UsageError, match=text):
        run([ONE], out=out)


def test_arrays_to_write_to_are_apart(host):
    graph = chain("negate")
    graph.result(graph.results[0], "z")
    run = amanda.compile(graph, host=host)
    y = np.zeros((2, 3), "float32")
    with pytest.raises(UsageError, match="'z' and 'y' share memory"):
        run([ONE], out={"y": y, "z": y})


def test_several_threads_call_at_once(host):
    run = amanda.compile(chain("negate", "add"), host=host)
    feeds = [np.full((2, 3), i, "float32") for i in range(60)]
    feeds[30:] = [np.full((3, 3), i, "float32") for i in range(30, 60)]
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda x: run([x])["y"], feeds))
    for x, y in zip(feeds, made, strict=True):
        assert y.tolist() == (-2 * x).tolist()


# -- executables that are kept ---------------------------------------------------------


def test_an_equal_graph_is_not_compiled_again(host, backend):
    runs = [amanda.compile(chain("negate"), host=host) for _ in range(3)]
    assert backend.compiled == 1
    assert [run([ONE])["y"].sum() for run in runs] == [-6.0] * 3
    assert len({id(run) for run in runs}) == 3


def with_weight(tensor, name="x"):
    graph = Graph("test/table/1")
    x = graph.parameter(amanda.parse_type("float32[n]"), name)
    w = graph.constant(tensor).output
    graph.result(graph.add("add", [x, w]).output, "y")
    return graph


def two_weights(first, second, *, turned=False):
    """x + first + second, with the constants in either order."""
    graph = Graph("test/table/1")
    x = graph.parameter(amanda.parse_type("float32[n]"), "x")
    order = [second, first] if turned else [first, second]
    made = [graph.constant(tensor).output for tensor in order]
    a, b = reversed(made) if turned else made
    graph.result(graph.add("add", [graph.add("negate", [a]).output, b]).output, "y")
    graph.result(x, "x")
    return graph


SMALL, LARGE = 4, 4000


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_other_weights_are_another_executable(host, size):
    x = np.zeros(size, "float32")
    for number in (1, 2):
        tensor = Tensor.of(np.full(size, number, "float32"))
        for graph in (with_weight(tensor), with_weight(tensor)):
            assert amanda.compile(graph, host=host)([x])["y"][0] == number


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_weights_are_told_apart_by_where_they_are(host, size):
    one, two = (Tensor.of(np.full(size, n, "float32")) for n in (1, 2))
    x = np.zeros(size, "float32")
    graphs = [two_weights(one, two), two_weights(two, one, turned=True)]
    assert graphs[0].digest() == graphs[1].digest()
    assert [amanda.compile(g, host=host)([x])["y"][0] for g in graphs] == [1, -1]


def test_no_large_weight_is_read_to_compile(host, backend):
    read = []

    def make():
        read.append(1)
        return np.ones(LARGE, "float32")

    tensor = Tensor.lazy(make, "float32", [LARGE])
    amanda.compile(with_weight(tensor), host=host)
    amanda.compile(with_weight(tensor).clone(), host=host)
    assert (backend.compiled, read) == (1, [])


def test_names_and_options_and_types_are_told_apart(host, backend):
    tensor = Tensor.of(np.ones(SMALL, "float32"))
    amanda.compile(with_weight(tensor), host=host)
    assert [
        s.key for s in amanda.compile(with_weight(tensor, "z"), host=host).inputs
    ] == ["z"]
    amanda.compile(with_weight(tensor), host=host, level=1)
    amanda.compile(with_weight(tensor), host=host, level=True)
    assert backend.compiled == 4
    amanda.compile(chain("negate"), host=host)
    amanda.compile(chain("negate", shape="float32[2, b]"), host=host)
    assert backend.compiled == 6


def test_what_has_state_or_unknown_options_is_made_for_each(host, backend):
    for _ in range(2):
        amanda.compile(chain("negate"), host=host, watch=print)
    assert backend.compiled == 2


def test_who_listens_hears_of_every_graph(host, backend):
    heard = []
    host.register(
        "hooks", "before_compile", lambda graph, backend, device: heard.append(graph)
    )
    for _ in range(2):
        amanda.compile(chain("negate"), host=host)
    assert (backend.compiled, len(heard)) == (2, 2)


# -- handles ---------------------------------------------------------------------------


def test_a_handle_finds_its_value(host):
    graph = chain("negate", "add")
    handles = [op.output for op in graph]
    run = amanda.compile(graph, host=host)
    with pytest.raises(UsageError, match="there is no value before"):
        run[handles[0]]
    for scale in (1, 3):
        run([ONE * scale])
        assert [run[h][0, 0] for h in handles] == [-scale, -2 * scale]
        assert run[graph.parameters[0]][0, 0] == scale


def test_a_handle_is_followed_to_where_its_value_lives(host):
    graph = chain("negate", "add")
    first, second = graph
    twin = graph.add("negate", [graph.parameters[0]]).output
    graph.replace(first, [twin], "share")
    run = amanda.compile(graph, host=host)
    run([ONE])
    assert run[first.output][0, 0] == -1
    assert run[second.output][0, 0] == -2


def test_a_handle_whose_value_is_gone_says_who_removed_it(host):
    graph = chain("negate")
    spare = graph.add("add", [graph.parameters[0]] * 2).output
    graph.remove(spare.op, "tidy")
    run = amanda.compile(graph, host=host)
    run([ONE])
    with pytest.raises(GoneError, match="removed by tidy"):
        run[spare]


def test_a_handle_of_another_graph_says_so(host):
    run = amanda.compile(chain("negate"), host=host)
    run([ONE])
    with pytest.raises(UsageError, match="another one, or was changed"):
        run[chain("add")[0].output]
    graph = chain("negate")
    run = amanda.compile(graph, host=host)
    run([ONE])
    graph.add("add", [graph.parameters[0]] * 2)
    with pytest.raises(UsageError, match="another one, or was changed"):
        run[graph[0].output]


def test_inputs_without_names_are_found_by_their_places(host):
    graph = Graph("test/table/1")
    values = [graph.parameter(amanda.parse_type("float32[]")) for _ in range(3)]
    last = graph.add("negate", [values[2]]).output
    graph.result(graph.add("add", [values[0], last]).output)
    run = amanda.compile(graph, host=host)
    run([np.float32(n) for n in (1, 2, 4)])
    assert run[last] == -4
