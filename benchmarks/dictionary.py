"""What dictionaries cost: one op beside all of them, validating beside copying.

    python benchmarks/dictionary.py [ROUNDS]

Each figure is the best of some rounds in this process. Exits with 1 where a limit is
missed: finding one op takes at most 5% of loading its whole dictionary, and validating
a graph at most as long as `graph.clone()`.

Of a dictionary with few definitions (docs/decisions/0005 says why), what finding one op
costs beyond opening it is at most 5% of what loading all costs beyond opening it. Where
there are fewer than twenty, one is more than that whatever we do, and nothing is asked.

Besides graphs made here it takes what is at hand: the frozen graphs of `tf_graphs` in
AMANDA_TEST_DATA, and BERT as PyTorch exports it to ONNX, with small weights of its own.
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import amanda
from amanda.dictionary import GONE, Dictionary, DictionaryFolder
from amanda.graph import Graph, OutputPort
from amanda.types import DType, TensorType, Type

LOOKUP, VALIDATE = 0.05, 1.0
ROUNDS, LAYERS = 15, 100
FEW, LEAST = 100, 20  # definitions: see above
ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "namespaces" / "src" / "amanda_namespaces"
MIDDLE = {
    path: names[len(names) // 2]
    for path, history in (
        (path, DictionaryFolder(PACKAGE)[path]) for path in DictionaryFolder(PACKAGE)
    )
    for names in [list(history.at(history.versions()[-1]))]
}
ATTENTION = (("amanda/onnx", "18"), ("amanda/tensorflow", "1.13.1"))


def best(rounds: int, *works: Callable[[], object]) -> list[float]:
    """Milliseconds of the fastest round of each, taken in turn.

    So whatever else the machine does falls on all alike.
    """
    times: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for i, work in enumerate(works):
            begin = time.perf_counter()
            work()
            times[i].append(time.perf_counter() - begin)
    return [min(each) * 1e3 for each in times]


def transformer(layers: int, recorded: bool) -> Graph:
    """Layers of attention as ONNX exporters write them, or as TensorFlow's do."""
    space = "amanda/tensorflow/1.13.1" if recorded else "amanda/onnx/18"
    graph = Graph(space)
    if not recorded:
        graph.imports[""] = 18
    type = TensorType("float32", [1, 128, 768])
    hidden: OutputPort = graph.parameter(type, "x")
    weight = graph.parameter(TensorType("float32", [768, 768]), "w")
    shape = graph.parameter(TensorType("int64", [4]), "shape")
    axes = graph.parameter(TensorType("int32", [4]), "axes")
    add = _tensorflow if recorded else _onnx
    for layer in range(layers):
        hidden = add(graph, f"layer{layer}", type, (hidden, weight, shape, axes))
    graph.result(hidden, "y")
    return graph


Inputs = tuple[OutputPort, OutputPort, OutputPort, OutputPort]


def _onnx(graph: Graph, name: str, type: Type, given: Inputs) -> OutputPort:
    hidden, weight, shape, _ = given

    def op(kind: str, *inputs: OutputPort, **attrs: object) -> OutputPort:
        label = graph.fresh_name(f"{name}/{kind}")
        made = graph.add(kind, inputs, attrs, name=label).output
        made.type, made.name = type, f"{label}_output_0"
        return made

    parts = []
    for _ in range(3):
        part = op("Add", op("MatMul", hidden, weight), weight)
        part = op("Reshape", part, shape, allowzero=0)
        parts.append(op("Transpose", part, perm=[0, 2, 1, 3]))
    scores = op("Softmax", op("Div", op("MatMul", *parts[:2]), weight), axis=-1)
    mixed = op("Transpose", op("MatMul", scores, parts[2]), perm=[0, 2, 1, 3])
    mixed = op("Add", op("MatMul", op("Reshape", mixed, shape), weight), hidden)
    normal = op("LayerNormalization", mixed, weight, weight, axis=-1, epsilon=1e-12)
    inner = op("Gemm", normal, weight, weight, alpha=1.0, beta=1.0, transB=1)
    return op("Add", op("Erf", op("Relu", inner)), normal)


def _tensorflow(graph: Graph, name: str, type: Type, given: Inputs) -> OutputPort:
    hidden, weight, _, axes = given
    real, integer = DType("float32"), DType("int32")

    def op(kind: str, *inputs: OutputPort, **attrs: object) -> OutputPort:
        label = graph.fresh_name(f"{name}/{kind}")
        made = graph.add(kind, inputs, {"T": real, **attrs}, name=label).output
        made.type = type
        return made

    parts = []
    for _ in range(3):
        part = op("MatMul", hidden, weight, transpose_a=False, transpose_b=False)
        part = op("BiasAdd", part, weight, data_format="NHWC")
        part = op("Reshape", part, axes, Tshape=integer)
        parts.append(op("Transpose", part, axes, Tperm=integer))
    scores = op("BatchMatMul", *parts[:2], adj_x=False, adj_y=True)
    scores = op("Softmax", op("Mul", scores, weight))
    mixed = op("Transpose", op("BatchMatMul", scores, parts[2]), axes, Tperm=integer)
    mixed = op("ConcatV2", mixed, hidden, axes, N=2, Tidx=integer)
    mean = op("Mean", mixed, axes, keep_dims=True, Tidx=integer)
    mixed = op("Sub", mixed, mean, _output_shapes=[])
    return op("Add", op("Tanh", op("Rsqrt", mixed)), hidden)


