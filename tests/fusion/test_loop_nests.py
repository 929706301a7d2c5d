"""These tests tell the loop nests of one C++ kernel apart, and read what TORCH_LOGS=fusion printed:
both against torch's own log of the same run.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from fx_explorer import model
from fx_explorer.cli import main
from fx_explorer.instruments.fusion.figures import unfused_pairs
from fx_explorer.instruments.fusion.loop_nest_reasons import (
    describe_nests,
    nests_by_kernel,
    unmerged_pairs,
)
from fx_explorer.instruments.fusion.printed_reasons import printed_fusion
from fx_explorer.instruments.fusion.view import NO_PAIR, fusion_table
from fx_explorer.readers.torch_log_text import read_text
from fx_explorer.session import SessionReader
from tests.capture.recorded import failures, record

FIRST = 36
"""The line of ``added`` below."""


# fmt: off
def stats(x: torch.Tensor, y: torch.Tensor) -> Any:
    added = x.exp() + y
    rows = added.sum(dim=1)
    columns = added.amax(dim=0)
    scaled = added / rows.unsqueeze(1)
    return scaled, columns, (y * 3).cos().sum()
# fmt: on


Both = tuple[SessionReader, list[str]]
"""A session, and the lines of torch's log of the same run."""


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, logged: logging.LogRecord) -> None:
        self.lines += logged.getMessage().split("\n")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    handler = Lines()
    torch._logging.set_logs(fusion=True)
    log = logging.getLogger("torch._inductor.scheduler.__fusion")
    log.addHandler(handler)
    try:
        path = tmp_path_factory.mktemp("nests") / "s.fxs"
        session = record(path, program)
    finally:
        log.removeHandler(handler)
        torch._logging.set_logs()
    assert not failures(session)
    yield session, handler.lines
    session.close()


def program(compile_it: Callable[[Any], Any]) -> None:
    compile_it(stats)(torch.randn(96, 80), torch.randn(96, 80))


def last_reasons(lines: list[str]) -> dict[tuple[str, str], str]:
    reasons = {}
    for line in lines:
        match = re.match(r"cannot fuse (\w+) with (\w+): (.*)", line)
        if match:
            reasons[match[1], match[2]] = match[3]
    return reasons


def test_each_nest_of_a_kernel_has_its_lines(both: Both) -> None:
    session, _ = both
    ((kernel, nests),) = nests_by_kernel(session).items()
    lines = {nest.name: [line - FIRST for _, line in nest.lines] for nest in nests}
    assert lines == {"op0_op4": [0, 4], "op1": [1], "op2": [3], "op3": [2]}
    assert [nest.name for nest in nests if nest.is_alone] == ["op3"]
    assert {nest.rows[0].outer for nest in nests} == {"", "op1_op2"}
    # The C++ has an outermost loop for each nest, and one for both that share it.
    source = session.get(model.Artifact, session.get(model.Kernel, kernel).artifact)
    outermost = session.text(source.text).count("for(int64_t x0=")
    assert describe_nests(nests).startswith(f"{outermost} loop nests: ")


def test_the_reasons_are_those_that_torch_logs(both: Both) -> None:
    session, lines = both
    assert not unfused_pairs(session)
    pairs = unmerged_pairs(session)
    logged = last_reasons(lines)
    reasons = {pair.pair.names: pair.pair.reason for pair in pairs if pair.pair.reason}
    assert reasons
    assert reasons.items() <= logged.items()
    (sharing,) = [pair for pair in pairs if pair.pair.state == "outer loop"]
    assert (sharing.first.name, sharing.second.name) == ("op1", "op2")
    assert "the first reduces over a dimension that the second loops over" in sharing.cause.text
    assert "fusing op1 with op2" in lines


