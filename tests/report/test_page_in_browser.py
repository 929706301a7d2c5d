"""These tests open the page in a browser: what a click, a key and a search do, and that no request
leaves it. They need Chromium and playwright, which drives it.
"""

from __future__ import annotations

import contextlib
import gzip
import random
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fx_explorer.analysis.documents import Place
from fx_explorer.analysis.kernel_documents import linked_with_levels
from fx_explorer.analysis.linked_lines import Selection
from fx_explorer.cli import main
from fx_explorer.report.page.linked_texts import linked_texts
from fx_explorer.report.page.page import html_page
from fx_explorer.session import SessionReader
from fx_explorer.session.in_page import write_session
from fx_explorer.session.writer import finish_session
from tests.sessions import write_training_step

sync_api = pytest.importorskip(
    "playwright.sync_api", reason="playwright, which drives the browser, is not installed"
)

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed here")

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Opened:
    """A page in the browser, with what it asked for and what went wrong."""

    def __init__(self, browser: Any, file: Path, **options: Any) -> None:
        self.page = browser.new_page(**options)
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda message: self.errors.append(message.text))
        self.page.goto(f"file://{file}")
        self.page.wait_for_selector("#drawing svg")

    def names(self, selector: str) -> list[str]:
        return [each.get_attribute("aria-label") for each in self.page.query_selector_all(selector)]


def _page(folder: Path, packed: Path) -> Path:
    session = folder / "session.fxs"
    session.write_bytes(gzip.decompress(packed.read_bytes()))
    with SessionReader(session) as reader:
        text = html_page(reader, session.read_bytes())
    file = folder / "page.html"
    file.write_text(text)
    return file


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _page(tmp_path_factory.mktemp("whole"), DATA / "screens" / "whole.fxs.gz")


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _page(tmp_path_factory.mktemp("gpt2"), DATA / "profiles" / "gpt2.fxs.gz")


@pytest.fixture
def opened(browser: Any, whole: Path) -> Iterator[Opened]:
    opened = Opened(browser, whole)
    yield opened
    assert not opened.errors
    assert opened.requests == [f"file://{whole}"]
    opened.page.close()


@pytest.fixture
def opened_gpt2(browser: Any, gpt2: Path) -> Iterator[Opened]:
    opened = Opened(browser, gpt2)
    yield opened
    assert not opened.errors
    assert opened.requests == [f"file://{gpt2}"]
    opened.page.close()


def test_a_click_on_an_operation_shows_its_line_and_source(opened: Opened) -> None:
    page = opened.page
    operation = page.locator("#drawing .operation", has_text="erf").first
    name = operation.get_attribute("aria-label").partition(" = ")[0]
    operation.click()
    assert "selected" in operation.get_attribute("class").split()
    about = page.locator("#drawing .about").bounding_box()
    assert about["y"] + about["height"] <= page.viewport_size["height"]
    selected = page.locator('.pane[data-pane="graph"] .row.selected')
    assert name in selected.inner_text()
    assert page.locator('.pane[data-pane="source"] .row.linked').count() >= 1
    assert page.locator('.pane[data-pane="kernel"] .row.linked').count() >= 1
    assert name in page.locator("#drawing .about").inner_text()


def test_a_line_of_the_source_marks_its_operations(opened: Opened) -> None:
    page = opened.page
    page.locator("#drawing button.fold").click()
    before = page.locator("#drawing .linked").count()
    page.locator("#drawing button.unfold").click()
    row = page.locator('.pane[data-pane="source"] .row', has_text="gelu").first
    row.click()
    marked = page.locator("#drawing .operation.linked")
    assert "erf" in " ".join(marked.all_text_contents())
    assert before <= 1


def test_boxes_open_and_close_by_click_and_key(opened_gpt2: Opened) -> None:
    page = opened_gpt2.page
    page.locator("#drawing button.fold").click()
    boxes = opened_gpt2.names("#drawing .box")
    assert boxes
    assert all(each == "false" for each in _expanded(page))
    page.locator("#drawing .box").first.click()
    assert "true" in _expanded(page)
    page.keyboard.press("ArrowLeft")
    assert "true" not in _expanded(page)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    focused = page.evaluate("document.activeElement.getAttribute('aria-level')")
    assert focused == "2"
    assert opened_gpt2.names("#drawing .box.open") == [boxes[0]]


