"""The page of `amanda view` in Chromium: open, expand, search, follow an edge."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amanda
from amanda.cli import run_command_line
from amanda.graph import Graph
from amanda_inspect import Overlay, view
from amanda_inspect.viewer import GraphPage

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is missing")
pytestmark = [
    pytest.mark.skipif(not (BROWSER and DRIVER), reason="Chromium is missing"),
    pytest.mark.xdist_group("chromium"),
]

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic"),
    *("--no-first-run", "--disable-background-networking", "--disable-sync"),
    *("--disable-component-update", "--window-size=1280,900"),
)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in FLAGS:
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability(
        "goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"}
    )
    made = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield made
    made.quit()


class Browser:
    """A page that is open; `close` fails for what the console or the network has."""

    def __init__(self, driver: Any, page: GraphPage | None, path: Path) -> None:
        """Open a page, which is in the file already if none is given."""
        if page is not None:
            page.save(path)
        self.driver, self.url = driver, path.as_uri()
        driver.get_log("performance")
        driver.get(path.as_uri())
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(driver, 30).until(
            lambda _: self.js("return document.documentElement.dataset.ready")
        )

    def js(self, code: str, *arguments: Any) -> Any:
        return self.driver.execute_script(code, *arguments)

    def node(self, label: str) -> Any:
        """The element of a visible node."""
        found = self.driver.find_elements("css selector", "#graph [data-node]")
        (only,) = [e for e in found if e.get_attribute("aria-label") == label]
        return only

    def labels(self) -> set[str]:
        return set(self.js(
            "return [...document.querySelectorAll('#graph [data-node]')]"
            ".map((e) => e.getAttribute('aria-label'))"
        ))  # fmt: skip

    def heading(self) -> str:
        return str(self.js("return document.querySelector('#panel h2').textContent"))

    def search(self, text: str) -> list[str]:
        from selenium.webdriver.common.keys import Keys

        field = self.driver.find_element("id", "search")
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(text)
        rows = self.driver.find_elements(
            "css selector", "#results li[role] span:first-child"
        )
        return [row.text for row in rows]

    def press(self, key: str) -> None:
        from selenium.webdriver import ActionChains

        ActionChains(self.driver).send_keys(key).perform()

    def click(self, element: Any, times: int = 1) -> None:
        from selenium.webdriver import ActionChains

        chain = ActionChains(self.driver).move_to_element(element)
        (chain.double_click() if times == 2 else chain.click()).perform()

    def check(self) -> None:
        """Fail for messages of the console and requests beside the page."""
        assert [row["message"] for row in self.driver.get_log("browser")] == []
        rows = [json.loads(r["message"]) for r in self.driver.get_log("performance")]
        sent = [
            row["message"]["params"]["request"]["url"]
            for row in rows
            if row["message"]["method"] == "Network.requestWillBeSent"
            and row["message"]["params"]["documentURL"] == self.url
        ]
        assert sent == [self.url]


def keep_picture(browser: Browser, name: str) -> None:
    """A screenshot, in the folder AMANDA_TEST_SCREENSHOTS where that is set."""
    picture = browser.driver.get_screenshot_as_png()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 10_000
    folder = os.environ.get("AMANDA_TEST_SCREENSHOTS")
    if folder:
        Path(folder, f"{name}.png").write_bytes(picture)


def layers(count: int, ops: int) -> Graph:
    """Groups of ops with residual edges."""
    graph = Graph("amanda/onnx/18", name="layers")
    value: Any = graph.parameter("float32[4]", "x")
    for i in range(count):
        start = value
        for k in range(ops):
            value = graph.add("Relu", [value], name=f"layer{i}/relu{k}").output
        value = graph.add("Add", [start, value], name=f"layer{i}/add").output
    graph.result(value, "y")
    return graph


def flat(count: int) -> Graph:
    """Ops without scopes or repetitions."""
    chance = random.Random(0)
    graph = Graph("amanda/onnx/18", name="flat")
    values: list[Any] = [graph.parameter("float32[4]", "x")]
    for i in range(count):
        kind = chance.choice(("Relu", "Tanh", "Add", "Mul"))
        inputs = [values[-1]]
        if kind in ("Add", "Mul"):
            inputs.append(chance.choice(values[-9:]))
        values.append(graph.add(kind, inputs, name=f"op{i}").output)
    graph.result(values[-1], "y")
    return graph


def test_expand_search_and_follow(driver: Any, tmp_path: Path) -> None:
    overlay = Overlay("time", {"layer2/relu7": 2.0, "layer3/add": 0.5}, "ms")
    page = view(layers(6, 20), overlays=[overlay])
    browser = Browser(driver, page, tmp_path / "page.html")
    assert browser.labels() == {"input x", "result y", *(f"layer{i}" for i in range(6))}
    before = browser.labels()

    browser.click(browser.node("layer2"), times=2)
    opened = {"Relu layer2/relu7", "Add layer2/add"}
    assert opened <= browser.labels()
    assert browser.node("layer2").get_attribute("aria-expanded") == "true"

    assert browser.search("layer4/add") == ["layer4/add"]
    browser.press("\ue007")
    assert browser.heading() == "Add"
    assert "selected" in browser.node("Add layer4/add").get_attribute("class")
    keep_picture(browser, "selected")

    links = driver.find_elements("css selector", "#panel td .link")
    assert [link.text for link in links] == ["layer3/add Add", "layer4/relu19 Relu"]
    links[0].click()
    assert "Add layer3/add" in browser.labels()
    assert (
        browser.js("return document.querySelector('#panel .name').textContent")
        == "layer3/add"
    )
    assert "0.5 ms" in driver.find_element("id", "panel").text
    driver.find_element("id", "back").click()
    assert (
        browser.js("return document.querySelector('#panel .name').textContent")
        == "layer4/add"
    )

    driver.find_element("id", "fold-all").click()
    assert browser.labels() == before
    browser.check()


def test_keys(driver: Any, tmp_path: Path) -> None:
    browser = Browser(driver, view(layers(2, 3)), tmp_path / "page.html")
    browser.press("\ue015")  # arrow down: the first node, then its reader
    assert browser.heading() == "x"
    browser.press("\ue015")
    assert browser.heading() == "Relu"
    browser.press("\ue013")
    assert browser.heading() == "x"
    browser.press("\ue00c")
    assert browser.heading() == "layers"
    browser.press("/")
    assert browser.js("return document.activeElement.id") == "search"
    browser.check()


def test_zoom_and_edges(driver: Any, tmp_path: Path) -> None:
    browser = Browser(driver, view(layers(2, 3)), tmp_path / "page.html")
    scale = "return page.picture.view.scale"
    before = browser.js(scale)
    driver.find_element("id", "zoom-in").click()
    assert browser.js(scale) == pytest.approx(before * 1.3)
    drawn = browser.js("return document.querySelectorAll('#graph .edge.ends').length")
    assert drawn == 2 * (3 + 2) + 1  # the edges of the ops, and that of the result
    browser.check()


def test_bodies_and_functions(driver: Any, tmp_path: Path) -> None:
    graph = Graph("amanda/onnx/18", name="root")
    flag, x = graph.parameter("bool[]", "flag"), graph.parameter("float32[2]", "x")
    bodies = {}
    for key, kind in (("then_branch", "Relu"), ("else_branch", "Tanh")):
        body = Graph("amanda/onnx/18", outer=graph)
        body.result(body.add(kind, [x], name=kind.lower()).output, "y")
        bodies[key] = body
    graph.result(graph.add("If", [flag], name="choice", bodies=bodies).output, "z")
    browser = Browser(driver, view(graph), tmp_path / "page.html")
    shown = {"If choice", "then_branch", "else_branch", "Relu relu", "Tanh tanh"}
    assert shown <= browser.labels()
    captured = browser.js("return page.model.usersOf(page.model.children(0)[1]).length")
    assert captured == 2
    keep_picture(browser, "bodies")
    browser.check()


def classifier(*, is_new: bool) -> Graph:
    """A network with a conditional; the new one differs in each way that there is."""
    graph = Graph("amanda/onnx/18", name="classifier")
    x = graph.parameter("float32[2, 4]" if is_new else "float32[n, 4]", "x")
    flag = graph.parameter("bool[]", "flag")
    weight = np.arange(16, dtype="float32").reshape(4, 4)
    weight[1, 2] += 3 if is_new else 0
    matrix = graph.constant(weight, "matrix")
    product = graph.add("MatMul", [x, matrix.output], name="head/product").output
    if is_new:
        product = graph.add("Relu", [product], name="head/relu").output
    else:
        product = graph.add("Tanh", [product], name="head/tanh").output
    soft = graph.add("Softmax", [product], {"axis": int(is_new)}, name="head/soft")
    soft.output.type = amanda.parse_type("float32[2, 4]" if is_new else "float32[n, 4]")
    bodies = {}
    for key in ("then_branch", "else_branch"):
        body = Graph("amanda/onnx/18", outer=graph)
        alpha = {"alpha": 0.5 if is_new and key == "else_branch" else 0.25}
        inner = body.add("LeakyRelu", [soft.output], alpha, name=f"{key}/leaky")
        body.result(inner.output, "y")
        bodies[key] = body
    graph.result(graph.add("If", [flag], name="choice", bodies=bodies).output, "y")
    return graph


def test_differences(driver: Any, tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("old.amanda", "new.amanda")]
    for file, is_new in zip(files, (False, True), strict=True):
        amanda.save(classifier(is_new=is_new), file)
    path = tmp_path / "page.html"
    given = ["diff", *map(str, files), "--html", str(path)]
    assert run_command_line(given) == 1
    browser = Browser(driver, None, path)
    assert browser.driver.title == "new.amanda against old.amanda"
    assert browser.js(
        "return [...document.querySelectorAll('#differences summary')]"
        ".map((e) => e.textContent)"
    ) == [
        "Inputs, outputs and functions (1)", "Changed ops (3)", "Weights (1)",
        "Removed ops (1)", "Added ops (1)",
    ]  # fmt: skip
    rows = browser.js(
        "return [...document.querySelectorAll('#differences tbody tr')]"
        ".map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    assert rows[0] == ["input x: float32[2, 4], not float32[n, 4]"]
    assert ["Softmax 'head/soft'", "", "attribute axis", "1", "0"] in rows
    types = ["output 0", "float32[2, 4]", "float32[n, 4]"]
    assert ["Softmax 'head/soft'", "", *types] in rows
    inner = ["LeakyRelu 'else_branch/leaky'", "If 'choice' / else_branch"]
    assert [*inner, "attribute alpha", "0.5", "0.25"] in rows
    (weight,) = [row for row in rows if row[0] == "matrix"]
    assert weight[1:4] == ["float32[4, 4]", "1 of 16", "3"]
    assert weight[-2] != weight[-1]
    keep_picture(browser, "differences")

    (link,) = [
        each for each in driver.find_elements("css selector", "#differences .link")
        if each.text == inner[0]
    ]  # fmt: skip
    browser.click(link)
    assert browser.heading() == "LeakyRelu"
    assert "changed" in driver.find_element("id", "panel").text
    assert "selected" in browser.node("LeakyRelu else_branch/leaky").get_attribute(
        "class"
    )
    keep_picture(browser, "difference-selected")

    field = driver.find_element("css selector", "#differences input")
    field.send_keys("alpha leaky")
    shown = [e for e in driver.find_elements("css selector", "#differences tbody tr")
             if e.is_displayed()]  # fmt: skip
    assert [row.text.split()[0] for row in shown] == ["LeakyRelu"]
    pane = driver.find_element("id", "differences")
    driver.find_element("id", "differences-button").click()
    assert not pane.is_displayed()
    browser.press("d")
    assert pane.is_displayed()
    browser.check()


def test_equal_graphs(driver: Any, tmp_path: Path) -> None:
    file, path = tmp_path / "model.amanda", tmp_path / "page.html"
    amanda.save(classifier(is_new=True), file)
    assert run_command_line(["diff", str(file), str(file), "--html", str(path)]) == 0
    browser = Browser(driver, None, path)
    assert driver.find_element("id", "differences").text == "No differences"
    browser.check()


def test_hostile_names(driver: Any, tmp_path: Path) -> None:
    name = "</script><img src=x onerror=window.broken=1>\"'"
    graph = Graph("amanda/onnx/18", name=name)
    x = graph.parameter("float32[2]", name)
    op = graph.add(name, [x], {name: name}, name=name)
    graph.result(op.output, name)
    page = view(graph, title=name, overlays=[Overlay(name, {name: 1.0}, name)])
    browser = Browser(driver, page, tmp_path / "page.html")
    browser.search("<img")
    browser.press("\ue007")
    assert browser.js("return window.broken") is None
    assert browser.js("return document.querySelectorAll('img').length") == 0
    browser.check()


@pytest.mark.parametrize("count", [5000, 50_000])
def test_large_flat_graphs(driver: Any, tmp_path: Path, count: int) -> None:
    path = tmp_path / "page.html"
    browser = Browser(driver, view(flat(count)), path)
    assert path.stat().st_size < 25_000_000
    assert len(browser.labels()) <= 210
    assert browser.search(f"op{count - 3}") == [f"op{count - 3}"]
    browser.press("\ue007")
    place = browser.driver.find_element("css selector", "#graph .selected")
    assert place.is_displayed()
    assert len(browser.labels()) <= 400
    keep_picture(browser, f"flat-{count}")
    browser.check()
