"""These tests compare ``fx-explorer backends`` with torch's own list, and with calls of the
backends that are called usable.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
import torch._dynamo

from fx_explorer.cli import main
from fx_explorer.errors import WorkerError
from fx_explorer.instruments.backends import command
from fx_explorer.instruments.backends.command import DOES, Backend, backends_of, groups

PACKAGE = """\
def works(graph, example_inputs):
    \"\"\"Runs the graph, and is
    very good at it.

    A second paragraph.
    \"\"\"
    return graph.forward
"""

BROKEN = "raise OSError('libnothing.so: cannot open shared object file')"


@pytest.fixture(scope="module")
def here() -> list[Backend]:
    release, found = backends_of(sys.executable)
    assert release == torch.__version__
    return found


BARE = """
import json, sys, torch
import torch._dynamo
every, stable = torch._dynamo.list_backends(()), torch._dynamo.list_backends()
x = torch.randn(4, 4)

def is_usable(name):
    torch._dynamo.reset()
    try:
        made = torch.compile(lambda x: torch.relu(x @ x) + 1, backend=name)(x)
    except Exception:
        return False
    torch.testing.assert_close(made, torch.relu(x @ x) + 1)
    return True

usable = {name: is_usable(name) for name in sys.argv[1:]}
assert not [name for name in sys.modules if name.startswith("fx_explorer")]
print(json.dumps([every, stable, usable]))
"""

ASKED = ["eager", "aot_eager", "ts", "cudagraphs", "tvm"]


@dataclass(frozen=True)
class Bare:
    """Bare has what a process without fx-explorer says. In this one, other tests register backends
    of their own.
    """

    every: list[str]
    stable: list[str]
    usable: dict[str, bool]
    """Whether it can compile with each backend."""


@pytest.fixture(scope="module")
def bare() -> Bare:
    ended = subprocess.run(
        [sys.executable, "-c", BARE, *ASKED],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return Bare(*json.loads(ended.stdout.splitlines()[-1]))


def test_the_list_is_torchs(here: list[Backend], bare: Bare) -> None:
    assert [one.name for one in here] == bare.every
    assert {one.name for one in here if not one.tags} == set(bare.stable)


def test_every_backend_of_torch_is_explained(here: list[Backend]) -> None:
    assert [
        one.name for one in here if not one.does and not one.is_for_tests and one.package == "torch"
    ] == []
    assert DOES.keys() >= {
        one.name for one in here if one.package == "torch" and not one.is_for_tests
    }


@pytest.mark.parametrize("name", ASKED)
def test_what_is_said_to_be_usable_is_so_in_a_bare_process(
    here: list[Backend], bare: Bare, name: str
) -> None:
    (one,) = [one for one in here if one.name == name]
    assert bare.usable[name] == (not one.missing)


def test_inductor_is_usable_here(here: list[Backend]) -> None:
    assert {"eager", "aot_eager", "inductor"} <= {one.name for one in here if not one.missing}


def test_inductor_needs_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "/nowhere/g++")
    monkeypatch.setenv("PATH", "/nowhere")
    (inductor,) = backends_of(sys.executable, ["inductor"])[1]
    assert "C++ compiler" in inductor.missing


def test_packages_register_theirs_whether_they_can_be_loaded_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_works.py").write_text(PACKAGE)
    (tmp_path / "my_broken.py").write_text(BROKEN)
    info = tmp_path / "mine-1.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.5\n")
    entries = "works = my_works:works\nbroken = my_broken:broken\nno_such = my_works:no_such\n"
    (info / "entry_points.txt").write_text(f"[torch_dynamo_backends]\n{entries}")
    monkeypatch.setenv(
        "PYTHONPATH",
        os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH", "")])),
    )
    found = {
        one.name: one for one in backends_of(sys.executable, ["works", "broken", "no_such"])[1]
    }
    assert {one.package for one in found.values()} == {"mine 1.5"}
    assert found.keys() == {"works", "broken", "no_such"}
    assert found["works"].does == "Runs the graph, and is very good at it."
    assert not found["works"].missing
    assert "libnothing.so" in found["broken"].missing
    assert "no_such" in found["no_such"].missing
    assert [title for title, _ in groups(found.values())] == ["Registered by mine 1.5"]


def test_as_text_and_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The same question is asked once: the answer takes seconds.
    monkeypatch.setattr(command, "ask_python", functools.cache(command.ask_python))
    names = ["eager", "ts", "relu_compile_error_TESTING_ONLY", "dynamo_minifier_backend"]
    assert main(["backends", *names]) == 0
    text = capsys.readouterr().out
    assert "  ✓ eager\n" in text
    assert "  ✗ dynamo_minifier_backend\n" in text
    assert all(len(line) <= 80 for line in text.splitlines()[1:])
    assert main(["backends", *names, "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "fx-explorer/backends/1"
    assert {one["name"] for one in told["backends"]} == set(names)
    assert main(["backends", "indutcor"]) == 2
    assert "no backend indutcor" in capsys.readouterr().err


def test_an_interpreter_without_torch_is_told(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    with pytest.raises(WorkerError, match="No module named 'torch'"):
        backends_of(str(tmp_path / "bare/bin/python"))
    with pytest.raises(WorkerError, match="cannot be started"):
        backends_of(str(tmp_path / "no_python"))
