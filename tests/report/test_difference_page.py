"""These tests check the page of ``fx-explorer diff A B --format html``: it says what the JSON says, and
what comes from a program is text.
"""

from __future__ import annotations

import gzip
import html
import json
import re
from pathlib import Path

import pytest

from fx_explorer.cli import main
from fx_explorer.report.page.difference import MOST_LINES, difference_page

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("difference")
    names = []
    for packed in (DATA / "screens" / "whole.fxs.gz", DATA / "screens" / "paused.fxs.gz"):
        session = folder / packed.name.removesuffix(".gz")
        session.write_bytes(gzip.decompress(packed.read_bytes()))
        names.append(str(session))
    return names[0], names[1]


def _printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert main([*arguments]) == 0
    return capsys.readouterr().out


def test_its_figures_and_kernels_are_those_of_the_json(
    sessions: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    report = json.loads(_printed(capsys, "diff", *sessions, "--format", "json"))
    page = _printed(capsys, "diff", *sessions, "--format", "html")
    rows = re.findall(
        r"<tr(?: class=\"differs\")?><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td></tr>",
        page,
    )
    shown = [tuple(html.unescape(cell) for cell in row) for row in rows]
    expected = [
        (figure["what"], str(figure["left"]), str(figure["right"]), figure["difference"])
        for figure in report["figures"]
    ]
    assert shown[: len(expected)] == expected
    differing = [pair for pair in report["kernels"] if pair["difference"] not in ("same", "device")]
    assert page.count('<details class="finding"') == len(differing)
    for side in ("only_left", "only_right"):
        for graph_break in report["graph_breaks"][side]:
            assert graph_break["code"] in html.unescape(page)
    assert "<script" not in page


def test_markup_is_text_and_long_code_is_cut() -> None:
    markup = "<script>alert(1)</script>"
    kernel = {"name": markup, "language": "cpp", "nodes": [], "estimate": None}
    lines = [{"left": markup, "right": None}] * (MOST_LINES + 7)
    report = {
        "left": markup,
        "right": "b",
        "figures": [{"what": markup, "left": 1, "right": markup, "difference": ""}],
        "graph_breaks": {
            "only_left": [{"file": markup, "line": 1, "reason": markup, "code": markup}],
            "only_right": [],
        },
        "published": [],
        "graphs": [
            {
                "compilation": markup,
                "title": markup,
                "left_nodes": 1,
                "right_nodes": 2,
                "same": False,
                "sizes": [],
                "difference": markup,
            }
        ],
        "facts": [{"kind": "option", "name": markup, "left": markup, "right": None}],
        "kernels": [
            {
                "compilation": "0/0",
                "direction": "forward",
                "left": kernel,
                "right": None,
                "difference": "only_left",
                "comparison_was_cut": True,
                "lines": lines,
            }
        ],
    }
    page = difference_page(report, [markup])
    assert "<script" not in page
    assert "7 more lines differ." in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
