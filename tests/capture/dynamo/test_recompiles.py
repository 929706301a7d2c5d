"""These tests check recompiles of real programs: the input, its old and new value and the lines,
against what the test itself changed.
"""

from __future__ import annotations

import contextlib
import enum
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import nn

from fx_explorer.capture.dynamo.failed_guards import looked_at, tensor_source
from fx_explorer.capture.recording.described import LONGEST_VALUE, described
from fx_explorer.instruments.recompiles.causes import ExplainedRecompile, limit_hits, recompiles
from fx_explorer.model import Compilation, Recompile
from fx_explorer.overview.overview import overview
from fx_explorer.session import SessionReader
from tests.capture.recorded import Compile, failures, record
from tests.exhaustive import one_of

SCALE = 2.0


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.drop = nn.Dropout(0.5)
        self.power = 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.drop(self.linear(x))  # uses: training flag
        return x**self.power  # uses: module attribute


def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * SCALE  # uses: global


def doubled(x: torch.Tensor) -> torch.Tensor:
    y = torch.ones(3).sum()
    return x * 2 + y  # uses: x


def times(x: torch.Tensor, k: int) -> torch.Tensor:
    return x * k  # uses: k


def shifted(x: torch.Tensor, up: bool) -> torch.Tensor:
    return x + 1 if up else x - 1  # uses: up


def total(parts: list[torch.Tensor]) -> torch.Tensor:
    first = parts[0]  # uses: parts
    return sum(parts[1:], first)


def batch_size(compile_: Compile) -> None:
    compiled = compile_(doubled)
    compiled(torch.ones(4, 8))
    compiled(torch.ones(6, 8))  # calls: batch_size


def sequence_length(compile_: Compile) -> None:
    compiled = compile_(doubled)
    compiled(torch.ones(2, 5, 8))
    compiled(torch.ones(2, 7, 8))  # calls: sequence_length


def dtype(compile_: Compile) -> None:
    compiled = compile_(doubled)
    compiled(torch.ones(4))
    compiled(torch.ones(4, dtype=torch.float64))  # calls: dtype


def device(compile_: Compile) -> None:
    """The second device is one without data: it is on every machine."""
    compiled = compile_(doubled)
    compiled(torch.ones(4))
    compiled(torch.ones(4, device="meta"))  # calls: device


def requires_grad(compile_: Compile) -> None:
    compiled = compile_(doubled)
    compiled(torch.ones(4, requires_grad=True))
    compiled(torch.ones(4))  # calls: requires_grad


def dimensions(compile_: Compile) -> None:
    compiled = compile_(doubled)
    compiled(torch.ones(4, 8))
    compiled(torch.ones(4, 8, 2))  # calls: dimensions


def training_flag(compile_: Compile) -> None:
    layer = Layer()
    compiled = compile_(layer)
    compiled(torch.ones(4, 8))
    layer.eval()
    compiled(torch.ones(4, 8))  # calls: training_flag


def integer(compile_: Compile) -> None:
    compiled = compile_(times)
    compiled(torch.ones(4), 3)
    compiled(torch.ones(4), 5)  # calls: integer


def another_type(compile_: Compile) -> None:
    compiled = compile_(times)
    compiled(torch.ones(4), True)
    compiled(torch.ones(4), 2.5)  # calls: another_type


def boolean(compile_: Compile) -> None:
    compiled = compile_(shifted)
    compiled(torch.ones(4), True)
    compiled(torch.ones(4), False)  # calls: boolean


def list_length(compile_: Compile) -> None:
    compiled = compile_(total)
    compiled([torch.ones(4), torch.zeros(4)])
    compiled([torch.ones(4), torch.zeros(4), torch.ones(4)])  # calls: list_length


def module_attribute(compile_: Compile) -> None:
    layer = Layer()
    compiled = compile_(layer)
    compiled(torch.ones(4, 8))
    layer.power = 3
    compiled(torch.ones(4, 8))  # calls: module_attribute


