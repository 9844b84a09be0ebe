"""Python source of modules, against the programs that it is written from."""

from __future__ import annotations

import ast
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

sys.path.insert(0, str(Path(__file__).parent))
from programs import Case, cases  # noqa: E402  it imports torch
from torch import nn  # noqa: E402

import amanda  # noqa: E402

pytestmark = [  # warnings of PyTorch's own
    pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning"),
    pytest.mark.filterwarnings("ignore:No complete tensor found"),
    pytest.mark.filterwarnings("ignore:The tensor attributes"),
]


class Block(nn.Module):
    """A residual block, with another width or stride than the one before."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
        )

    def forward(self, x: Any) -> Any:
        y = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResidualNet(nn.Module):
    """Blocks in a Sequential, pooled."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.ReLU(), nn.MaxPool2d(2))
        self.blocks = nn.Sequential(Block(4, 4), Block(4, 8, 2), Block(8, 8))
        self.head = nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


class Attention(nn.Module):
    """Attention of several heads."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.query = nn.Linear(size, size)
        self.key = nn.Linear(size, size)
        self.value = nn.Linear(size, size)
        self.out = nn.Linear(size, size)

    def forward(self, x: Any, mask: Any) -> Any:
        def heads(y: Any) -> Any:
            return y.view(y.shape[0], y.shape[1], 2, -1).transpose(1, 2)

        y = nn.functional.scaled_dot_product_attention(
            heads(self.query(x)), heads(self.key(x)), heads(self.value(x)), mask
        )
        return self.out(y.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """A block of a transformer."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.attention = Attention(size)
        self.mlp = nn.Sequential(
            nn.Linear(size, 2 * size), nn.GELU(), nn.Linear(2 * size, size)
        )
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Any, mask: Any) -> Any:
        x = x + self.dropout(self.attention(self.norm1(x), mask))
        return x + self.mlp(self.norm2(x))


class Language(nn.Module):
    """A language model, whose head shares the weight of its embedding."""

    def __init__(self, layers: int = 3) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.layers = nn.ModuleList([Layer(8) for _ in range(layers)])
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: Any, mask: Any = None) -> Any:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, mask)
        return {"logits": self.head(x), "last": x}


BATCH = torch.export.Dim("batch", min=2, max=64)
TOKENS = torch.arange(10).view(2, 5)
CASES = {
    **cases(),
    "resnet": lambda: Case(ResidualNet().eval(), (torch.randn(2, 3, 17, 17),)),
    "training resnet": lambda: Case(ResidualNet(), (torch.randn(2, 3, 17, 17),)),
    "language model": lambda: Case(
        Language().eval(), (TOKENS,), {"mask": torch.ones(5, 5).tril().bool()}
    ),
    "dynamic batch": lambda: Case(
        Language().eval(), (TOKENS,), {}, {"tokens": {0: BATCH}}
    ),
    "sequential": lambda: Case(
        nn.Sequential(nn.Linear(3, 2), nn.ReLU()), (torch.randn(4, 3),)
    ),
}  # fmt: skip


def write(case: Case, path: Path, decompose: bool = False) -> Any:
    """The program of a case, written as source."""
    program = case.export()
    if decompose:
        program = program.run_decompositions()
    amanda.save(amanda.load(program), path)
    return program