def lookups(rounds: int) -> list[str]:
    """Prints the table of what finding one op costs; the limits that were missed."""
    missed = []
    print(
        f"{'dictionary':30} {'definitions':>11} {'open':>8} {'one':>8} {'all':>9}",
        end="",
    )
    print(f" {'one/all':>7} {'beyond opening':>14}")
    for path in DictionaryFolder(PACKAGE):
        count = load_all(path)
        # the first pays for caches that loading all has emptied
        works = (partial(work, path) for work in (opened, opened, load_one, load_all))
        _, opening, single, whole = best(rounds, *works)
        ratio, beyond = single / whole, (single - opening) / (whole - opening)
        print(f"{path:30} {count:11,} {opening:5.2f} ms {single:5.2f} ms", end="")
        print(f" {whole:6.1f} ms {ratio:7.4f} {beyond:14.4f}")
        counts = ratio if count >= FEW else beyond
        if counts > LOOKUP and count >= LEAST:
            missed.append(f"{path}: one op costs {counts:.3f} of all, at most {LOOKUP}")
    return missed


def opened(path: str) -> Dictionary:
    """The newest version, with its file read and its digest compared, and no op."""
    history = DictionaryFolder(PACKAGE)[path]
    return history.at(history.versions()[-1])


def load_one(path: str) -> object:
    """One op of the newest version, with nothing read before."""
    return opened(path)[MIDDLE[path]]


def load_all(path: str) -> int:
    """Every definition of every version; how many there are."""
    history = DictionaryFolder(PACKAGE)[path]
    count = 0
    for name in history.names:
        record = history.record(name)
        assert record is not None
        for step, (_, text) in enumerate(record.block.steps):
            if text != GONE:
                record.definition(step)
                count += 1
    return count


Case = tuple[str, list[tuple[Graph, Dictionary]]]


def cases() -> Iterator[Case]:
    """What is validated: made graphs, and the real ones that are at hand."""
    shelf = DictionaryFolder(PACKAGE)
    for path, version in ATTENTION:
        graph = transformer(LAYERS, path == "amanda/tensorflow")
        yield f"attention in {path}", [(graph, shelf[path].at(version))]
    tensorflow = shelf["amanda/tensorflow"]
    graphs = frozen(tensorflow.at(tensorflow.versions()[-1]))
    if graphs:
        yield f"{len(graphs)} frozen graphs", graphs
    bert = exported()
    if bert is not None:
        assert bert.namespace is not None
        version = bert.namespace.rpartition("/")[2]
        yield "BERT in amanda/onnx", [(bert, shelf["amanda/onnx"].at(version))]


def frozen(dictionary: Dictionary) -> list[tuple[Graph, Dictionary]]:
    """The graphs of tf_graphs, as the tests of dictionaries read them."""
    file = Path(
        os.environ.get("AMANDA_TEST_DATA", ""), "tf_graphs/tf_graphs_dev.tar.gz"
    )
    if not file.is_file():
        print("left out: the frozen graphs, AMANDA_TEST_DATA has none")
        return []
    reader = ROOT / "tests" / "dictionary" / "tf_graphs.py"
    graph_of = runpy.run_path(str(reader))["graph_of"]
    found = []
    with tarfile.open(file) as archive:
        for member in archive:
            if member.name.endswith("/model.pb"):
                content = archive.extractfile(member)
                assert content is not None
                found.append((graph_of(content.read(), dictionary), dictionary))
    return found


def exported() -> Graph | None:
    """BERT with its twelve layers, narrow, as PyTorch writes it."""
    needed = ("torch", "transformers", "onnx", "amanda_onnx")
    lacking = [name for name in needed if importlib.util.find_spec(name) is None]
    if lacking:
        print(f"left out: BERT, which needs {', '.join(lacking)}")
        return None
    import torch
    from transformers import BertConfig, BertModel

    class Called(torch.nn.Module):  # type: ignore[misc]
        """The model with the one argument that a trace gives it."""

        def __init__(self, model: torch.nn.Module) -> None:
            super().__init__()
            self.model = model

        def forward(self, words: torch.Tensor) -> object:
            return self.model(input_ids=words, return_dict=False)[0]

    config = BertConfig(
        vocab_size=100,
        hidden_size=48,
        intermediate_size=96,
        attn_implementation="eager",
    )
    model = Called(BertModel(config).eval())
    words = torch.ones((1, 16), dtype=torch.int64)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "bert.onnx")
        torch.onnx.export(model, (words,), path, opset_version=17, dynamo=False)
        return amanda.load(path)


def validation(rounds: int) -> list[str]:
    """Prints the table of what validating costs; the limits that were missed."""
    rows = list(cases())
    missed = []
    print(f"\n{'graph':28} {'ops':>6} {'validate':>11} {'clone':>10} {'ratio':>6}")
    for name, graphs in rows:
        for graph, dictionary in graphs:
            problems = dictionary.validate(graph)
            assert not problems, problems[:3]
        mine, copy = best(2 * rounds, partial(validate, graphs), partial(clone, graphs))
        ops, ratio = sum(len(graph) for graph, _ in graphs), mine / copy
        print(f"{name:28} {ops:6} {mine:8.2f} ms {copy:7.2f} ms {ratio:6.2f}")
        if ratio > VALIDATE:
            missed.append(f"{name}: validating costs {ratio:.2f} of a copy")
    return missed


def validate(graphs: list[tuple[Graph, Dictionary]]) -> None:
    for graph, dictionary in graphs:
        dictionary.validate(graph)


def clone(graphs: list[tuple[Graph, Dictionary]]) -> None:
    for graph, _ in graphs:
        graph.clone()


def main(rounds: int = ROUNDS) -> int:
    missed = [*lookups(rounds), *validation(rounds)]
    print("\n" + ("\n".join(missed) or "all limits met"))
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])))
