"""These tests check the report as markdown: the answer first, what fits, and nothing that GitHub
would take for a mention or an issue.
"""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.cli import main
from fx_explorer.report import markdown
from fx_explorer.report.markdown import markdown_report
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.writer import finish_session
from tests.report.conftest import Report
from tests.sessions import write_training_step

WHOLE = Path(__file__).parents[1] / "data" / "screens" / "whole.fxs.gz"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("markdown") / "whole.fxs"
    path.write_bytes(gzip.decompress(WHOLE.read_bytes()))
    return path


def test_the_answer_comes_first_and_every_view_is_folded(
    session: Path, report: Report, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(session), "--format", "markdown"]) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[2].startswith("**net.py:27 graph break: a Python builtin")
    totals = report(session)["totals"]
    assert f"| {totals['graphs']} | {totals['graph_breaks']} |" in text
    assert text.count("<details>") == text.count("</details>") > 5
    for line in text.splitlines():
        if line.startswith("| "):
            # Each row of a table has the columns of its titles.
            assert len(re.findall(r"(?<!\\)\|", line)) >= 2


def test_what_does_not_fit_is_named(session: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(markdown, "MOST_CHARACTERS", 9_000)
    with SessionReader(session) as reader:
        text = markdown_report(reader)
    assert len(text) <= 9_000
    assert "Not enough room for: " in text
    assert text.count("<details>") == text.count("</details>")


def test_nobody_is_mentioned_and_no_markup_of_a_program_counts(tmp_path: Path) -> None:
    path = tmp_path / "hostile.fxs"
    write_training_step(path)
    with SessionWriter(path) as writer:
        writer.set_meta("target", {"name": "@team #12 <img src=x> | *a*", "file": "/p/a.py"})
        writer.add(model.ConsoleLine(0, "stdout", "@everyone </details> | a"))
    finish_session(path)
    with SessionReader(path) as reader:
        text = markdown_report(reader)
    outside_code = re.sub(r"`[^`\n]*`", "", text)
    assert not re.search(r"(?<!&)[@#]\w", outside_code)
    assert "<img" not in text
    assert text.count("<details>") == text.count("</details>")
    assert text.startswith("### &#64;team &#35;12 &lt;img")