def global_variable(compile_: Compile) -> None:
    global SCALE
    compiled = compile_(scaled)
    compiled(torch.ones(4))
    SCALE = 3.0
    compiled(torch.ones(4))  # calls: global_variable
    SCALE = 2.0


def grad_mode(compile_: Compile) -> None:
    compiled = compile_(doubled)
    compiled(torch.ones(4, requires_grad=True))
    with torch.no_grad():
        compiled(torch.ones(4, requires_grad=True))  # calls: grad_mode


class Expected(NamedTuple):
    kind: str
    name: str
    old: str
    new: str
    uses: str
    """The line that uses it; empty where no one line does."""
    index: int | None = None


CHANGES: dict[Callable[[Compile], None], Expected] = {
    batch_size: Expected("size", "x", "4", "6", "x", 0),
    sequence_length: Expected("size", "x", "5", "7", "x", 1),
    dimensions: Expected("rank", "x", "2", "3", "x"),
    dtype: Expected("dtype", "x", "float32", "float64", "x"),
    device: Expected("device", "x", "cpu", "meta", "x"),
    requires_grad: Expected("requires_grad", "x", "True", "False", "x"),
    training_flag: Expected("training", "self.drop.training", "True", "False", "training flag"),
    integer: Expected("number", "k", "3", "5", "k"),
    another_type: Expected("value", "k", "True", "2.5", "k"),
    boolean: Expected("value", "up", "True", "False", "up"),
    list_length: Expected("length", "parts", "2", "3", "parts"),
    module_attribute: Expected("number", "self.power", "2", "3", "module attribute"),
    global_variable: Expected("number", "SCALE", "2.0", "3.0", "global"),
    grad_mode: Expected("grad_mode", "", "on", "off", ""),
}


def line_of(comment: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"  # {comment}"))


@pytest.fixture(scope="module")
def recorded(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[Callable[[Compile], None]], SessionReader]]:
    """Each program is recorded once."""
    readers: dict[object, SessionReader] = {}
    folder = tmp_path_factory.mktemp("recompiles")

    def make(program: Callable[[Compile], None]) -> SessionReader:
        if program not in readers:
            readers[program] = record(folder / f"{program.__name__}.fxs", program, backend="eager")
        return readers[program]

    yield make
    for reader in readers.values():
        reader.close()


by_program = pytest.mark.parametrize(
    "program", one_of(2, CHANGES), ids=lambda program: program.__name__
)


@by_program
def test_a_recompile_names_what_the_program_changed(
    recorded: Callable[..., SessionReader], program: Callable[..., None]
) -> None:
    expected, (found,) = CHANGES[program], recompiles(recorded(program))
    change = found.change
    assert (change.kind, change.name, change.index) == (
        expected.kind,
        expected.name,
        expected.index,
    )
    assert (change.old, change.new) == (expected.old, expected.new)
    assert expected.old in found.description
    assert expected.new in found.description


@by_program
def test_a_recompile_names_the_line_that_uses_it_and_the_call(
    recorded: Callable[..., SessionReader], program: Callable[..., None]
) -> None:
    expected, (found,) = CHANGES[program], recompiles(recorded(program))
    assert (found.file, found.line) == (
        (__file__, line_of(f"uses: {expected.uses}")) if expected.uses else ("", 0)
    )
    assert found.called_from == (__file__, line_of(f"calls: {program.__name__}"))
    assert (found.of, found.compilation) == ("0/0", "0/1")


@by_program
def test_each_has_a_remedy_that_names_the_value(
    recorded: Callable[..., SessionReader], program: Callable[..., None]
) -> None:
    (found,) = recompiles(recorded(program))
    assert found.remedy
    if program in (batch_size, sequence_length):
        assert f"torch._dynamo.mark_dynamic(x, {found.change.index})" in found.remedy
    elif program not in (boolean, training_flag, grad_mode, another_type):
        assert found.change.name in found.remedy


