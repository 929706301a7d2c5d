"""These tests check guards that a filter drops: the session agrees with a bare torch, the effect of
each filter is predicted, and the changes predicted to go unnoticed do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.backends import registry
from torch._dynamo.eval_frame import _debug_get_cache_entry_list

from fx_explorer.capture.torch_compat.versions import known_filters
from fx_explorer.cli import main
from fx_explorer.errors import TargetError
from fx_explorer.instruments.guards.view import guards_table
from fx_explorer.instruments.ledger.guard_counts import GuardCounts, guard_counts
from fx_explorer.model import FilterAnswer, Guard, GuardCheck
from fx_explorer.program.calling import use_backend
from fx_explorer.program.explaining import target_error_of
from fx_explorer.program.file_functions import guard_filter, with_guard_filter
from fx_explorer.report.json_report import json_report
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import filtered
from tests.capture.recorded import failures, record
from tests.conftest import Captured, OpenedReader

FILTERS = sorted(known_filters())

SCALE = 2.0


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.drop = torch.nn.Dropout(0.5)
        self.power = 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.drop(self.fc(x)) * self.power * SCALE


def x() -> torch.Tensor:
    return torch.ones(2, 4)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> SessionReader:
    """A capture without a filter, for a ledger: each filter is asked."""
    path = tmp_path_factory.mktemp("asked") / "s.fxs"
    return record(path, lambda compile: compile(Net())(x()), backend="eager", ledger=True)


def leaves_without_us(name: str) -> int:
    """Count the leaves of the tree that torch prints, compiled with a filter and without a
    recorder.
    """
    torch._dynamo.reset()
    torch.compile(
        Net(), backend="eager", options={"guard_filter_fn": getattr(torch.compiler, name)}
    )(x())
    (entry,) = _debug_get_cache_entry_list(Net.forward.__code__)
    kinds = re.findall(r"\+- (?!\w*Manager)([A-Z_]+):", str(entry.guard_manager))
    torch._dynamo.reset()
    return sum(
        kind != "DIMENSION_DYNAMIC_MARKING_GUARD" or kinds[i - 1] != kind
        for i, kind in enumerate(kinds)
    )


def counts_of(reader: SessionReader) -> GuardCounts:
    return guard_counts(reader, {"0/0"})


def test_the_filters_are_those_of_torch() -> None:
    assert {"skip_all_guards_unsafe", "keep_tensor_guards_unsafe"} <= set(FILTERS)
    assert all(callable(getattr(torch.compiler, name)) for name in FILTERS)


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_leaves_what_it_leaves_without_us_and_what_it_was_said_to_leave(
    name: str, asked: SessionReader, tmp_path: Path
) -> None:
    options = {"guard_filter_fn": getattr(torch.compiler, name)}
    reader = record(
        tmp_path / "s.fxs", lambda _: torch.compile(Net(), backend="eager", options=options)(x())
    )
    assert failures(reader) == []
    left = reader.count(GuardCheck)
    assert left == leaves_without_us(name)
    effect = next(one for one in counts_of(asked).filters if name in (one.name, *one.like))
    assert asked.count(GuardCheck) - effect.in_cpp - effect.in_python == left
    (told,) = filtered(reader)
    assert (told.filter, told.dropped, told.guards) == (name, effect.dropped, effect.guards)
    assert {row.position for row in reader.rows(Guard) if row.dropped_by} == set(
        next(row.dropped for row in asked.rows(FilterAnswer) if row.filter == name)
    )
    assert (
        f"{name} dropped {effect.dropped} of {effect.guards} that Dynamo made"
        in guards_table(reader).notice
    )
    (compilation,) = json_report(reader)["compilations"]  # type: ignore[misc]
    assert compilation["guards"] == left
    assert compilation["dropped_guards"] == {name: effect.dropped}


def test_asking_filters_changes_no_guard(asked: SessionReader, tmp_path: Path) -> None:
    plain = record(tmp_path / "s.fxs", lambda compile: compile(Net())(x()), backend="eager")
    assert not plain.count(FilterAnswer)
    assert [row.kind for row in plain.rows(GuardCheck)] == [
        row.kind for row in asked.rows(GuardCheck)
    ]
    assert not any(row.dropped_by for row in asked.rows(Guard))


def test_a_filter_that_drops_nothing_of_a_program_is_left_out(tmp_path: Path) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    reader = record(
        tmp_path / "s.fxs", lambda compile: compile(function)(x()), backend="eager", ledger=True
    )
    names = {name for one in counts_of(reader).filters for name in (one.name, *one.like)}
    assert "skip_all_guards_unsafe" in names
    assert not [name for name in names if "nn_modules" in name or "globals" in name]


# what goes unseen


def changed(name: str, change: Callable[[Any, Any], object]) -> tuple[object, object]:
    """Return the results of a compiled program after a change, with the filter and without a
    filter.
    """
    found = []
    for options in ({"guard_filter_fn": guard_filter(name)}, None):
        torch._dynamo.reset()
        with pytest.MonkeyPatch.context() as patch:
            model = Net().eval()
            compiled = torch.compile(model, backend="eager", options=options)
            torch.nn.init.ones_(model.fc.weight)
            torch.nn.init.zeros_(model.fc.bias)
            compiled(x())
            change(model, patch)
            found.append(compiled(x()).flatten()[0].item())
    torch._dynamo.reset()
    return found[0], found[1]


@pytest.mark.parametrize(
    ("name", "says", "change"),
    [
        (
            "skip_guard_on_all_nn_modules_unsafe",
            "attributes of modules (self.power",
            lambda net, patch: setattr(net, "power", 5),
        ),
        (
            "skip_guard_on_globals_unsafe",
            "globals (SCALE)",
            lambda net, patch: patch.setitem(globals(), "SCALE", 5.0),
        ),
    ],
)
def test_what_is_said_to_go_unseen_does(
    asked: SessionReader, name: str, says: str, change: Callable[[Any, Any], object]
) -> None:
    effect = next(one for one in counts_of(asked).filters if one.name == name)
    assert says in effect.risk
    assert effect.risk.endswith("the old compiled code keeps running")
    stale, right = changed(name, change)
    assert (stale, right) == (4 * 2 * 2.0, 4 * 5 * 2.0)


def test_without_guards_an_input_of_another_shape_goes_unseen_and_that_is_said(
    asked: SessionReader,
) -> None:
    (effect,) = (one for one in counts_of(asked).filters if one.name == "skip_all_guards_unsafe")
    assert "arguments (x)" in effect.risk
    assert "another shape or dtype" in effect.risk
    graphs = []
    options = {"guard_filter_fn": guard_filter("skip_all_guards_unsafe")}
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda x: x * x.shape[0],
        backend=lambda graph, _: graphs.append(graph) or graph,
        options=options,
    )
    assert compiled(torch.ones(2))[0] == 2
    assert compiled(torch.ones(3))[0] == 2, "3 without the filter"
    assert len(graphs) == 1


# filters by name


FILE = """
def keep_tensors(entries):
    return [entry.guard_type == "TENSOR_MATCH" for entry in entries]

