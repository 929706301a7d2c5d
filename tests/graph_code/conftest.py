"""This fixture runs the scripts of graphs in a process that has torch but not fx-explorer."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

RunAlone = Callable[[list[Path]], dict[str, str]]

RUN_ALL = """
import contextlib, io, json, runpy, sys
ended = {}
for file in sys.argv[1:]:
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            runpy.run_path(file, run_name="__main__")
    except BaseException as error:
        ended[file] = f"{type(error).__name__}: {error}"
    else:
        ended[file] = printed.getvalue().strip()
assert "fx_explorer" not in sys.modules
print(json.dumps(ended))
"""


@pytest.fixture
def run_alone(bare_python: str, tmp_path: Path) -> RunAlone:
    """Run scripts in a bare process, and return the output or the exception of each."""
    runner = tmp_path / "run_all.py"
    runner.write_text(RUN_ALL)

    def run(scripts: list[Path]) -> dict[str, str]:
        command = [bare_python, str(runner), *map(str, scripts)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        found: dict[str, str] = json.loads(done.stdout)
        return found

    return run
