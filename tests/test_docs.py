"""These tests check the documentation: its links lead somewhere, its commands exist, its generated
parts are up to date.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fx_explorer.cli import COMMANDS

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")]
)


def fx_explorer(*arguments: str) -> str:
    """Return the output of ``fx-explorer ARGUMENTS``."""
    command = [sys.executable, "-m", "fx_explorer", *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    ).stdout


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def links(page: Path) -> list[tuple[str, str]]:
    """Return path and anchor of each link of a page that does not lead to another site."""
    return re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page.read_text())


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, which GitHub and the site derive from their text."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ +(.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_links_between_pages_lead_to_files(page: Path) -> None:
    missing = [path for path, _ in links(page) if not (page.parent / path).exists()]
    assert missing == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=page_name)
def test_links_of_the_site_stay_in_it(page: Path) -> None:
    outside = []
    for path, _ in links(page):
        target = (page.parent / path).resolve()
        if not target.is_relative_to(ROOT / "docs") or target.is_dir():
            outside.append(path)
    assert [path for path in outside if path] == []


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_anchors_of_links_are_headings(page: Path) -> None:
    missing = []
    for path, anchor in links(page):
        target = page.parent / path if path else page
        if anchor and anchor not in anchors(target):
            missing.append(f"{path}#{anchor}")
    assert missing == []


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=page_name)
def test_a_page_begins_with_a_sentence(page: Path) -> None:
    title, blank, first = page.read_text().split("\n")[:3]
    assert title.startswith("# ")
    assert blank == ""
    assert not re.match(r" {4}|[#|!<]|```|[-*] ", first), f"no sentence: {first}"


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_code_after_a_list_is_not_a_part_of_its_last_item(page: Path) -> None:
    """Markdown takes indented text after a list for a paragraph of the list."""
    after_list = re.findall(
        r"^(?:[-*]|\d+\.) .*\n(?:  .*\n)*\n+ {4}(?! ).*", page.read_text(), re.M
    )
    assert after_list == []


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_commands_and_samples_named_in_a_page_exist(page: Path) -> None:
    text = page.read_text()
    assert [
        sample
        for sample in re.findall(r"sample_models/\w+\.py", text)
        if not (ROOT / sample).is_file()
    ] == []
    modules = re.findall(r"python -m (benchmarks(?:\.\w+)+)", text)
    assert [name for name in modules if not (ROOT / f"{name.replace('.', '/')}.py").is_file()] == []
    first_words = re.findall(r"(?:^ {4}|`)fx-explorer ([a-z]+)\b(?![./:])", text, re.MULTILINE)
    assert {word for word in first_words if word not in COMMANDS} <= {"help"}


PACKAGE = ROOT / "fx_explorer"

FOLDERS = sorted(
    folder.name
    for parent in (ROOT, PACKAGE)
    for folder in parent.iterdir()
    if folder.is_dir() and folder.name.isidentifier()
)


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_files_of_ours_named_in_a_page_exist(page: Path) -> None:
    path = rf"(?:{'|'.join(FOLDERS)})/(?:[A-Za-z_]\w*/)*(?:[A-Za-z_]\w*(?:\.\w+)?)?"
    named = re.findall(f"`({path})`", page.read_text())
    assert [name for name in named if not (_is_there(ROOT, name) or _is_there(PACKAGE, name))] == []


def _is_there(folder: Path, name: str) -> bool:
    """Return whether a file is there, or a folder that holds more than what Python has cached."""
    path = folder / name
    if not path.is_dir():
        return path.exists()
    return any("__pycache__" not in file.parts for file in path.rglob("*") if file.is_file())


def test_every_command_is_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [
        name for name in COMMANDS if name != "explore" and f"fx-explorer {name}" not in readme
    ] == []


def test_the_key_table_is_up_to_date(tmp_path: Path) -> None:
    written = tmp_path / "keys.md"
    subprocess.run(
        [sys.executable, "docs/write_keys.py", str(written)], cwd=ROOT, timeout=60, check=True
    )
    assert (ROOT / "docs" / "reference" / "keys.md").read_text() == written.read_text(), (
        "run: make docs"
    )


@pytest.mark.parametrize("command", ["capture", "run", "report", "check", "explore"])
def test_every_option_named_in_the_docs_exists(command: str) -> None:
    shown = fx_explorer(command, "--help")
    named = {
        option
        for page in (ROOT / "docs").rglob("*.md")
        for line in re.findall(rf"fx-explorer {command} .*", page.read_text())
        for option in re.findall(
            r"(?<= )--[a-z][a-z-]+", line.partition(" -- ")[0].partition("|")[0]
        )
    }
    assert {option for option in named if option not in shown} == set()


def test_the_readme_names_exactly_two_set_up_commands() -> None:
    assert re.findall(r"^ +(make \w+)", (ROOT / "README.md").read_text(), re.MULTILINE) == [
        "make demo",
        "make test",
    ]


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_what_a_page_imports_of_ours_is_there(page: Path) -> None:
    lacking = []
    for module, names in re.findall(r"from (fx_explorer[\w.]*) import ([\w, ]+)", page.read_text()):
        imported_from = importlib.import_module(module)
        # The package itself resolves its names when they are used.
        there = {*dir(imported_from), *getattr(imported_from, "__all__", ())}
        for name in names.split(","):
            imported = name.split()[0]
            if imported not in there and importlib.util.find_spec(f"{module}.{imported}") is None:
                lacking.append(f"{module}.{imported}")
    assert lacking == []
