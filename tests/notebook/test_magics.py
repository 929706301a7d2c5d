"""These tests check the cell magic ``%%fx`` in IPython: a cell runs as without it, and what was
compiled in it is shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from fx_explorer.model import Compilation, Graph
from fx_explorer.session import SessionReader

pytest.importorskip(
    "IPython", reason="IPython is not installed: pip install 'fx-explorer[notebook]'"
)

NET = """\
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) + 1

net = torch.compile(Net())
"""


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """An IPython with the extension and a compiled module that nobody has called."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    torch.compiler.reset()
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance(config=config)
    for cell in ("%load_ext fx_explorer", NET):
        shell.run_cell(cell).raise_error()
    yield shell
    InteractiveShell.clear_instance()
    torch.compiler.reset()


def test_a_cell_runs_as_without_the_magic_and_its_compilations_are_shown(
    shell: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run_cell("x = torch.full((4,), 2.0)")
    shell.run_cell("%%fx --no-build\ny = net(x)\nprint('printed')\ny.sum()").raise_error()
    out = capsys.readouterr().out
    assert torch.equal(shell.user_ns["y"], torch.full((4,), 3.0))
    assert "printed" in out
    assert "tensor(12.)" in out
    assert "Everything became one graph: 2 operations." in out
    session = shell.user_ns["fx_session"]
    with SessionReader(session) as reader:
        assert reader.count(Compilation) == 1
        assert reader.rows(Graph, stage="post_grad")
        assert reader.meta("outcome")["kind"] == "finished"
    formats, _ = shell.display_formatter.format(session)
    assert set(formats) >= {"text/plain", "text/html"}


def test_what_was_compiled_before_is_compiled_again_only_with_reset(
    shell: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run_cell("%%fx --no-build\nnet(torch.ones(4))").raise_error()
    assert "--reset" not in capsys.readouterr().out
    shell.run_cell("%%fx --no-build\nnet(torch.ones(4))").raise_error()
    assert "%%fx --reset first discards it" in " ".join(capsys.readouterr().out.split())
    shell.run_cell("%%fx --no-build --reset\nnet(torch.ones(4))").raise_error()
    assert "one graph: 2 operations" in capsys.readouterr().out


def test_an_error_ends_the_cell_and_is_shown_once(
    shell: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    result = shell.run_cell("%%fx --no-build\nnet(torch.ones(4))\n1 / 0\nafter = 1")
    assert not result.success
    assert "after" not in shell.user_ns
    captured = capsys.readouterr()
    written = captured.out + captured.err
    assert written.count("ZeroDivisionError: division by zero\n\n") == 1 or (
        written.count("Traceback") == 1
    )
    assert "The cell raised ZeroDivisionError; its traceback is above" in written
    with SessionReader(shell.user_ns["fx_session"]) as reader:
        assert reader.meta("outcome")["kind"] == "raised"
        assert reader.count(Compilation) == 1


def test_a_syntax_error_is_told(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert not shell.run_cell("%%fx --no-build\nx = = 1").success
    captured = capsys.readouterr()
    assert "The cell raised SyntaxError" in captured.out + captured.err


def test_the_session_is_kept_where_it_is_wanted_and_replaced_by_the_next_run(
    shell: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "kept.fxs"
    for _ in range(2):
        shell.run_cell(f"%%fx --no-build --reset -o {file}\nnet(torch.ones(4))").raise_error()
        assert str(shell.user_ns["fx_session"]) == str(file)
        with SessionReader(file) as reader:
            assert reader.count(Compilation) == 1
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    assert not shell.run_cell(f"%%fx -o {mine}\nran = 1").success
    assert mine.read_text() == "mine"
    assert "ran" not in shell.user_ns, "it is told before the cell runs"
    capsys.readouterr()


def test_the_page_is_shown_where_it_is_asked_for(
    shell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[Any] = []
    monkeypatch.setattr("fx_explorer.notebook.magics.display", shown.append)
    shell.run_cell("%%fx --no-build\nnet(torch.ones(4))").raise_error()
    shell.run_cell("%%fx --no-build --reset --page\nnet(torch.ones(4))").raise_error()
    kinds = [type(each).__name__ for each in shown]
    assert kinds == ["SessionFile", "SessionFile", "InlinePage"]


def test_an_unknown_option_is_refused(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert not shell.run_cell("%%fx --bad\nran = 1").success
    captured = capsys.readouterr()
    assert "unrecognized arguments: --bad" in captured.out + captured.err
    assert "ran" not in shell.user_ns
