"""These tests check that the reasons why torch records no CUDA graph, of which the findings say what
to do, are still given by torch in these words.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import torch

from fx_explorer.findings.lost_cuda_graphs import REASONS

RELEASE = tuple(int(number) for number in torch.__version__.split(".")[:2])

FILES = ("cudagraph_utils.py", "scheduler.py")


def text_of(part: ast.expr) -> str:
    """Return a part of an f-string; where it is filled with a device, the CPU."""
    return str(part.value) if isinstance(part, ast.Constant) else "cpu"


def texts_in(file: str) -> Iterator[str]:
    path = Path(torch.__file__).parent / "_inductor" / file
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            yield "".join(map(text_of, node.values))
        elif isinstance(node, ast.Constant):
            yield str(node.value)


@cache
def texts() -> tuple[str, ...]:
    return tuple(text for file in FILES for text in texts_in(file))


@pytest.mark.skipif(RELEASE < (2, 13), reason="some reasons are new in torch 2.13")
@pytest.mark.parametrize("begins", [words.begins for words in REASONS])
def test_torch_gives_the_reason_in_these_words(begins: str) -> None:
    assert any(text.startswith(begins) for text in texts())
