"""These tests check a break that torch cannot resume from: the code before it is compiled, and the
rest of its function runs in eager mode, which is the cost of such a break.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from fx_explorer import model
from fx_explorer.answers.what_was_compiled import of_eager_functions
from fx_explorer.findings.every_kind import findings
from fx_explorer.instruments.breaks.call_tree import call_trees
from fx_explorer.instruments.breaks.grouped import DistinctBreak, distinct_breaks
from fx_explorer.instruments.breaks.not_resumed import _blocks
from fx_explorer.instruments.breaks.view import break_text
from fx_explorer.overview.overview import overview
from fx_explorer.report.instrument_entries import graph_break
from fx_explorer.session import SessionReader
from fx_explorer.torch_texts.reports import parse_break
from tests.capture.dynamo.reported import heard_breaks
from tests.capture.recorded import Compile, failures, record


class Lock:
    """A context manager inside which torch cannot resume."""

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


class Block(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i in range(2):
            x = x + i
            torch._dynamo.graph_break()  # in a loop: all of it is skipped
        return x.cos()


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Block()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.block(x * 2).sin()


def locked(x: torch.Tensor) -> torch.Tensor:
    x = x.sin()
    x = x * 2
    with Lock():
        torch._dynamo.graph_break()  # under the lock
        x = x + 1
    return x.cos()


def tried(x: torch.Tensor) -> torch.Tensor:
    x = x.sin()
    try:
        torch._dynamo.graph_break()  # in a try
        x = x + 1
    finally:
        x = x * 2
    return x.cos()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SessionReader, list[str]]]:
    """A session, and torch's own records of its breaks."""
    records: list[str] = []

    def program(compile_: Compile) -> None:
        with heard_breaks() as heard:
            compile_(locked)(torch.ones(3))
            compile_(Net())(torch.ones(3))
            compile_(tried)(torch.ones(3))
        records.extend(heard)

    path: Path = tmp_path_factory.mktemp("unresumed") / "s.fxs"
    with record(path, program, backend="eager") as session:
        yield session, records


def break_at(session: SessionReader, comment: str) -> DistinctBreak:
    (distinct,) = [hit for hit in distinct_breaks(session) if comment in hit.code]
    return distinct


def test_the_rest_that_is_lost_is_told_wherever_the_break_is(
    run: tuple[SessionReader, list[str]],
) -> None:
    session, _ = run
    hit = break_at(session, "under the lock")
    assert not failures(session)
    assert hit.cost.in_short == "rest not compiled"
    facts = "\n".join(f"{fact.text} {fact.detail}" for fact in overview(session))
    assert (
        f"the rest of locked, from line {hit.eager_rests[0].line} on, runs in eager mode" in facts
    )
    assert "the rest of locked, from line" in break_text(session, hit)
    assert graph_break(session, hit)["eager_rests"] == [
        {"function": "locked", "line": hit.eager_rests[0].line}
    ]


@pytest.mark.parametrize(
    ("comment", "block", "function", "line"),
    [
        ("under the lock", "with block", locked, 3),
        ("in a loop", "for loop", Block.forward, 1),
        ("in a try", "try block", tried, 2),
    ],
)
def test_why_torch_cannot_resume_is_said_with_file_and_line(
    run: tuple[SessionReader, list[str]],
    comment: str,
    block: str,
    function: Callable[..., object],
    line: int,
) -> None:
    session, _ = run
    hit = break_at(session, comment)
    at = f"test_unresumed_breaks.py:{function.__code__.co_firstlineno + line}"
    assert hit.not_resumed == (f"the break is inside the {block} at {at}",)
    texts = [" ".join([finding.text, *finding.evidence]) for finding in findings(session)]
    assert any(f"inside the {block} at {at}" in text for text in texts)


def test_a_function_left_to_eager_mode_names_the_break_with_its_file(
    run: tuple[SessionReader, list[str]],
) -> None:
    session, _ = run
    hit = break_at(session, "in a loop")
    reasons = [row["reason"] for row in of_eager_functions(session).rows]
    begin = f"torch cannot resume after the graph break at test_unresumed_breaks.py:{hit.line}"
    assert f"{begin}: {hit.not_resumed[0]}" in reasons


def test_a_block_that_torch_enters_again_is_no_reason() -> None:
    text = "def f(x):\n    with torch.no_grad():\n        with lock:\n            g(x)\n"
    (block,) = _blocks(text, 4)
    assert block.lineno == 3
    assert not _blocks(text, 3)
    assert not _blocks("for x in y:\n    def f(x):\n        return x\n", 3)


def test_eager_mode_begins_behind_the_lines_of_the_graph(
    run: tuple[SessionReader, list[str]],
) -> None:
    session, _ = run
    hit = break_at(session, "under the lock")
    first = locked.__code__.co_firstlineno
    lines = [node.line for node in session.rows(model.Node) if first < node.line < hit.line]
    assert max(lines) < hit.eager_rests[0].line <= hit.line


def test_what_is_resumed_or_skipped_whole_has_no_lost_rest(
    run: tuple[SessionReader, list[str]],
) -> None:
    session, records = run
    says_so = [text for text in records if "then skipping the rest of the function" in text]
    assert [parse_break(text).skips_rest for text in records] == [
        text in says_so for text in records
    ]
    hit = break_at(session, "in a loop")
    assert not hit.eager_rests
    assert hit.cost.functions_in_python == 1


def test_a_resume_function_stands_below_the_method_it_is_the_rest_of(
    run: tuple[SessionReader, list[str]],
) -> None:
    """Both methods are called ``forward`` and lie in one file."""
    session, _ = run
    _, tree, _ = call_trees(session)
    assert tree.function == "Net.forward"
    below = {call.function: call for call in tree.calls}
    assert any("torch_dynamo_resume_in_forward" in name for name in below)
    assert not any(call.calls for call in below.values())
