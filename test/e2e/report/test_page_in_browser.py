"""The page of a report in a browser: what is drawn, clicked, typed and read aloud.

It needs chromium (`apt-get install chromium`) and playwright (`pip install attnpass[browser]`).
ATTNPASS_SCREENSHOTS=FOLDER writes the pictures of docs/images, which takes a minute.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from reports import model

import attnpass
from attnpass.report.page import page as page_of
from attnpass.report.records import Report
from bench.models.families import bert
from bench.models.llama import SMALL, layer
from bench.models.trace import Trace

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PICTURES = os.environ.get("ATTNPASS_SCREENSHOTS", "")
WIDE, NARROW = {"width": 1280, "height": 1000}, {"width": 390, "height": 844}

# What the page is asked: `probes.contrast()` and others.
PROBES = (Path(__file__).parent / "probes.js").read_text()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    driver = pytest.importorskip("playwright.sync_api", reason="no playwright: attnpass[browser]")
    if CHROMIUM is None:
        pytest.skip("no chromium here: apt-get install chromium")
    with driver.sync_playwright() as playwright:
        # Containers have no user namespaces for chromium's sandbox.
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Two layers of BERT, with the steps of their compile."""
    return report_of(bert().text, tmp_path_factory.mktemp("bert") / "bert.mlir")


def report_of(text: str, path: Path) -> Report:
    report = Report()
    target = ["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_90"]
    path.write_text(text)
    # With IREE's own code for attention, whose operands the layout pass then gives other orders.
    attnpass.compile_file(path, extra_args=target, report=report, kernels="never")
    return report


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """Shows a report's page; whatever the browser complains of, or fetches, fails the test."""
    pages: list[Any] = []
    said: list[str] = []

    def show(report: Report, size: dict[str, int] = WIDE, scheme: str = "light") -> Any:
        path = tmp_path / f"page{len(pages)}.html"
        path.write_text(page_of(report))
        tab = browser.new_page(viewport=size, color_scheme=scheme)
        pages.append(tab)
        tab.on("console", lambda message: said.append(message.text))
        tab.on("pageerror", lambda error: said.append(str(error)))
        fetched: list[str] = []
        tab.on("request", lambda request: fetched.append(request.url))
        tab.goto(path.as_uri())
        tab.evaluate(PROBES)
        assert fetched == [path.as_uri()]
        return tab

    yield show
    for tab in pages:
        tab.close()
    assert said == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_read_on_its_ground(show: Any, compiled: Report, scheme: str) -> None:
    told = model(3, kinds=3)
    told.known_wrong("its sums are wrong")
    for report in (compiled, told):
        tab = show(report, scheme=scheme)
        tab.evaluate("probes.openAll()")
        ratio, what = tab.evaluate("probes.contrast()")
        assert ratio >= 4.5, what
        assert tab.evaluate("probes.overflow()") <= 0


@pytest.mark.parametrize("layers", [2, 1000])
def test_nothing_is_wider_than_a_phone(show: Any, compiled: Report, layers: int) -> None:
    tab = show(compiled if layers == 2 else model(layers, kinds=4), NARROW)
    assert tab.evaluate("probes.overflow()") <= 0
    tab.evaluate("probes.openAll()")
    assert tab.evaluate("probes.overflow()") <= 0


def test_the_theme_is_switched(show: Any, compiled: Report) -> None:
    tab = show(compiled, scheme="dark")
    ground = "() => getComputedStyle(document.body).backgroundColor"
    button = tab.get_by_role("button", name="Theme")
    seen = [tab.evaluate(ground)]
    for name in ("light", "dark", "as the system"):
        button.click()
        assert button.inner_text() == f"Theme: {name}"
        seen.append(tab.evaluate(ground))
    assert seen[0] == seen[2] == seen[3] != seen[1]


def test_groups_and_diffs_open(show: Any, compiled: Report) -> None:
    tab = show(model(6, kinds=2))
    second = tab.locator(".group").nth(1)
    assert not second.locator(".lane").first.is_visible()
    second.locator("summary").first.click()
    assert second.locator(".lane").first.is_visible()
    tab.get_by_role("button", name="Close all").click()
    assert tab.locator(".group[open]").count() == 0
    tab = show(compiled)
    step = tab.locator(".step", has_text="attn-propagate-layout")
    assert not step.locator("pre").is_visible()
    step.locator("summary").click()
    assert "linalg.transpose" in "".join(step.locator("pre .del").all_inner_texts())


def test_keys_are_enough(show: Any, compiled: Report) -> None:
    tab = show(compiled)
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Skip to the report"
    tab.keyboard.press("Enter")
    assert tab.evaluate("document.activeElement.id") == "main"
    summary = tab.locator(".step > summary").first
    summary.focus()
    tab.keyboard.press("Enter")
    assert tab.locator(".step[open]").count() == 1
    assert "px" in summary.evaluate("(one) => getComputedStyle(one).outlineWidth")


def test_the_page_can_be_read_aloud(show: Any, compiled: Report) -> None:
    tab = show(compiled)
    for role in ("banner", "main", "navigation", "contentinfo"):
        assert tab.get_by_role(role).count() == 1
    assert tab.evaluate("probes.nameless()") == 0
    levels = tab.evaluate("probes.levels()")
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    told = tab.get_by_role("region", name="Producers of the query").text_content()
    assert all(words in told for words in ("before: ", "after: ", "transpose", "attention reads"))


def test_a_thousand_layers_are_few_elements(show: Any) -> None:
    """So that they open fast."""
    tab = show(model(1000, kinds=3))
    assert tab.evaluate("document.querySelectorAll('*').length") < 20_000
    assert tab.locator(".group").count() == 3


@pytest.mark.skipif(not PICTURES, reason="no pictures asked for: ATTNPASS_SCREENSHOTS=docs/images")
def test_pictures_of_the_docs(show: Any, tmp_path: Path) -> None:
    trace = Trace(5, weights_are_arguments=True)
    x = trace.argument(1, 64, SMALL.model)
    for _ in range(32):
        x = layer(trace, x)
    pages = {"llama-32-layers": (trace.finish(x).text, "light"), "bert": (bert(12).text, "dark")}
    for name, (text, scheme) in pages.items():
        tab = show(
            report_of(text, tmp_path / f"{name}.mlir"), {"width": 1180, "height": 1500}, scheme
        )
        path = Path(PICTURES) / f"{name}.png"
        tab.screenshot(path=path)
        assert path.stat().st_size < 250_000
