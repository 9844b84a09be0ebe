"""Cost of dictionaries: one lookup compared with a full load, validation with a copy.

    python benchmarks/dictionary.py [ROUNDS]

Each figure is the best of some rounds in this process. Exits with 1 if a limit is
missed: looking up one op takes at most 5% of loading its whole dictionary, and
validating a graph takes at most as long as `graph.clone()`.

For a dictionary with few definitions (see docs/decisions/0005) the time to open the
file is subtracted from both sides of the 5% limit. With fewer than twenty definitions
one op is always more than 5% of them, and no limit applies.

Besides generated graphs, the benchmark uses those that are available: the frozen graphs
of `tf_graphs` in AMANDA_TEST_DATA, and BERT exported to ONNX by PyTorch, with small
random weights.
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
FEW, LEAST = 100, 20  # numbers of definitions: see above
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


def best_milliseconds(rounds: int, *works: Callable[[], object]) -> list[float]:
    """Return the milliseconds of the fastest round of each.

    The rounds alternate, so that other load on the machine affects all equally.
    """
    times: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for i, work in enumerate(works):
            begin = time.perf_counter()
            work()
            times[i].append(time.perf_counter() - begin)
    return [min(each) * 1e3 for each in times]


def build_transformer(layers: int, is_tensorflow: bool) -> Graph:
    """Build attention layers in the style of ONNX exporters, or of TensorFlow's."""
    space = "amanda/tensorflow/1.13.1" if is_tensorflow else "amanda/onnx/18"
    graph = Graph(space)
    if not is_tensorflow:
        graph.imports[""] = 18
    type = TensorType("float32", [1, 128, 768])
    hidden: OutputPort = graph.parameter(type, "x")
    weight = graph.parameter(TensorType("float32", [768, 768]), "w")
    shape = graph.parameter(TensorType("int64", [4]), "shape")
    axes = graph.parameter(TensorType("int32", [4]), "axes")
    add = _add_tensorflow_layer if is_tensorflow else _add_onnx_layer
    for layer in range(layers):
        hidden = add(graph, f"layer{layer}", type, (hidden, weight, shape, axes))
    graph.result(hidden, "y")
    return graph


Inputs = tuple[OutputPort, OutputPort, OutputPort, OutputPort]


def _add_onnx_layer(graph: Graph, name: str, type: Type, inputs: Inputs) -> OutputPort:
    hidden, weight, shape, _ = inputs

    def op(kind: str, *inputs: OutputPort, **attrs: object) -> OutputPort:
        label = graph.fresh_name(f"{name}/{kind}")
        output = graph.add(kind, inputs, attrs, name=label).output
        output.type, output.name = type, f"{label}_output_0"
        return output

    parts = []
    for _ in range(3):
        part = op("Add", op("MatMul", hidden, weight), weight)
        part = op("Reshape", part, shape, allowzero=0)
        parts.append(op("Transpose", part, perm=[0, 2, 1, 3]))
    scores = op("Softmax", op("Div", op("MatMul", *parts[:2]), weight), axis=-1)
    context = op("Transpose", op("MatMul", scores, parts[2]), perm=[0, 2, 1, 3])
    context = op("Add", op("MatMul", op("Reshape", context, shape), weight), hidden)
    normal = op("LayerNormalization", context, weight, weight, axis=-1, epsilon=1e-12)
    inner = op("Gemm", normal, weight, weight, alpha=1.0, beta=1.0, transB=1)
    return op("Add", op("Erf", op("Relu", inner)), normal)


def _add_tensorflow_layer(
    graph: Graph, name: str, type: Type, inputs: Inputs
) -> OutputPort:
    hidden, weight, _, axes = inputs
    real, integer = DType("float32"), DType("int32")

    def op(kind: str, *inputs: OutputPort, **attrs: object) -> OutputPort:
        label = graph.fresh_name(f"{name}/{kind}")
        output = graph.add(kind, inputs, {"T": real, **attrs}, name=label).output
        output.type = type
        return output

    parts = []
    for _ in range(3):
        part = op("MatMul", hidden, weight, transpose_a=False, transpose_b=False)
        part = op("BiasAdd", part, weight, data_format="NHWC")
        part = op("Reshape", part, axes, Tshape=integer)
        parts.append(op("Transpose", part, axes, Tperm=integer))
    scores = op("BatchMatMul", *parts[:2], adj_x=False, adj_y=True)
    scores = op("Softmax", op("Mul", scores, weight))
    context = op("Transpose", op("BatchMatMul", scores, parts[2]), axes, Tperm=integer)
    context = op("ConcatV2", context, hidden, axes, N=2, Tidx=integer)
    mean = op("Mean", context, axes, keep_dims=True, Tidx=integer)
    context = op("Sub", context, mean, _output_shapes=[])
    return op("Add", op("Tanh", op("Rsqrt", context)), hidden)


