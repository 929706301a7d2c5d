"""These tests check that a torch that does not work is reported as the cause: neither the program
nor fx-explorer is blamed. Broken torch packages are imitated.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.exhaustive import one_of
from tests.worker.capturing import Ended, capture

BROKEN = {
    "it leaves": ("import sys; sys.exit(0)", "sys.exit(0)"),
    "it leaves with words": ("raise SystemExit('no licence')", "no licence"),
    "it ends the process": ("import os; os._exit(0)", "ended with status 0"),
    "it aborts": ("import os; os.abort()", "SIGABRT"),
    "it crashes": ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
}

UNUSABLE = {
    "a library is missing": (
        "raise OSError('libtorch_cpu.so: cannot open shared object file')",
        "libtorch_cpu.so",
    ),
    "a symbol is missing": (
        "raise ImportError('undefined symbol: _ZN5torch3jit')",
        "undefined symbol",
    ),
    "a name is missing": ("from os import no_such_name", "no_such_name"),
    "its file is cut": ("def f(:\n", "SyntaxError"),
    "its own fault": ("{}['x']", "KeyError: 'x'"),
    "another release": ("__version__ = '1.13.1'", "torch 1.13.1"),
}


def broken(folder: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    (folder / "site" / "torch").mkdir(parents=True)
    (folder / "site" / "torch" / "__init__.py").write_text(source)
    monkeypatch.setenv("PYTHONPATH", str(folder / "site"))
    (folder / "target.py").write_text(
        "import torch\ndef model(x): return x\nprint('went on')\nexample_inputs = 1\n"
    )


def told(ended: Ended) -> str:
    assert "fault of fx-explorer" not in ended.outcome.message
    assert not any("fx_explorer" in line for line in ended.printed("stderr")), ended.printed(
        "stderr"
    )
    return ended.outcome.message


@pytest.mark.parametrize("case", one_of(2, BROKEN | UNUSABLE))
async def test_a_target_is_not_started(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, words = (BROKEN | UNUSABLE)[case]
    broken(tmp_path, monkeypatch, source)
    ended = await capture(f"{tmp_path / 'target.py'}:model")
    assert (ended.outcome.kind, ended.outcome.exit_code) == ("not_started", 4)
    assert words in told(ended)
    assert "torch" in ended.outcome.message
    assert "--python" in ended.outcome.message


@pytest.mark.parametrize("case", one_of(2, BROKEN))
async def test_a_script_whose_torch_ends_the_process_is_not_started_either(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, words = BROKEN[case]
    broken(tmp_path, monkeypatch, source)
    ended = await capture(tmp_path / "target.py", as_script=True)
    assert (ended.outcome.kind, ended.outcome.exit_code) == ("not_started", 4)
    assert words in told(ended)


async def test_a_script_goes_on_with_a_torch_that_cannot_be_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(tmp_path, monkeypatch, "__version__ = '1.13.1'")
    ended = await capture(tmp_path / "target.py", as_script=True)
    assert (ended.outcome.kind, ended.outcome.exit_code) == ("incomplete", 0)
    assert "torch 1.13.1" in told(ended)
    assert ended.printed() == ["went on"]
