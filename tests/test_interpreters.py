"""These tests find interpreters that have torch, without starting any."""

from __future__ import annotations

from pathlib import Path

from fx_explorer.client.interpreters import (
    Interpreter,
    interpreters_with_torch,
    torch_release_of,
)


def environment(folder: Path, release: str = "") -> Path:
    """Make an environment with an interpreter that cannot be run, and torch's file of its
    release.
    """
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("never run")
    python.chmod(0o755)
    if release:
        torch = folder / "lib/python3.11/site-packages/torch"
        torch.mkdir(parents=True)
        (torch / "version.py").write_text(
            f"from typing import Optional\n\n__version__ = '{release}'\n"
        )
    return python


def test_environments_with_torch_are_found_the_nearest_first(tmp_path: Path) -> None:
    project = tmp_path / "project"
    near = environment(project / ".venv", "2.13.0+cpu")
    far = environment(tmp_path / "old", "2.11.0")
    environment(project / "without")
    versions = environment(tmp_path / "home/.pyenv/versions/3.12", "2.12.1")
    active = environment(tmp_path / "active", "2.10.0")
    environ = {"HOME": str(tmp_path / "home"), "VIRTUAL_ENV": str(tmp_path / "active"), "PATH": ""}
    found = interpreters_with_torch(project, environ)
    expected = [
        Interpreter(str(near), "2.13.0+cpu"),
        Interpreter(str(active), "2.10.0"),
        Interpreter(str(far), "2.11.0"),
        Interpreter(str(versions), "2.12.1"),
    ]
    of_test = [interpreter for interpreter in found if str(tmp_path) in interpreter.python]
    assert of_test == expected


def test_an_interpreter_on_the_search_path_is_found(tmp_path: Path) -> None:
    environment(tmp_path / "usr", "2.9.0")
    named = tmp_path / "usr/bin/python3.11"
    named.symlink_to("python")
    found = interpreters_with_torch(tmp_path / "nothing", {"PATH": f"relative:{named.parent}"})
    assert Interpreter(str(named), "2.9.0") in found


def test_a_file_of_another_form_is_no_release(tmp_path: Path) -> None:
    python = environment(tmp_path / "odd", "2.9.0")
    (tmp_path / "odd/lib/python3.11/site-packages/torch/version.py").write_bytes(b"\xff\x00 = 1")
    assert torch_release_of(python) == ""