def measure_lookups(rounds: int) -> list[str]:
    """Print the table of lookup costs; return the missed limits."""
    missed = []
    print(
        f"{'dictionary':30} {'definitions':>11} {'open':>8} {'one':>8} {'all':>9}",
        end="",
    )
    print(f" {'one/all':>7} {'without open':>14}")
    for path in DictionaryFolder(PACKAGE):
        count = load_all(path)
        # the first call refills the caches that loading all has evicted
        works = (
            partial(work, path)
            for work in (open_newest, open_newest, load_one, load_all)
        )
        _, opening, single, whole = best_milliseconds(rounds, *works)
        ratio, beyond = single / whole, (single - opening) / (whole - opening)
        print(f"{path:30} {count:11,} {opening:5.2f} ms {single:5.2f} ms", end="")
        print(f" {whole:6.1f} ms {ratio:7.4f} {beyond:14.4f}")
        cost = ratio if count >= FEW else beyond
        if cost > LOOKUP and count >= LEAST:
            missed.append(f"{path}: one op costs {cost:.3f} of all, at most {LOOKUP}")
    return missed


def open_newest(path: str) -> Dictionary:
    """Open the newest version: read the file and check its digest, but load no op."""
    history = DictionaryFolder(PACKAGE)[path]
    return history.at(history.versions()[-1])


def load_one(path: str) -> object:
    """Look up one op of the newest version, from a cold start."""
    return open_newest(path)[MIDDLE[path]]


def load_all(path: str) -> int:
    """Load every definition of every version; return their number."""
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


def validation_cases() -> Iterator[Case]:
    """Yield the graphs to validate: generated ones, and the real ones available."""
    dictionaries = DictionaryFolder(PACKAGE)
    for path, version in ATTENTION:
        graph = build_transformer(LAYERS, path == "amanda/tensorflow")
        yield f"attention in {path}", [(graph, dictionaries[path].at(version))]
    tensorflow = dictionaries["amanda/tensorflow"]
    graphs = read_frozen_graphs(tensorflow.at(tensorflow.versions()[-1]))
    if graphs:
        yield f"{len(graphs)} frozen graphs", graphs
    bert = export_bert()
    if bert is not None:
        assert bert.namespace is not None
        version = bert.namespace.rpartition("/")[2]
        yield "BERT in amanda/onnx", [(bert, dictionaries["amanda/onnx"].at(version))]


def read_frozen_graphs(dictionary: Dictionary) -> list[tuple[Graph, Dictionary]]:
    """Read the graphs of tf_graphs with the reader of the dictionary tests."""
    file = Path(
        os.environ.get("AMANDA_TEST_DATA", ""), "tf_graphs/tf_graphs_dev.tar.gz"
    )
    if not file.is_file():
        print("skipped: the frozen graphs, not found in AMANDA_TEST_DATA")
        return []
    reader = ROOT / "tests" / "dictionary" / "tf_graphs.py"
    graph_of = runpy.run_path(str(reader))["graph_of"]
    graphs = []
    with tarfile.open(file) as archive:
        for member in archive:
            if member.name.endswith("/model.pb"):
                content = archive.extractfile(member)
                assert content is not None
                graphs.append((graph_of(content.read(), dictionary), dictionary))
    return graphs


def export_bert() -> Graph | None:
    """Export a narrow BERT of twelve layers from PyTorch, if that is installed."""
    needed = ("torch", "transformers", "onnx", "amanda_onnx")
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        print(f"skipped: BERT, which needs {', '.join(missing)}")
        return None
    import torch
    from transformers import BertConfig, BertModel

    class SingleInput(torch.nn.Module):  # type: ignore[misc]
        """The model as a module of one positional argument, for tracing."""

        def __init__(self, model: torch.nn.Module) -> None:
            super().__init__()
            self.model = model

        def forward(self, token_ids: torch.Tensor) -> object:
            return self.model(input_ids=token_ids, return_dict=False)[0]

    config = BertConfig(
        vocab_size=100,
        hidden_size=48,
        intermediate_size=96,
        attn_implementation="eager",
    )
    model = SingleInput(BertModel(config).eval())
    token_ids = torch.ones((1, 16), dtype=torch.int64)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "bert.onnx")
        torch.onnx.export(model, (token_ids,), path, opset_version=17, dynamo=False)
        return amanda.load(path)


def measure_validation(rounds: int) -> list[str]:
    """Print the table of validation costs; return the missed limits."""
    rows = list(validation_cases())
    missed = []
    print(f"\n{'graph':28} {'ops':>6} {'validate':>11} {'clone':>10} {'ratio':>6}")
    for name, graphs in rows:
        for graph, dictionary in graphs:
            problems = dictionary.validate(graph)
            assert not problems, problems[:3]
        works = partial(validate_all, graphs), partial(clone_all, graphs)
        validate, copy = best_milliseconds(2 * rounds, *works)
        ops, ratio = sum(len(graph) for graph, _ in graphs), validate / copy
        print(f"{name:28} {ops:6} {validate:8.2f} ms {copy:7.2f} ms {ratio:6.2f}")
        if ratio > VALIDATE:
            missed.append(
                f"{name}: validating takes {ratio:.2f} times as long as a copy"
            )
    return missed


def validate_all(graphs: list[tuple[Graph, Dictionary]]) -> None:
    for graph, dictionary in graphs:
        dictionary.validate(graph)


def clone_all(graphs: list[tuple[Graph, Dictionary]]) -> None:
    for graph, _ in graphs:
        graph.clone()


def main(rounds: int = ROUNDS) -> int:
    missed = [*measure_lookups(rounds), *measure_validation(rounds)]
    print("\n" + ("\n".join(missed) or "all limits met"))
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])))
