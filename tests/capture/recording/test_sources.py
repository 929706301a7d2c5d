"""These tests check which files are the user's, and which are a library's."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import fx_explorer
from fx_explorer.capture.recording.sources import Sources
from fx_explorer.model import Frame
from fx_explorer.session import SessionWriter
from fx_explorer.session.writer import IN_MEMORY


@pytest.fixture
def writer() -> Iterator[SessionWriter]:
    with SessionWriter(IN_MEMORY) as opened:
        yield opened


def test_what_is_installed_in_another_environment_is_not_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: SessionWriter
) -> None:
    installed = tmp_path / "shared" / "site-packages"  # as a .pth file adds it
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "project"), str(installed)])
    sources = Sources(writer)
    assert not sources.is_users(str(installed / "transformers" / "modeling.py"))
    assert sources.is_users(str(tmp_path / "project" / "model.py"))


def test_torch_is_not_the_users_wherever_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: SessionWriter
) -> None:
    monkeypatch.setattr(torch, "__file__", str(tmp_path / "checkout" / "torch" / "__init__.py"))
    sources = Sources(writer)
    assert not sources.is_users(
        str(tmp_path / "checkout" / "torch" / "nn" / "modules" / "module.py")
    )
    assert sources.is_users(str(tmp_path / "checkout" / "model.py"))


def test_a_package_whose_name_begins_like_another_is_none_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: SessionWriter
) -> None:
    monkeypatch.setattr(torch, "__file__", str(tmp_path / "checkout" / "torch" / "__init__.py"))
    sources = Sources(writer)
    assert sources.is_torch(str(tmp_path / "checkout" / "torch" / "nn" / "modules" / "module.py"))
    assert not sources.is_torch(str(tmp_path / "checkout" / "torchvision" / "models" / "resnet.py"))
    ours = str(Path(fx_explorer.__file__).parent)
    mine, beside = Frame(f"{ours}/worker/job.py", 1, "run"), Frame(f"{ours}_demo.py", 2, "forward")
    assert sources.user_frame((beside, mine)) == beside
    assert sources.is_users(beside.file)
    assert not sources.is_users(mine.file)
