"""Run by the `wheels` environment with what was installed, from outside the checkout.

No pytest and no test requirement is there: what is missing is missing for users too.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.metadata import distributions
from importlib.resources import files
from pathlib import Path

import amanda


def command(*arguments: str) -> str:
    """What the installed `amanda` script prints."""
    script = Path(sys.executable).with_name("amanda")
    done = subprocess.run([script, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done.stdout


def main() -> None:
    home = Path(amanda.__file__).parent
    assert "site-packages" in home.parts, home
    for name in amanda.__all__:
        getattr(amanda, name)
    assert files("amanda_namespaces").joinpath("index.json").is_file()
    for dist in distributions():
        if dist.name.startswith("amanda-"):
            typed = [file for file in dist.files or () if file.name == "py.typed"]
            assert typed, dist.name
        for point in dist.entry_points:
            if point.group.startswith("amanda."):
                point.load()
    with tempfile.TemporaryDirectory() as folder:
        every_form(Path(folder))
        command("plugin", "new", "smoke-test", "--dir", folder)
    assert command("--version").strip() == f"amanda {amanda.__version__}"
    for verb in ("plugins", "doctor"):
        command(verb, "--json")
    print(f"amanda {amanda.__version__} works as installed")


def every_form(folder: Path) -> None:
    graph = amanda.Graph(name="smoke")
    x = graph.parameter(amanda.parse_type("float32[n]"), name="x")
    graph.result(graph.add("Relu", [x], name="relu").output, name="y")
    for suffix in (".yaml", ".json", ".amtxt", ".ampb", ".amanda"):
        file = folder / f"smoke{suffix}"
        amanda.save(graph, file)
        assert amanda.load(file).same_as(graph), suffix
        assert "Relu" in command("show", str(file))


if __name__ == "__main__":
    main()