@pytest.mark.parametrize(
    ("program", "graphs"),
    [
        (batch_size, "the graphs are equal except for sizes"),
        (dtype, "the graphs are equal except for dtypes"),
        (
            integer,
            "the graphs are equal, except that a constant size or number became an input",
        ),
        (boolean, "1 operation more: sub, 1 operation less: add"),
        (list_length, "1 operation more: add"),
        (module_attribute, "the same operations with other arguments: pow(x, 2) → pow(x, 3)"),
    ],
)
def test_the_graphs_of_both_compilations_are_compared(
    recorded: Callable[..., SessionReader], program: Callable[..., None], graphs: str
) -> None:
    (found,) = recompiles(recorded(program))
    assert found.graphs == graphs


@by_program
def test_nothing_goes_wrong_while_it_is_looked_at(
    recorded: Callable[..., SessionReader], program: Callable[..., None]
) -> None:
    assert failures(recorded(program)) == []


# special cases


def words(found: list[ExplainedRecompile]) -> list[str]:
    return [one.description for one in found]


def test_a_recompile_is_compared_with_the_latest_compilation_and_those_before_are_counted(
    tmp_path: Path,
) -> None:
    def program(compile_: Compile) -> None:
        compiled = compile_(shifted)
        for value in (True, False, "yes"):
            compiled(torch.ones(4), value)

    found = recompiles(record(tmp_path / "s.fxs", program, backend="eager"))
    assert [(one.compilation, one.of, one.times) for one in found] == [
        ("0/1", "0/0", 1),
        ("0/2", "0/1", 2),
    ]
    assert words(found) == ["up was True and now is False", "up was False and now is 'yes'"]


def test_a_size_outside_the_range_of_a_dynamic_one_was_what_the_code_was_compiled_with(
    tmp_path: Path,
) -> None:
    def program(compile_: Compile) -> None:
        compiled = compile_(doubled)
        for size in (4, 6, 1):
            compiled(torch.ones(size, 8))

    _, found, _ = recompiles(record(tmp_path / "s.fxs", program, backend="eager"))
    assert (
        found.description == "size 0 of x was 6 and now is 1; the compiled code is for 2 and more"
    )
    assert "mark_unbacked(x, 0)" in found.remedy


def test_a_size_that_torch_made_dynamic_is_said_to_need_no_more(tmp_path: Path) -> None:
    def program(compile_: Compile) -> None:
        compiled = compile_(doubled)
        for size in (4, 6, 9):
            compiled(torch.ones(size, 8))

    reader = record(tmp_path / "s.fxs", program, backend="eager")
    (found,) = recompiles(reader)
    assert reader.count(Compilation) == 2
    assert "so other values do not recompile" in found.remedy


def test_after_a_reset_the_numbers_are_given_again_and_told_apart(tmp_path: Path) -> None:
    def program(compile_: Compile) -> None:
        integer(compile_)
        torch._dynamo.reset()
        boolean(compile_)

    reader = record(tmp_path / "s.fxs", program, backend="eager")
    found = recompiles(reader)
    assert [(one.compilation, one.of, one.function) for one in found] == [
        ("0/1", "0/0", "times"),
        ("0/1#2", "0/0#2", "shifted"),
    ]
    assert [row.name for row in reader.rows(Compilation)] == ["0/0", "0/1", "0/0#2", "0/1#2"]


@pytest.mark.parametrize("fullgraph", [False, True])
def test_reaching_the_recompile_limit_is_told_once_a_function(
    tmp_path: Path, fullgraph: bool
) -> None:
    def program(_: Compile) -> None:
        compiled = torch.compile(shifted, backend="eager", fullgraph=fullgraph)
        refused = (
            pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit)
            if fullgraph
            else contextlib.nullcontext()
        )
        for value in "abc":
            compiled(torch.ones(4), value)
        for value in "def":
            with refused:
                compiled(torch.ones(4), value)

    with torch._dynamo.config.patch(recompile_limit=3):
        reader = record(tmp_path / "s.fxs", program)
    (found,) = limit_hits(reader)
    assert (found.compilation, found.function, found.limit, found.compiled) == (
        "0/3",
        "shifted",
        3,
        3,
    )
    assert (found.file, found.line) == (__file__, inspect.getsourcelines(shifted)[1])
    assert found.change == "up was 'c' and now is 'd'"
    refused = reader.rows(Compilation, name="0/3")[0]
    assert (refused.function, refused.file, refused.line) == (
        found.function,
        found.file,
        found.line,
    )
    assert (found.option, found.is_error) == ("recompile_limit", fullgraph)
    assert ("raise an error" if fullgraph else "run in eager mode") in found.description
    assert {one.function for one in recompiles(reader)} == {"shifted"}
    facts = [fact for fact in overview(reader) if fact.topic in ("recompiles", "graphs")]
    texts = [fact.text for fact in facts]
    assert sum("which is the limit" in text for text in texts) == 1
    # Its recompiles are part of that finding.
    assert sum("was recompiled" in text for text in texts) == 0
    limit = next(fact for fact in overview(reader) if "which is the limit" in fact.text)
    assert "shifted was recompiled 2 times: up was 'a', 'b', 'c'." in limit.detail
    assert not any("not compiled" in text for text in texts)