def load(path: Path) -> Any:
    """The module of a written file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.load()


def expect_same(found: Any, program: Any, case: Case, tolerance: float = 1e-6) -> None:
    """Compare the results of a module and a program, and the buffers they changed."""
    ours = found
    theirs = program.module()
    results = []
    for module in (ours, theirs):
        torch.manual_seed(0)
        results.append(module(*case.args, **case.kwargs))
    torch.testing.assert_close(*results, rtol=tolerance, atol=tolerance)
    expected = dict(theirs.named_buffers())
    for name, buffer in ours.named_buffers():
        if name in expected:
            torch.testing.assert_close(
                buffer, expected[name], rtol=tolerance, atol=tolerance
            )


@pytest.mark.parametrize("name", CASES)
def test_a_written_module_computes_the_same(name: str, tmp_path: Path) -> None:
    case = CASES[name]()
    path = tmp_path / "model.py"
    program = write(case, path)
    expect_same(load(path), program, case)


@pytest.mark.parametrize("name", ["resnet", "training resnet", "language model"])
def test_decomposed_programs(name: str, tmp_path: Path) -> None:
    case = CASES[name]()
    path = tmp_path / "model.py"
    program = write(case, path, decompose=True)
    expect_same(load(path), program, case, 1e-5)


def test_a_written_module_is_that_of_any_size(tmp_path: Path) -> None:
    case = CASES["dynamic batch"]()
    write(case, tmp_path / "model.py")
    found = load(tmp_path / "model.py")
    for rows in (3, 7):
        tokens = torch.arange(rows * 5).view(rows, 5) % 11
        torch.testing.assert_close(found(tokens), case.module(tokens))


def classes(path: Path) -> dict[str, ast.ClassDef]:
    tree = ast.parse(path.read_text())
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def test_equal_blocks_are_one_class(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    write(CASES["resnet"](), path)
    assert set(classes(path)) == {"Block", "ResidualNet"}
    text = path.read_text()
    assert "self.head = nn.Linear(8, 5)" in text
    assert "Block(4, 8, stride=2)" in text
    write(CASES["language model"](), path)
    assert set(classes(path)) == {"Attention", "Layer", "Language"}
    text = path.read_text()
    assert "nn.ModuleList([Layer() for _ in range(3)])" in text
    assert "for layer in self.layers:" in text
    write(CASES["sequential"](), path)
    assert "super().__init__(nn.Linear(3, 2), nn.ReLU())" in path.read_text()


class Scaled(nn.Module):
    """A product with a weight, in another size each time."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs))
        self.outputs = outputs

    def forward(self, x: Any) -> Any:
        x = x.reshape(-1, x.shape[-1]) @ self.weight * (1 / self.outputs)
        return x.reshape(2, -1, self.outputs)


class Narrow(nn.Module):
    """Modules that differ in numbers only."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = Scaled(4, 12)
        self.middle = Scaled(12, 8)
        self.small = Scaled(8, 4)

    def forward(self, x: Any) -> Any:
        return self.small(torch.tanh(self.middle(self.wide(x))))


def test_modules_that_differ_in_numbers_are_one_class(tmp_path: Path) -> None:
    case = Case(Narrow().eval(), (torch.randn(2, 3, 4),))
    program = write(case, tmp_path / "model.py")
    assert set(classes(tmp_path / "model.py")) == {"Scaled", "Narrow"}
    text = (tmp_path / "model.py").read_text()
    assert "self.wide = Scaled(4, 12, 0.08333333333333333)" in text
    assert "torch.empty(in_features, out_features)" in text
    expect_same(load(tmp_path / "model.py"), program, case)


def test_weights_have_the_names_of_the_model(tmp_path: Path) -> None:
    case = CASES["language model"]()
    write(case, tmp_path / "model.py")
    found = load(tmp_path / "model.py")
    assert found.head.weight is found.embedding.weight
    expected = case.module.state_dict()
    assert set(found.state_dict()) == set(expected)
    for name, tensor in found.state_dict().items():
        torch.testing.assert_close(tensor, expected[name], rtol=0, atol=0)


def test_a_written_module_trains(tmp_path: Path) -> None:
    case = CASES["training resnet"]()
    write(case, tmp_path / "model.py")
    found = load(tmp_path / "model.py")
    losses = []
    for module in (found, case.module):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            loss = module(*case.args).square().mean()
            loss.backward()
            optimizer.step()
        losses.append(loss.detach())
    torch.testing.assert_close(*losses, rtol=1e-6, atol=1e-6)


def test_frozen_parameters_stay_frozen(tmp_path: Path) -> None:
    case = CASES["training resnet"]()
    for part in (case.module.stem, case.module.blocks[1], case.module.head.bias):
        part.requires_grad_(False)
    torch.export.save(case.export(), tmp_path / "model.pt2")
    amanda.save(amanda.load(tmp_path / "model.pt2"), tmp_path / "model.py")
    expected = {n: p.requires_grad for n, p in case.module.named_parameters()}
    found = load(tmp_path / "model.py")
    assert {n: p.requires_grad for n, p in found.named_parameters()} == expected
    text = (tmp_path / "model.py").read_text()
    assert "        self.stem.requires_grad_(False)\n" in text
    assert '        self.get_submodule("blocks.1").requires_grad_(False)\n' in text
    assert "        self.head.bias.requires_grad_(False)\n" in text


def test_files_are_formatted(tmp_path: Path) -> None:
    ruff = shutil.which("ruff", path=str(Path(sys.executable).parent)) or shutil.which(
        "ruff"
    )
    if ruff is None:
        pytest.skip("ruff is not installed")
    for name, case in CASES.items():
        write(case(), tmp_path / f"{name.replace(' ', '_')}.py")
    for command in (["check"], ["format", "--check", "--diff"]):
        done = subprocess.run(
            [ruff, *command, "--isolated", str(tmp_path)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


_WITHOUT_AMANDA = """
import sys, torch
sys.path.insert(0, {folder!r})
import model
out = model.load()(torch.arange(10).view(2, 5), mask=torch.ones(5, 5).tril().bool())
torch.save(out, {folder!r} + "/out.pt")
assert "amanda" not in sys.modules
"""
_WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from amanda.cli import main
sys.exit(main(["convert", {source!r}, {target!r}]))
"""


