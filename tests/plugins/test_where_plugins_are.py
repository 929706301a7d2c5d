"""These tests check where plug-ins are looked for: where packages are installed, when one is
needed, and never in a folder that merely is the current one.
"""

from __future__ import annotations

import json
import os
import site
import subprocess
import sys
from pathlib import Path

import pytest

from fx_explorer.plugin_loading import installed_folders
from tests.plugins.conftest import ROOT, write_package
from tests.sessions import Hand

CODE = """
from pathlib import Path
Path({mark!r}).touch()
from fx_explorer.plugins import *
VIEW = View(interface=1, title="t", shows="s.", table=lambda r: Table(
    columns=[Column(title="a")], rows=[Row(cells=("{answer}",))], answer="{answer}", empty="e"))
"""


LISTING = """
import json, sys
from fx_explorer.plugin_loading import plugins_of
from fx_explorer.plugins import View
print(json.dumps([plugin.offer.table(None).answer for plugin in plugins_of("views", View)]))
"""


def answers(folder: Path, path: tuple[str, ...], *how: str) -> list[str]:
    """Return the answers of the views of plug-ins in a process that is started in ``folder``."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    ended = subprocess.run(
        [sys.executable, *(how or ("-c", LISTING))],
        env=environment, cwd=folder, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    listed: list[str] = json.loads(ended.stdout)
    return listed


@pytest.mark.parametrize("path", [(), ("",), (".",), ("CWD",), ("LINK",)])
def test_a_package_in_the_current_folder_is_not_loaded(
    tmp_path: Path, path: tuple[str, ...]
) -> None:
    here, mark = tmp_path / "here", tmp_path / "loaded"
    here.mkdir()
    (tmp_path / "link").symlink_to(here)
    names = {"CWD": str(here), "LINK": str(tmp_path / "link")}
    write_package(here, "planted", CODE.format(mark=str(mark), answer="planted"), {"views": "VIEW"})
    entries = tuple(names.get(entry, entry) for entry in path)
    assert answers(here, (*entries, str(ROOT))) == []
    assert not mark.exists()


def test_a_command_that_is_started_with_m_loads_nothing_of_its_folder(
    tmp_path: Path, hand: Hand
) -> None:
    mark = tmp_path / "loaded"
    code = CODE.format(mark=str(mark), answer="planted")
    write_package(tmp_path, "planted", code, {"views": "VIEW"})
    ended = subprocess.run(
        [sys.executable, "-m", "fx_explorer", "report", str(hand.path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path,
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert json.loads(ended.stdout)["plugins"] == []
    assert not ended.stderr
    assert not mark.exists()


def test_it_is_loaded_where_the_folder_is_not_the_current_one(tmp_path: Path) -> None:
    mark = tmp_path / "loaded"
    folder = write_package(
        tmp_path, "planted", CODE.format(mark=str(mark), answer="planted"), {"views": "VIEW"}
    )
    assert answers(ROOT, (str(folder), str(ROOT))) == ["planted"]
    assert mark.exists()


def test_a_module_in_the_current_folder_does_not_take_the_place_of_an_installed_one(
    tmp_path: Path,
) -> None:
    installed, here, mark = tmp_path / "installed", tmp_path / "here", tmp_path / "loaded"
    installed.mkdir()
    here.mkdir()
    write_package(
        installed, "real", CODE.format(mark=str(tmp_path / "m"), answer="real"), {"views": "VIEW"}
    )
    (here / "real.py").write_text(CODE.format(mark=str(mark), answer="shadow"))
    # Python searches the current folder first.
    assert answers(here, (str(installed), str(ROOT))) == ["real"]
    assert not mark.exists()


def test_what_was_installed_from_the_current_folder_is_found_from_within_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editable installation puts the folder behind the standard library (``site``)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), "", *sys.path])
    assert str(tmp_path) not in installed_folders()
    (tmp_path / "editable.pth").write_text(f"{tmp_path}\n")
    sys.path[:] = [entry for entry in sys.path if entry != str(tmp_path)]
    site.addsitedir(str(tmp_path))
    assert str(tmp_path) in installed_folders()
    assert os.path.dirname(os.__file__) in installed_folders()


def test_looking_costs_little_where_there_is_no_plugin() -> None:
    """importlib.metadata, which takes 60 ms to import, is for those who have one."""
    program = (
        "import sys\nfrom fx_explorer.plugin_loading import installed_plugins\n"
        "print(installed_plugins(), 'importlib.metadata' in sys.modules)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout.split() == ["[]", "False"]


def test_nothing_is_looked_up_for_help() -> None:
    program = (
        "import sys\nfrom fx_explorer import cli\n"
        "for words in (['--help'], ['--version'], ['report', '--help']):\n"
        "    try:\n        cli.main(words)\n    except SystemExit:\n        pass\n"
        "import fx_explorer.plugin_loading as loading\n"
        "print(loading._known.installed, 'importlib.metadata' in sys.modules, file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stderr.split()[-2:] == ["None", "False"]
