"""These tests check that a break in torch's own code, such as an optimizer's, is shown as torch's,
with the user's line that called it.
"""

import inspect
from pathlib import Path

import torch
from torch import nn

from fx_explorer.instruments.breaks.grouped import distinct_breaks
from fx_explorer.overview.overview import overview
from tests.capture.recorded import Compile, failures, record


def program(compile_: Compile) -> None:
    model = nn.Linear(4, 4)
    optimizer = torch.optim.Adam(model.parameters())

    def train(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
        torch._dynamo.graph_break()
        return loss

    compile_(train)(torch.ones(2, 4))


def line_of(text: str) -> int:
    lines, first = inspect.getsourcelines(program)
    return first + next(i for i, line in enumerate(lines) if text in line)


def test_a_break_in_an_optimizer_is_torchs(tmp_path: Path) -> None:
    reader = record(tmp_path / "s.fxs", program, backend="eager")
    found = {(one.file, one.line): one for one in distinct_breaks(reader)}
    step = found[__file__, line_of("optimizer.step()")]
    assert step.chain[-1].file.endswith("optimizer.py")  # as torch's own stack has it
    assert step.description == (
        f"torch itself asks for a graph break in {step.chain[-1].function} (torch/optim/optimizer.py:{step.chain[-1].line}), "
        "which this line calls"
    )
    assert not any("graph_break" in hint for hint in step.hints)
    zero = found[__file__, line_of("zero_grad()")]
    assert zero.description == "it calls Optimizer.zero_grad of torch, which torch does not compile"
    assert any("torch's optimizers break it themselves" in fact.text for fact in overview(reader))
    assert failures(reader) == []


def test_a_cut_of_the_users_own_stays_the_users(tmp_path: Path) -> None:
    reader = record(tmp_path / "s.fxs", program, backend="eager")
    (own,) = (
        one for one in distinct_breaks(reader) if one.line == line_of("_dynamo.graph_break()")
    )
    assert own.elsewhere is None
    assert own.description == "the code asks for a graph break here (torch._dynamo.graph_break)"
    assert any("graph_break" in hint for hint in own.hints)


def test_a_folder_of_the_users_that_is_called_torch_is_not_torch(tmp_path: Path) -> None:
    from fx_explorer import model
    from fx_explorer.instruments.breaks.break_owners import break_in_torch
    from fx_explorer.session import SessionReader, SessionWriter

    path = str(tmp_path / "torch" / "mine.py")
    with SessionWriter(tmp_path / "s.fxs") as writer:
        writer.add(model.SourceFile(0, path, 0, is_user=True))
        hit = model.GraphBreak(0, 0, "GB0025", "", "", (), "main.py", 3, "")
        with SessionReader(tmp_path / "s.fxs") as reader:
            assert break_in_torch(reader, hit, [model.Frame(path, 7, "f", "")]) is None
