"""The page of `amanda view` for flat graphs: size, and time until it can be used.

    python benchmarks/processes/view_page.py [OPS ...]

Needs Chromium, chromedriver and selenium. The graph has no scopes and no repeated
parts, which is the worst case for folding. The page reports when its first picture is
drawn; a search that opens the groups around an op is timed too. Limits: with 50,000 ops
usable in 3 s and below 25 MB, with 5,000 in 1 s.
"""

from __future__ import annotations

import random
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from amanda.graph import Graph
from amanda_inspect import view

LIMITS = {5_000: 1.0, 50_000: 3.0}
MAX_BYTES = 25_000_000
RUNS = 5
FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic"),
    *("--no-first-run", "--disable-background-networking", "--disable-sync"),
    *("--disable-component-update", "--window-size=1280,900"),
)
SEARCH = """
const start = performance.now();
page.input.value = arguments[0];
page.search();
page.choose(page.found[0]);
document.getElementById("graph").getBoundingClientRect();
return performance.now() - start;
"""


def make_graph(count: int) -> Graph:
    """Ops that read the one before and some other of the last eight."""
    chance = random.Random(0)
    graph = Graph("amanda/onnx/18", name="flat")
    values: list[Any] = [graph.parameter("float32[1, 64]", "x")]
    for i in range(count):
        kind = chance.choice(("Relu", "Tanh", "Sigmoid", "Add", "Mul", "Sub"))
        inputs = [values[-1]]
        if kind in ("Add", "Mul", "Sub"):
            inputs.append(chance.choice(values[-9:]))
        value = graph.add(kind, inputs, name=f"op_{i}").output
        value.type = "float32[1, 64]"
        values.append(value)
    graph.result(values[-1], "y")
    return graph


def start_browser(profile: str) -> Any:
    """Chromium with a new profile."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "google-chrome"
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    service = Service(shutil.which("chromedriver"))
    return webdriver.Chrome(options=options, service=service)


def time_page(browser: Any, path: Path, name: str) -> tuple[float, float]:
    """Seconds until the page is drawn, and of a search that opens groups."""
    browser.get("about:blank")
    browser.get(path.as_uri())
    ready = None
    while ready is None:
        ready = browser.execute_script("return document.documentElement.dataset.ready")
        time.sleep(0.02)
    return int(ready) / 1000, browser.execute_script(SEARCH, name) / 1000


def main(counts: list[int]) -> None:
    """Print a row for each number of ops."""
    print(f"{'ops':>8}{'write s':>10}{'MB':>8}{'usable s':>10}{'search s':>10}")
    with tempfile.TemporaryDirectory() as folder:
        browser = start_browser(str(Path(folder, "profile")))
        for count in counts:
            graph, path = make_graph(count), Path(folder, f"{count}.html")
            start = time.perf_counter()
            view(graph).save(path)
            writing = time.perf_counter() - start
            rows = [time_page(browser, path, f"op_{count // 2}") for _ in range(RUNS)]
            usable, search = map(statistics.median, zip(*rows, strict=True))
            size = path.stat().st_size
            row = f"{writing:>10.2f}{size / 1e6:>8.1f}{usable:>10.2f}{search:>10.2f}"
            is_met = size < MAX_BYTES and usable < LIMITS.get(count, 3.0)
            print(f"{count:>8,}{row}  {'met' if is_met else 'NOT met'}")
        browser.quit()


if __name__ == "__main__":
    main([int(each) for each in sys.argv[1:]] or list(LIMITS))
