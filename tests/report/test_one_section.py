"""These tests check ``report --section``: the same names for all formats, bounded, with what was
left out.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from fx_explorer.cli import main
from fx_explorer.report.one_section import NAMES
from fx_explorer.report.sections import without_keys

WHOLE = Path(__file__).parents[1] / "data" / "screens" / "whole.fxs.gz"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("section") / "whole.fxs"
    path.write_bytes(gzip.decompress(WHOLE.read_bytes()))
    return path


def test_each_section_is_there_in_each_format(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in NAMES:
        for format_ in ("text", "markdown"):
            assert main(["report", str(session), "--format", format_, "--section", name]) == 0
            assert capsys.readouterr().out.strip(), (name, format_)
        assert main(["report", str(session), "--section", name, "--limit", "2"]) == 0
        content = json.loads(capsys.readouterr().out)
        assert content["question"] == name
        assert content["answer"]
        assert len(content["rows"]) == min(2, content["count"]), name
        assert ("left_out" in content) == (content["count"] > 2), name


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "1 break · 1 more graph. Enter goes to your line. x x shows fixes, x t how long each "
            "takes.",
            "1 break · 1 more graph. fx-explorer fix shows fixes, fx-explorer report "
            "--measure-breaks how long each takes.",
        ),
        (
            "Nothing yet. Press x n: it is called.",
            "Nothing yet. Run fx-explorer numerics: it is called.",
        ),
        ("Nothing is marked. Press c m on a node.", "Nothing is marked."),
        ("size 0 of x (now 4) of x is", "size 0 of x (now 4) of x is"),
    ],
)
def test_keys_of_the_app_are_commands_in_a_report(text: str, expected: str) -> None:
    assert without_keys(text) == expected


def test_a_view_without_rows_says_why(session: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(session), "--section", "bench"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["rows"] == []
    assert content["answer"]


def test_an_unknown_section_is_refused_with_the_names(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(session), "--section", "kernel"]) == 2
    assert "there is no section 'kernel'; there are: overview, findings" in capsys.readouterr().err
    assert main(["report", str(session), "--section", "kernels", "--format", "html"]) == 2


def test_the_help_names_every_section(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["report", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert all(name in text for name in NAMES)
