"""These tests check that the recorded steps of Dynamo's trace are those that a bare compile logs
(``TORCH_LOGS=trace_source,trace_bytecode``), and that nodes and guards of each step are those of
the graph and of torch's guards.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from fx_explorer import model
from fx_explorer.analysis.dynamo_trace import TracedAttempt, frames_at, state_at
from fx_explorer.answers.of_trace import of_trace
from fx_explorer.capture.dynamo import symbolic_trace
from fx_explorer.capture.dynamo.source_names import in_users_names
from fx_explorer.capture.torch_compat import private_names
from fx_explorer.instruments.trace.view import describe_outcome, missing_hook, trace_table
from fx_explorer.session import SessionReader
from tests.capture.recorded import failures, record

Compile = Callable[[Any], Any]


def square(x: torch.Tensor) -> torch.Tensor:
    return x * x


def repeat(x: torch.Tensor, times: int) -> torch.Tensor:
    for i in range(times):
        x = x + i
    return square(x)


def multiples(x: torch.Tensor) -> Iterator[torch.Tensor]:
    for i in range(3):
        yield x * i


@contextlib.contextmanager
def doubled(x: torch.Tensor) -> Iterator[torch.Tensor]:
    yield x * 2


class Rude:
    """Whoever asks one of these for its text runs code of the program's."""

    asked = 0

    def __repr__(self) -> str:
        Rude.asked += 1
        raise RuntimeError("do not ask")

    __str__ = __repr__


class Everything(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.rude = Rude()
        self.seen: list[int] = []

    def forward(self, x: torch.Tensor, times: int) -> torch.Tensor:
        rude = self.rude
        with torch.no_grad():
            y = self.fc(x)
        y = repeat(y, times)
        self.seen.append(1)
        with doubled(y) as z:
            y = y + z
        total: torch.Tensor = sum(multiples(y))  # type: ignore[assignment]
        torch._dynamo.graph_break()
        try:
            raise KeyError(times)
        except KeyError:
            total = total + 1
        if total.sum() > 0:
            total = total + 1
        return total.relu() if rude is self.rude else total


def raising(x: torch.Tensor) -> torch.Tensor:
    y = square(x)
    raise ValueError(Rude())
    return y


def everything(compile_it: Compile) -> None:
    compile_it(Everything())(torch.ones(2, 4), 2)
    with contextlib.suppress(ValueError):
        compile_it(raising)(torch.ones(2))


def gpt2(compile_it: Compile) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=32, n_positions=16, n_embd=16, n_layer=1, n_head=2, use_cache=False
    )
    language_model = transformers.GPT2Model(config).eval()
    with torch.no_grad():
        compile_it(language_model)(torch.zeros(1, 8, dtype=torch.long))


# torch's own log