def _expanded(page: Any) -> list[str]:
    boxes = page.query_selector_all("#drawing .box")
    return [box.get_attribute("aria-expanded") for box in boxes]


def test_layers_are_stepped_through(opened_gpt2: Opened) -> None:
    page = opened_gpt2.page
    graph = page.locator("#drawing select.graph option", has_text="Forward · post-grad").first
    page.locator("#drawing select.graph").select_option(graph.get_attribute("value"))
    page.locator("#drawing button.unfold").click()
    pile = page.locator("#drawing .box.open", has_text="1 … 2 ×2").last
    assert "1 (1 of 2)" in pile.text_content()
    page.locator('#drawing [aria-label="the next layer"]').first.click()
    pile = page.locator("#drawing .box.open", has_text="1 … 2 ×2").last
    assert "2 (2 of 2)" in pile.text_content()
    labels = [
        label for label in opened_gpt2.names("#drawing .operation") if "transformer.h.2" in label
    ]
    assert labels
    assert not [
        label for label in opened_gpt2.names("#drawing .operation") if "transformer.h.1" in label
    ]


def test_a_search_opens_the_way_to_each_operation(opened_gpt2: Opened) -> None:
    page = opened_gpt2.page
    page.locator("#drawing button.fold").click()
    search = page.locator("#drawing input")
    search.fill("tanh")
    assert page.locator("#drawing .found").inner_text() == "1 of 3"
    modules = []
    for _ in range(3):
        modules.append(
            page.locator("#drawing .about").inner_text().partition("in ")[2].split("\n")[0]
        )
        search.press("Enter")
    assert modules == [f"transformer.h.{layer}.mlp.act" for layer in (0, 1, 2)]
    search.fill("no such operation")
    assert page.locator("#drawing .found").inner_text() == "not found"


def test_each_way_of_colours_has_a_key(opened_gpt2: Opened) -> None:
    page = opened_gpt2.page
    ways = page.locator("#drawing select.way option").all_inner_texts()
    assert ways == ["kernel", "dtype", "cost"]
    page.locator("#drawing select.way").select_option("dtype")
    key = page.locator("#drawing .key").inner_text()
    assert "bf16" in key
    assert "f32" in key


DRAWN_COLOURS = """
() => [...document.querySelectorAll("#drawing [role=treeitem]")].map((item) => [
  item.getAttribute("aria-label"),
  [...item.children].filter((each) => each.matches(".frame, .name, .value, .share")).map(
    (each) => `${each.tagName} ${each.getAttribute("class")} ${each.getAttribute("width")}`),
])
"""


def test_other_colours_keep_what_is_drawn_and_are_those_of_a_new_drawing(
    opened_gpt2: Opened,
) -> None:
    page = opened_gpt2.page
    ways, graphs = page.locator("#drawing select.way"), page.locator("#drawing select.graph")
    shown = graphs.input_value()
    ways.select_option("kernel")
    page.locator("#drawing button.unfold").click()
    page.evaluate("document.querySelector('#drawing svg').isTheFirst = true")
    ways.select_option("dtype")
    changed = page.evaluate(DRAWN_COLOURS)
    assert page.evaluate("document.querySelector('#drawing svg').isTheFirst") is True
    page.locator("#drawing button.smaller").click()
    page.locator("#drawing button.larger").click()
    assert page.evaluate("document.querySelector('#drawing svg').isTheFirst") is None
    assert page.evaluate(DRAWN_COLOURS) == changed
    assert graphs.input_value() == shown
    ways.select_option("kernel")
    assert page.evaluate(DRAWN_COLOURS) != changed


def test_pictures_are_drawn_when_they_are_near(opened: Opened) -> None:
    page = opened.page
    for name in ("step_memory", "flame"):
        page.locator(f"#{name}").scroll_into_view_if_needed()
        page.locator(f"#{name} .picture rect").first.wait_for()
    colour = page.evaluate(
        "getComputedStyle(document.querySelector('#flame .picture').shadowRoot.querySelector('.beside')).fill"
    )
    assert colour == "rgb(118, 118, 118)"


OF_PLACE = """
async (places) => {
  const data = { ...(await unpackedData("data")), ...(await unpackedData("links")) };
  const view = Object.assign(Object.create(View.prototype), { data });
  return places.map((place) => view.links(place));
}
"""


