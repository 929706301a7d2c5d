"""These tests check the page for the browser: it carries its session, makes no request, runs no
script but its own, and says what the session says.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import random
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from fx_explorer import model
from fx_explorer.analysis.documents import Place, document_of
from fx_explorer.analysis.linked_lines import linked_places
from fx_explorer.cli import main
from fx_explorer.errors import SessionError
from fx_explorer.overview.figures_row import figures_row
from fx_explorer.report.page.linked_texts import LinkedText, LinkedTexts, linked_texts
from fx_explorer.report.page.page import html_page
from fx_explorer.session import SessionReader, SessionWriter, in_page
from fx_explorer.session.untrusted.kind_of_file import kind_of_file
from fx_explorer.session.writer import finish_session
from tests.report.conftest import Report
from tests.sessions import write_training_step

WHOLE = Path(__file__).parents[1] / "data" / "screens" / "whole.fxs.gz"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "whole.fxs"
    path.write_bytes(gzip.decompress(WHOLE.read_bytes()))
    return path


@pytest.fixture(scope="module")
def page(session: Path) -> str:
    with SessionReader(session) as reader:
        return html_page(reader, session.read_bytes())


def _carried(page: str, name: str) -> bytes:
    text = re.search(rf'<script [^>]*id="{name}"[^>]*>([^<]*)</script>', page)
    assert text
    return gzip.decompress(base64.b64decode(text[1]))


def _texts(page: str) -> list[dict[str, Any]]:
    """Return the texts of the linked view with their lines."""
    texts: list[dict[str, Any]] = json.loads(_carried(page, "data"))["texts"]
    for number, text in enumerate(texts):
        text["lines"] = json.loads(_carried(page, f"lines-{number}"))
        assert len(text["lines"]) == text["count"]
    return texts


def test_the_session_comes_out_as_it_went_in(page: str, session: Path, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page)
    assert kind_of_file(file).kind == "page"
    taken = tmp_path / "taken.fxs"
    in_page.write_session(file, taken)
    assert taken.read_bytes() == session.read_bytes()


def test_a_page_is_reported_on_as_its_session_is(
    session: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(session), "--format", "html", "-o", "page.html"]) == 0
    assert main(["report", str(session), "--format", "html", "-o", "page.html"]) == 0
    capsys.readouterr()
    assert main(["report", str(session), "--format", "json"]) == 0
    expected = json.loads(capsys.readouterr().out)
    assert main(["report", "page.html", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == expected
    in_page.write_session(Path("page.html"), Path("taken.fxs"))
    assert Path("taken.fxs").read_bytes() == session.read_bytes()
    assert main(["run", "page.html"]) == 2
    assert "page.html" in capsys.readouterr().err


def test_a_page_replaces_no_page_of_anothers(session: Path, tmp_path: Path) -> None:
    other = tmp_path / "page.html"
    other.write_text("<!doctype html><p>mine</p>")
    assert main(["report", str(session), "--format", "html", "-o", str(other)]) == 2
    assert other.read_text().endswith("mine</p>")


class _Elements(HTMLParser):
    """Collects what could make a request or run."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.handlers: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "action", "data", "poster", "srcset", "style"):
                self.addresses.append(value or "")
            if name.startswith("on"):
                self.handlers.append(name)


def test_no_request_leaves_it_and_only_its_own_script_runs(page: str) -> None:
    elements = _Elements()
    elements.feed(page)
    assert not elements.handlers
    assert all(address.startswith("#") for address in elements.addresses)
    assert not {"iframe", "object", "embed", "link", "img", "form", "base"} & {*elements.tags}
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy
    assert policy[1].startswith("default-src &#39;none&#39;")
    for tag in ("style", "script"):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.S)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src &#39;sha256-{digest}&#39;" in policy[1]


MARKUP = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


def test_markup_in_a_session_is_text(tmp_path: Path) -> None:
    path = tmp_path / "hostile.fxs"
    write_training_step(path)
    with SessionWriter(path) as writer:
        writer.set_meta("target", {"name": MARKUP, "file": f"/p/{MARKUP}.py"})
        writer.add(model.ConsoleLine(0, "stdout", MARKUP))
        text = writer.text(f"x = 1  # {MARKUP}\n")
        writer.add(model.SourceFile(0, f"/p/{MARKUP}.py", text, 1, is_user=True))
    finish_session(path)
    with SessionReader(path) as reader:
        page = html_page(reader, path.read_bytes())
    elements = _Elements()
    elements.feed(page)
    assert "img" not in elements.tags
    texts = _texts(page)
    assert elements.tags.count("script") == 7 + len(texts)
    assert "&lt;/script&gt;&lt;script&gt;alert(1)" in page
    lines = [line for text in texts for line in text["lines"] if "alert" in line]
    assert lines
    assert all("<img" not in line and "<script" not in line for line in lines)


