"""These tests measure how long a line of the user's takes to be traced and lowered, on lines whose
time is set by the test.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
import torch

from fx_explorer import model
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import source_paths
from tests.capture.recorded import Compile, failures, record, record_with_notices

WAIT_S = 0.3


@torch.compiler.assume_constant_result
def slow_constant() -> float:
    """Dynamo calls it while it traces, and puts its result into the graph."""
    time.sleep(WAIT_S)
    return 2.0


@torch.library.custom_op("fx_explorer_tests::slow_to_trace", mutates_args=())
def slow_to_trace(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@slow_to_trace.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    """Called wherever the operator is traced."""
    time.sleep(WAIT_S)
    return torch.empty_like(x)


class Inner(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * slow_constant()  # constant
        return y.relu()


class Outer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Inner()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.inner(x.sin())
        z = slow_to_trace(y)  # operator
        return z.cos()


def line_of(words: str) -> int:
    return 1 + next(
        at
        for at, line in enumerate(Path(__file__).read_text().splitlines())
        if line.rstrip().endswith(words)
    )


def times_of(reader: SessionReader, phase: str) -> dict[tuple[str, int, str], float]:
    paths = source_paths(reader)
    return {
        (Path(paths[row.file]).name, row.line, row.module): row.duration_s
        for row in reader.rows(model.PhaseLine)
        if row.phase == phase
    }


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> SessionReader:
    torch.compile(torch.nn.Sequential(torch.nn.ReLU()), backend="inductor")(
        torch.ones(4).sin()
    ).cos()  # imports what it needs

    def program(compile: Compile) -> None:
        compile(Outer())(torch.ones(4))

    return record(tmp_path_factory.mktemp("lines") / "s.fxs", program)


def test_a_line_that_takes_long_to_trace_has_that_time_and_its_module(
    recorded: SessionReader,
) -> None:
    times = times_of(recorded, "bytecode_tracing")
    assert not failures(recorded)
    assert times["test_line_times.py", line_of("# constant"), "inner"] >= WAIT_S
    assert times["test_line_times.py", line_of("# operator"), ""] >= WAIT_S


def test_what_follows_a_module_in_its_line_is_not_the_modules(recorded: SessionReader) -> None:
    modules = {(line, module) for _, line, module in times_of(recorded, "bytecode_tracing")}
    assert (line_of("return y.relu()"), "inner") in modules
    assert (line_of("return z.cos()"), "") in modules


def test_aotautograd_has_the_time_of_the_operator_that_is_slow_to_trace(
    recorded: SessionReader,
) -> None:
    times = times_of(recorded, "aot_collect_metadata")
    assert times["test_line_times.py", line_of("# operator"), ""] >= WAIT_S


def test_lowering_knows_the_lines_of_its_nodes(recorded: SessionReader) -> None:
    lines = {(line, module) for _, line, module in times_of(recorded, "GraphLowering.run")}
    assert (line_of("return y.relu()"), "inner") in lines
    assert (line_of("# operator"), "") in lines


def test_lines_take_no_longer_than_their_phase_has_for_itself(recorded: SessionReader) -> None:
    for phase in recorded.rows(model.Span):
        ends_s = phase.start_s + phase.duration_s
        inner = [
            one
            for one in recorded.rows(model.Span)
            if one.depth == phase.depth + 1 and phase.start_s <= one.start_s < ends_s
        ]
        own_s = phase.duration_s - sum(one.duration_s for one in inner)
        lines = [
            row
            for row in recorded.rows(model.PhaseLine)
            if (row.phase, row.phase_start_s) == (phase.name, phase.start_s)
        ]
        assert sum(row.duration_s for row in lines) <= own_s + 1e-6, phase.name


def test_notices_say_which_line_dynamo_is_at_and_how_many_operations_there_are(
    tmp_path: Path,
) -> None:
    """Tracing waits twice, each time for longer than the pause between two notices."""
    reader, notices = record_with_notices(
        tmp_path / "s.fxs", lambda compile: compile(Outer())(torch.ones(2))
    )
    reader.close()
    lines = [notice for notice in notices if notice.kind == "line"]
    assert {notice.text for notice in lines} == {__file__}
    assert lines[0].line < line_of("# operator")
    assert 2 <= len(lines) < 10
    operations = [notice.operations for notice in lines]
    assert operations == sorted(operations)
    assert operations[-1] >= 3  # x, sin, and the product with the constant


def test_a_phase_tells_the_thread_that_it_ran_on(tmp_path: Path) -> None:
    def program(compile: Compile) -> None:
        compile(lambda x: x + 1)(torch.ones(2))
        other = threading.Thread(
            target=lambda: compile(lambda x: x * 2)(torch.ones(3)), name="a thread of mine"
        )
        other.start()
        other.join()

    with record(tmp_path / "s.fxs", program) as reader:
        threads = {row.compilation: row.thread for row in reader.rows(model.Span)}
        assert not failures(reader)
    assert set(threads.values()) == {"", "a thread of mine"}


def test_the_opcodes_of_dynamo_are_as_before_when_the_recording_ends(tmp_path: Path) -> None:
    from torch._dynamo import symbolic_convert

    tables = [
        symbolic_convert.InliningInstructionTranslator.dispatch_table,
        symbolic_convert.InstructionTranslator.dispatch_table,
    ]
    before = [list(table) for table in tables]
    record(tmp_path / "s.fxs", lambda compile: compile(Outer())(torch.ones(4))).close()
    assert [list(table) for table in tables] == before