def test_lines_of_ptx_and_sass_are_linked_as_in_the_app(browser: Any, tmp_path: Path) -> None:
    log = DATA / "tritonparse" / "autotuned_mapped.ndjson.gz"
    file = tmp_path / "page.html"
    assert main(["report", str(log), "--format", "html", "-o", str(file)]) == 0
    session = tmp_path / "session.fxs"
    write_session(file, session)
    page = browser.new_page()
    page.goto(f"file://{file}")
    page.wait_for_selector(".pane .row")
    below = page.locator('.pane[data-pane="level"]')
    levels_there = {text.split(" · ")[1] for text in below.locator("option").all_inner_texts()}
    assert set(below.locator(".title").inner_text().split(", ")) == levels_there
    chosen = random.Random(3)
    places: list[dict[str, int]] = []
    expected: list[dict[int, set[int]]] = []
    with SessionReader(session) as reader:
        texts = linked_texts(reader).texts
        levels = [text for text in texts if text.pane == "level"]
        assert {text.document.language for text in levels} >= {"ptx"}
        for number, text in enumerate(texts):
            if text.pane not in ("level", "kernel"):
                continue
            for line in chosen.sample(range(len(text.lines)), min(25, len(text.lines))):
                place = Place(text.document, line)
                shown = [other.document for other in texts if other.pane in ("level", "kernel")]
                linked = linked_with_levels(Selection(reader, place), shown)
                answer = {}
                for other, of_other in enumerate(texts):
                    lines = set(linked.get(of_other.document, frozenset()))
                    if other == number:
                        lines -= {line}
                    if lines:
                        answer[other] = lines
                places.append({"number": number, "line": line})
                expected.append(answer)
    for place, links, answer in zip(places, page.evaluate(OF_PLACE, places), expected, strict=True):
        shown = {}
        for other, runs in links.items():
            lines = {line for first, last in runs for line in range(first, last + 1)}
            if int(other) == place["number"]:
                lines -= {place["line"]}
            if lines:
                shown[int(other)] = lines
        assert shown == answer, place
    assert sum(map(bool, expected)) > 20
    page.close()


def test_the_search_finds_rows_and_lines_and_leads_to_them(opened: Opened) -> None:
    page = opened.page
    page.keyboard.press("/")
    page.keyboard.type("native_layer_norm_0")
    results = page.locator("#results button")
    results.first.wait_for()
    found = results.all_inner_texts()
    assert any(text.startswith("Kernels ") for text in found)
    line = page.locator("#results button", has_text="def forward").first
    page.locator("#search").fill("self.hidden(self.norm")
    results.first.wait_for()
    line = page.locator("#results button", has_text="net.py:15").first
    line.click()
    assert page.locator("#results").is_hidden()
    assert "hidden" in page.locator('.pane[data-pane="source"] .row.selected').inner_text()
    page.locator("#search").fill("no such words <b>")
    page.locator("#results", has_text="Not found").wait_for()
    page.locator("#search").press("Escape")
    assert page.locator("#results").is_hidden()


def test_keys_are_those_of_the_app_and_listed(opened: Opened) -> None:
    page = opened.page
    page.keyboard.press("?")
    shown = page.locator("#help").inner_text()
    for title in ("Findings", "Kernels", "Compile time", "Modules"):
        assert title in shown
    page.keyboard.press("Escape")
    for key, name in (("6", "kernels"), ("9", "flame"), ("1", "findings")):
        page.keyboard.press(key)
        for _ in range(100):  # the page's policy forbids a condition that is asked again and again
            top = page.evaluate(
                "id => document.getElementById(id).getBoundingClientRect().top", name
            )
            if abs(top) < 90:
                break
            page.wait_for_timeout(20)
        assert abs(top) < 90


def _choose(page: Any, pane: str, title: str) -> None:
    page.locator(f'.pane[data-pane="{pane}"] select').first.select_option(label=title)


def _shown(page: Any) -> dict[str, str]:
    """Return the title of each pane, and of the text that it shows."""
    shown = {}
    for pane in page.locator(".pane:visible").all():
        text = pane.locator("select").evaluate("select => select.selectedOptions[0].text")
        shown[pane.locator(".title").inner_text()] = text
    return shown