def test_the_view_and_the_answer_name_them(both: Both, capsys: pytest.CaptureFixture[str]) -> None:
    session, _ = both
    table = fusion_table(session)
    assert table.answer.startswith(NO_PAIR)
    assert "op3, which stays alone" in table.answer
    assert len(table.rows) == len(unmerged_pairs(session))
    assert main(["ask", str(session.path), "fusion", "op3"]) == 0
    answer = capsys.readouterr().out
    assert '"inductor_says": "no shared data"' in answer
    assert main(["ask", str(session.path), "kernel", "cpp_fused"]) == 0
    assert '"loop_nests": [{"loops": "op0_op4"' in capsys.readouterr().out


# What was printed.


@pytest.fixture(scope="module")
def log(both: Both, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionReader]:
    """The session of a text with these lines, as torch's own formatter prints them."""
    folder = tmp_path_factory.mktemp("printed")
    head = "V1130 11:46:00.{:06} 7954 torch/_inductor/scheduler.py:4995] [0/0] [__fusion] "
    lines = [head.format(at) + line for at, line in enumerate(both[1])]
    (folder / "run.txt").write_text("\n".join(lines))
    read_text(folder / "run.txt", folder / "log.fxs")
    with SessionReader(folder / "log.fxs") as reader:
        yield reader


def test_a_log_has_the_pairs_of_the_capture(both: Both, log: SessionReader) -> None:
    printed = printed_fusion(log)
    exact = {(pair.first.name, pair.second.name): pair.reason for pair in printed.pairs}
    captured = {
        pair.pair.names: pair.pair.reason for pair in unmerged_pairs(both[0]) if pair.pair.reason
    }
    assert exact.items() >= captured.items()
    assert {pair.compilation for pair in printed.pairs} == {"0/0"}
    assert printed.fused == (("0/0", "op0", "op4"), ("0/0", "op1", "op2"))
    assert [node.name for _, node in printed.alone] == ["op3"]


def test_a_pair_of_a_log_has_the_users_lines(log: SessionReader) -> None:
    (pair,) = [
        pair
        for pair in printed_fusion(log).pairs
        if (pair.first.name, pair.second.name) == ("op1_op2", "op3")
    ]
    assert [line - FIRST for _, line in pair.first.lines] == [1, 3]
    assert [line - FIRST for _, line in pair.second.lines] == [2]
    assert pair.second.what == "Reduction [96] max of amax"


def test_the_decisions_of_a_log_are_one_text_and_an_answer(
    log: SessionReader, capsys: pytest.CaptureFixture[str]
) -> None:
    table = fusion_table(log)
    assert "never fused: op3" in table.answer
    assert len(table.rows) == len(printed_fusion(log).pairs)
    (text,) = log.rows(model.Artifact, kind="listing")
    assert text.title == "fusion"
    assert main(["ask", str(log.path), "fusion", "op3"]) == 0
    answer = capsys.readouterr().out
    assert '"inductor_says": "no shared data"' in answer
    assert '"fused": ["[0/0] op0 with op4", "[0/0] op1 with op2"]' in answer


def test_a_copy_for_another_layout_computes_nothing_of_the_other_loops(tmp_path: Path) -> None:
    """The convolution asks for both inputs in channels_last: two loops of one kernel."""
    filters = torch.randn(16, 3, 8, 8)

    def patches(image: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.conv2d((image.float() / 255 - 0.5) * 4, filters, stride=8)

    def program(compile_it: Callable[[Any], Any]) -> None:
        with torch.no_grad():
            compile_it(patches)(torch.zeros(2, 3, 32, 32, dtype=torch.uint8))

    with record(tmp_path / "s.fxs", program) as session:
        assert failures(session) == []
        (nests,) = [nests for nests in nests_by_kernel(session).values() if len(nests) > 1]
        operators = {
            nest.rows[0].loops: {
                session.rows(model.Node, name=name)[-1].target.split(".")[1]
                for name in nest.computes
            }
            for nest in nests
        }
    (of_image,) = [names for names in operators.values() if "mul" in names]
    (of_filters,) = [names for names in operators.values() if "mul" not in names]
    assert {"div", "sub", "mul"} <= of_image
    assert not {"div", "sub", "mul"} & of_filters