def raises(entries):
    raise ValueError("no")

def short(entries):
    return [True]

def numbers(entries):
    return [1 for _ in entries]

def nothing(entries):
    pass

def leaves(entries):
    raise SystemExit(5)

number = 3
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "keep.py").write_text(FILE)
    (tmp_path / "bad.py").write_text("1 / 0\n")
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(3)\n")
    monkeypatch.chdir(tmp_path)
    return "keep.py"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("skip_guards_on_globals", "did you mean skip_guard_on_globals_unsafe? torch"),
        ("xyz", "there is no guard filter 'xyz'. torch"),
        ("nofile.py:f", "there is no such file"),
        ("keep.py:missing", "keep.py has nothing named 'missing' that could be a guard filter"),
        ("keep.py:number", "keep.py:number is not callable: it is of type int"),
        (
            "bad.py:f",
            "bad.py:f cannot be loaded: ZeroDivisionError: division by zero (line 1 of bad.py)",
        ),
        ("leaves.py:f", "leaves.py:f cannot be loaded: SystemExit: 3 (line 2 of leaves.py)"),
        (3, "guard_filter_fn=3 is not the name of a filter"),
    ],
)
def test_a_filter_that_is_not_there_is_refused_with_those_that_are(
    file: str, name: object, told: str
) -> None:
    with pytest.raises(TargetError) as raised:
        guard_filter(name)
    assert told in str(raised.value)
    assert ("skip_all_guards_unsafe" in str(raised.value)) == (".py" not in str(name))


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("raises", "the guard filter keep.py:raises raised ValueError: no (line 6 of keep.py)"),
        ("short", "keep.py:short returned 1 answer for "),
        ("numbers", "keep.py:numbers returned 1; torch takes only True (keep) or False (drop)"),
        ("nothing", "keep.py:nothing returned NoneType for "),
        ("leaves", "the guard filter keep.py:leaves raised SystemExit: 5 (line 18 of keep.py)"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_a_filter_that_does_not_answer_is_told_in_a_sentence(
    file: str, name: str, told: str
) -> None:
    options = {"guard_filter_fn": guard_filter(f"{file}:{name}")}
    torch._dynamo.reset()
    with pytest.raises(Exception) as raised:  # noqa: PT011 - torch makes an error of its own of it
        torch.compile(lambda x: x * 2, backend="eager", options=options)(x())
    found = target_error_of(raised.value)
    assert isinstance(found, TargetError)
    assert told in str(found)


def test_a_refused_filter_ends_the_command_without_a_traceback(
    file: str, warm_python: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net.py").write_text(
        "import torch\n\ndef f(x):\n    return x * 2\n\nexample_inputs = (torch.ones(2),)\n"
    )
    words = [
        "capture",
        "net.py:f",
        "--python",
        warm_python,
        "--backend",
        "eager",
        "--option",
        "guard_filter_fn=keep.py:short",
    ]
    assert main([*words, "-o", "s.fxs"]) == 2
    told = capsys.readouterr()
    assert "keep.py:short returned 1 answer for" in told.err
    assert "Traceback" not in told.err + told.out


def test_a_session_tells_a_filter_of_a_file_by_its_name(
    file: str, captured: Captured, reader: OpenedReader
) -> None:
    filter_file = Path(file).absolute()
    opened = reader(
        captured(
            "mlp",
            backend="eager",
            train=False,
            option=f"guard_filter_fn={filter_file}:keep_tensors",
        )
    )
    (told,) = filtered(opened)
    assert told.filter == f"{filter_file}:keep_tensors"
    assert {row.kind for row in opened.rows(Guard) if not row.dropped_by} == {"TENSOR_MATCH"}
    assert {row.kind for row in opened.rows(GuardCheck)} <= {
        "TENSOR_MATCH",
        "DIMENSION_DYNAMIC_MARKING_GUARD",
        "NO_TENSOR_ALIASING",
    }


def test_a_mode_beside_a_filter_becomes_its_options() -> None:
    given = with_guard_filter(
        {"backend": "inductor", "mode": "max-autotune", "options": {"guard_filter_fn": FILTERS[0]}}
    )
    assert "mode" not in given
    assert given["options"]["max_autotune"] is True
    torch.compile(lambda x: x, **given)
    with pytest.raises(TargetError, match="only with the backend inductor"):
        with_guard_filter(
            {"backend": "eager", "mode": "default", "options": {"guard_filter_fn": FILTERS[0]}}
        )


def test_arguments_without_a_filter_stay_as_they_are() -> None:
    given: dict[str, Any] = {"backend": "eager", "options": {"a": 1}}
    assert with_guard_filter(given) is given


# measured


PROGRAM = """
import torch

SCALE = 2.0

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.power = 2

    def forward(self, x, **more):
        if "twice" not in more:
            more["twice"] = True  # as transformers fills in defaults: at the next call it is a new dict
        return torch.relu(self.fc(x)) * self.power * SCALE

model = Net()
example_inputs = (torch.ones(2, 4),)
"""


@pytest.mark.usefixtures("warm_workers")
def test_each_filter_that_would_drop_a_guard_is_measured_beside_the_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = tmp_path / "net.py"
    net.write_text(PROGRAM)
    code = main(["ledger", str(net), "--no-train", "--backend", "eager", "--try", "--budget", "6"])
    told = capsys.readouterr().out
    assert code == 0, told
    assert "is counted as entering torch.compile" not in told, "guards hold outside of the call"
    lines = told.splitlines()
    for name in FILTERS:
        (measured,) = (
            line for line in lines if line.startswith(f"eager with {name} ") and "equal" in line
        )
        assert " × " not in measured
        (sentence,) = (line for line in lines if line.startswith(f"{name}: "))
        assert re.search(
            r"^\w+: (saves|costs|no measurable difference|was not measured often enough)", sentence
        )
        assert re.search(r"it drops \d+ of \d+ guards \(\d+ checks?, ", sentence)
        assert "what it risks: " in sentence


@pytest.mark.usefixtures("warm_workers")
def test_with_a_filter_in_force_no_other_one_is_tried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = tmp_path / "net.py"
    net.write_text(PROGRAM)
    given = [
        "--no-train",
        "--backend",
        "eager",
        "--option",
        "guard_filter_fn=skip_all_guards_unsafe",
    ]
    assert main(["ledger", str(net), *given, "--try"]) == 0
    told = capsys.readouterr()
    assert re.search(
        r"The guard filter skip_all_guards_unsafe dropped (\d+) of the \1 guards", told.out
    )
    assert "Nothing was tried" in told.err


def test_a_budget_without_trying_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ledger", "net.py", "--budget", "5"]) == 2
    assert "--budget limits --try" in capsys.readouterr().err


def test_a_backend_of_a_file_is_found_and_refused_in_the_same_way(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for known in ("_BACKENDS", "_COMPILER_FNS"):  # torch has no function that takes one back
        monkeypatch.setattr(registry, known, dict(getattr(registry, known)))
    use_backend("keep.py:keep_tensors")
    assert "keep.py:keep_tensors" in registry.list_backends(exclude_tags=())
    for name, told in (
        ("nofile.py:f", "the backend nofile.py:f cannot be loaded: there is no such file"),
        (
            "bad.py:f",
            "the backend bad.py:f cannot be loaded: ZeroDivisionError: division by zero (line 1 of bad.py)",
        ),
        (
            "leaves.py:f",
            "the backend leaves.py:f cannot be loaded: SystemExit: 3 (line 2 of leaves.py)",
        ),
        ("keep.py:number", "the backend keep.py:number is not callable: it is of type int"),
        ("keep.py:missing", "keep.py has nothing named 'missing' that could be a backend"),
    ):
        with pytest.raises(TargetError) as raised:
            use_backend(name)
        assert told in str(raised.value)