def test_its_figures_are_those_of_the_report(page: str, session: Path, report: Report) -> None:
    with SessionReader(session) as reader:
        figures = figures_row(reader)
    shown = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page))
    assert shown == {figure.label: figure.value for figure in figures}
    totals = report(session)["totals"]
    assert shown["graphs"] == str(totals["graphs"])
    for finding in report(session)["findings"]:
        assert finding["text"].split(": ")[0] in page


def _lines(texts: LinkedTexts, number: int, line: int) -> dict[int, set[int]]:
    answer = texts.links[number][line]
    if answer < 0:
        return {}
    lines: dict[int, set[int]] = {}
    for other, ranges in texts.linked[answer].items():
        for first, last in ranges:
            lines.setdefault(other, set()).update(range(first, last + 1))
    return lines


def _expected(reader: SessionReader, texts: LinkedTexts, place: Place) -> dict[int, set[int]]:
    """Return the lines that the app highlights in the same texts."""
    found = linked_places(reader, place, [text.document for text in texts.texts])
    expected: dict[int, set[int]] = {}
    for number, text in enumerate(texts.texts):
        rows = found[text.document]
        if text.pane == "graph":
            rows = frozenset(text.line_of_row[row] for row in rows)
        if rows:
            expected[number] = set(rows)
    return expected


def _place(reader: SessionReader, text: LinkedText, line: int) -> Place:
    if text.pane == "graph":
        return Place(text.document, text.row_of_line[line])
    return Place(document_of(reader, text.document.kind, text.document.id), line)


def test_linked_lines_are_those_of_the_app(session: Path) -> None:
    chosen = random.Random(7)
    compared = 0
    with SessionReader(session) as reader:
        texts = linked_texts(reader)
        for number, text in enumerate(texts.texts):
            lines = [line for line, answer in enumerate(texts.links[number]) if answer >= 0]
            for line in chosen.sample(lines, min(12, len(lines))):
                expected = _expected(reader, texts, _place(reader, text, line))
                shown = _lines(texts, number, line)
                shown.setdefault(number, set()).add(line)  # the page marks the selected line itself
                assert shown == expected, (text.title, line)
                compared += 1
    assert compared > 100


def test_every_line_of_the_source_is_there_as_it_is_written(page: str, session: Path) -> None:
    source = next(text for text in _texts(page) if text["pane"] == "source")
    with SessionReader(session) as reader:
        texts = linked_texts(reader)
        written = reader.text(_source(reader, texts)).splitlines()
    bare = [re.sub(r"</?i[^>]*>", "", line) for line in source["lines"]]
    unescaped = [HTML_TEXT.sub(lambda match: ENTITIES[match[0]], line) for line in bare]
    assert unescaped == written


HTML_TEXT = re.compile(r"&(?:lt|gt|amp|quot|#x27);")

ENTITIES = {"&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"', "&#x27;": "'"}


def _source(reader: SessionReader, texts: LinkedTexts) -> Any:
    document = next(text.document for text in texts.texts if text.pane == "source")
    return reader.get(model.SourceFile, document.id).text


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda text: text[: text.index('id="session"')], id="cut before the session"),
        pytest.param(
            lambda text: text[: text.index('id="session"') + 900], id="cut in the session"
        ),
        pytest.param(lambda text: text.replace('data-encoding="gzip;base64"', ""), id="edited"),
        pytest.param(lambda text: text.replace("H4sI", "????"), id="another text"),
    ],
)
def test_a_damaged_page_is_told(page: str, damage: Any, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(damage(page))
    with pytest.raises(SessionError, match=r"page\.html (?:is an fx-explorer page|was edited)"):
        in_page.write_session(file, tmp_path / "taken.fxs")


def test_a_session_that_grows_without_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_page, "MOST_BYTES", 1 << 20)
    packed = in_page.compressed(bytes(8 << 20))
    file = tmp_path / "page.html"
    start = '<script type="application/octet-stream" id="session" data-encoding="gzip;base64">'
    file.write_text(f"{start}{packed}</script>")
    with pytest.raises(SessionError, match="contains a session of more than"):
        in_page.write_session(file, tmp_path / "taken.fxs")


def test_a_pane_without_texts_is_left_out_and_a_table_of_torch_is_no_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    log = WHOLE.parents[1] / "torch_trace" / "h200_user_triton.log.gz"
    assert main(["report", str(log), "--format", "html", "-o", "page.html"]) == 0
    page = (tmp_path / "page.html").read_text()
    texts = _texts(page)
    panes = re.findall(r'data-pane="(\w+)"', page)
    assert panes == ["graph", "kernel"]
    assert {text["pane"] for text in texts} == set(panes)
    assert not [text["title"] for text in texts if "Your lines by kernel" in text["title"]]
