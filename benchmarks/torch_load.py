"""Reading an exported program of 440 MB: Amanda compared with `torch.export.load`.

    python benchmarks/torch_load.py [LAYERS] [ROUNDS]

A transformer encoder of the size of BERT-base, with random weights, is exported with a
dynamic batch and saved to a temporary folder; both read it alternately in fresh
processes, and each figure is the best of all rounds. Exits with 1 if a limit is missed:
Amanda takes at most a tenth of the time, and under 100 MB of resident memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

LAYERS, ROUNDS = 12, 3
RATIO, RESIDENT = 0.1, 100.0

SAVE = """
import sys
import torch
from torch import nn

layers = int(sys.argv[2])

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(30522, 768)
        layer = nn.TransformerEncoderLayer(768, 12, 3072, 0.0, "gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.pool = nn.Linear(768, 768)

    def forward(self, tokens):
        return torch.tanh(self.pool(self.encoder(self.words(tokens))[:, 0]))

model = Model().train()  # in eval, PyTorch fuses a layer into one op
tokens = torch.zeros(2, 16, dtype=torch.int64)
shapes = {"tokens": {0: torch.export.Dim("batch", min=2, max=64)}}
program = torch.export.export(model, (tokens,), dynamic_shapes=shapes)
torch.export.save(program, sys.argv[1])
nodes = len(program.graph.nodes)
"""

OPEN = """
import json, sys, time
import amanda
from amanda_torch.format import Format

start = time.perf_counter()
graph = Format().read(sys.argv[1])
seconds = time.perf_counter() - start
nodes = len(graph)
"""

OPEN_WITH_TORCH = """
import json, sys, time
import torch

start = time.perf_counter()
program = torch.export.load(sys.argv[1])
seconds = time.perf_counter() - start
nodes = len(program.graph.nodes)
"""

REPORT = """
import json
from pathlib import Path

lines = Path("/proc/self/status").read_text().splitlines()
peak = next(int(l.split()[1]) / 1024 for l in lines if l.startswith("VmHWM"))
print(json.dumps({"seconds": globals().get("seconds"), "peak": peak, "nodes": nodes}))
"""


def run(program: str, *args: object) -> dict[str, Any]:
    """The figures of a program in a process of its own."""
    command = [sys.executable, "-c", program + REPORT, *map(str, args)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode:
        sys.exit(found.stderr)
    figures: dict[str, Any] = json.loads(found.stdout.splitlines()[-1])
    return figures


def best(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """The least time and the least memory of several runs."""
    return {key: min(each[key] for each in runs) for key in ("seconds", "peak")}


def main(layers: int = LAYERS, rounds: int = ROUNDS) -> int:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.pt2")
        nodes = run(SAVE, path, layers)["nodes"]
        print(f"{path.stat().st_size / 1e6:.0f} MB, {nodes} nodes")
        pairs = [(run(OPEN, path), run(OPEN_WITH_TORCH, path)) for _ in range(rounds)]
    ours, theirs = best([a for a, _ in pairs]), best([b for _, b in pairs])
    print(f"{'':20}{'seconds':>10}{'peak MB':>10}")
    for name, figures in (("amanda", ours), ("torch.export.load", theirs)):
        print(f"{name:20}{figures['seconds']:10.3f}{figures['peak']:10.0f}")
    ratio = ours["seconds"] / theirs["seconds"]
    print(f"time: {ratio:.3f} of torch.export.load (limit {RATIO})")
    print(f"memory: {ours['peak']:.0f} MB (limit {RESIDENT:.0f})")
    return int(ratio > RATIO or ours["peak"] > RESIDENT)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
