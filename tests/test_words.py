"""These tests check that texts that a user sees use PyTorch's words: the package's strings and the
pages use none of ours for them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = sorted((ROOT / "fx_explorer").rglob("*.py"))

NOT_SAID = {
    r"dearest": "most expensive, relative time",
    r"(lights?|lit) up": "is highlighted",
    r"left (it |them )?to python": "not compiled, runs in eager mode",
    r"left_to_python": "eager_functions",
    r"the way on": "which branch runs",
    r"\bcuts?\b": "graph break, splits",
    r"(go|goes|going|went) on\b": "continue",
    r"compiled? anew|came again|\banew\b": "recompiled, again",
    r"fails by": "fails when",
    r"(is|are) done again|comput(e|es|ed) (it |them )?(twice|anew)|computed again": (
        "recomputed in the backward"
    ),
    r"(keep|keeps|kept|held|holds) for the backward": "saved for the backward",
    r"\bspare[sd]?\b": "saves, also avoids",
    r"did not get through": "failed, timed out",
    r"what (came|comes|became|becomes) of|nothing came of|known to come of": "result, effect",
    r"has no words for": "does not document",
    r"no difference (is )?shown": "no measurable difference",
    r"held against": "compared with",
    r"need no more\b(?! keys)": "do not recompile",
    r"uncompiled program|runs? uncompiled|as fast as uncompiled|beside uncompiled": (
        "in eager mode; “uncompiled” is only the name of a contender of bench"
    ),
}
"""For each pattern of a forbidden phrase: the phrase to use in its place."""

ALLOWED = {
    r"^cut$": "the name of a value: of a column's narrowing, of a ground",
    r"minimum cut|smallest cut": "what torch's partitioner searches in a graph",
    r"cut off|cut short|(is|was|are) cut while|one that is cut\b": "a file or list that ends early",
    r"cut (them )?out": "regions are cut out of a graph, as torch says",
    r"cut the statement": "a selection that covers a part of a statement",
    r"(is|are) (not )?cut (in|at|to)\b": "a text that is too long for its place",
}
"""For each pattern of an allowed phrase: the reason, namely another meaning."""


def said_wrongly(text: str) -> list[str]:
    """Return the forbidden phrases of the text, and the phrases to use, for each pattern that it
    matches.
    """
    found = []
    for pattern in ALLOWED:
        text = re.sub(pattern, "", text)
    for pattern, instead in NOT_SAID.items():
        match = re.search(pattern, text, re.IGNORECASE)
        if match:
            found.append(f"“{match[0]}”, which is: {instead}")
    return found


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of the constants of a module that are sentences: with a blank, and no
    statement of their own, as docstrings are.
    """
    tree = ast.parse(path.read_text())
    statements = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in statements:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def test_no_string_of_the_package_says_it_in_other_words() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {wrong}"
        for path in MODULES
        for line, text in strings(path)
        for wrong in said_wrongly(text)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_says_it_in_other_words(page: Path) -> None:
    paragraphs = re.split(r"\n\s*\n", page.read_text())
    found = [wrong for text in paragraphs for wrong in said_wrongly(" ".join(text.split()))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "m.py:4 goes on to the end",
        "of the dearest",
        "2 functions left to Python whole",
        "3 kernels at the cut",
        "128 B kept for the backward",
        "beside the uncompiled program",
    ],
)
def test_what_is_not_said_is_found(text: str) -> None:
    assert said_wrongly(text)


def test_a_docstring_is_not_looked_at_and_a_part_of_an_f_string_is(tmp_path: Path) -> None:
    module = tmp_path / "m.py"
    module.write_text('"""It goes on."""\nx = 1\n"""It goes on."""\ny = f"{x} goes on"\n')
    assert [text for _, text in strings(module)] == [" goes on"]
