"""What torch's ``aot_compile`` compiles is recorded under the user's names, and as built."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fx_explorer.analysis.overview.overview import overview
from fx_explorer.command_line.narration.narrated_capture import amounts
from fx_explorer.model import Compilation, SavedTensor, SupportReport
from fx_explorer.session import SessionReader

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
