"""The C++ part: built once for each torch and compiler, and loaded before torch is imported."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from fx_explorer.capture.virtual_gpu.places import cache_home, cannot_write, made
from fx_explorer.errors import WorkerError

SOURCE = Path(__file__).with_name("shim.cpp")
COMPILERS = ("g++", "clang++", "c++")
FLAGS = ("-O1", "-std=c++20", "-shared", "-fPIC", "-nodefaultlibs")
LIBRARIES = ("-lc10", "-ltorch_cpu", "-lc")
"""No C++ library: the one that torch brings is used. A compiler that would link its own into the shim (as one without a shared
libstdc++ does) makes torch end with "free(): invalid pointer"."""

BUILD_TIMEOUT_S = 120
SHOWN_LINES = 6
"""Of what the compiler said."""

_loaded: list[ctypes.CDLL] = []


def load() -> None:
    """Build the shim if it is not there yet, and load it. Raises WorkerError; torch must not have been imported."""
    assert "torch" not in sys.modules, "torch asks for the hooks while it is imported"
    library = built(torch_root(), compiler())
    try:
        _loaded.append(ctypes.CDLL(str(library)))
    except OSError as error:
        raise WorkerError(
            f"the C++ part of the virtual GPU, {library}, cannot be loaded: {error}. Delete the file, and it is built again."
        ) from error


def use_guard() -> None:
    """Once torch is imported: our device guard takes the place of a real one."""
    _loaded[-1].fx_explorer_use_guard()


def torch_root() -> Path:
    """Where torch is installed, found without importing it. Raises WorkerError when there is none."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise WorkerError(
            f"{sys.executable} has no torch. Install it there, or choose the interpreter that has it with --python."
        )
    return Path(spec.origin).parent


def compiler(environ: Mapping[str, str] = os.environ) -> Path:
    """``$CXX``, else the first of COMPILERS. Raises WorkerError when there is none."""
    wanted = environ.get("CXX")
    found = next(filter(None, map(shutil.which, [wanted] if wanted else COMPILERS)), None)
    if found is None:
        missing = (
            f"CXX is {wanted}, which is not there" if wanted else f"there is no C++ compiler here ({', '.join(COMPILERS)})"
        )
        raise WorkerError(f"the virtual GPU needs a C++ compiler once, for 25 lines: {missing}. Install g++ or set CXX.")
    return Path(found).resolve()


def built(torch: Path, cxx: Path) -> Path:
    """The library for this torch and compiler. Two processes that build it at once do no harm: each builds in its own place."""
    library = cache_home() / "virtual_gpu" / f"shim_{key(torch, cxx)}.so"
    if library.exists():
        return library
    made(library.parent)
    try:
        with tempfile.TemporaryDirectory(dir=library.parent, prefix="building_") as place:
            output = Path(place) / library.name
            _compile(cxx, torch, output)
            output.replace(library)
    except OSError as error:
        raise cannot_write(library.parent, error) from error
    return library


def key(torch: Path, cxx: Path) -> str:
    """A different one for another source, torch or compiler."""
    version = torch / "version.py"
    build = f"{torch} {cxx} {cxx.stat().st_mtime_ns} {FLAGS} {LIBRARIES}"
    parts = (SOURCE.read_bytes(), version.read_bytes(), build.encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _compile(cxx: Path, torch: Path, output: Path) -> None:
    include, lib = torch / "include", torch / "lib"
    command = [str(cxx), *FLAGS, str(SOURCE), "-o", str(output), f"-I{include}", f"-L{lib}", f"-Wl,-rpath,{lib}", *LIBRARIES]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=BUILD_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise WorkerError(f"{cxx} took more than {BUILD_TIMEOUT_S} s to build the C++ part of the virtual GPU") from error
    if ended.returncode or not output.exists():
        raise WorkerError(
            f"{cxx} cannot build the C++ part of the virtual GPU against {torch} (exit status {ended.returncode}). "
            f"Set CXX to a compiler that knows C++20, such as g++ 11. It said:\n{_errors(ended.stderr)}"
        )


def _errors(said: str) -> str:
    """The lines with errors, or the first ones."""
    lines = said.strip().splitlines()
    errors = [line for line in lines if "error" in line.lower() or "No space left" in line]
    return "\n".join((errors or lines or ["nothing"])[:SHOWN_LINES])
