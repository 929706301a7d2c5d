"""The C++ part is built once per torch and compiler, and loaded before torch is imported."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from fx_explorer.capture.virtual_gpu.cache_directories import (
    cache_home,
    cannot_write,
    private_directory,
    refuse_untrusted,
)
from fx_explorer.errors import WorkerError

SOURCE = Path(__file__).with_name("shim.cpp")
COMPILERS = ("g++", "clang++", "c++")
FLAGS = ("-O1", "-std=c++20", "-shared", "-fPIC", "-nodefaultlibs")
LIBRARIES = ("-lc10", "-ltorch_cpu", "-lc")
"""Libraries to link. No C++ library is listed, because torch's own is used. If a compiler links its
own into the shim (for lack of a shared libstdc++), torch ends with "free(): invalid pointer".
"""

BUILD_TIMEOUT_S = 120
SHOWN_LINES = 6
"""Maximum number of lines shown of the compiler's output."""

Compiler = tuple[str, ...]
"""A command and its arguments: ``/usr/bin/g++``; ``/usr/bin/ccache g++``."""

_loaded: list[ctypes.CDLL] = []


def load() -> None:
    """Build the shim if it does not exist yet, and load it once. Raises WorkerError; torch must not
    have been imported.
    """
    if _loaded:
        return
    assert "torch" not in sys.modules, "torch needs the hooks while it is being imported"
    torch, cxx = torch_root(), compiler()
    _load_hooks_of_torch(torch)
    try:
        _loaded.append(ctypes.CDLL(str(built(torch, cxx))))
    except OSError:
        _loaded.append(_built_again(torch, cxx))


def _load_hooks_of_torch(torch: Path) -> None:
    """Load the hooks of a CUDA build before the shim's, which are preferred. In the other order
    they would be refused with a line on stderr.
    """
    library = torch / "lib" / "libtorch_cuda.so"
    if library.exists():
        with contextlib.suppress(OSError):  # importing torch says what it lacks
            _loaded.append(ctypes.CDLL(str(library)))


def _built_again(torch: Path, cxx: Compiler) -> ctypes.CDLL:
    """Build the shim again, because it cannot be loaded: a power failure may have damaged it.
    Raises WorkerError.
    """
    place(torch, cxx).unlink(missing_ok=True)
    library = built(torch, cxx)
    try:
        return ctypes.CDLL(str(library))
    except OSError as error:
        library.unlink(missing_ok=True)
        raise WorkerError(
            f"{shlex.join(cxx)} built a C++ part of the virtual GPU that cannot be loaded: "
            f"{error}. Set CXX to the compiler of this machine, such as g++."
        ) from error


def use_guard() -> None:
    """Replace the real device guard with ours. Call it once torch is imported."""
    # The hooks of a CUDA build may come before it.
    _loaded[-1].fx_explorer_use_guard()


def use_cudnn() -> None:
    """Make torch answer from now on as a build with cuDNN would."""
    _loaded[-1].fx_explorer_use_cudnn()


def torch_root() -> Path:
    """Return the folder of the installed torch, without importing it. Raises WorkerError without
    one.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise WorkerError(
            f"{sys.executable} has no torch. Install it there, or choose the interpreter "
            "that has it with --python."
        )
    return Path(spec.origin).parent


def compiler(environ: Mapping[str, str] = os.environ) -> Compiler:
    """Return ``$CXX``, else the first of COMPILERS. Raises WorkerError without one.

    Links are not resolved: a ``g++`` may lead to ccache, which depends on the name that it is
    called by.
    """
    wanted = environ.get("CXX", "")
    if wanted.strip():
        commands = [_split_command(wanted)]
    else:
        commands = [[name] for name in COMPILERS]
    for name, *arguments in commands:
        path = shutil.which(name)
        if path:
            return str(Path(path).absolute()), *arguments
    if wanted.strip():
        missing = f"CXX is {wanted}, which does not exist"
    else:
        missing = f"there is no C++ compiler here ({', '.join(COMPILERS)})"
    raise WorkerError(
        f"the virtual GPU needs a C++ compiler once, to build 25 lines: {missing}. Install g++ or "
        "set CXX."
    )


def _split_command(command: str) -> list[str]:
    """Split a command as a shell does. A quote may be left open."""
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def place(torch: Path, cxx: Compiler) -> Path:
    """Return the path of the library for this torch and compiler."""
    return cache_home() / "virtual_gpu" / f"shim_{key(torch, cxx)}.so"


def built(torch: Path, cxx: Compiler) -> Path:
    """Return the library for this torch and compiler, built if needed. Two processes that build it
    at once do no harm: each uses a folder of its own.

    Raises WorkerError for one that somebody else could have put there.
    """
    library = place(torch, cxx)
    private_directory(library.parent)
    # A link that leads nowhere is looked at as well.
    if os.path.lexists(library):
        refuse_untrusted(library)
        return library
    try:
        with tempfile.TemporaryDirectory(dir=library.parent, prefix="building_") as apart:
            output = Path(apart) / library.name
            _compile(cxx, torch, output)
            output.chmod(0o700)  # set explicitly, whatever the umask is
            output.replace(library)
    except OSError as error:
        raise cannot_write(library.parent, error) from error
    return library


def key(torch: Path, cxx: Compiler) -> str:
    """Return a cache key that depends on the source, torch and the compiler."""
    version = torch / "version.py"
    build = f"{torch} {cxx} {Path(cxx[0]).stat().st_mtime_ns} {FLAGS} {LIBRARIES}"
    parts = (SOURCE.read_bytes(), version.read_bytes(), build.encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _compile(cxx: Compiler, torch: Path, output: Path) -> None:
    """Build the C++ part against this torch. Raises WorkerError with a remedy if the compiler
    fails.
    """
    include, lib = torch / "include", torch / "lib"
    command = [
        *cxx,
        *FLAGS,
        str(SOURCE),
        "-o",
        str(output),
        f"-I{include}",
        f"-L{lib}",
        f"-Wl,-rpath,{lib}",
        *LIBRARIES,
    ]
    try:
        ended = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=BUILD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise WorkerError(
            f"{shlex.join(cxx)} took more than {BUILD_TIMEOUT_S} s to build the 25 lines of C++ "
            "of the virtual GPU. Set CXX to another compiler."
        ) from error
    except OSError as error:
        raise WorkerError(
            f"{shlex.join(cxx)} cannot be started: {error.strerror or error}. Set CXX to "
            "a C++ compiler."
        ) from error
    if ended.returncode or not output.exists():
        raise WorkerError(
            f"{shlex.join(cxx)} cannot build the C++ part of the virtual GPU against {torch} "
            f"(exit status {ended.returncode}). Set CXX to a compiler that supports C++20, such "
            f"as g++ 11. It said{_errors(ended.stderr)}"
        )


def _errors(printed: str) -> str:
    """Return the lines with errors, or the first lines, as the end of a sentence."""
    lines = printed.strip().splitlines()
    if not lines:
        return " nothing."
    errors = [line for line in lines if "error" in line.lower() or "No space left" in line]
    return ":\n" + "\n".join((errors or lines)[:SHOWN_LINES])
