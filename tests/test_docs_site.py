"""These tests check the site of docs/ without building it: every page is in its navigation and in
`llms.txt`, and a Python without the generator says what to install. `make site` checks the rest.
"""

from __future__ import annotations

import fnmatch
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
PAGES = sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md"))


def navigated(entry: object) -> Iterator[str]:
    """Yield the files that an entry of the navigation leads to."""
    if isinstance(entry, str):
        yield entry
        return
    children = entry.values() if isinstance(entry, dict) else entry
    for child in children:
        yield from navigated(child)


def test_every_page_is_in_the_navigation_once() -> None:
    pages = [path for path in navigated(CONFIG["nav"]) if path.endswith(".md")]
    assert sorted(pages) == PAGES


def test_every_file_of_the_navigation_exists() -> None:
    assert [path for path in navigated(CONFIG["nav"]) if not (DOCS / path).is_file()] == []


def test_a_page_is_in_the_section_of_its_folder() -> None:
    wrong = []
    for section in CONFIG["nav"]:
        for name, entries in section.items():
            for path in navigated(entries):
                folder = path.rpartition("/")[0]
                if folder and folder != name.lower():
                    wrong.append(f"{path} in {name}")
    assert wrong == []


def test_every_page_is_in_llms_txt() -> None:
    (plugin,) = (entry["llmstxt"] for entry in CONFIG["plugins"] if isinstance(entry, dict))
    patterns = [pattern for section in plugin["sections"].values() for pattern in section]
    assert [
        page
        for page in PAGES
        if not any(fnmatch.fnmatchcase(page, pattern) for pattern in patterns)
    ] == []


def test_every_page_is_in_the_list_of_the_first_page() -> None:
    first = (DOCS / "README.md").read_text()
    assert [page for page in PAGES if page != "README.md" and f"]({page})" not in first] == []


def test_without_the_generator_it_says_what_to_install() -> None:
    # -S: without the packages of this interpreter, whichever it has.
    built = subprocess.run(
        [sys.executable, "-I", "-S", "docs/build_site.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert built.returncode == 1
    assert "has no mkdocs, material, mkdocs_llmstxt" in built.stderr
    assert "pip install -e '.[docs]'" in built.stderr
