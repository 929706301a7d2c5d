"""These tests check functions that torch wraps in a function of its own: they have the user's name,
and the line that gave them to torch.compile.
"""

import functools
import inspect
from pathlib import Path

import pytest
import torch
from torch import nn

from fx_explorer.capture.recording.function_names import GivenCallables, name_of, own_name
from fx_explorer.capture.recording.fx_graphs import module_path
from fx_explorer.capture.recording.sources import CallSite
from fx_explorer.instruments.recompiles.causes import SHARED, recompiles
from fx_explorer.model import Compilation
from fx_explorer.overview.outline import outline
from fx_explorer.overview.overview import overview
from tests.capture.recorded import Compile, failures, record

X = torch.ones(2, 4)


def scaled(x: torch.Tensor, k: int) -> torch.Tensor:
    return x * k


def program(_: Compile) -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    torch.compile(net, backend="eager")(X)
    torch.compile(nn.Linear(4, 4), backend="eager")(X)
    torch.compile(functools.partial(scaled, k=3), backend="eager")(X)
    torch.compile(lambda x: x + 1, backend="eager")(X)


def line_of(text: str) -> int:
    lines, first = inspect.getsourcelines(program)
    return first + next(i for i, line in enumerate(lines) if text in line)


def test_it_has_the_name_and_the_line_of_the_user(tmp_path: Path) -> None:
    reader = record(tmp_path / "s.fxs", program)
    rows = reader.rows(Compilation)
    assert [row.function for row in rows[:3]] == ["net (Sequential)", "Linear", "partial(scaled)"]
    assert [(row.file, row.line) for row in rows[:3]] == [
        (__file__, line_of(text))
        for text in ("compile(net", "nn.Linear(4, 4), backend", "functools.partial")
    ]
    assert "lambda" in rows[3].function
    assert not any("wrap_inline" in entry.title for entry in outline(reader))
    assert not any("wrap_inline" in fact.text + fact.detail for fact in overview(reader))
    assert failures(reader) == []


def test_a_variable_of_a_framework_names_nothing(tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "accelerate"
    package.mkdir(parents=True)
    for folder, name in ((package, "Linear"), (tmp_path, "submodule (Linear)")):
        file = folder / "regions.py"
        file.write_text("submodule.compile(fullgraph=True)\n")
        assert name_of(nn.Linear(2, 2), CallSite(str(file), 1)) == name


def test_a_module_path_has_no_names_of_pythons_own() -> None:
    """As a PEFT model hands its modules on."""
    path = "L['self'].__dict__['base_model'].__dict__['model'].lm_head"
    assert module_path(path) == "base_model.model.lm_head"


def test_what_shares_torchs_function_is_no_recompile_that_the_user_caused(tmp_path: Path) -> None:
    first, *_ = recompiles(record(tmp_path / "s.fxs", program))
    assert (
        first.description
        == "torch calls it from one of its own functions, which called net (Sequential) before"
    )
    assert first.remedy == SHARED


def test_a_function_around_each_is_counted_by_itself() -> None:
    """As the remedy says; torch's counter."""
    counts = []
    for parts in (
        (nn.ReLU(), nn.Tanh()),
        (lambda x: nn.functional.relu(x), lambda x: torch.tanh(x)),
    ):
        torch._dynamo.reset()
        with torch._dynamo.config.patch(recompile_limit=1):
            torch._dynamo.utils.counters.clear()
            for part in parts:
                torch.compile(part, backend="eager")(X)
            counts.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
    assert counts == [1, 2]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("fast = torch.compile(net, mode='default')", "net (ReLU)"),
        ("self.fast = torch.compile(self.net)", "self.net (ReLU)"),
        ("net.compile()", "net (ReLU)"),
        ("fast = compile(net)(x)", "net (ReLU)"),
        ("y = torch.compile(nn.ReLU())(x)", "ReLU"),
        ("fast = torch.compile(", "ReLU"),
        ("a = torch.compile(nn.ReLU()); b = torch.compile(other)", "ReLU"),
        ("@torch.compile", "ReLU"),
        ("", "ReLU"),
    ],
)
def test_the_variable_is_read_off_the_line(tmp_path: Path, line: str, name: str) -> None:
    file = tmp_path / "m.py"
    file.write_text(line + "\n")
    assert name_of(nn.ReLU(), CallSite(str(file), 1)) == name


class Thing:
    __slots__ = ()

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x


def test_an_object_that_cannot_be_noted_has_its_own_name() -> None:
    known, thing = GivenCallables(), Thing()
    known.note(thing, CallSite(__file__, 3))
    assert known.of(thing) == ("Thing", "", 0)
    assert known.of(None)[0] == "NoneType"
    assert own_name(nn.ReLU()._call_impl) == "ReLU"


def test_nothing_is_kept_alive() -> None:
    import weakref

    known, model = GivenCallables(), nn.ReLU()
    known.note(model, CallSite(__file__, 3))
    gone = weakref.ref(model)
    del model
    assert gone() is None