def test_all_panes_turn_to_the_version_of_the_graph(opened: Opened) -> None:
    page = opened.page
    in_both = page.locator('.pane[data-pane="source"] .row', has_text="self.hidden(self.norm")
    for graph in ("[1/0] Forward graph", "[0/0] Dynamo graph", "[1/0] Backward graph"):
        _choose(page, "graph", graph)
        in_both.click()
        shown = _shown(page)
        assert shown["Graph"] == graph
        assert shown["Generated code"].startswith(graph[:5])
        assert ("backward" in shown["Generated code"]) == ("Backward" in graph)
        assert page.locator('.pane[data-pane="kernel"] .row.linked').count()


TURNED = """
async () => {
  const data = await unpackedData("data");
  const numbers = [...data.texts.keys()].filter((number) => data.texts[number].stage === "kernel");
  const [whole, exact, other] = numbers;
  data.texts[whole].weight = 1;
  const pane = { name: "kernel", accepts: (text) => text.pane === "kernel", show: (number) => { pane.number = number; } };
  const view = Object.assign(Object.create(View.prototype), { data, panes: [pane] });
  const links = { [whole]: [[0, 0]], [exact]: [[3, 5]], [other]: [[3, 4]] };
  turnCode(view, pane, data.texts[exact].compilation, "", { number: 0, line: 0 }, links);
  return [pane.number, exact];
}
"""


def test_a_kernel_that_is_linked_as_a_whole_gives_way_to_one_with_linked_lines(
    opened: Opened,
) -> None:
    turned, expected = opened.page.evaluate(TURNED)
    assert turned == expected


def test_a_line_of_another_version_is_told_and_a_selected_line_is_let_go_by_mouse(
    opened: Opened,
) -> None:
    page = opened.page
    source = page.locator('.pane[data-pane="source"]')
    _choose(page, "graph", "[0/0] Dynamo graph")
    source.locator(".row", has_text="softmax").first.hover()
    status = page.locator('.pane[data-pane="graph"] .count').first
    assert status.inner_text() == "not in [0/0]; click to turn"
    source.locator(".row", has_text="softmax").first.click()
    assert _shown(page)["Graph"] == "[1/0] Dynamo graph"
    assert page.locator(".let-go:visible").count() == 1
    source.locator(".let-go").click()
    assert not page.locator(".row.selected, .row.linked, .let-go:visible").count()


@pytest.mark.parametrize("width", [380, 1280])
def test_nothing_covers_the_letters_of_the_selected_line(
    browser: Any, whole: Path, width: int
) -> None:
    opened = Opened(browser, whole, viewport={"width": width, "height": 900})
    page = opened.page
    page.locator('.pane[data-pane="source"] .row', has_text="gelu").first.click()
    assert page.locator(".row.selected").evaluate(COVERED) == []
    opened.page.close()


COVERED = """
(row) => {
  const box = row.getBoundingClientRect();
  const pane = row.closest(".lines").getBoundingClientRect();
  const covering = [];
  for (let x = Math.max(box.left, pane.left) + 2; x < pane.right - 2; x += 4) {
    const above = document.elementFromPoint(x, box.top + box.height / 2);
    if (!above || !row.contains(above) || getComputedStyle(above).position === "sticky") {
      covering.push(x);
    }
  }
  return covering;
}
"""


@pytest.mark.parametrize("width", [380, 800, 1021, 1280])
def test_panes_and_pictures_are_wide_enough_to_read(browser: Any, whole: Path, width: int) -> None:
    opened = Opened(browser, whole, viewport={"width": width, "height": 900})
    page = opened.page
    page.locator("#second").click()
    panes = page.locator(".pane:visible")
    assert panes.count() == 4
    widths = [pane.bounding_box()["width"] for pane in panes.all()]
    assert min(widths) >= min(320, width - 40)
    page.locator("#flame").scroll_into_view_if_needed()
    # On a narrow screen the picture is a screen below the heading; it is drawn where it is seen.
    page.locator("#flame .picture").scroll_into_view_if_needed()
    page.locator("#flame .picture svg").wait_for()
    letters = page.locator("#flame .picture text").first.evaluate(
        "text => text.getScreenCTM().a * parseFloat(getComputedStyle(text).fontSize)"
    )
    assert letters >= 8
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    opened.page.close()


