"""These tests check that code compiled by torch's ``aot_compile`` is recorded under the user's
names, and as built.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fx_explorer.command_line.narrated_capture import amounts
from fx_explorer.instruments.compile_time.view import time_table
from fx_explorer.instruments.guards.kinds import OF_TORCH_ALONE
from fx_explorer.instruments.guards.view import guards_table
from fx_explorer.instruments.kernels.view import kernels_table
from fx_explorer.model import Compilation, ConsoleLine, SavedTensor, SupportReport
from fx_explorer.overview.overview import overview
from fx_explorer.session import SessionReader
from fx_explorer.tui.screens.pipeline_bar import pipeline
from tests.exhaustive import in_exhaustive_runs

PROGRAM = """
import torch

torch._dynamo.config.enable_aot_compile = True


def scale(weight, bias):
    return torch.relu(weight * 2) + bias


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 2)

    def forward(self, features, *, factor):
        return self.layer(features).relu() * factor


inputs = torch.ones(3, 4), torch.ones(4)
torch.compile(scale, fullgraph=True).aot_compile((inputs, {}))
keywords = {"factor": torch.ones(2)}
model = Model()
torch.compile(model, fullgraph=True).forward.aot_compile(((torch.ones(3, 4),), keywords))
"""


def test_aot_compile_is_recorded_under_the_users_names(
    captured: Callable[..., Path], reader: Callable[[Path], SessionReader], tmp_path: Path
) -> None:
    program = tmp_path / "saved.py"
    program.write_text(PROGRAM)
    path = captured(program)
    session = reader(path)
    lines = PROGRAM.splitlines()
    functions = [(row.function, Path(row.file).name, row.line) for row in session.rows(Compilation)]
    assert functions == [
        ("scale", "saved.py", lines.index("def scale(weight, bias):") + 1),
        (
            "Model.forward",
            "saved.py",
            lines.index("    def forward(self, features, *, factor):") + 1,
        ),
    ]
    assert not session.count(SupportReport)
    assert session.count(SavedTensor)
    sentences = [f"{fact.text} {fact.detail}" for fact in overview(session)]
    assert any("features f32[3, 4]" in sentence for sentence in sentences)
    assert not any("fullgraph_compiler" in sentence for sentence in sentences)
    assert not any("args[" in sentence for sentence in sentences)
    assert not any("new_guard_filter_fn" in sentence for sentence in sentences)
    assert not any("nothing was built" in sentence for sentence in sentences)
    assert "2 graphs" in amounts(path, 1.0)
    assert pipeline(session)[-1].figures[1:] == ("built",)
    of_guards = [fact for fact in overview(session) if "cannot be saved" in fact.text]
    assert [fact.severity for fact in of_guards] == ["good", "good"]
    assert [fact.detail for fact in of_guards] == [OF_TORCH_ALONE] * 2


SAVED_AND_NOT = """
import tempfile
from pathlib import Path

import torch
from fx_explorer import Precompile

torch._dynamo.config.enable_aot_compile = True
FACTOR = 3


def scale(x):
    return torch.relu(x) * FACTOR


def plain(x):
    return torch.sin(x) + 1


torch.compile(plain)(torch.ones(3, 4))
torch._dynamo.reset()
torch.compile(scale, fullgraph=True).aot_compile(((torch.ones(3, 4),), {}))
torch._dynamo.reset()
gm, _, guards, inputs = Precompile.dynamo(scale, torch.ones(5))
run, guards = Precompile.aot_autograd(gm, guards)
with tempfile.TemporaryDirectory() as folder:
    Precompile.save(run, Path(folder) / "scale.pt2")
    FACTOR = 4
    print(Precompile.load(Path(folder) / "scale.pt2", scale)((torch.ones(5),)).tolist())
"""


@in_exhaustive_runs
def test_what_is_saved_is_told_as_built_with_the_guards_it_is_without(
    captured: Callable[..., Path], reader: Callable[[Path], SessionReader], tmp_path: Path
) -> None:
    program = tmp_path / "saved.py"
    program.write_text(SAVED_AND_NOT)
    session = reader(captured(program))
    names = [row.name for row in session.rows(Compilation)]
    assert names == ["0/0", "0/0#2", "0/0#3"]
    assert session.meta("built_to_save") == names[1:]
    assert pipeline(session)[-1].figures == ("3", "2 built")
    assert "2 of them were built, for code that the program saves" in kernels_table(session).notice
    assert "2 of 3 kernels: those that were saved" in time_table(session).notice
    facts = overview(session)
    (inspection,) = [fact.text for fact in facts if "inspection" in fact.text]
    assert "except what is saved" in inspection
    without = [fact for fact in facts[:-1] if "cannot be saved" in fact.text]
    # That the loaded code does not look at FACTOR is what the program prints: 3, though it is 4 by
    # now.
    assert session.rows(ConsoleLine)[-1].text == "[3.0, 3.0, 3.0, 3.0, 3.0]"
    assert [fact.detail.startswith("It does not check FACTOR.") for fact in without] == [True, True]
    assert all(fact.text.startswith("The saved code of scale is without ") for fact in without)
    assert (
        guards_table(session).notice.count("they cannot be saved. It does not check FACTOR.") == 2
    )
