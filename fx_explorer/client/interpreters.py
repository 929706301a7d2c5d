"""This module finds interpreters on this machine that have torch, with its release. No interpreter
is started for it: the release is read from the file that torch keeps it in (torch/version.py).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fx_explorer.folders import home_folder

_RELEASE = re.compile(r"^__version__ = ['\"](?P<release>[^'\"\n]{1,60})['\"]", re.MULTILINE)

_NAME = re.compile(r"python(3(\.\d+)?)?\Z")

LEVELS_AROUND = 2
"""How many folders around the current one are looked at."""

MOST_ENVIRONMENTS = 200
"""Maximum number of environments of one folder that are looked at."""

MOST_READ = 10_000
"""Maximum number of characters of torch/version.py that are read."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An interpreter that has torch."""

    python: str
    """Its path."""
    torch: str
    """The release of its torch: ``2.11.0+cpu``."""


def interpreters_with_torch(
    folder: Path, environ: Mapping[str, str] = os.environ
) -> list[Interpreter]:
    """Return the interpreters with torch: those of environments in ``folder`` and the folders
    around it, of the active environment, of conda's, pyenv's and virtualenvwrapper's, and those on
    the search path. Each is there once, the nearest first.
    """
    known: dict[str, Interpreter] = {}
    for python in _pythons(folder, environ):
        release = torch_release_of(python)
        if release:
            known.setdefault(str(python), Interpreter(str(python), release))
    return list(known.values())


def torch_release_of(python: Path) -> str:
    """Return the release of torch in the packages of an interpreter; empty where it has none in
    its own environment.
    """
    prefix = python.parent.parent
    for version_file in sorted(prefix.glob("lib/python3*/*-packages/torch/version.py")):
        try:
            with version_file.open(encoding="utf-8", errors="replace") as file:
                release = _RELEASE.search(file.read(MOST_READ))
        except OSError:
            continue
        if release:
            return release["release"]
    return ""


def _pythons(folder: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    for around in (folder, *list(folder.parents)[:LEVELS_AROUND]):
        yield from _of_environments(around)
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if environ.get(variable):
            yield Path(environ[variable]) / "bin/python"
    home = home_folder(environ)
    conda = (
        Path(environ["CONDA_EXE"]).parent.parent if environ.get("CONDA_EXE") else home / ".conda"
    )
    managed = (
        Path(environ.get("WORKON_HOME") or home / ".virtualenvs"),
        Path(environ.get("PYENV_ROOT") or home / ".pyenv") / "versions",
        conda / "envs",
    )
    for place in managed:
        yield from _of_environments(place)
    for searched in environ.get("PATH", "").split(os.pathsep):
        if os.path.isabs(searched):
            yield from _named_python(Path(searched))


def _of_environments(place: Path) -> Iterator[Path]:
    """Yield the interpreters of the environments that lie in a folder."""
    for environment in _entries(place):
        python = environment / "bin/python"
        if os.access(python, os.X_OK):
            yield python


def _named_python(place: Path) -> Iterator[Path]:
    for entry in _entries(place):
        if _NAME.match(entry.name) and os.access(entry, os.X_OK):
            yield entry


def _entries(place: Path) -> Iterable[Path]:
    try:
        entries = sorted(place.iterdir())
    except OSError:
        return ()
    named = [entry for entry in entries if _NAME.match(entry.name)]
    others = [entry for entry in entries if not _NAME.match(entry.name)]
    return [*named, *others[:MOST_ENVIRONMENTS]]
