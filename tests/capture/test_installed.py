"""These tests check that errors in describing the machine never end a capture."""

from __future__ import annotations

import platform
import shutil
import sys
import types
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch

from fx_explorer.capture import recorder
from fx_explorer.capture.torch_compat import installed, versions
from fx_explorer.model import Compilation, Failure
from tests.capture.recorded import record


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def install(folder: Path, module: str, text: str, distribution: str = "") -> None:
    """Put a module into a folder, as a wheel of this name would, or without any."""
    (folder / module).mkdir()
    (folder / module / "__init__.py").write_text(text)
    if distribution:
        info = folder / f"{distribution}-7.1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Name: {distribution}\nVersion: 7.1\n")
        (info / "RECORD").write_text(f"{module}/__init__.py,,\n")


@pytest.mark.parametrize("distribution", ["pytorch_lang_rocm", "lang", ""])
def test_a_module_says_its_version_whatever_its_distribution_is_called(
    folder: Path, distribution: str
) -> None:
    install(folder, "lang_of_gpus", "__version__ = '3.7.0'\n", distribution)
    assert installed.is_installed("lang_of_gpus")
    assert installed.version_of("lang_of_gpus") == "3.7.0"
    assert "lang_of_gpus" not in sys.modules


def test_a_module_that_says_no_version_has_that_of_its_distribution(folder: Path) -> None:
    install(folder, "silent_gpus", "from os import path\n", "pytorch_silent_gpus")
    install(folder, "bare_gpus", "")
    assert installed.version_of("silent_gpus") == "7.1"
    assert installed.version_of("bare_gpus") == installed.UNKNOWN
    assert not installed.is_installed("no_gpus_at_all")


def test_a_stand_in_without_a_spec_counts_as_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "stand_in_gpus", types.ModuleType("stand_in_gpus"))
    assert installed.is_installed("stand_in_gpus")
    assert installed.version_of("stand_in_gpus") == installed.UNKNOWN
    monkeypatch.setitem(sys.modules, "forbidden_gpus", None)
    assert not installed.is_installed("forbidden_gpus")


@pytest.mark.parametrize(
    "requirement", ["triton==3.9.0", "pytorch-triton-rocm==3.9.0", "pytorch-triton==3.9.0+git1"]
)
def test_the_triton_that_torch_requires_is_known_by_all_its_names(
    requirement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "requires", lambda _: ["sympy>=1.13", requirement])
    assert versions.fitting_triton() == "3.9.0"


def test_a_torch_that_is_no_distribution_requires_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(distribution: str) -> NoReturn:
        raise metadata.PackageNotFoundError(distribution)

    monkeypatch.setattr(metadata, "requires", missing)
    assert installed.requirements_of("torch") == []
    versions.fitting_triton()


def test_a_capture_goes_on_whatever_the_machine_does_not_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> NoReturn:
        raise OSError("nobody tells")

    monkeypatch.setattr(platform, "platform", fails)
    monkeypatch.setattr(platform, "python_version", fails)
    monkeypatch.setattr(shutil, "which", fails)
    monkeypatch.setattr(recorder, "marks_one_size", fails)
    monkeypatch.setattr(recorder, "version_of", fails)
    monkeypatch.setattr(recorder, "is_installed", lambda _: True)
    reader = record(tmp_path / "told.fxs", lambda compile_: compile_(torch.sin)(torch.ones(3)))
    assert [row.status for row in reader.rows(Compilation)] == ["ok"]
    asked = {"platform", "python", "cxx", "marks_one_size", "triton"}
    recorded = reader.meta("environment")
    assert {name for name in recorded if recorded[name] is None} >= asked
    messages = [row.message for row in reader.rows(Failure, where="recorder")]
    for name in asked:
        assert f"{name} in the environment: OSError: nobody tells" in messages