class Logged(logging.Handler):
    """Keeps what torch logs of lines and instructions."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, int, str, int]] = []
        """(file, line, function, inline depth)."""
        self.instructions: list[tuple[str, object, int]] = []
        """(opcode, argument, number of values on the stack)."""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        line = LINE.match(text)
        if line:
            self.lines.append((line[1], int(line[2]), line[3], int(line[4] or 0)))
        elif text.startswith("TRACE ") and record.args:
            opcode, argument, stack = record.args  # type: ignore[misc]
            self.instructions.append((str(opcode), argument, members(str(stack))))


LINE = re.compile(r"TRACE starts_line (.+?):(-?\d+) in (\S+)[^\n]*?(?:\(inline depth: (\d+)\))?\n")


def members(text: str) -> int:
    """Return the number of members of a list, as Python writes it."""
    depth = count = 0
    quote = ""
    inside = text[1:-1].strip()
    for before, character in zip(f" {inside}", inside, strict=False):
        if quote:
            if character == quote and before != "\\":
                quote = ""
        elif character in "'\"":
            quote = character
        elif character in "([{<":
            depth += 1
        elif character in ")]}>":
            depth -= 1
        elif character == "," and depth == 0:
            count += 1
    return count + 1 if inside else 0


def logged(program: Callable[[Compile], None]) -> Logged:
    """Run a program without a recorder, and return what torch logs."""
    kept = Logged()
    names = ("trace_source", "trace_bytecode")
    loggers = [logging.getLogger(f"torch._dynamo.symbolic_convert.__{name}") for name in names]
    torch._dynamo.reset()
    torch._logging.set_logs(trace_source=True, trace_bytecode=True)
    for logger in loggers:
        logger.addHandler(kept)
        logger.propagate = False
    try:
        program(lambda function: torch.compile(function, backend="eager"))
    finally:
        for logger in loggers:
            logger.removeHandler(kept)
        torch._logging.set_logs()
        torch._dynamo.reset()
    return kept


def attempts_of(reader: SessionReader) -> list[TracedAttempt]:
    return [TracedAttempt(reader, row) for row in reader.rows(model.TraceAttempt)]


@pytest.fixture(scope="module", params=[everything, gpt2], ids=["everything", "gpt2"])
def runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Logged, SessionReader, SessionReader]]:
    """What torch logs of a program, and its sessions by line and by instruction."""
    folder = tmp_path_factory.mktemp("trace")
    Rude.asked = 0
    by_line = record(folder / "lines.fxs", request.param, backend="eager")
    whole = record(folder / "all.fxs", request.param, backend="eager", record_trace=True)
    assert Rude.asked == 0
    yield logged(request.param), by_line, whole
    by_line.close()
    whole.close()


Runs = tuple[Logged, SessionReader, SessionReader]


def recorded_lines(reader: SessionReader) -> list[tuple[str, int, str, int]]:
    paths = {file.id: file.path for file in reader.rows(model.SourceFile)}
    lines = []
    for attempt in attempts_of(reader):
        for at, step in enumerate(attempt.steps):
            if step.starts_line:
                function = attempt.function_of(step.call).rpartition(".")[2]
                depth = len(attempt.callers(step.call))
                lines.append((paths[attempt.file_of(at)], step.line, function, depth))
    return lines


def test_lines_are_those_of_torchs_log(runs: Runs) -> None:
    log, *readers = runs
    assert len(log.lines) > 100
    for reader in readers:
        assert not failures(reader)
        recorded = recorded_lines(reader)
        assert [line[:3] for line in recorded] == [line[:3] for line in log.lines]
        for line, logged_line in zip(recorded, log.lines, strict=True):
            # torch counts a generator's depth from where it was made.
            assert line[2] in ("doubled", "multiples") or line[3] == logged_line[3]


def test_instructions_are_those_of_torchs_log(runs: Runs) -> None:
    log, _, whole = runs
    recorded = []
    for attempt in attempts_of(whole):
        for at, step in enumerate(attempt.steps):
            if step.instruction:
                state = state_at(attempt, at)
                assert state is not None
                opcode, _, argument = step.instruction.partition(" ")
                recorded.append((opcode, argument, len(state.stack)))
    assert len(log.instructions) > 300
    assert [(opcode, size) for opcode, _, size in recorded] == [
        (opcode, size) for opcode, _, size in log.instructions
    ]
    for (_, argument, _), (opcode, logged_argument, _) in zip(
        recorded, log.instructions, strict=True
    ):
        if type(logged_argument) is str and opcode != "LOAD_CONST":
            assert argument == logged_argument


def test_nodes_of_the_last_attempt_are_those_of_the_graph(runs: Runs) -> None:
    _, *readers = runs
    for reader in readers:
        last = {row.compilation: row for row in reader.rows(model.TraceAttempt)}
        graphs = reader.rows(model.Graph, stage="dynamo")
        assert graphs
        for graph in graphs:
            attempt = TracedAttempt(reader, last[graph.compilation])
            traced = Counter(
                node.name for node in attempt.nodes if not node.is_removed and not node.is_nested
            )
            assert traced == Counter(node.name for node in reader.nodes(graph))
            assert sum(step.node_count for step in attempt.steps) == len(attempt.nodes)


IN_TORCH = "/site-packages/torch/"


def test_a_node_is_added_at_the_line_of_its_own_stack(runs: Runs) -> None:
    _, reader, _ = runs
    last = {row.compilation: row for row in reader.rows(model.TraceAttempt)}
    paths = {file.id: file.path for file in reader.rows(model.SourceFile)}
    compared = 0
    for graph in reader.rows(model.Graph, stage="dynamo"):
        attempt = TracedAttempt(reader, last[graph.compilation])
        at_of = {node.name: attempt.at_position(node.position) for node in attempt.nodes}
        for node in reader.nodes(graph):
            if node.op in ("placeholder", "output") or not node.stack:
                continue
            frames = reader.get(model.Stack, node.stack).frames
            places = []
            for call, line in frames_at(attempt, at_of[node.name]):
                path = paths[call.file]
                if IN_TORCH not in path or places:  # torch leaves its own out
                    places.append((path, line))
            assert places[0] == (frames[-1].file, frames[-1].line), node.name
            compared += 1
    assert compared > 8


def test_guards_of_the_steps_are_those_that_torch_checks(runs: Runs) -> None:
    _, *readers = runs
    for reader in readers:
        last = {row.compilation: row for row in reader.rows(model.TraceAttempt)}
        compared = 0
        for compilation, row in last.items():
            steps = TracedAttempt(reader, row).steps
            assert sum(step.guard_count for step in steps) == row.guards
            added = {guard for step in steps for guard in step.guards}
            sources = {guard.partition(" ")[2] for guard in added}
            for guard in reader.rows(model.Guard, compilation=compilation):
                if guard.source and guard.kind:
                    name = in_users_names(guard.source)
                    # Of some guards torch makes a second one, of the type, when it builds them.
                    assert f"{guard.kind} {name}" in added or guard.kind == "TYPE_MATCH"
                    assert name in sources
                    compared += 1
        assert compared > 20


def test_what_was_rolled_back_is_told(runs: Runs) -> None:
    _, reader, _ = runs
    restarted = [row for row in reader.rows(model.TraceAttempt) if row.ended == "restarted"]
    breaks = reader.rows(model.GraphBreak)
    for row in restarted:
        assert row.reason
        last = TracedAttempt(reader, row).steps[-1]
        assert last.kind == "end"
        assert last.event == f"starts over: {row.reason}"
    if breaks:
        assert restarted


def small(compile_it: Compile) -> None:
    compile_it(repeat)(torch.ones(2), 3)


def test_beyond_the_limit_steps_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(symbolic_trace, "MAX_STEPS", 5)
    reader = record(tmp_path / "s.fxs", small, backend="eager", record_trace=True)
    (row,) = reader.rows(model.TraceAttempt)
    assert not failures(reader)
    assert row.ended == "traced"
    assert row.steps == reader.count(model.TraceStep) == 5
    assert row.left_out > 20
    assert "beyond the limit" in describe_outcome([row])
    reader.close()


def test_without_the_hook_of_instructions_there_are_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(symbolic_trace, "INSTRUCTION_HOOK", "no_such_hook")
    reader = record(tmp_path / "s.fxs", small, backend="eager", record_trace=True)
    (row,) = reader.rows(model.TraceAttempt)
    assert not row.has_instructions
    assert row.steps > 5
    assert "no_such_hook" in missing_hook(reader)
    reader.close()


def test_without_the_other_hooks_the_view_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(private_names.MODULE_OF, "SubgraphTracer", "torch._dynamo.config")
    reader = record(tmp_path / "s.fxs", small, backend="eager")
    assert not reader.rows(model.TraceAttempt)
    assert "SubgraphTracer" in trace_table(reader).empty
    assert reader.rows(model.Graph, stage="dynamo")
    reader.close()


def test_a_line_that_only_begins_a_function_was_not_discarded(runs: Runs) -> None:
    _, _, whole = runs
    if not whole.has(model.TracedCall, function="multiples"):
        pytest.skip("the program has no generator")
    line = multiples.__code__.co_firstlineno
    answer = of_trace(whole, f"{__file__}:{line}")
    assert not all(row["is_discarded"] for row in answer.rows)
    assert answer.text.endswith(
        f":{line}, Dynamo only entered a function: it recorded no call, node or guard."
    )