def run(script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_command_line_without_torch_and_a_process_without_amanda(
    tmp_path: Path,
) -> None:
    case = CASES["language model"]()
    program = case.export()
    torch.export.save(program, tmp_path / "language.pt2")
    source, target = str(tmp_path / "language.pt2"), str(tmp_path / "model.py")
    run(_WITHOUT_TORCH.format(source=source, target=target))
    run(_WITHOUT_AMANDA.format(folder=str(tmp_path)))
    found = torch.load(tmp_path / "out.pt")
    expected = program.module()(*case.args, **case.kwargs)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


class Nested(nn.Sequential):
    """Sequences in a sequence, and a list of weights."""

    def __init__(self) -> None:
        super().__init__()
        inner = nn.Sequential(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()))
        self.add_module("0", inner)
        self.add_module("1", nn.Sequential(nn.ReLU(), nn.Conv2d(4, 2, 1)))
        self.scales = nn.ParameterList([nn.Parameter(torch.randn(())) for _ in "ab"])

    def forward(self, x: Any) -> Any:
        x = self[1](self[0](x))
        return torch.maximum(x * self.scales[0], x * self.scales[1])


def to_onnx_and_source(module: Any, args: tuple[Any, ...], folder: Path) -> Any:
    """The module that is written from an ONNX model of a module."""
    graph = amanda.load(torch.export.export(module, args))
    amanda.save(
        amanda.convert(graph, "onnx@18", passes=["optimize_for_inference"]),
        folder / "m.onnx",
    )
    graph = amanda.load(folder / "m.onnx")
    graph = amanda.convert(graph, "torch@2.13", passes=["optimize_for_inference"])
    amanda.save(graph, folder / "written.py")
    return load(folder / "written.py")


@pytest.mark.parametrize("model", [Nested, ResidualNet])
def test_a_model_of_onnx(model: Any, tmp_path: Path) -> None:
    """Its modules follow from the names of weights: no op records where it is."""
    pytest.importorskip("amanda_onnx")
    torch.manual_seed(0)
    module, x = model().eval(), torch.randn(2, 3, 16, 16)
    found = to_onnx_and_source(module, (x,), tmp_path)
    torch.testing.assert_close(found(x), module(x), rtol=1e-5, atol=1e-5)
    assert found.state_dict().keys() <= module.state_dict().keys()
    assert len(found.state_dict()) >= 4


def test_blocks_of_a_model_of_onnx_are_a_loop(tmp_path: Path) -> None:
    pytest.importorskip("amanda_onnx")
    torch.manual_seed(0)
    module, mask = Language().eval(), torch.ones(5, 5).tril()
    for parameter in module.parameters():  # equal ones would be shared
        nn.init.normal_(parameter)
    found = to_onnx_and_source(module, (TOKENS, mask), tmp_path)
    results = module(TOKENS, mask)
    torch.testing.assert_close(
        found(TOKENS, mask), (results["logits"], results["last"]), rtol=1e-5, atol=1e-5
    )
    text = (tmp_path / "written.py").read_text()
    assert "nn.ModuleList([Layer() for _ in range(3)])" in text
    assert "self.query = nn.Linear(8, 8)" in text
    assert "nn.Embedding(11, 8)" in text
    assert "for layer in self.layers:" in text


class OneResult(nn.Module):
    """A tuple of one tensor, or the tensor."""

    def __init__(self, *, as_tuple: bool) -> None:
        super().__init__()
        self.as_tuple = as_tuple

    def forward(self, x: Any) -> Any:
        return (x + 1,) if self.as_tuple else x + 1


@pytest.mark.parametrize("as_tuple", [True, False])
def test_one_result_is_returned_as_the_model_does(
    as_tuple: bool, tmp_path: Path
) -> None:
    module, x = OneResult(as_tuple=as_tuple), torch.randn(3)
    program = write(Case(module, (x,)), tmp_path / "model.py")
    amanda.save(amanda.load(program), tmp_path / "model.pt2")
    again = torch.export.load(tmp_path / "model.pt2").module()
    for found in (load(tmp_path / "model.py")(x), again(x)):
        assert isinstance(found, tuple) == as_tuple
        torch.testing.assert_close(found, module(x))


class Twice(nn.Module):
    def forward(self, x: Any) -> Any:
        y = x.exp()
        return y, y


