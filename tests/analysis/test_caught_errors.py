"""These tests check errors that the program provokes and catches, and functions that it compiles
again after a reset.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer.overview.overview import overview
from fx_explorer.session import SessionReader
from tests.worker.capturing import capture

PROGRAM = """
import torch
x = torch.ones(3)

def f(x):
    return x.sin()

def cut(x):
    torch._dynamo.graph_break()
    return x.cos()

def failing(graph, inputs):
    raise ValueError("the backend fails on purpose")

torch.compile(f, backend="eager")(x)
torch._dynamo.reset()
torch.compile(f, backend="eager")(x)
for compiled in (
    torch.compile(cut, fullgraph=True, backend="eager"),
    torch.compile(cut, fullgraph=True, backend="eager"),
    torch.compile(lambda x: x + 1, backend=failing),
):
    try:
        compiled(x)
    except Exception as error:
        print("caught")
"""


@pytest.mark.usefixtures("warm_workers")
async def test_errors_that_the_program_catches_and_functions_after_a_reset_are_told_as_that(
    tmp_path: Path,
) -> None:
    script = tmp_path / "tutorial.py"
    script.write_text(PROGRAM)
    ended = await capture(script, tmp_path / "s.fxs", as_script=True)
    assert ended.printed() == ["caught"] * 3
    with SessionReader(tmp_path / "s.fxs") as reader:
        facts = overview(reader)
    texts = [fact.text for fact in facts]
    assert not any(fact.severity == "problem" for fact in facts), texts
    caught = next(fact for fact in facts if fact.text.startswith("cut could not be compiled"))
    assert "and the program continued (2 times)" in caught.text
    assert any("on purpose" in fact.detail for fact in facts)
    assert any(
        "1 function compiled, recompiled 1 time after torch._dynamo.reset()" in t for t in texts
    )
    off = "Recorded without torch's compile caches, unlike your own run (--use-caches)."
    assert off in texts, "where the recorded run was another one than the user's"
