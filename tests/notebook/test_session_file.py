"""These tests check what a notebook is given of sessions and of what is compiled step by step: the
overview, escaped, and the page in a frame that can do no harm.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import sqlite3
from contextlib import closing
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch

import fx_explorer
from fx_explorer.findings.every_kind import findings
from fx_explorer.overview.overview import overview
from fx_explorer.report.overview_html import overview_bundle
from fx_explorer.report.overview_text import overview_text
from fx_explorer.session import SessionReader

WHOLE = Path(__file__).parents[1] / "data" / "screens" / "whole.fxs.gz"

MARKUP = "<img src=x onerror=alert(1)>&\"'</details>"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> fx_explorer.SessionFile:
    path = tmp_path_factory.mktemp("notebook") / "whole.fxs"
    path.write_bytes(gzip.decompress(WHOLE.read_bytes()))
    return fx_explorer.SessionFile(path)


class Shown(HTMLParser):
    """What a reader of the HTML sees, and its tags."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def test_a_session_shows_its_findings_first(whole: fx_explorer.SessionFile) -> None:
    bundle = whole._repr_mimebundle_()
    shown = Shown(bundle["text/html"])
    with SessionReader(whole) as reader:
        assert bundle["text/plain"] == overview_text(reader) == whole.overview()
        sentences = [finding.text for finding in findings(reader)]
        facts = [fact.text for fact in overview(reader) if fact.topic != "next"]
    assert sentences
    places = [shown.text.index(sentence) for sentence in sentences]
    assert places == sorted(places)
    known = shown.text.index("All that is known of the run")
    assert places[-1] < known
    for fact in facts:
        assert " ".join(fact.split()) in shown.text[known:]
    assert f"fx-explorer {whole}" in shown.text


def test_a_path_of_a_session_is_a_path(whole: fx_explorer.SessionFile, tmp_path: Path) -> None:
    assert isinstance(whole, Path)
    assert os.fspath(whole) == str(whole)
    assert whole.parent / whole.name == whole
    assert shutil.copy(whole, tmp_path / "copy.fxs") == tmp_path / "copy.fxs"


def test_what_is_no_session_is_told_and_raises_nothing(tmp_path: Path) -> None:
    missing = fx_explorer.SessionFile(tmp_path / "none.fxs")
    assert "no session file at" in missing._repr_mimebundle_()["text/plain"]
    assert list(missing._repr_mimebundle_()) == ["text/plain"]
    folder = fx_explorer.SessionFile(tmp_path)
    assert "is not an fx-explorer session" in folder._repr_mimebundle_()["text/plain"]


def test_markup_of_a_session_is_shown_as_text(
    whole: fx_explorer.SessionFile, tmp_path: Path
) -> None:
    hostile = tmp_path / "hostile.fxs"
    hostile.write_bytes(whole.read_bytes())
    with closing(sqlite3.connect(hostile)) as database, database:
        database.execute("UPDATE compilation SET function = ?, file = ?", (MARKUP, MARKUP))
        database.execute("UPDATE source_file SET path = ?||id", (MARKUP,))
    before = Shown(whole._repr_mimebundle_()["text/html"])
    with SessionReader(hostile) as reader:
        html = overview_bundle(reader)["text/html"]
    shown = Shown(html)
    assert "<img src=x" in shown.text
    assert "img" not in shown.tags
    assert set(shown.tags) == set(before.tags)


def frame_of(page: Any) -> dict[str, str]:
    html = page._repr_mimebundle_()["text/html"]
    assert Shown(html).tags == ["iframe"]
    return dict(re.findall(r'(\w+)="([^"]*)"', html))


def test_the_page_is_in_a_frame_that_cannot_reach_the_notebook(
    whole: fx_explorer.SessionFile,
) -> None:
    page = whole.page(height=321)
    frame = frame_of(page)
    assert frame["sandbox"] == "allow-scripts allow-downloads"
    assert "321px" in frame["style"]
    assert unescape(frame["srcdoc"]) == page.html
    assert page.html.startswith("<!doctype html>")
    assert len(repr(page)) < 100


def test_the_page_works_in_its_frame(whole: fx_explorer.SessionFile, tmp_path: Path) -> None:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium is installed here")
    notebook = tmp_path / "notebook.html"
    notebook.write_text(f"<!doctype html>{whole.page()._repr_mimebundle_()['text/html']}")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        opened = browser.new_page()
        errors: list[str] = []
        opened.on("pageerror", lambda error: errors.append(str(error)))
        opened.on("console", lambda message: errors.append(message.text))
        opened.goto(f"file://{notebook}")
        frame = opened.frame_locator("iframe")
        frame.locator("#drawing svg").first.wait_for()
        answer = frame.locator(".answer").inner_text()
        frame.locator("#theme").click()
        browser.close()
    assert answer
    assert errors == []


def test_stages_show_what_has_happened_so_far() -> None:
    with fx_explorer.Stages(lambda x: torch.relu(x * 2 + 1), torch.ones(4)) as stages:
        stages.dynamo()
        bundle = stages._repr_mimebundle_()
        assert bundle["text/plain"] == stages.overview()
        assert "1 graph" in bundle["text/plain"] or "one graph" in bundle["text/plain"].lower()
        assert "<details>" in bundle["text/html"]
    assert stages._repr_mimebundle_()["text/plain"] == stages.overview()


def test_results_of_precompile_show_graph_and_guards() -> None:
    gm, _, guards, inputs = fx_explorer.Precompile.dynamo(lambda x: x * 2 + 1, torch.ones(3))
    compiled, guards = fx_explorer.Precompile.aot_autograd(
        gm, guards, compiler=lambda graph, _: graph.forward
    )
    bundle = compiled._repr_mimebundle_()
    assert bundle["text/plain"] == repr(compiled)
    shown = Shown(bundle["text/html"])
    assert "def forward(self" in shown.text
    assert all(" ".join(part.split()) in shown.text for part in guards.parts)
    of_guards = guards._repr_mimebundle_()
    assert of_guards["text/plain"] == repr(guards) == f"<Guards: {len(guards)} conditions>"
    assert Shown(of_guards["text/html"]).tags.count("pre") == 2
    assert torch.equal(compiled(inputs), torch.full((3,), 3.0))


def test_texts_of_precompile_are_escaped() -> None:
    from fx_explorer.precompile.compiled_function import notebook_bundle

    bundle = notebook_bundle("plain", MARKUP, {MARKUP: MARKUP})
    shown = Shown(bundle["text/html"])
    assert shown.texts.count(MARKUP) == 3
    assert "img" not in shown.tags
