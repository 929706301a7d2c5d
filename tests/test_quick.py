"""These tests check which tests ``make quick`` runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import quick


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    files = {
        "fx_explorer/figures.py": "",
        "fx_explorer/verdict.py": "from fx_explorer import figures\n",
        "fx_explorer/other.py": "",
        "tests/test_figures.py": "from fx_explorer.figures import total\n",
        "tests/test_verdict.py": "def test_it():\n    import fx_explorer.verdict\n",
        "tests/test_other.py": "from fx_explorer import other\n",
        "tests/data/test_broken.py": "no python\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(quick, "ROOT", tmp_path)
    monkeypatch.setattr(quick, "DURATIONS", tmp_path / "quick.json")
    monkeypatch.setattr(quick, "IMPORTS", tmp_path / "quick_imports.json")
    return tmp_path


@pytest.mark.usefixtures("tree")
def test_tests_that_reach_a_changed_file_by_imports_run_the_nearest_first() -> None:
    assert quick.concerned_tests(["fx_explorer/figures.py"]) == [
        "tests/test_figures.py",
        "tests/test_verdict.py",
    ]
    assert quick.concerned_tests(["tests/test_other.py", "README.md"]) == ["tests/test_other.py"]


@pytest.mark.usefixtures("tree")
def test_as_many_run_as_fit_by_what_they_took_and_at_least_one() -> None:
    quick.note_durations({"a": 30.0, "b": 15.0})
    quick.note_durations({"b": 10.0})
    assert quick.fitting(["a", "b", "c"], seconds=41) == ["a", "b"]
    assert quick.fitting(["b", "a", "c"], seconds=15) == ["b", "c"]
    assert quick.fitting(["a", "b"], seconds=1) == ["a"]


def test_those_in_the_folder_of_the_same_name_run_before_others(tree: Path) -> None:
    (tree / "fx_explorer" / "naming").mkdir()
    (tree / "fx_explorer" / "naming" / "values.py").touch()
    (tree / "tests" / "naming").mkdir()
    imports = "from fx_explorer.naming import values\n"
    for test in ("tests/test_before.py", "tests/naming/test_values.py"):
        (tree / test).write_text(imports)
    assert quick.concerned_tests(["fx_explorer/naming/values.py"]) == [
        "tests/naming/test_values.py",
        "tests/test_before.py",
    ]


def test_what_a_file_imports_is_read_again_when_it_was_changed(tree: Path) -> None:
    assert quick.concerned_tests(["fx_explorer/figures.py"])[0] == "tests/test_figures.py"
    test = tree / "tests" / "test_figures.py"
    changed_ns = test.stat().st_mtime_ns
    test.write_text("from fx_explorer import other\n")
    os.utime(test, ns=(changed_ns + 1, changed_ns + 1))
    assert quick.concerned_tests(["fx_explorer/figures.py"]) == ["tests/test_verdict.py"]
