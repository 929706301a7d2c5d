"""These fixtures install plug-ins: the sample package by pip, and packages that fail by hand."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from fx_explorer import gpus, plugin_loading
from tests.sessions import Hand, write_training_step
from tests.tui.conftest import open_app

__all__ = ["open_app"]

ROOT = Path(__file__).parents[2]

UsePlugins = Callable[[Path], None]


@pytest.fixture(scope="package")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which pip has installed ``sample_plugin``, from its pyproject.toml."""
    folder = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    command += ["--no-build-isolation", "--disable-pip-version-check", "--target", str(folder)]
    subprocess.run([*command, str(ROOT / "sample_plugin")], check=True, timeout=120)
    return folder


@pytest.fixture(scope="package")
def hand(tmp_path_factory: pytest.TempPathFactory) -> Hand:
    return write_training_step(tmp_path_factory.mktemp("hand") / "hand.fxs")


def write_package(
    folder: Path, name: str, code: str, entry_points: Mapping[str, str], version: str = "1.0"
) -> Path:
    """Write an installed package with one module: ``entry_points`` are group → object."""
    module = name.replace("-", "_")
    (folder / f"{module}.py").write_text(code)
    metadata = folder / f"{module}-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = []
    for group, offer in entry_points.items():
        lines += [f"[fx_explorer.{group}]", f"{offer.lower()} = {module}:{offer}", ""]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    return folder


@pytest.fixture
def use_plugins(monkeypatch: pytest.MonkeyPatch) -> Iterator[UsePlugins]:
    """Make what is installed in a folder the plug-ins of this process."""

    def use(folder: Path) -> None:
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.setattr(plugin_loading, "_known", plugin_loading.KnownPlugins())
        gpus.gpu_of_device.cache_clear()

    yield use
    gpus.gpu_of_device.cache_clear()
