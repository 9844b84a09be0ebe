"""PyTorch models to ONNX, by Amanda and by `torch.onnx.export`, side by side.

    python benchmarks/torch_convert.py [FOLDER [NAME ...]]

The models are those of the transformers library, with random weights. FOLDER keeps the
exported programs and the results. Each tool runs in a process of its own. `file`
is the time from a `.pt2` file to an `.onnx` file, `live` that from an `ExportedProgram`
in memory, both without imports. `memory` is how much the peak of memory grows from the
file on, relative to the weights. Prints the numbers of nodes and the largest difference
of the results in onnxruntime from PyTorch's. Exits with 1 where that of Amanda is above
1e-3, or where Amanda has more nodes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

NAMES: Final = ("ResNet-50", "ViT-B", "BERT-base", "GPT-2")
TOLERANCE: Final = 1e-3
MAKE: Final = """
import sys
import numpy as np, torch, transformers

folder, name = sys.argv[1:]
torch.manual_seed(0)
image = {"pixel_values": torch.randn(1, 3, 224, 224)}
tokens = {"input_ids": torch.randint(0, 30000, (1, 128))}
text = {**tokens, "attention_mask": torch.ones(1, 128, dtype=torch.int64)}
t = transformers
build, inputs = {
    "ResNet-50": (lambda: t.ResNetForImageClassification(t.ResNetConfig()), image),
    "ViT-B": (lambda: t.ViTForImageClassification(t.ViTConfig()), image),
    "BERT-base": (lambda: t.BertModel(t.BertConfig()), text),
    "GPT-2": (lambda: t.GPT2LMHeadModel(t.GPT2Config(use_cache=False)), tokens),
}[name]

class First(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = build().eval()

    def forward(self, **given):
        return self.model(**given)[0]

model = First()
program = torch.export.export(model, (), inputs)
torch.export.save(program, f"{folder}/model.pt2")
with torch.no_grad():
    np.save(f"{folder}/y.npy", model(**inputs).numpy())
np.savez(f"{folder}/x.npz", **{key: value.numpy() for key, value in inputs.items()})
"""
PEAK: Final = """
def peak():
    "The peak of this process in KB; that of ru_maxrss may be its parent's."
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
import json, sys, time
source, target = sys.argv[1:]
before = peak()
"""
AMANDA: Final = """
import amanda
import amanda_torch.format, amanda_torch.mapping
import amanda_onnx.format, amanda_onnx.mapping
@PEAK@
def convert(graph):
    made = amanda.convert(graph, "onnx@18", passes=["optimize_for_inference"])
    amanda.save(made, target)

start = time.perf_counter()
convert(amanda.load(source))
seconds, grown = time.perf_counter() - start, peak() - before
import torch
program = torch.export.load(source)
start = time.perf_counter()
convert(amanda.load(program))
print(json.dumps([seconds, time.perf_counter() - start, grown]))
"""
TORCH: Final = """
import torch, onnxscript
import torch.onnx
@PEAK@
def convert(program):
    torch.onnx.export(
        program, (), target, dynamo=True, opset_version=18, external_data=False,
        verbose=False,
    )

start = time.perf_counter()
program = torch.export.load(source)
convert(program)
seconds, grown = time.perf_counter() - start, peak() - before
program = torch.export.load(source)
start = time.perf_counter()
convert(program)
print(json.dumps([seconds, time.perf_counter() - start, grown]))
"""
SCRIPTS: Final = {
    name: code.replace("@PEAK@", PEAK)
    for name, code in (("amanda", AMANDA), ("torch", TORCH))
}


def run(code: str, *args: object) -> str:
    """The last line that a program prints in a new process."""
    command = [sys.executable, "-c", code, *map(str, args)]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    return (found.stdout.splitlines() or [""])[-1]


def result_of(model: Path, folder: Path) -> tuple[int, float]:
    """The number of nodes, and the largest difference from PyTorch's result."""
    import numpy as np
    import onnx
    import onnxruntime

    nodes = onnx.load(model, load_external_data=False).graph.node
    session: Any = onnxruntime.InferenceSession(str(model))
    known, y = np.load(folder / "x.npz"), np.load(folder / "y.npy")
    feeds = {each.name: known[each.name] for each in session.get_inputs()}
    [found] = session.run(None, feeds)
    return len(nodes), float(np.abs(found - y).max())


def measure(name: str, folder: Path) -> bool:
    """Print the rows of one model; False where Amanda misses a limit."""
    if not (folder / "y.npy").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        run(MAKE, folder, name)
    source = folder / "model.pt2"
    size, counts, worst = source.stat().st_size / 1e3, {}, 0.0
    for tool, code in SCRIPTS.items():
        target = folder / f"{tool}.onnx"
        seconds, live, grown = json.loads(run(code, source, target))
        counts[tool], error = result_of(target, folder)
        if tool == "amanda":
            worst = error
        times = f"{seconds:8.2f}s{live:8.2f}s{grown / size:9.2f}x"
        print(f"{name:12}{tool:8}{times}{counts[tool]:7}  {error:.1e}", flush=True)
    return counts["amanda"] <= counts["torch"] and worst <= TOLERANCE


def main(root: Path, names: tuple[str, ...]) -> int:
    """Print a table; 1 if a result differs, or if Amanda has more nodes."""
    print(f"{'model':12}{'by':8}{'file':>9}{'live':>9}{'memory':>10}  nodes  error")
    fits = [measure(name, root / name) for name in names]
    return int(not all(fits))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        chosen = Path(sys.argv[1]) if sys.argv[1:] else Path(temporary)
        sys.exit(main(chosen, tuple(sys.argv[2:]) or NAMES))
