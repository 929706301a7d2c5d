"""These tests check that torch's checks at each call are rows with their line, and can be applied
to inputs that were not run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from fx_explorer.capture.dynamo.what_if import ONLY_BY_RUNNING, what_if
from fx_explorer.errors import UsageError
from fx_explorer.model import Artifact, Guard, GuardCheck, Metric
from fx_explorer.session import SessionReader
from tests.capture.dynamo.asking import Asking, asking
from tests.capture.recorded import record
from tests.exhaustive import with_others

SCALE = 2.0

RELATIONS = {"NO_TENSOR_ALIASING", "OBJECT_ALIASING"}
"""Between several values; Python cannot call these checks. The latter are of other releases than
2.13.
"""


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(8, 8)
        self.power = 2

    def forward(self, x: torch.Tensor, y: torch.Tensor, n: int = 3) -> torch.Tensor:
        h = self.fc(x) * SCALE + y.sum()
        if self.training:
            h = F.gelu(h)
        return h**self.power * n


def inputs(rows: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones(rows, 8), torch.ones(3)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> SessionReader:
    path = tmp_path_factory.mktemp("guards") / "s.fxs"
    return record(path, lambda compile: compile(Net())(*inputs()), backend="eager", dynamic=True)


def line_of(code: str) -> int:
    return next(
        i for i, line in enumerate(Path(__file__).read_text().splitlines(), 1) if code in line
    )


def checks(reader: SessionReader, **equals: object) -> list[GuardCheck]:
    return reader.rows(GuardCheck, **equals)


# rows


def test_the_checks_are_the_leaves_that_torch_prints(recorded: SessionReader) -> None:
    (tree,) = recorded.rows(Artifact, kind="guard_tree")
    printed = re.findall(r"\+- ([A-Z_]+): (.*)", recorded.text(tree.text))
    rows = checks(recorded)
    assert {code.partition("  # ")[0].rstrip() for _, code in printed} == {
        part for row in rows for part in parts(row)
    }
    distinct = Counter(
        kind for kind, code in printed if "hasattr" not in code or "_dynamo_dynamic_indices" in code
    )
    assert Counter(row.kind for row in rows) == distinct


def parts(row: GuardCheck) -> list[str]:
    return row.code.split(" and ") if row.kind == "DIMENSION_DYNAMIC_MARKING_GUARD" else [row.code]


@pytest.mark.parametrize(
    ("source", "origin", "line"),
    [
        ("L['x']", "argument", "h = self.fc(x) * SCALE"),
        ("L['n']", "argument", "return h**self.power"),
        ("G['SCALE']", "global", "h = self.fc(x) * SCALE"),
        ("L['self'].training", "module", "if self.training"),
        ("L['self'].power", "module", "return h**self.power"),
    ],
)
def test_a_check_says_where_its_value_comes_from_and_which_line_asked(
    recorded: SessionReader, source: str, origin: str, line: str
) -> None:
    rows = [row for row in checks(recorded, source=source) if row.guard]
    assert {(row.origin, row.file, row.line) for row in rows} == {(origin, __file__, line_of(line))}


def test_torchs_own_modules_and_settings_are_told_from_the_programs(
    recorded: SessionReader,
) -> None:
    origins = {row.kind: row.origin for row in checks(recorded)}
    assert (origins["GLOBAL_STATE"], origins["DEFAULT_DEVICE"]) == ("state", "state")
    assert {row.origin for row in checks(recorded) if "__import_torch" in row.source} == {"library"}


def test_relations_between_sizes_are_checks_of_their_own_with_the_line_that_needed_them(
    tmp_path: Path,
) -> None:
    def relate(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 2:
            x = x * 2
        return x + y.shape[0] if x.shape[0] < y.shape[0] else x

    with record(
        tmp_path / "s",
        lambda c: c(relate)(torch.ones(4), torch.ones(9)),
        backend="eager",
        dynamic=True,
    ) as reader:
        found = {row.code: row.line for row in checks(reader, origin="shapes")}
    assert found["3 <= L['x'].size()[0]"] == line_of("if x.shape[0] > 2:")
    assert found["L['x'].size()[0] < L['y'].size()[0]"] == line_of("x.shape[0] < y.shape[0] else x")


def test_a_size_that_is_bounded_on_both_sides_is_a_relation_too(tmp_path: Path) -> None:
    def bounded(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if 2 < x.shape[0] < 100 else x

    with record(
        tmp_path / "s", lambda c: c(bounded)(torch.ones(4)), backend="eager", dynamic=True
    ) as reader:
        assert [row.code for row in checks(reader, origin="shapes")] == [
            "3 <= L['x'].size()[0] <= 99"
        ]


def test_a_variable_of_an_enclosing_function_is_its_closure(tmp_path: Path) -> None:
    factor = 3.0

    def scaled(x: torch.Tensor) -> torch.Tensor:
        return x * factor

    with record(tmp_path / "s", lambda c: c(scaled)(torch.ones(4)), backend="eager") as reader:
        assert [(row.origin, row.value) for row in checks(reader, source="L['factor']")] == [
            ("closure", "3.0")
        ]


def test_a_check_belongs_to_the_guard_that_asked_for_it(recorded: SessionReader) -> None:
    guards = {guard.id: guard for guard in recorded.rows(Guard)}
    for row in checks(recorded):
        if row.guard and row.source and row.kind not in RELATIONS:
            source = row.source.removesuffix(".__dict__")
            assert guards[row.guard].source == source
    unowned = {row.kind for row in checks(recorded) if not row.guard}
    assert unowned == {"NO_TENSOR_ALIASING"}  # torch installs it for all tensors together


def test_what_is_measured_is_measured_and_the_rest_says_that_it_is_not(
    recorded: SessionReader,
) -> None:
    rows = checks(recorded)
    assert {row.kind for row in rows if row.cost_ns < 0} == {row.kind for row in rows} & RELATIONS
    assert min(row.cost_ns for row in rows if row.cost_ns >= 0) == 0
    (whole,) = recorded.rows(Metric, name="guard_check_ns")
    assert float(whole.value) > 0


# what if


class Flag:
    """A plain object that is passed in."""

    def __init__(self, on: bool) -> None:
        self.on = on


def flagged(x: torch.Tensor, flag: Flag, sizes: list[int], k: int = 1) -> torch.Tensor:
    return (x * 2 if flag.on else x) + len(sizes) * k


FIRST = (torch.ones(4, 8), Flag(True), [1, 2])

OTHERS: dict[str, tuple[Any, ...]] = {
    "same": (torch.zeros(4, 8), Flag(True), [1, 2]),
    "other batch": (torch.ones(5, 8), Flag(True), [1, 2]),
    "other dtype": (torch.ones(4, 8, dtype=torch.float64), Flag(True), [1, 2]),
    "other rank": (torch.ones(4), Flag(True), [1, 2]),
    "other stride": (torch.ones(8, 4).t(), Flag(True), [1, 2]),
    "wants a gradient": (torch.ones(4, 8, requires_grad=True), Flag(True), [1, 2]),
    "flag off": (torch.ones(4, 8), Flag(False), [1, 2]),
    "longer list": (torch.ones(4, 8), Flag(True), [1, 2, 3]),
    "other elements": (torch.ones(4, 8), Flag(True), [3, 4]),
    "other int": (torch.ones(4, 8), Flag(True), [1, 2], 2),
    "no tensor": (3, Flag(True), [1, 2]),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("dynamic", with_others([None], [True]))
def test_the_guards_say_what_running_it_then_does(
    tmp_path: Path, other: tuple[Any, ...], dynamic: bool | None
) -> None:
    with asking(tmp_path / "s", flagged, *FIRST, dynamic=dynamic) as asked:
        (answer,) = asked.ask(*other)
        assert (answer.answer == "rejected") == asked.compiles_again(*other)


@pytest.mark.parametrize(
    ("other", "kind", "source"),
    [
        ("other batch", "TENSOR_MATCH", "L['x']"),
        ("flag off", "TRUE_MATCH", "L['flag'].on"),
        ("longer list", "LENGTH_CHECK", "L['sizes']"),
        ("other int", "EQUALS_MATCH", "L['k']"),
    ],
)
def test_the_check_that_fails_is_named_with_its_row_and_line(
    tmp_path: Path, other: str, kind: str, source: str
) -> None:
    with asking(tmp_path / "s", flagged, *FIRST) as asked:
        (answer,) = asked.ask(*OTHERS[other])
        with SessionReader(asked.path) as reader:
            check = reader.get(GuardCheck, answer.check)
    assert (check.kind, check.source) == (kind, source)
    assert (answer.file, answer.line) == (__file__, line_of("return (x * 2 if flag.on"))


def test_a_relation_between_sizes_that_fails_is_found_among_those_checked_together(
    tmp_path: Path,
) -> None:
    def relate(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.shape[0] < y.shape[0] else x

    with asking(tmp_path / "s", relate, torch.ones(4), torch.ones(9), dynamic=True) as asked:
        (answer,) = asked.ask(torch.ones(9), torch.ones(4))
        with SessionReader(asked.path) as reader:
            assert (
                reader.get(GuardCheck, answer.check).code == "L['x'].size()[0] < L['y'].size()[0]"
            )


def test_after_a_recompile_every_compilation_is_asked(tmp_path: Path) -> None:
    with asking(tmp_path / "s", flagged, *FIRST, dynamic=False) as asked:
        asked.run(*OTHERS["other batch"])
        answers = asked.ask(*FIRST)
        assert {answer.compilation: answer.answer for answer in answers} == {
            1: "accepted",
            2: "rejected",
        }
        assert asked.said == "[0/0] would be reused: all its guards hold"
        assert not asked.compiles_again(*FIRST)


def test_a_module_is_asked_with_its_own_state(tmp_path: Path) -> None:
    net = Net()
    with asking(tmp_path / "s", net, *inputs()) as asked:
        assert [one.answer for one in asked.ask(*inputs())] == ["accepted"]
        net.eval()
        (answer,) = asked.ask(*inputs())
        assert (answer.answer, answer.line) == ("rejected", line_of("if self.training"))
        assert asked.compiles_again(*inputs())


@pytest.mark.parametrize(
    "make", [lambda: torch.nn.Sequential(torch.nn.Linear(8, 8)), lambda: torch.nn.Linear(8, 8)]
)
def test_a_module_of_torch_itself_can_be_asked(
    tmp_path: Path, make: Callable[[], torch.nn.Module]
) -> None:
    with asking(tmp_path / "s", make(), torch.ones(4, 8)) as asked:
        assert [one.answer for one in asked.ask(torch.zeros(4, 8))] == ["accepted"]
        assert [one.answer for one in asked.ask(torch.ones(6, 8))] == ["rejected"]


def test_the_grad_mode_of_the_call_counts_and_not_that_of_the_question(tmp_path: Path) -> None:
    with torch.no_grad():
        context = asking(tmp_path / "s", flagged, *FIRST)
        asked = context.__enter__()
    assert [one.answer for one in asked.ask(*FIRST)] == ["accepted"]
    context.__exit__(None, None, None)


def test_in_a_script_the_first_function_that_was_compiled_is_asked(tmp_path: Path) -> None:
    net = Net()
    with asking(tmp_path / "s", net, *inputs()) as asked:
        asked.called.callable = None
        assert [one.answer for one in asked.ask(*inputs(), 3)] == ["accepted"]
        assert [one.answer for one in asked.ask(*inputs(6), 3)] == ["rejected"]
        assert "missing a required argument: 'n'" in refusal(asked, *inputs())


def test_functions_that_only_the_program_reaches_are_not_asked(tmp_path: Path) -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        torch._dynamo.graph_break()
        return x * 2

    with asking(tmp_path / "s", broken, torch.ones(4)) as asked:
        first, resumed = asked.ask(torch.ones(4))
        assert first.answer == "accepted"
        assert (resumed.answer, resumed.reason) == ("not_asked", ONLY_BY_RUNNING)


# what cannot be asked


def refusal(asked: Asking, *args: Any) -> str:
    with pytest.raises(UsageError) as refused:
        asked.ask(*args)
    return str(refused.value)


def test_inputs_that_do_not_fit_the_function_are_refused_with_its_words(tmp_path: Path) -> None:
    with asking(tmp_path / "s", flagged, *FIRST) as asked:
        assert (
            refusal(asked)
            == "flagged cannot be called with these inputs: missing a required argument: 'x'."
        )


def test_without_a_program_there_is_nothing_to_ask(tmp_path: Path) -> None:
    with asking(tmp_path / "s", flagged, *FIRST) as asked:
        asked.state.live_guards.program = None
        with pytest.raises(UsageError, match="No call has finished yet"):
            what_if(asked.state, "anything")


def test_a_function_that_was_not_compiled_itself_is_not_answered_for(tmp_path: Path) -> None:
    def helper(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    def outer(x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            torch._dynamo.graph_break()  # within a loop: the frame is left to Python
            x = helper(x)
        return x

    with asking(tmp_path / "s", outer, torch.ones(4)) as asked:
        assert "was not compiled itself" in refusal(asked, torch.ones(4))


def test_where_nothing_was_compiled_that_is_said(tmp_path: Path) -> None:
    def outer(x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            torch._dynamo.graph_break()  # within a loop: the frame is left to Python
        return x * 2

    with asking(tmp_path / "s", outer, torch.ones(4)) as asked:
        assert refusal(asked, torch.ones(4)).startswith("Nothing was compiled")


def test_code_that_torch_has_thrown_away_is_said_to_be_gone(tmp_path: Path) -> None:
    with asking(tmp_path / "s", flagged, *FIRST) as asked:
        torch._dynamo.reset()
        (answer,) = asked.ask(*FIRST)
        assert answer.answer == "not_asked"
        assert "no longer has this compiled code" in asked.said


def test_a_comparison_that_raises_is_told_and_no_answer_is_made_up(tmp_path: Path) -> None:
    class Odd(Flag):
        @property
        def on(self) -> bool:
            raise RuntimeError("ask me no questions")

        @on.setter
        def on(self, value: bool) -> None: ...

    with asking(tmp_path / "s", flagged, *FIRST) as asked:
        (answer,) = asked.ask(torch.ones(4, 8), Odd(True), [1, 2])
    assert answer.answer in ("rejected", "not_asked")
