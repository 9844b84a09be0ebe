"""What the README shows runs as it stands there, on eight devices."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

README = Path(__file__).parents[1] / "README.md"
EIGHT = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8"}


def sections() -> dict[str, str]:
    parts = re.split(r"^## (.+)\n", README.read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(["the beginning", *parts[1::2]], parts[::2], strict=True))


def blocks(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


def test_every_block_runs(tmp_path: Path):
    line = [sys.executable, "-W", "error::UserWarning", __file__]
    env = {**os.environ, **EIGHT, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        line, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    shown = re.findall(r"^    ((?:on a mesh|input|weight|result) .+)$",
                       sections()["Several devices"], re.MULTILINE)  # fmt: skip
    assert len(shown) == 6
    assert "\n".join(shown) in done.stdout
    printed = re.findall(
        r"^print\(.*\)  # (.+)$", README.read_text("utf-8"), re.MULTILINE
    )
    assert len(printed) == 2
    for told in printed:
        assert f"\n{told}\n" in done.stdout


def test_every_option_is_there():
    from amanda_jax.cpu_tuning.steps import STEPS
    from amanda_jax.settings import Settings

    text = sections()["the beginning"] + sections()["Optimization steps"]
    rows = re.findall(r"^\| (`.+?) \|", text, re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(names) == sorted([*Settings._fields, *(step.name for step in STEPS)])


def test_the_table_of_steps_is_that_of_the_code():
    tool = runpy.run_path(str(README.parents[2] / "tools/optimization_steps.py"))
    text = README.read_text("utf-8")
    assert tool["updated_page"](text) == text, "run tools/optimization_steps.py"


def test_steps_for_the_cpu_state_what_they_were_measured_with():
    from amanda_jax.cpu_tuning.steps import STEPS

    assert all(step.reason for step in STEPS)
    assert [s.name for s in STEPS if s.platform == "cpu" and not s.jaxlib] == []


def given() -> dict[str, Any]:
    """What the blocks of a section begin with."""
    import jax
    import numpy as np

    import amanda
    from amanda_std import ops, trace

    random = np.random.default_rng(0)
    shapes = {"up": (16, 32), "bias": (32,), "down": (32, 16)}
    up, bias, down = (
        random.standard_normal(shape).astype("float32") for shape in shapes.values()
    )

    def layer(x):
        return ops.matmul(ops.tanh(ops.matmul(x, up) + bias), down)

    kind = amanda.parse_type("float32[batch, 16]")
    graph = trace(layer, [kind], names=["x"])
    graph.outputs[0].name = "y"
    constants = [op for op in graph if op.type == "constant"]
    for op, name in zip(constants, shapes, strict=True):
        graph.rename(op, name)
    x = random.standard_normal((64, 16)).astype("float32")

    def f(x):
        return jax.numpy.tanh(x @ up)

    exported = jax.export.export(jax.jit(f))(x)
    Path("program.stablehlo").write_bytes(exported.mlir_module_serialized)
    compiled = amanda.compile(graph, "jax")
    compiled({"x": x})
    return {
        "amanda": amanda,
        "jax": jax,
        "graph": graph,
        "x": x,
        "f": f,
        "loss": lambda results: sum(v.sum() for v in jax.tree.leaves(results)),
        "compiled": compiled,
    }


def run() -> None:
    for title, text in sections().items():
        found = blocks(text)
        if "onnx" in "".join(found) and find_spec("amanda_onnx") is None:
            continue
        names = given() if found else {}
        for block in found:
            print(f"-- {title}")
            exec(compile(block, title, "exec"), names)


if __name__ == "__main__":
    run()