def test_forward_and_backward_are_of_the_version_of_the_line(browser: Any, whole: Path) -> None:
    page = browser.new_page()
    page.goto(f"file://{whole}")
    button = page.locator("#second")
    button.click()
    page.locator(".pane.second").wait_for()
    assert button.get_attribute("aria-pressed") == "true"
    page.wait_for_selector("#drawing svg")
    for text, version in (("softmax", "[1/0]"), ("self.first(x)", "[0/0]")):
        page.locator('.pane[data-pane="source"] .row', has_text=text).first.click()
        shown = _shown(page)
        assert shown["Forward graph"] == f"{version} Forward graph"
        assert shown["Backward graph"] == f"{version} Backward graph"
        assert shown["Generated code"].startswith(version)
    _choose(page, "graph", "[1/0] Forward graph")
    assert _shown(page)["Backward graph"] == "[1/0] Backward graph"
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert "Graph" in _shown(page)
    page.close()


def test_forward_and_backward_stand_side_by_side(opened: Opened) -> None:
    page = opened.page
    page.locator("#second").click()
    second = page.locator(".pane.second")
    assert "Backward" in second.locator("select").evaluate(
        "select => select.selectedOptions[0].text"
    )
    row = page.locator('.pane[data-pane="graph"]:not(.second) .row', has_text="erf").first
    row.click()
    assert second.locator(".row.linked").count() >= 1
    page.keyboard.press("b")
    assert second.is_hidden()


@pytest.mark.parametrize("width", [390, 900, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_screen_and_every_text_can_be_read(
    browser: Any, whole: Path, width: int, scheme: str
) -> None:
    opened = Opened(browser, whole, viewport={"width": width, "height": 800}, color_scheme=scheme)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    assert not opened.page.evaluate(POOR_CONTRAST)
    for state in ("linked", "selected"):
        opened.page.evaluate(
            "state => { for (const row of document.querySelectorAll('.row')) row.classList.add(state); }",
            state,
        )
        assert not opened.page.evaluate(POOR_CONTRAST)
    assert not opened.errors
    opened.page.close()


POOR_CONTRAST = """
() => {
  const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const luminance = (colour) => {
    const [r, g, b] = colour.slice(0, 3).map((part) => {
      const share = part / 255;
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length < 4 || colour[3] > 0.5) return colour;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const element of document.querySelectorAll("body *")) {
    const hasText = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!hasText || !element.checkVisibility() || element.closest("script, noscript")) continue;
    const isDrawn = element instanceof SVGElement;
    const style = getComputedStyle(element);
    const colour = parse(isDrawn ? style.fill : style.color);
    let behind = ground(element);
    if (isDrawn) {
      const frame = element.parentNode.querySelector(":scope > .frame");
      if (frame) behind = parse(getComputedStyle(frame).fill);
    }
    const [high, low] = [luminance(colour), luminance(behind)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) poor.push(`${ratio.toFixed(2)} ${element.tagName}.${element.getAttribute("class")} ${element.textContent.slice(0, 40)}`);
  }
  return [...new Set(poor)].slice(0, 10);
}
"""


MARKUP = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"


def test_names_with_markup_are_shown_as_text(browser: Any, tmp_path: Path) -> None:
    session = tmp_path / "hostile.fxs"
    write_training_step(session)
    finish_session(session)
    with contextlib.closing(sqlite3.connect(session)) as database:
        database.execute("UPDATE node SET module = ?, module_type = ?", (MARKUP, MARKUP))
        database.execute("UPDATE node SET name = name || ?, target = target || ?", (MARKUP, MARKUP))
        database.execute("UPDATE kernel SET name = name || ?", (MARKUP,))
        database.commit()
    with SessionReader(session) as reader:
        text = html_page(reader, session.read_bytes())
    file = tmp_path / "page.html"
    file.write_text(text)
    opened = Opened(browser, file)
    dialogs: list[str] = []
    opened.page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    opened.page.locator("#drawing button.unfold").click()
    assert MARKUP[:20] in opened.page.locator("#drawing svg").text_content()
    opened.page.locator("#search").fill("onerror")
    opened.page.locator("#results button").first.wait_for()
    assert opened.page.locator("#drawing img, #results img, .panes img").count() == 0
    assert not dialogs
    assert not opened.errors
    assert opened.requests == [f"file://{file}"]
    opened.page.close()
