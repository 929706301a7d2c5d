"""An option that says how to capture is refused where nothing is captured."""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer.cli import main
from fx_explorer.session import SessionWriter

OPTIONS = ["--frontend all", "--mode max-autotune", "--backend eager", "--dynamic", "--no-dynamic", "--fullgraph"]
MORE = ["--option max_fusion_size=8", "--call f", "--inputs 3", "--train", "--device cpu", "--stance default", "--use-caches"]


@pytest.mark.parametrize("command", [["explore"], ["report"], ["graph"], ["support"], ["check", "--max-guards", "9"]])
@pytest.mark.parametrize("option", [*OPTIONS, *MORE])
def test_an_option_of_capturing_is_refused_for_a_saved_session(
    command: list[str], option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "s.fxs"
    SessionWriter(path).finish()
    assert main([*command, str(path), *option.split()]) == 2
    assert f"{option.split()[0]} is for targets" in capsys.readouterr().err