def test_a_result_that_is_returned_twice(tmp_path: Path) -> None:
    """Both results have names, of which a run returns one each."""
    x = torch.randn(3)
    program = write(Case(Twice(), (x,)), tmp_path / "model.py")
    amanda.save(amanda.load(program), tmp_path / "model.pt2")
    again = torch.export.load(tmp_path / "model.pt2").module()
    torch.testing.assert_close(load(tmp_path / "model.py")(x), Twice()(x))
    torch.testing.assert_close(again(x), Twice()(x))
    for path in (program, tmp_path / "model.pt2"):
        found = amanda.run(amanda.load(path), [x.numpy()], backend="numpy")
        assert list(found) == ["exp", "exp_1"]
        for value in found.values():
            torch.testing.assert_close(torch.from_numpy(value), x.exp())


def test_rows_of_a_matrix_of_any_size(tmp_path: Path) -> None:
    """An index of a computed matrix is no `nn.Embedding`."""

    class Rows(nn.Module):
        def forward(self, x: Any, i: Any) -> Any:
            return x.flatten(0, 1)[i]

    x, i = torch.randn(3, 4, 5), torch.tensor([1, 7])
    sizes = ({0: torch.export.Dim("b", min=2, max=64)}, None)
    program = torch.export.export(Rows(), (x, i), dynamic_shapes=sizes)
    amanda.save(amanda.load(program), tmp_path / "model.py")
    torch.testing.assert_close(load(tmp_path / "model.py")(x, i), Rows()(x, i))


def test_one_result_of_another_framework_is_no_tuple(tmp_path: Path) -> None:
    from amanda_std import ops, trace
    from amanda_torch import to_module

    graph = trace(lambda x: ops.add(x, 1.0), [amanda.parse_type("float32[3]")])
    graph = amanda.convert(graph, "torch")
    amanda.save(graph, tmp_path / "model.py")
    x = torch.randn(3)
    for module in (load(tmp_path / "model.py"), to_module(graph)):
        torch.testing.assert_close(module(x), x + 1)


class Tagger(nn.Module):
    """Recurrent layers, in both directions and in one, with the batch first."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 3, bidirectional=True)
        self.gru = nn.GRU(6, 5, batch_first=True)

    def forward(self, x: Any) -> Any:
        return self.gru(self.lstm(x)[0].transpose(0, 1))[0]


def test_recurrent_layers(tmp_path: Path) -> None:
    torch.manual_seed(0)
    module, x = Tagger().eval(), torch.randn(7, 2, 4)
    program = write(Case(module, (x,)), tmp_path / "model.py")
    found = load(tmp_path / "model.py")
    torch.testing.assert_close(found(x), program.module()(x))
    text = (tmp_path / "model.py").read_text()
    assert "self.lstm = nn.LSTM(4, 3, bidirectional=True)" in text
    assert "self.gru = nn.GRU(6, 5, batch_first=True)" in text
    assert found.state_dict().keys() == module.state_dict().keys()


def test_recurrent_layers_of_a_model_of_onnx(tmp_path: Path) -> None:
    pytest.importorskip("amanda_onnx")
    torch.manual_seed(0)
    module, x = Tagger().eval(), torch.randn(7, 2, 4)
    found = to_onnx_and_source(module, (x,), tmp_path)
    torch.testing.assert_close(found(x), module(x), rtol=1e-5, atol=1e-6)
    layers = [type(each) for each in found.modules()]
    assert layers.count(nn.LSTM) == layers.count(nn.GRU) == 1


class Decoder(nn.Module):
    """Two layers, of which others call the second."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.places = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return self.layer(x).relu()


class Middle(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.decoder = Decoder()

    def forward(self, x: Any) -> Any:
        return self.decoder(x) + self.decoder.places(x), self.decoder.head(x)


class Model(nn.Module):
    """A head that is a part of the decoder, too."""

    def __init__(self, *, head_is_first: bool) -> None:
        super().__init__()
        head = nn.Linear(3, 2)
        if head_is_first:
            self.head = head
        self.middle = Middle()
        self.head = self.middle.decoder.head = head

    def forward(self, x: Any) -> Any:
        y, z = self.middle(x)
        return y[:, :2] + z


@pytest.mark.parametrize("head_is_first", [True, False])
def test_members_of_a_member_that_others_call(
    head_is_first: bool, tmp_path: Path
) -> None:
    model, x = Model(head_is_first=head_is_first).eval(), torch.randn(2, 3)
    amanda.save(amanda.load(torch.export.export(model, (x,))), tmp_path / "m.py")
    torch.testing.assert_close(load(tmp_path / "m.py")(x), model(x))