def test_the_values_of_a_tensor_are_never_recorded(tmp_path: Path) -> None:
    def program(compile_: Compile) -> None:
        compiled = compile_(times)
        compiled(torch.ones(2), 3)
        compiled(torch.ones(2), torch.full((2,), 12345.0))

    reader = record(tmp_path / "s.fxs", program, backend="eager")
    (row,) = reader.rows(Recompile)
    assert row.new == "f32[2]"


class Colour(enum.Enum):
    RED = 1


class Loud:
    def __repr__(self) -> str:
        raise RuntimeError("the program's own code")

    __str__ = __eq__ = __len__ = __repr__  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (torch.zeros(4, 8), "f32[4, 8]"),
        (torch.zeros((), dtype=torch.int64), "i64[]"),
        (16, "16"),
        (True, "True"),
        (None, "None"),
        ("relu", "'relu'"),
        (10**5000, "int of 16610 bits"),
        ([1, 2], "list of 2"),
        ({}, "dict of 0"),
        (torch.float16, "torch.float16"),
        (Colour.RED, "Colour.RED"),
        (Layer, "class Layer"),
        (nn.ReLU(), "object of class ReLU"),
        (doubled, "function doubled"),
        (torch.sin, "function sin"),
        (Loud(), "object of class Loud"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_value_is_described_in_short_without_running_code_of_the_program(
    value: object, text: str
) -> None:
    assert described(value) == text


def test_a_long_value_is_cut() -> None:
    assert len(described("x" * 10_000)) == LONGEST_VALUE
    assert described("x" * 10_000).endswith("…")


@pytest.mark.parametrize(
    ("guard", "expressions"),
    [
        ("L['k'] == 2                 # def f(x, k): return x * k  # m.py:3 in f", ["L['k']"]),
        ("len(L['xs']) == 2", ["len(L['xs'])"]),
        ("not L['flag']", ["L['flag']"]),
        ("L['a'] is L['b']", ["L['a']", "L['b']"]),
        ("2 <= L['x'].size()[0]  # s77", ["L['x'].size()[0]"]),
        ("((L['x'].size()[0] % 8) == 0)", ["L['x'].size()[0]"]),
        ("L['x'].size()[0] + L['y'].size()[1] <= 64", ["L['x'].size()[0]", "L['y'].size()[1]"]),
        ("___check_type_id(L['k'], 94383), type=<class 'int'>  # HINT", ["L['k']"]),
        ("___check_obj_id(L['self'].act, 94383), type=<class 'function'>", ["L['self'].act"]),
        ("G['SCALE'] == 'a # b'", ["G['SCALE']"]),
        ("GLOBAL_STATE changed: grad_mode ", []),
        ("Duplicate tensor found where not expected!", []),
        ("", []),
    ],
)
def test_what_a_guard_looks_at(guard: str, expressions: list[str]) -> None:
    assert looked_at(guard) == expressions


def test_the_tensor_a_guard_looks_at() -> None:
    assert (
        tensor_source("tensor 'L['batch']['ids']' size mismatch at index 0. expected 4, actual 6")
        == "L['batch']['ids']"
    )
    assert tensor_source("L['k'] == 2") == ""
