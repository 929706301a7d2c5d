"""These tests check that SASS is cached on disk: nvdisasm takes longer than most compiles. The tool
here is a script that counts its calls.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fx_explorer.capture.virtual_gpu import building as machine_code
from fx_explorer.capture.virtual_gpu.triton_kernel import CannotBuild


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "nvdisasm"
    path.write_text(
        f'#!/bin/sh\necho called >> {tmp_path}/calls\nfor file; do :; done\necho "SASS of $(cat "$file")"\n'
    )
    path.chmod(0o755)
    monkeypatch.setattr(machine_code, "_tool", lambda name: str(path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return path


def calls(tool: Path) -> int:
    return len((tool.parent / "calls").read_text().splitlines())


def test_the_same_machine_code_is_disassembled_once(tool: Path) -> None:
    texts = [machine_code.disassembled(cubin) for cubin in (b"one", b"one", b"two")]
    assert texts == ["SASS of one\n", "SASS of one\n", "SASS of two\n"]
    assert calls(tool) == 2


def test_another_nvdisasm_is_asked_again(tool: Path) -> None:
    machine_code.disassembled(b"one")
    tool.write_text(tool.read_text().replace("SASS of", "newer SASS of"))
    os.utime(tool, ns=(1, 1))
    assert machine_code.disassembled(b"one") == "newer SASS of one\n"


def test_what_failed_is_not_kept(tool: Path) -> None:
    good = tool.read_text()
    tool.write_text("#!/bin/sh\necho 'not a cubin' >&2; exit 1\n")
    with pytest.raises(CannotBuild, match=r"nvdisasm failed \(1\): not a cubin"):
        machine_code.disassembled(b"one")
    tool.write_text(good)
    assert machine_code.disassembled(b"one") == "SASS of one\n"


def test_where_nothing_can_be_kept_the_text_is_there_all_the_same(tool: Path) -> None:
    (tool.parent / "cache").write_text("in the way")
    assert machine_code.disassembled(b"one") == "SASS of one\n"
