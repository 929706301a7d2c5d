"""These tests check which of torch's warnings are findings, by the text that torch prints."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from fx_explorer import model
from fx_explorer.findings.torch_warnings import (
    KNOWN_WARNINGS,
    KnownWarning,
    find_torch_warnings,
)
from fx_explorer.session import SessionWriter
from tests.conftest import Written

PLAN = (
    "/p/train.py:8: UserWarning: Parallelize plan key 'up' could not be resolved: no submodule "
    "matching token 'up' in module {module}("
)

CACHE = (
    "UserWarning: Dynamo detected a call to a `functools.lru_cache`-wrapped function at "
    "'{file}:52'. Dynamo ignores the cache wrapper and directly traces the wrapped function."
)


def printed(*lines: str) -> Callable[[SessionWriter], None]:
    def write(writer: SessionWriter) -> None:
        for path, is_user in (("/p/train.py", True), ("/site-packages/t/fsdp.py", False)):
            writer.add(model.SourceFile(0, path, writer.text("x = 1\n" * 9), 9, is_user))
        for line in lines:
            writer.add(model.ConsoleLine(0, "stderr", line))

    return write


def test_a_plan_that_finds_no_module_in_the_wrapper(written: Written) -> None:
    line = PLAN.format(module="OptimizedModule")
    (finding,) = find_torch_warnings(written(printed(line, line)))
    assert finding.text.startswith("parallelize_module parallelized nothing")
    assert (finding.severity, finding.count) == ("problem", 2)
    assert finding.place is not None
    assert finding.place.line + 1 == 8


def test_a_plan_with_a_wrong_name_is_no_matter_of_compiling(written: Written) -> None:
    assert not list(find_torch_warnings(written(printed(PLAN.format(module="Mlp")))))


@pytest.mark.parametrize(("file", "is_found"), [("train.py", True), ("fsdp.py", False)])
def test_a_cache_counts_where_the_call_is_the_users(
    written: Written, file: str, is_found: bool
) -> None:
    rows = list(find_torch_warnings(written(printed(CACHE.format(file=file)))))
    assert bool(rows) == is_found


def text_of(part: ast.expr) -> str:
    """Return a part of an f-string; for what it is filled with, the name of the class of what
    torch.compile returns.
    """
    return str(part.value) if isinstance(part, ast.Constant) else "OptimizedModule"


def texts_of(file: str) -> Iterator[str]:
    """Yield the strings and f-strings of a file of torch's."""
    path = Path(torch.__file__).parent.parent / file
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            yield "".join(map(text_of, node.values))
        elif isinstance(node, ast.Constant):
            yield str(node.value)


@pytest.mark.parametrize("warning", KNOWN_WARNINGS, ids=lambda warning: warning.source)
def test_torch_still_warns_in_these_words(warning: KnownWarning) -> None:
    assert any(warning.pattern.search(text) for text in texts_of(warning.source))
